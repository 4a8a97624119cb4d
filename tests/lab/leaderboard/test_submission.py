"""Result files of others: what holds, what cannot be checked, and what is refused."""

import gzip
import json
import shutil

import numpy as np
import pytest
from lab.bench.bench_helpers import quick, tiny

from schirn.app.cli import main
from schirn.exceptions import DataError, InputError
from schirn.lab.bench.running._execute import without_result
from schirn.lab.bench.running._run import execute_runs
from schirn.lab.bench.running._scores import compute_metrics
from schirn.lab.bench.suite import plan_suite, read_suite
from schirn.lab.leaderboard import _packing as packing
from schirn.lab.leaderboard import _repetition as repetition
from schirn.lab.leaderboard import _submission as submission
from schirn.lab.leaderboard import check_results, pack_results


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


@pytest.fixture(scope="module")
def run_usual(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submission") / "out"
    quick(["digits_attributes:1"], ["CandidateRidge", "OracleRidge"], folder, noise="exact")
    return folder


@pytest.fixture
def usual(run_usual, tmp_path):
    """Results with the usual parameters, which can be run again."""
    return shutil.copytree(run_usual, tmp_path / "usual")


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


def unscored(text):
    return f"4 of 4 results not verified: {text}"


def test_untouched_results_are_drawn_scored_and_run_again(usual):
    check = check_results(usual)
    assert check.verdict == "verified"
    assert (len(check.results), check.regenerated, check.recomputed) == (4, 4, 4)
    assert (check.verified, check.rerun) == (4, 3)
    assert check.notes == []


def test_packed_results_are_verified_with_their_scores_and_not_without(usual, tmp_path, capsys):
    packed = tmp_path / "packed" / "mine.jsonl.gz"
    assert main(["leaderboard", "pack", str(usual), "-o", str(packed)]) == 0
    scores = tmp_path / "packed" / "mine.scores.npz"
    assert f"send {packed} and {scores}" in capsys.readouterr().out
    check = check_results(packed)
    assert (check.verdict, check.recomputed, check.rerun) == ("verified", 4, 3)
    assert all(result["host"] is None for result in check.results)
    scores.unlink()
    check = check_results(packed)
    assert (check.verdict, check.regenerated, check.recomputed) == ("not verified", 4, 0)
    assert unscored("the scores are missing") in check.notes
    assert main(["leaderboard", "check", str(packed)]) == 3
    shown = capsys.readouterr().out
    assert "not verified" in shown
    assert "holds" not in shown


def test_packed_scores_that_belong_to_other_metrics_are_refused(usual, tmp_path):
    change(usual, set_metric("average_precision", 0.99))
    packed = pack_results(usual, tmp_path / "packed" / "mine.jsonl.gz")[0]
    assert any("the stored scores give" in text for text in check_results(packed).problems)


def test_some_folds_of_a_run_are_not_packed(usual, tmp_path):
    change(usual, lambda results: results.pop(0))
    packed = pack_results(usual, tmp_path / "mine.jsonl.gz")[0]
    assert len(check_results(packed).results) == 2
    with pytest.raises(InputError, match=r"must be called NAME\.jsonl\.gz"):
        pack_results(usual, tmp_path / "mine.json")


def test_a_file_of_scores_that_is_none_is_refused(usual, tmp_path):
    packed, scores = pack_results(usual, tmp_path / "mine.jsonl.gz")
    np.savez(scores, keys=np.array(["a"]), shapes=np.array([[3, 2]]), scores=np.zeros(5))
    assert any("not a file of packed scores" in text for text in check_results(packed).problems)


class Plain:
    """A method without `predict`: scores above 0.5 count as predicted."""

    def fit(self, X, y):
        self.mean_ = y.mean(axis=0)
        return self

    def decision_function(self, X):
        return 0.8 * self.mean_[None, :] + 0.3 * X[:, :1] / X.max()


def test_packed_scores_of_a_method_without_predict_give_its_hamming_loss(tmp_path):
    quick(["digits_attributes:1"], {"Plain": Plain}, tmp_path / "out")
    packed = pack_results(tmp_path / "out", tmp_path / "plain.jsonl.gz")[0]
    check = check_results(packed)
    assert (check.problems, check.recomputed) == ([], 2)


def random_run(seed=0, n_rows=50, n_labels=11, n_candidates=83):
    """Arrays of a run with many ties."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n_rows, n_labels)) < 0.3
    predicted = rng.random((n_rows, n_labels)) < 0.3
    return {
        "scores": rng.integers(0, 4, (n_rows, n_labels)) / 4.0,
        "truth": np.packbits(truth, axis=1),
        "predicted": np.packbits(predicted, axis=1),
        "candidate_truth": rng.random(n_candidates) < 0.5,
        "confidence": rng.integers(0, 9, n_candidates) / 9.0,
    }


def test_packed_scores_keep_the_metrics_that_an_order_gives(tmp_path):
    runs = {"one": random_run(), "two": random_run(1, 7, 20, 16)}
    runs["no confidence"] = {k: v for k, v in random_run(2).items() if k != "confidence"}
    packed = {key: packing.pack_run(arrays) for key, arrays in runs.items()}
    path = tmp_path / "a.scores.npz"
    path.write_bytes(packing.as_archive(packed))
    again = packing.read_scores(path)
    assert list(again) == list(runs)
    for key, arrays in runs.items():
        values = compute_metrics(packing.arrays_of(again[key]), ranks_only=True)
        expected = compute_metrics(arrays, ranks_only=True)
        assert expected["tied_rows"] > 0.7
        assert "macro_auc" not in values
        assert ("noise_auc" in values) == (key != "no confidence")
        for name in values:
            assert values[name] == pytest.approx(expected[name], abs=1e-12), name


def in_packed(path, edit):
    results = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    edit(results)
    text = "".join(json.dumps(result) + "\n" for result in results)
    path.write_bytes(gzip.compress(text.encode()))


def test_packed_results_have_only_metrics_that_their_scores_give(usual, tmp_path):
    packed = pack_results(usual, tmp_path / "mine.jsonl.gz")[0]
    check = check_results(packed, reruns=1)
    assert (check.verdict, check.verified, check.notes) == ("verified", 4, [])
    for result in check.results:
        assert "noise_auc" in result["metrics"]
        assert not {"macro_auc", "calibration_error"} & set(result["metrics"])


def test_an_edited_noise_metric_is_refused(usual, tmp_path, capsys):
    """Exit code 0 for such a file was the fault of versions before 0.4."""
    packed = pack_results(usual, tmp_path / "mine.jsonl.gz")[0]
    in_packed(packed, set_metric("noise_auc", 0.97))
    problems = check_results(packed, reruns=0).problems
    assert any("noise_auc is 0.97, but the stored scores give" in text for text in problems)
    assert main(["leaderboard", "check", str(packed)]) == 1


def test_a_metric_that_nothing_confirms_is_not_verified(usual, tmp_path, capsys):
    packed = pack_results(usual, tmp_path / "mine.jsonl.gz")[0]
    in_packed(packed, set_metric("macro_auc", 0.9))
    check = check_results(packed, reruns=0)
    assert (check.verdict, check.verified) == ("not verified", 3)
    assert "1 of 4 results not verified: macro_auc, which the stored scores do not give" in (
        check.notes
    )
    assert main(["leaderboard", "check", str(packed), "--rerun", "0"]) == 3
    problems = check_results(packed, reruns=4).problems
    assert any("macro_auc is 0.9, but the same run gives" in text for text in problems)


def test_counts_of_candidates_beside_packed_scores_are_compared(usual, tmp_path):
    """Whoever invents the candidates can make any noise metric right."""
    packed, path = pack_results(usual, tmp_path / "mine.jsonl.gz")
    runs = packing.read_scores(path)
    forged = {key: run._replace(candidate_truth=~run.candidate_truth) for key, run in runs.items()}
    path.write_bytes(packing.as_archive(forged))
    problems = check_results(packed, reruns=0).problems
    assert len(problems) == 4
    assert all("are not those of the data" in text for text in problems)


def test_parameters_are_compared_when_a_run_is_repeated(usual):
    change(usual, first(params={"lam": 123.0}))
    problems = check_results(usual, reruns=4).problems
    assert any("params are {'lam': 123.0}, but the same run has" in text for text in problems)


def test_seeds_that_only_one_method_lacks_are_not_verified(tmp_path):
    methods = ["CandidateRidge", "OracleRidge"]
    quick(["digits_attributes:1"], methods, tmp_path, noise="exact", seeds=[0, 1])
    assert check_results(tmp_path).notes == []

    def drop(results):
        results[:] = [r for r in results if (r["method"], r["seed"]) != ("CandidateRidge", 1)]

    change(tmp_path, drop)
    check = check_results(tmp_path)
    assert check.verdict == "not verified"
    text = "2 of 6 results not verified: other methods have seeds that their method lacks"
    assert text in check.notes


def test_generated_data_sets_of_a_suite_are_drawn_again(tmp_path):
    suite = read_suite("pml-2")
    runs = plan_suite(suite, ["CandidateRidge"], ["small"], ["raw"])
    chosen = [run for run in runs if run.fields["dataset"] == "generated"][:2]
    execute_runs(chosen, output=tmp_path, jobs=0)
    check = check_results(tmp_path, reruns=2)
    assert (check.regenerated, check.verified, check.rerun) == (2, 2, 2)


@pytest.mark.parametrize("deleted", ["folder", "field"])
def test_deleted_scores_and_better_metrics_are_not_verified(usual, deleted, capsys):
    """A forgery that no check can see must not pass as checked."""

    def forge(results):
        for result in results:
            result["metrics"]["average_precision"] += 0.02
            result["scores"] = None if deleted == "field" else result["scores"]

    change(usual, forge)
    shutil.rmtree(usual / "scores")
    check = check_results(usual)
    assert (check.verdict, check.verified, check.rerun) == ("not verified", 0, 0)
    assert unscored("the scores are missing") in check.notes
    assert main(["leaderboard", "check", str(usual)]) == 3
    assert "4 of 4 results not verified: the scores" in capsys.readouterr().out


def test_forged_scores_are_found_when_the_run_is_repeated(usual):
    """Scores of another method that give the claimed metrics."""

    def swap(results):
        pairs = zip(results[:2], results[2:], strict=True)
        for result, better in pairs:
            assert (result["method"], better["method"]) == ("CandidateRidge", "OracleRidge")
            result.update(metrics=better["metrics"], scores=better["scores"])

    change(usual, swap)
    check = check_results(usual, reruns=4)
    assert check.verdict == "refused"
    assert any("but the same run gives" in text for text in check.problems)
    assert check_results(usual, reruns=0).verdict == "not verified"


def test_stale_code_is_named(usual, monkeypatch, capsys):
    submission._usual_method.cache_clear()
    monkeypatch.setattr(
        "schirn.lab.bench.running._methods.code_checksum", lambda cls: cls.__name__.ljust(64, "0")
    )
    check = check_results(usual)
    assert (check.verdict, check.verified, check.recomputed) == ("not verified", 0, 4)
    assert "4 of 4 results stale: the code of their method has changed since" in check.notes
    assert main(["leaderboard", "check", str(usual)]) == 3
    assert "stale" in capsys.readouterr().out
    submission._usual_method.cache_clear()


def test_a_code_that_the_key_does_not_confirm_is_named(usual):
    """Whoever writes the current code into an old result has another key."""
    change(usual, lambda results: [result.update(code_sha256=None) for result in results])
    notes = check_results(usual).notes
    assert "4 of 4 results not verified: they do not name the code of their method" in notes
    assert any("a key that this version would not give them" in note for note in notes)


def test_unusual_keys_are_named(folder):
    """The parameters of the ridges are given here, which changes their keys."""
    check = check_results(folder)
    assert check.verdict == "not verified"
    assert any("4 of 4 results not verified: they have a key" in n for n in check.notes)


def test_a_result_of_another_method_under_a_known_name_has_an_unusual_key(tmp_path):
    quick([("digits_attributes", 1)], ["CandidateRidge"], tmp_path, noise="label")
    assert check_results(tmp_path).notes == []
    change(tmp_path, lambda results: [result.update(method="Schirn") for result in results])
    notes = check_results(tmp_path).notes
    assert [note[:25] for note in notes] == [
        "2 of 2 results stale: the",
        "2 of 2 results not verifi",
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
    "a line twice": (lambda results: results.append(results[0]), "the same line as"),
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


def test_data_sets_and_methods_from_elsewhere_are_not_verified(tmp_path):
    quick([tiny()], {"mine": "CandidateRidge"}, tmp_path)
    check = check_results(tmp_path)
    assert check.problems == []
    assert check.regenerated == 0
    assert "2 of 2 results not verified: data set not here ('synthetic')" in check.notes
    assert any("'mine' is not part of schirn, and may have seen" in n for n in check.notes)


def test_names_of_data_sets_are_never_taken_as_files(folder):
    change(folder, lambda results: [r.update(dataset="/etc/passwd") for r in results])
    assert any("data set not here" in note for note in check_results(folder).notes)


def test_a_result_that_was_computed_twice_counts_once(folder):
    change(folder, lambda results: results.append({**results[0], "finished": 1e12}))
    check = check_results(folder)
    assert check.problems == []
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


def test_the_program_prints_a_table_or_json(usual, capsys):
    assert main(["leaderboard", "check", str(usual), "--rerun", "1"]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert line.split() == [str(usual), "verified", "4", "2", "1", "4", "4", "4", "1"]
    assert main(["leaderboard", "check", str(usual), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verified"] is True
    assert document["files"][0]["recomputed"] == 4


def stated_as(folder, tmp_path, lam):
    """Write an honest result with another weight of the ridge into the first results."""
    quick(
        ["digits_attributes:1"],
        ["CandidateRidge"],
        tmp_path / "other",
        params={"CandidateRidge": {"lam": lam}},
        noise="exact",
        folds=1,
    )
    other = json.loads(next((tmp_path / "other").glob("*.jsonl")).read_text())
    shutil.copy(tmp_path / "other" / other["scores"], folder / "scores")
    names = ("params", "metrics", "scores")
    change(folder, first(**{name: other[name] for name in names}))


@pytest.fixture(scope="module")
def run_tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submission") / "out"
    quick(
        ["digits_attributes:1"],
        ["CandidateRidge"],
        folder,
        noise="exact",
        folds=1,
        tuning="candidates",
    )
    return folder


@pytest.fixture
def tuned(run_tuned, tmp_path):
    """A ridge whose weights of 100 and 1,000 are nearly as good on held-out candidates."""
    return shutil.copytree(run_tuned, tmp_path / "tuned")


def test_other_parameters_that_are_nearly_as_good_here_are_verified(tuned, tmp_path, capsys):
    """Another processor chooses otherwise among points that nearly tie."""
    stated_as(tuned, tmp_path, 100.0)
    check = check_results(tuned, reruns=1)
    assert (check.verdict, check.problems, check.rerun) == ("verified", [], 1)
    assert any("1 of 1 repeated runs chose other parameters here" in text for text in check.notes)
    assert main(["leaderboard", "check", str(tuned)]) == 0


def test_parameters_that_the_search_would_not_choose_are_not_verified(tuned, tmp_path):
    """Whoever tunes on the test rows states parameters of the grid, and their true metrics."""
    stated_as(tuned, tmp_path, 0.01)
    check = check_results(tuned, reruns=1)
    assert (check.verdict, check.problems, check.rerun) == ("not verified", [], 0)
    assert any("better on held-out candidates" in text for text in check.notes)


def test_parameters_outside_of_the_grid_are_refused(tuned, tmp_path):
    stated_as(tuned, tmp_path, 123.0)
    assert any("but the same run has" in text for text in check_results(tuned, reruns=1).problems)


def test_forged_metrics_with_parameters_that_nearly_tie_are_refused(tuned, tmp_path):
    change(tuned, lambda results: results[0]["params"].update(lam=100.0))
    packed = pack_results(tuned, tmp_path / "packed" / "mine.jsonl.gz")[0]
    in_packed(packed, set_metric("macro_auc", 0.9))
    problems = check_results(packed, reruns=1).problems
    assert any("macro_auc is 0.9, but the same run gives" in text for text in problems)


def test_a_small_difference_of_a_repeated_run_is_not_verified(usual, tmp_path, capsys):
    macro_auc = check_results(usual, reruns=0).results[0]["metrics"]["macro_auc"]
    packed = pack_results(usual, tmp_path / "mine.jsonl.gz")[0]
    in_packed(packed, set_metric("macro_auc", macro_auc + 0.004))
    check = check_results(packed, reruns=4)
    assert (check.verdict, check.problems, check.rerun) == ("not verified", [], 3)
    assert any("macro_auc is" in text and "the same run gives" in text for text in check.notes)
    assert main(["leaderboard", "check", str(packed), "--rerun", "4"]) == 3


def test_methods_that_cannot_run_here_are_not_drawn(usual, monkeypatch):
    """A missing package, whichever packages are there."""
    honest = repetition.execute

    def without_oracle(run, data):
        if run.method.name == "OracleRidge":
            return without_result("skipped", "OracleRidge needs the package 'nothing'")
        return honest(run, data)

    monkeypatch.setattr(repetition, "execute", without_oracle)
    check = check_results(usual, reruns=4)
    assert (check.verdict, check.rerun) == ("verified", 2)
    text = "2 results of OracleRidge cannot be repeated here: OracleRidge needs the package"
    assert any(note.startswith(text) for note in check.notes)


def test_settings_that_only_one_method_lacks_are_not_verified(tmp_path):
    methods = ["CandidateRidge", "OracleRidge"]
    sets = ["digits_attributes:1", "digits_attributes:2"]
    quick(sets, methods, tmp_path, noise="exact", folds=1)
    assert check_results(tmp_path, reruns=1).verdict == "verified"

    def drop(results):
        results[:] = [r for r in results if (r["method"], r["r"]) != ("CandidateRidge", 2)]

    change(tmp_path, drop)
    check = check_results(tmp_path)
    assert (check.verdict, check.problems) == ("not verified", [])
    text = "other methods have data sets, noise or features that their method lacks"
    assert f"1 of 3 results not verified: {text}" in check.notes


@pytest.fixture(scope="module")
def run_of_suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submission") / "out"
    runs = plan_suite(read_suite("pml-2"), ["CandidateRidge"], ["small"], ["raw"])
    chosen = [run for run in runs if run.fields["dataset"] == "generated"]
    chosen = [run for run in chosen if run.fields["noise"] == "exact" and run.fields["seed"] < 3]
    execute_runs(chosen, output=folder, jobs=0)
    return folder


@pytest.fixture
def of_suite(run_of_suite, tmp_path):
    """Three seeds of one setting of a suite."""
    return shutil.copytree(run_of_suite, tmp_path / "suite")


LATE = {"status": "timeout", "reason": "stopped after 30 s, the limit for a run"}
NOTHING = {"metrics": {}, "scores": None, "params": {}}


def test_finished_runs_that_became_timeouts_are_not_verified(of_suite, capsys):
    change(of_suite, first(**LATE, **NOTHING))
    check = check_results(of_suite)
    assert (check.verdict, check.problems, check.verified) == ("not verified", [], 2)
    (note,) = check.notes
    assert note.startswith("1 timeouts of CandidateRidge not verified: run again, ")
    assert note.endswith("is done within 10 s")
    assert main(["leaderboard", "check", str(of_suite)]) == 3
    (note,) = check_results(of_suite, reruns=0).notes[1:]
    assert note == "1 timeouts of CandidateRidge not verified: nothing was repeated"


def test_a_timeout_is_confirmed_by_a_repeated_one(of_suite, monkeypatch):
    """With a limit that no run keeps."""
    suite = read_suite("pml-2") | {"time_limit": 1e-3}
    monkeypatch.setattr(repetition, "read_suite", lambda _: suite)

    def stop(results):
        results[0].update(LATE, **NOTHING)
        results[1].update(LATE, **NOTHING, reason="not run: it timed out with another seed")

    change(of_suite, stop)
    check = check_results(of_suite)
    assert (check.verdict, check.verified) == ("verified", 3)
    assert check.notes == ["2 timeouts of CandidateRidge confirmed by one repeated run"]


def test_runs_that_were_not_run_need_a_timeout(of_suite):
    reason = "not run: it timed out with another seed"
    change(of_suite, first(**NOTHING, status="timeout", reason=reason))
    check = check_results(of_suite)
    assert check.verdict == "not verified"
    assert check.notes == [
        "1 results of CandidateRidge not verified: not run, but without a timeout of another seed"
    ]


FAILED = {"status": "failed", "reason": "InputError: the scores overflow here"}


def test_a_failure_that_does_not_come_again_is_not_verified(of_suite):
    change(of_suite, first(**FAILED, **NOTHING))
    check = check_results(of_suite)
    assert (check.verdict, check.problems) == ("not verified", [])
    assert any("1 failures of CandidateRidge not verified: run again, " in n for n in check.notes)


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ("InputError: the scores overflow there", "verified"),
        ("InputError: no solution", "not verified"),
    ],
)
def test_a_failure_is_confirmed_by_a_repeated_one(of_suite, monkeypatch, reason, verdict):
    """No method of this library fails on these data."""
    worker = repetition.ProcessWorker
    monkeypatch.setattr(worker, "run", lambda *_: without_result("failed", reason))
    change(of_suite, first(**FAILED, **NOTHING))
    check = check_results(of_suite)
    assert check.verdict == verdict
