import importlib.machinery
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import schirn
from schirn.cli import _environment as environment
from schirn.cli import doctor, main


@pytest.fixture
def state(monkeypatch):
    """What was found on this machine, without asking a GPU."""
    monkeypatch.setattr(environment, "gpus", lambda: {"devices": [], "failed": {}})
    return doctor.examine()


def run_json(capsys):
    code = main(["doctor", "--json"])
    return code, json.loads(capsys.readouterr().out)


def package(name, version, oldest="1", extras=(), too_old=False):
    return {
        "name": name,
        "version": version,
        "oldest": oldest,
        "extras": list(extras),
        "too_old": too_old,
    }


def library(user_api, internal_api, threads=1, path="/lib/libx.so"):
    return {
        "user_api": user_api,
        "internal_api": internal_api,
        "version": None,
        "num_threads": threads,
        "filepath": path,
    }


def test_this_machine_is_in_order(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    code, found = run_json(capsys)
    assert (code, found["broken"]) == (0, [])
    assert found["schirn"]["version"] == schirn.__version__
    assert {"numpy", "scipy", "scikit-learn"} <= {p["name"] for p in found["packages"]}
    assert any(lib["user_api"] == "blas" for lib in found["linear_algebra"])
    assert 1 <= found["processors"]["usable"] <= found["processors"]["machine"]
    assert found["self_test"]["recall"] > 0.8


def test_the_page_names_everything(capsys, monkeypatch, state):
    monkeypatch.setattr(doctor, "examine", lambda: dict(state))
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for part in (schirn.__version__, "processors", "memory", "gpu", "cache", "numpy", "threads"):
        assert part in text
    assert text.endswith("Nothing is broken.\n")


def test_versions_of_packages_are_found():
    import numpy

    found = {entry["name"]: entry for entry in environment.packages()}
    assert found["numpy"]["version"] == numpy.__version__
    assert found["numpy"]["extras"] == []
    assert "cli" in found["rich"]["extras"]
    assert not {"pytest", "ruff"} & set(found)


@pytest.mark.parametrize(
    ("version", "numbers"), [("2.13.0+cpu", (2, 13, 0)), ("1.8rc1", (1, 8)), ("next", ())]
)
def test_numbers_of_a_version(version, numbers):
    assert environment._numbers(version) == numbers


def test_an_old_package_is_broken(capsys, monkeypatch, state):
    monkeypatch.setattr(environment.metadata, "version", lambda name: "0.1")
    old = environment.packages()
    assert all(entry["too_old"] for entry in old)
    monkeypatch.setattr(doctor, "examine", lambda: state | {"packages": old})
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "broken: numpy 0.1 is too old, schirn needs" in text
    assert "Nothing is broken" not in text


def test_a_missing_package_comes_with_its_command(capsys, monkeypatch, state):
    packages = [
        package("numpy", "2.0"),
        package("jinja2", None, extras=("bench", "cli")),
        package("pandas", "2.2", extras=("bench",)),
    ]
    monkeypatch.setattr(doctor, "examine", lambda: state | {"packages": packages})
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert 'missing: jinja2 (pip install "schirn[cli]")' in text


def test_a_package_that_is_not_installed_has_no_version(monkeypatch):
    def absent(name):
        raise environment.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(environment.metadata, "version", absent)
    assert {entry["version"] for entry in environment.packages()} == {None}
    assert not any(entry["too_old"] for entry in environment.packages())


def test_without_an_installation_the_core_is_looked_at(monkeypatch):
    def absent(name):
        raise environment.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(environment.metadata, "requires", absent)
    assert [entry["name"] for entry in environment.packages()] == list(environment.CORE)
    assert not any(entry["too_old"] for entry in environment.packages())


def test_data_folders(capsys, monkeypatch, tmp_path):
    (tmp_path / "mine.npz").touch()
    monkeypatch.setenv("SCHIRN_DATA", f"{tmp_path}:{tmp_path / 'gone'}")
    monkeypatch.setattr(environment, "gpus", lambda: {"devices": [], "failed": {}})
    code, found = run_json(capsys)
    assert code == 1
    assert "mine" in found["data"]["sets"]
    assert [folder["readable"] for folder in found["data"]["SCHIRN_DATA"]] == [True, False]
    assert found["broken"] == [
        f"SCHIRN_DATA names the folder {str(tmp_path / 'gone')!r}, which cannot be read: correct "
        f"the variable or make the folder"
    ]


def test_one_set_is_counted_as_one(capsys, monkeypatch, state):
    data = {
        "SCHIRN_DATA": [{"path": "/sets", "readable": True}],
        "cache": {"path": "/cache", "exists": True, "writable": True},
        "sets": ["mine"],
    }
    monkeypatch.setattr(doctor, "examine", lambda: state | {"data": data})
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "one set in /sets" in text
    assert "/cache (writable)" in text


def test_a_cache_that_cannot_be_written(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(environment, "gpus", lambda: {"devices": [], "failed": {}})
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "cannot be written to, not made yet" in text
    assert "set SCHIRN_CACHE to a folder of yours" in text


def test_nothing_is_made_by_looking(monkeypatch, tmp_path):
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "cache"))
    assert environment.data_folders()["cache"]["writable"]
    assert list(tmp_path.iterdir()) == []


