import importlib.machinery
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import schirn
from schirn.cli import doctor, main


@pytest.fixture
def state(monkeypatch):
    """Everything about this machine, without asking a GPU."""
    only(monkeypatch)
    return doctor.examine()


def run_json(capsys):
    code = main(["doctor", "--json"])
    return code, json.loads(capsys.readouterr().out)


def only(monkeypatch, *names):
    """Let only these GPU packages be found."""
    spec = importlib.machinery.ModuleSpec("x", None)
    monkeypatch.setattr(doctor, "find_spec", lambda name: spec if name in names else None)


def test_this_installation_works(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    code, found = run_json(capsys)
    assert (code, found["broken"]) == (0, [])
    assert found["schirn"]["version"] == schirn.__version__
    assert Path(found["schirn"]["path"], "__init__.py").is_file()
    assert {"numpy", "scipy", "scikit-learn"} <= {p["name"] for p in found["packages"]}
    assert any("blas" in lib["internal_api"] for lib in found["linear_algebra"])
    assert found["processors"] >= 1
    assert found["self_test"]["recall"] > 0.8


def test_the_text_names_everything(capsys, monkeypatch, state):
    monkeypatch.setattr(doctor, "examine", lambda: dict(state))
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for part in (schirn.__version__, "processors", "gpu", "cache", "numpy", "threads"):
        assert part in text
    assert text.endswith("Nothing is broken.\n")


def test_versions_of_packages_are_found():
    import numpy

    found = {entry["name"]: entry for entry in doctor.packages()}
    assert found["numpy"]["version"] == numpy.__version__
    assert found["numpy"]["extras"] == []
    assert "cli" in found["rich"]["extras"]
    assert not {"pytest", "ruff"} & set(found)


@pytest.mark.parametrize(
    ("version", "numbers"), [("2.13.0+cpu", (2, 13, 0)), ("1.8rc1", (1, 8)), ("next", ())]
)
def test_numbers_of_a_version(version, numbers):
    assert doctor._numbers(version) == numbers


def test_an_old_package_is_broken(capsys, monkeypatch, state):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "0.1")
    old = doctor.packages()
    assert all(entry["too_old"] for entry in old)
    monkeypatch.setattr(doctor, "examine", lambda: state | {"packages": old})
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "broken: numpy 0.1 is too old, schirn needs" in text
    assert "Nothing is broken" not in text


def test_a_missing_package_comes_with_its_command(capsys, monkeypatch, state):
    def version(name):
        if name == "jinja2":
            raise doctor.metadata.PackageNotFoundError(name)
        return "9999"

    monkeypatch.setattr(doctor.metadata, "version", version)
    packages = doctor.packages()
    assert not any(entry["too_old"] for entry in packages)
    monkeypatch.setattr(doctor, "examine", lambda: state | {"packages": packages})
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert 'missing: jinja2 (pip install "schirn[cli]")' in text


def test_without_an_installation_the_core_is_checked(monkeypatch):
    def absent(name):
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "requires", absent)
    assert [entry["name"] for entry in doctor.packages()] == ["numpy", "scipy", "scikit-learn"]
    assert not any(entry["too_old"] for entry in doctor.packages())


def test_data_folders(capsys, monkeypatch, tmp_path):
    (tmp_path / "mine.npz").touch()
    monkeypatch.setenv("SCHIRN_DATA", f"{tmp_path}:{tmp_path / 'gone'}")
    only(monkeypatch)
    code, found = run_json(capsys)
    assert code == 1
    assert "mine" in found["data"]["sets"]
    assert [folder["readable"] for folder in found["data"]["SCHIRN_DATA"]] == [True, False]
    assert found["broken"] == [
        f"SCHIRN_DATA names the folder {str(tmp_path / 'gone')!r}, which cannot be read: correct "
        f"the variable or create the folder"
    ]


def test_a_cache_that_cannot_be_written(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "file" / "cache"))
    only(monkeypatch)
    assert main(["doctor"]) == 1
    assert "is not writable: set SCHIRN_CACHE to a folder that is" in capsys.readouterr().out


def test_looking_creates_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "cache"))
    assert doctor.data_folders()["cache"]["writable"]
    assert list(tmp_path.iterdir()) == []


def test_too_many_threads_give_advice(state):
    libraries = [{"internal_api": "openblas", "num_threads": 64}]
    (sentence,) = doctor.advice(state | {"linear_algebra": libraries, "processors": 4})
    assert "starts 64 threads on 4 processors" in sentence
    assert "--threads 4" in sentence
    assert doctor.advice(state | {"linear_algebra": []}) == []


def fake_module(monkeypatch, name, **attributes):
    module = SimpleNamespace(__spec__=importlib.machinery.ModuleSpec(name, None), **attributes)
    monkeypatch.setitem(sys.modules, name, module)
    only(monkeypatch, name)


def test_gpus_of_torch(monkeypatch):
    cuda = SimpleNamespace(device_count=lambda: 2, get_device_name=lambda k: f"Card {k}")
    mps = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True))
    fake_module(monkeypatch, "torch", cuda=cuda, backends=mps)
    expected = {"devices": ["Card 0", "Card 1", "Apple GPU (mps)"], "failed": {}}
    assert doctor.gpus() == expected


def test_gpus_of_cupy(monkeypatch):
    runtime = SimpleNamespace(getDeviceCount=lambda: 1)
    fake_module(monkeypatch, "cupy", cuda=SimpleNamespace(runtime=runtime))
    assert doctor.gpus()["devices"] == ["CUDA device 0"]


def test_a_driver_that_fails_is_broken(capsys, monkeypatch):
    def fail():
        raise RuntimeError("driver\n  too old")

    mps = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False))
    cuda = SimpleNamespace(device_count=fail)
    fake_module(monkeypatch, "torch", cuda=cuda, backends=mps)
    assert doctor.gpus()["failed"] == {"torch": "RuntimeError: driver too old"}
    code, found = run_json(capsys)
    assert code == 1
    assert "torch is installed but fails (RuntimeError: driver too old)" in found["broken"][0]


def test_packages_that_are_not_installed_are_not_imported(monkeypatch):
    only(monkeypatch)
    monkeypatch.setattr(doctor, "import_module", lambda name: pytest.fail(name))
    assert doctor.gpus() == {"devices": [], "failed": {}}


@pytest.mark.parametrize("fault", ["error", "wrong"])
def test_a_model_that_does_not_work_is_broken(capsys, monkeypatch, fault):
    def fit(self, X, y):
        if fault == "error":
            raise RuntimeError("no BLAS")
        self.noise_ = y > 1
        return self

    monkeypatch.setattr(schirn.Sieve, "fit", fit)
    only(monkeypatch)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    expected = "failed (RuntimeError: no BLAS)" if fault == "error" else "found only 0%"
    assert expected in text
