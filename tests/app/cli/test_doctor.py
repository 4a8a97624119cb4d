import importlib.machinery
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import schirn
from schirn._optional import install_command
from schirn.app.cli import _doctor as doctor
from schirn.app.cli import main


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "cache"))


def run_json(capsys):
    code = main(["doctor", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_this_installation_works(capsys, tmp_path):
    code, state = run_json(capsys)
    assert (code, state["broken"], state["gpus"]) == (0, [], [])
    version, _, path = state["schirn"].partition(" in ")
    assert version == schirn.__version__
    assert Path(path, "__init__.py").is_file()
    packages = {entry["name"]: entry for entry in state["packages"]}
    assert packages["numpy"]["version"] == np.__version__
    assert (packages["numpy"]["extra"], packages["rich"]["extra"]) == ("", "cli")
    assert not {"pytest", "ruff"} & set(packages)
    # Looking creates nothing.
    assert list(tmp_path.iterdir()) == []


def test_the_text_names_everything(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for part in (schirn.__version__, "gpus", "cache", "numpy"):
        assert part in text
    assert text.endswith("broken: nothing\n")


@pytest.mark.parametrize(
    ("version", "code"), [("9999.1.0+cpu", 0), ("9999rc1", 0), ("0.1rc99", 1), ("next", 1)]
)
def test_only_the_release_of_a_version_counts(version, code, capsys, monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: version)
    assert main(["doctor"]) == code
    assert ("is too old" in capsys.readouterr().out) == bool(code)


def test_an_old_package_is_broken(capsys, monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "0.1")
    assert main(["doctor"]) == 1
    assert "broken: numpy 0.1 is too old, schirn needs" in capsys.readouterr().out


def test_a_missing_package_comes_with_its_command(capsys, monkeypatch):
    def version(name):
        if name == "jinja2":
            raise doctor.metadata.PackageNotFoundError(name)
        return "9999"

    monkeypatch.setattr(doctor.metadata, "version", version)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("cli")]
    assert line.split(maxsplit=2) == ["cli:", "jinja2", install_command("cli")]
    assert not any(line.startswith("jinja2") for line in lines)


def test_an_extra_that_is_not_installed_is_one_line(capsys, monkeypatch):
    present = {"numpy", "scipy", "scikit-learn", "rich", "jinja2"}

    def version(name):
        if name not in present:
            raise doctor.metadata.PackageNotFoundError(name)
        return "9999"

    monkeypatch.setattr(doctor.metadata, "version", version)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    about_review = [line for line in lines if "starlette" in line or "uvicorn" in line]
    assert [line.split(maxsplit=1) for line in about_review] == [
        ["review", install_command("review")]
    ]
    assert not any(line.startswith("missing:") for line in lines)
    _, state = run_json(capsys)
    assert state["incomplete_extras"]["review"] == install_command("review")
    assert {"table", "gpu"} <= set(state["incomplete_extras"])
    assert not {"", "cli"} & set(state["incomplete_extras"])


def test_a_cache_that_cannot_be_written(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "file" / "cache"))
    assert main(["doctor"]) == 1
    assert "is not writable: set SCHIRN_CACHE to a folder that is" in capsys.readouterr().out


def fake_torch(monkeypatch, count, mps):
    cuda = SimpleNamespace(device_count=count, get_device_name=lambda k: f"Card {k}")
    backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps))
    spec = importlib.machinery.ModuleSpec("torch", None)
    torch = SimpleNamespace(__spec__=spec, cuda=cuda, backends=backends)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(doctor, "find_spec", lambda name: spec)


def test_gpus(capsys, monkeypatch):
    fake_torch(monkeypatch, lambda: 2, mps=True)
    assert run_json(capsys)[1]["gpus"] == ["Card 0", "Card 1", "Apple GPU (mps)"]


def test_a_driver_that_fails_is_broken(capsys, monkeypatch):
    def fail():
        raise RuntimeError("driver\n  too old")

    fake_torch(monkeypatch, fail, mps=False)
    code, state = run_json(capsys)
    assert code == 1
    assert "torch is installed but fails (RuntimeError: driver too old)" in state["broken"][0]
