"""Finished fits travel in one file."""

import gzip

import pytest

from schirn.datasets import make_partial_multilabel
from schirn.exceptions import DataError
from schirn.lab.bench import Batch, read_rows, run
from schirn.lab.bench.running import _methods as planning
from schirn.lab.bench.running._plan import plan_runs
from schirn.lab.reproduction._kept import (
    keep_results,
    progress_of,
    read_kept,
    renew_kept,
    restore_results,
)


@pytest.fixture(scope="module")
def request_():
    data = make_partial_multilabel(n_samples=60, n_features=5, n_labels=4, r=1, random_state=0)
    return {"datasets": [data], "methods": ["CandidateRidge", "Schirn"], "folds": 2}


def batch(folder, request):
    return Batch(folder, plan_runs(**request))


def test_another_machine_goes_on_from_the_file(request_, tmp_path):
    half = {**request_, "methods": ["CandidateRidge"]}
    run(**half, output=tmp_path / "a" / "rows", jobs=0)
    first = batch(tmp_path / "a" / "rows", request_)
    path = tmp_path / "kept.jsonl.gz"
    assert keep_results(path, [first]) == 2
    second = batch(tmp_path / "b" / "rows", request_)
    assert restore_results(path, [second]) == 2
    assert restore_results(path, [second]) == 0
    results = read_rows(second.folder)
    assert progress_of([second], {"rows": results}) == {"rows": "2 of 4"}
    assert [r["metrics"] for r in results] == [r["metrics"] for r in read_rows(first.folder)]
    run(**request_, output=second.folder, jobs=0)
    hosts = {r["method"]: r["host"] for r in read_rows(second.folder)}
    # The file names no machine, so a result with a name was computed here.
    assert hosts["CandidateRidge"] is None
    assert hosts["Schirn"] is not None
    assert keep_results(path, [second]) == 4


def test_equal_results_give_an_equal_file(request_, tmp_path):
    run(**request_, output=tmp_path / "rows", jobs=0)
    one = batch(tmp_path / "rows", request_)
    keep_results(tmp_path / "a.gz", [one])
    keep_results(tmp_path / "b.gz", [one])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    results = read_kept(tmp_path / "a.gz")["rows"]
    assert all(r["scores"] is r["host"] is r["traceback"] is None for r in results)


def test_results_of_other_code_stay_in_the_file_but_settle_nothing(request_, tmp_path):
    run(**request_, output=tmp_path / "rows", jobs=0)
    path = tmp_path / "kept.gz"
    keep_results(path, [batch(tmp_path / "rows", request_)])
    other = batch(tmp_path / "new" / "rows", {**request_, "folds": 3})
    assert restore_results(path, [other]) == 0
    assert keep_results(path, [other]) == 4


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"[1]\n"), gzip.compress(b"{}\n")],
    ids=["no gzip", "a list", "an object"],
)
def test_a_damaged_file_gets_one_sentence(content, tmp_path):
    path = tmp_path / "kept.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"kept\.gz holds no results of schirn reproduce"):
        read_kept(path)
    assert read_kept(tmp_path / "absent.gz") == {}


def test_fits_are_kept_if_an_edit_of_the_code_does_not_change_them(request_, tmp_path, monkeypatch):
    run(**request_, output=tmp_path / "a" / "rows", jobs=0)
    path = tmp_path / "kept.jsonl.gz"
    keep_results(path, [batch(tmp_path / "a" / "rows", request_)])
    monkeypatch.setattr(planning, "code_checksum", lambda cls: cls.__name__.ljust(64, "0"))
    edited = batch(tmp_path / "b" / "rows", request_)
    assert restore_results(path, [edited]) == 0
    assert renew_kept(path, [edited], 1) == ["rows: 4 fits of changed code were kept"]
    assert restore_results(path, [edited]) == 4
