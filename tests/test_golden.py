"""Model files load and predict as they did when they were written (tests/golden/write.py).

The files of released versions lie in `tests/golden`; those of the present code are written anew.
"""

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from golden.write import cases, main, table

import schirn
from schirn import persist

GOLDEN = Path(__file__).parent / "golden"
RELEASED = sorted(path for path in GOLDEN.iterdir() if path.name[:1].isdigit())
CASES = sorted(cases())
FOLDERS = ["present", *(path.name for path in RELEASED)]
TAGGERS = ("columns", "text", "vectors")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Name -> folder of golden files."""
    folder = tmp_path_factory.mktemp("golden") / "present"
    main(folder)
    return {"present": folder} | {path.name: path for path in RELEASED}


@pytest.fixture(params=FOLDERS, scope="module")
def folder(request, folders):
    return folders[request.param]


def golden_file(folder, name):
    path = folder / f"{name}.schirn"
    if not path.exists():
        pytest.skip(f"version {folder.name} had no {name}")
    return path


def header(path):
    return json.loads(zipfile.ZipFile(path).read("header.json"))


def records(entry):
    """Every record in a header, at any depth."""
    if isinstance(entry, dict):
        if set(entry) == {"record"}:
            yield entry["record"]
        entry = list(entry.values())
    if isinstance(entry, list):
        for item in entry:
            yield from records(item)


def test_every_method_has_a_golden_file(folders):
    names = {header(path)["model"]["class"] for path in folders["present"].glob("*.schirn")}
    without_torch = set() if find_spec("torch") else {"PLAIN"}
    assert names == set(schirn.methods()) - without_torch


@pytest.mark.parametrize("name", CASES)
def test_golden_file_loads_and_predicts_as_it_did(folder, name):
    path = golden_file(folder, name)
    model = schirn.load(path)
    with np.load(folder / "expected.npz") as expected:
        X = expected["X"]
        X_new = expected["X_new"]
        Y = expected["candidates"]
        proba = expected[f"{name}/proba"]
        verdict = expected[f"{name}/verdict"]
    if "sparse" in name:
        X = sp.csr_array(X)
        X_new = sp.csr_array(X_new)
    np.testing.assert_allclose(model.predict_proba(X_new), proba, atol=1e-9)
    np.testing.assert_allclose(model.disambiguate(X, Y), verdict, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_a_file_written_again_names_no_module(folder, name, tmp_path):
    schirn.save(schirn.load(golden_file(folder, name)), tmp_path / "again.schirn")
    found = list(records(header(tmp_path / "again.schirn")))
    assert found
    assert all(set(record) == {"name", "fields"} for record in found)
    assert "schirn." not in json.dumps(header(tmp_path / "again.schirn")["model"])


@pytest.mark.parametrize("name", TAGGERS)
def test_golden_tagger_loads_and_predicts_as_it_did(folder, name):
    path = folder / "taggers" / f"{name}.schirn"
    with np.load(path.with_name("expected.npz")) as expected:
        proba = expected[name]
    np.testing.assert_allclose(schirn.load(path).predict_proba(table()), proba, atol=1e-6)


def test_every_record_has_a_golden_file(folders):
    """A record that no file holds could be renamed without any test noticing."""
    paths = folders["present"].glob("*.schirn")
    names = {record["name"] for path in paths for record in records(header(path))}
    assert names == set(persist.all_records())


def test_golden_network_loads_and_predicts_as_it_did(folder):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    from schirn.deep import DeepSieve

    model = DeepSieve.load(folder / "DeepSieve.safetensors")
    with np.load(folder / "expected.npz") as expected:
        X_new = expected["X_new"].astype(np.float32)
    np.testing.assert_allclose(
        model.predict_proba(X_new), np.load(folder / "DeepSieve.npy"), atol=1e-5
    )
