"""Result files of others: what holds, what cannot be checked, and what is refused."""

import gzip
import json
import shutil

import numpy as np
import pytest
from lab.bench.bench_helpers import quick, tiny

from schirn.cli import main
from schirn.exceptions import DataError
from schirn.lab.leaderboard import check_results


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submission") / "out"
    quick(
        ["digits_attributes:1"],
        ["CandidateRidge", "OracleRidge"],
        folder,
        params={"CandidateRidge": {"lam": 1.0}, "OracleRidge": {"lam": 1.0}},
        noise="exact",
    )
    return folder


@pytest.fixture
def folder(run_once, tmp_path):
    """A copy of the results that a test may change."""
    return shutil.copytree(run_once, tmp_path / "out")


def change(folder, edit):
    """Apply a function to the list of all results of a folder."""
    (path,) = folder.glob("*.jsonl")
    results = [json.loads(line) for line in path.read_text().splitlines()]
    edit(results)
    path.write_text("".join(json.dumps(result) + "\n" for result in results))


def test_untouched_results_hold_and_are_drawn_and_scored_again(folder):
    check = check_results(folder)
    assert check.is_valid
    assert (len(check.results), check.regenerated, check.recomputed) == (4, 4, 4)
    assert (
        "2 of 4 results are trained on the true labels and count as an upper bound" in check.notes
    )


def test_a_packed_file_without_scores_holds_as_far_as_it_can_be_checked(folder, tmp_path):
    (path,) = folder.glob("*.jsonl")
    packed = tmp_path / "packed" / "results.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    check = check_results(packed)
    assert check.is_valid
    assert (check.regenerated, check.recomputed) == (4, 0)
    assert "4 of 4 results not checked: the scores are not here" in check.notes


def test_metrics_without_scores_and_unusual_keys_are_named(folder):
    """The parameters of the ridges are given here, which changes their keys."""
    assert any(
        "4 of 4 results have a key that this version" in n for n in check_results(folder).notes
    )
    change(folder, lambda results: [result.update(scores=None) for result in results])
    notes = check_results(folder).notes
    assert "4 of 4 results not checked: the metrics, because there are no scores" in notes


def test_a_result_of_another_method_under_a_known_name_has_an_unusual_key(tmp_path):
    quick([("digits_attributes", 1)], ["CandidateRidge"], tmp_path, noise="label")
    assert check_results(tmp_path).notes == []
    change(tmp_path, lambda results: [result.update(method="Schirn") for result in results])
    assert [note[:32] for note in check_results(tmp_path).notes] == [
        "2 of 2 results have a key that t"
    ]


def first(**fields):
    return lambda results: results[0].update(fields)


def set_metric(name, value):
    return lambda results: results[0]["metrics"].update({name: value})


def copy_of_first(results):
    results.append({**results[0], "metrics": {**results[0]["metrics"], "one_error": 0.01}})


