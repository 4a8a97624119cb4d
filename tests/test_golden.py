"""Model files of every released version load and predict as they did (tests/golden/write.py)."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from golden.write import table

import schirn
from schirn import persist

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*/*.schirn"))
TAGGERS = sorted(GOLDEN.glob("*/taggers/*.schirn"))


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


def test_every_method_has_a_golden_file():
    for folder in {path.parent for path in FILES}:
        names = {header(path)["model"]["class"] for path in folder.glob("*.schirn")}
        assert names <= set(schirn.methods())
    assert {header(path)["model"]["class"] for path in FILES} == set(schirn.methods())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden_file_loads_and_predicts_as_it_did(path):
    model = schirn.load(path)
    with np.load(path.with_name("expected.npz")) as expected:
        X, X_new, Y = (expected[name] for name in ("X", "X_new", "candidates"))
        if "sparse" in path.stem:
            X, X_new = sp.csr_array(X), sp.csr_array(X_new)
        proba, verdict = (expected[f"{path.stem}/{name}"] for name in ("proba", "verdict"))
    np.testing.assert_allclose(model.predict_proba(X_new), proba, atol=1e-9)
    np.testing.assert_allclose(model.disambiguate(X, Y), verdict, atol=1e-9)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_written_again_names_no_module(path, tmp_path):
    schirn.save(schirn.load(path), tmp_path / "again.schirn")
    found = list(records(header(tmp_path / "again.schirn")))
    assert found
    assert all(set(record) == {"name", "fields"} for record in found)
    assert "schirn." not in json.dumps(header(tmp_path / "again.schirn")["model"])


@pytest.mark.parametrize("path", TAGGERS, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_golden_tagger_loads_and_predicts_as_it_did(path):
    with np.load(path.with_name("expected.npz")) as expected:
        proba = expected[path.stem]
    np.testing.assert_allclose(schirn.load(path).predict_proba(table()), proba, atol=1e-6)


def test_every_record_has_a_golden_file():
    """A record that no file holds could be renamed without any test noticing."""
    names = {
        record["name"]
        if "module" not in record
        else persist._NAMES_OF_FORMAT_1.get(record["name"], record["name"])
        for path in FILES
        for record in records(header(path))
    }
    assert names == set(persist.all_records())


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda f: f.name)
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