def test_processors_without_affinity(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    # joblib would warn that it cannot find the number out.
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")
    assert environment.processors()["allowed"] is None


@pytest.mark.parametrize(("text", "limit"), [("1048576\n", 2**20), ("max\n", None)])
def test_memory_of_a_container(monkeypatch, tmp_path, text, limit):
    (tmp_path / "memory.max").write_text(text)
    paths = (str(tmp_path / "none"), str(tmp_path / "memory.max"))
    monkeypatch.setattr(environment, "_CGROUP_LIMITS", paths)
    assert environment.memory()["limit"] == limit


def test_a_limit_above_the_memory_is_none(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("9223372036854771712")
    monkeypatch.setattr(environment, "_CGROUP_LIMITS", (str(tmp_path / "memory.max"),))
    assert environment._memory_limit(2**34) is None
    assert environment._memory_limit(None) == 9223372036854771712


def test_little_memory_is_said():
    sentence = doctor._memory_advice({"total": 2**36, "free": 2**34, "limit": 2**29})
    assert sentence == ["only 0.5 GiB of memory can be used: large tables may not fit"]
    assert doctor._memory_advice({"total": None, "free": None, "limit": None}) == []
    assert doctor._memory({"total": None, "free": None, "limit": None}) == "unknown"


def test_too_many_threads_are_said():
    libraries = [library("blas", "openblas", 64), library("openmp", "openmp", 2)]
    (sentence,) = doctor._thread_advice(libraries, 4)
    assert "starts 64 threads for 4 processors" in sentence
    assert "--threads 4" in sentence
    assert doctor._thread_advice([], 4) == []


def test_two_kinds_of_libraries_are_said():
    twice = [library("blas", "openblas"), library("blas", "openblas")]
    assert doctor._thread_advice(twice, 4) == []
    mixed = [*twice, library("blas", "mkl")]
    assert "BLAS libraries are in one process (mkl, openblas)" in doctor._thread_advice(mixed, 4)[0]
    openmp = [
        library("openmp", "openmp", path="/a/libgomp-e985bcbb.so.1.0.0"),
        library("openmp", "openmp", path="/b/libgomp.so.1"),
    ]
    assert doctor._thread_advice(openmp, 4) == []
    openmp.append(library("openmp", "openmp", path="/c/libiomp5.so"))
    assert "(libgomp, libiomp5)" in doctor._thread_advice(openmp, 4)[0]


def cuda(count):
    facts = SimpleNamespace(name="Card", total_memory=2**33)
    return SimpleNamespace(
        is_available=lambda: count > 0,
        device_count=lambda: count,
        get_device_properties=lambda k: facts,
    )


def fake_module(monkeypatch, name, **attributes):
    module = SimpleNamespace(__spec__=importlib.machinery.ModuleSpec(name, None), **attributes)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def only(monkeypatch, *names):
    """Let only these packages be found."""
    spec = importlib.machinery.ModuleSpec("x", None)
    monkeypatch.setattr(environment, "find_spec", lambda name: spec if name in names else None)


def test_gpus_of_torch(monkeypatch):
    mps = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True))
    fake_module(monkeypatch, "torch", cuda=cuda(2), backends=mps)
    only(monkeypatch, "torch")
    found = environment.gpus()
    assert [device["name"] for device in found["devices"]] == ["Card", "Card", "Apple GPU (mps)"]
    assert found["failed"] == {}


def test_gpus_of_cupy(monkeypatch):
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda k: {"name": b"Card", "totalGlobalMem": 2**33},
    )
    fake_module(monkeypatch, "cupy", cuda=SimpleNamespace(runtime=runtime))
    only(monkeypatch, "cupy")
    expected = {"package": "cupy", "name": "Card", "memory": 2**33}
    assert environment.gpus()["devices"] == [expected]


def test_a_driver_that_fails_is_broken(capsys, monkeypatch):
    def fail():
        raise RuntimeError("driver\n  too old")

    fake_module(monkeypatch, "torch", cuda=SimpleNamespace(is_available=fail))
    only(monkeypatch, "torch")
    assert environment.gpus()["failed"] == {"torch": "RuntimeError: driver too old"}
    code, found = run_json(capsys)
    assert code == 1
    assert (
        "torch is installed but cannot be used (RuntimeError: driver too old)" in found["broken"][0]
    )


def test_packages_that_are_not_there_are_not_imported(monkeypatch):
    only(monkeypatch)
    monkeypatch.setattr(environment, "import_module", lambda name: pytest.fail(name))
    assert environment.gpus() == {"devices": [], "failed": {}}


def test_torch_without_a_gpu_is_advice():
    state = {"packages": [package("torch", "2.4")], "gpu": {"devices": [], "failed": {}}}
    assert "PyTorch sees no GPU" in doctor._gpu_advice(state)[0]
    state["packages"] = [package("torch", None)]
    assert doctor._gpu_advice(state) == []


@pytest.mark.parametrize("fault", ["error", "wrong"])
def test_a_model_that_does_not_work_is_broken(capsys, monkeypatch, fault):
    def fit(self, X, y):
        if fault == "error":
            raise RuntimeError("no BLAS")
        self.noise_ = y > 1
        return self

    monkeypatch.setattr(schirn.Sieve, "fit", fit)
    monkeypatch.setattr(environment, "gpus", lambda: {"devices": [], "failed": {}})
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    expected = "failed (RuntimeError: no BLAS)" if fault == "error" else "found only 0%"
    assert expected in text


def test_the_path_is_that_of_the_package(state):
    assert Path(state["schirn"]["path"], "__init__.py").is_file()