TAMPERED = {
    "a better metric": (set_metric("average_precision", 0.99), "the stored scores give"),
    "a metric above 1": (set_metric("average_precision", 1.5), "must be from 0 to 1"),
    "a metric below 0": (set_metric("one_error", -0.1), "must be from 0 to 1"),
    "no metrics": (first(metrics={}), "a finished run without metrics"),
    "other data": (first(data_sha256="0" * 64), "data_sha256 is 000000000000..."),
    "other candidates": (first(candidates_sha256="0" * 64), "candidates_sha256 is 0000"),
    "other folds": (first(folds_sha256="0" * 64), "folds_sha256 is 000000000000..."),
    "another noise": (first(noise="label"), "candidates_sha256 is"),
    "another level": (first(r=2), "candidates_sha256 is"),
    "another seed": (first(seed=3), "folds_sha256 is"),
    "other sizes": (first(n_test=3), "n_test is 3"),
    "no checksum": (first(candidates_sha256=None), "no candidates_sha256"),
    "no versions": (first(versions=None), "no version of schirn, python"),
    "an unknown noise": (first(noise="kind"), "noise is 'kind'; it must be one of"),
    "a fold too many": (first(fold=2), "fold 2 of 2 folds"),
    "fewer folds than claimed": (lambda results: results.pop(0), "1 of the 2 folds that it claims"),
    "time below 0": (first(fit_seconds=-1.0), "fit_seconds is -1, below 0"),
    "metrics of a failure": (first(status="failed"), "metrics of a run that is failed"),
    "hidden truth": (lambda results: results[-1].update(sees_truth=False), "trained on the true"),
    "a renamed oracle": (lambda results: results[-1].update(method="Sieve"), "not trained on the"),
    "hidden oracle tuning": (
        first(tuning="oracle", grid={"lam": [1, 2]}, oracle=False),
        "oracle is False, but the tuning is 'oracle' with a grid",
    ),
    "two results": (copy_of_first, "another result of the same run than"),
    "a copied key": (lambda r: r[1].update(key=r[0]["key"]), "the key of another run"),
    "scores elsewhere": (first(scores="scores/../../secret.npz"), "scores must be a file in"),
    "a type": (first(folds="two"), "'folds' cannot be 'two'"),
    "no result": (lambda results: results.append({"a": 1}), "not a benchmark result"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_results_are_refused_with_the_reason(folder, name, capsys):
    edit, reason = TAMPERED[name]
    change(folder, edit)
    check = check_results(folder)
    assert any(reason in problem for problem in check.problems), check.problems
    assert main(["leaderboard", "check", str(folder)]) == 1
    shown = capsys.readouterr()
    assert "refused" in shown.out
    assert "schirn: refused: " in shown.err


def test_true_labels_that_fit_the_scores_are_refused(folder):
    """Whoever changes the truth beside the scores can make any metric right."""
    results = check_results(folder).results
    path = folder / results[0]["scores"]
    arrays = dict(np.load(path))
    arrays["truth"] = np.packbits(arrays["scores"] > 0.5, axis=1)
    np.savez_compressed(path, **arrays)
    problems = check_results(folder).problems
    assert any("the true labels stored with the scores are not" in p for p in problems)


def test_damaged_scores_are_refused(folder):
    path = folder / check_results(folder).results[0]["scores"]
    path.write_bytes(path.read_bytes()[:200])
    assert any("not a readable npz archive" in p for p in check_results(folder).problems)


def test_data_sets_and_methods_from_elsewhere_are_named_as_not_checked(tmp_path):
    quick([tiny()], {"mine": "CandidateRidge"}, tmp_path)
    check = check_results(tmp_path)
    assert check.is_valid
    assert check.regenerated == 0
    assert "2 of 2 results not checked: data set not here ('synthetic')" in check.notes
    assert any("whether the method saw the true labels; 'mine'" in note for note in check.notes)


def test_names_of_data_sets_are_never_taken_as_files(folder):
    change(folder, lambda results: [r.update(dataset="/etc/passwd") for r in results])
    assert any("data set not here" in note for note in check_results(folder).notes)


def test_a_result_that_was_computed_twice_counts_once(folder):
    change(folder, lambda results: results.append({**results[0], "finished": 1e12}))
    check = check_results(folder)
    assert check.is_valid
    assert len(check.results) == 4


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(DataError, match="there is no such file or folder"):
        check_results(tmp_path / "nothing")
    with pytest.raises(DataError, match="holds no result file"):
        check_results(tmp_path)
    bad = tmp_path / "bad.jsonl.gz"
    bad.write_bytes(gzip.compress(b"{}" * 10_000)[:20])
    with pytest.raises(DataError, match="not a readable gzip file"):
        check_results(bad)
    bad.write_bytes(b"no gzip")
    assert main(["leaderboard", "check", str(bad)]) == 2
    bad.write_bytes(gzip.compress(b""))
    assert check_results(bad).problems == [f"{bad}: the file holds no result"]


def test_an_unpacked_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * 100_000))
    monkeypatch.setenv("SCHIRN_MAX_BYTES", "50K")
    with pytest.raises(DataError, match="more than max_bytes"):
        check_results(path)


def test_the_program_prints_a_table_or_json(folder, capsys):
    assert main(["leaderboard", "check", str(folder)]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert line.split() == [str(folder), "holds", "4", "2", "1", "4", "4"]
    assert main(["leaderboard", "check", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is True
    assert found["files"][0]["recomputed"] == 4
