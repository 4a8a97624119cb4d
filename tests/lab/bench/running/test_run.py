import hashlib
import json
import time
from dataclasses import replace

import numpy as np
import pytest
from lab.bench.bench_helpers import METHODS, quick, stable, tiny, write_workplace
from sklearn.model_selection import KFold

import schirn
from schirn.datasets import Dataset, add_noise, make_partial_multilabel
from schirn.datasets.noise import KINDS
from schirn.estimators import CandidateRidge, Schirn
from schirn.exceptions import InputError, MissingExtraError
from schirn.lab import bench
from schirn.lab.bench.running._execute import load_data
from schirn.lab.bench.running._plan import plan_runs
from schirn.lab.bench.running._scores import NOTHING_PREDICTED, compute_metrics
from schirn.metrics import LABEL_METRICS, METRICS, average_precision, precision_at_k
from schirn.model_selection import CandidateSearchCV

ALL = (*METRICS, "noise_auc", "noise_precision", "noise_recall")
ALL += ("noise_auprc", "calibration_error", *LABEL_METRICS, "tied_rows")
ALL += ("average_precision_random_ties", "one_error_random_ties")


@pytest.fixture
def place(tmp_path, monkeypatch):
    write_workplace(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


GOLDEN = {
    ("CandidateRidge", 0): (
        0.83074074,
        0.13888889,
        0.16666667,
        0.31333333,
        0.26666667,
        0.78141026,
        1.0,
        0.06666667,
    ),
    ("CandidateRidge", 1): (
        0.75018519,
        0.21944444,
        0.34,
        0.34,
        0.36666667,
        0.73508772,
        np.nan,
        0.0,
    ),
    ("Schirn", 0): (
        0.66342593,
        0.32777778,
        0.3,
        0.46,
        0.53333333,
        0.57147436,
        0.40983607,
        0.83333333,
    ),
    ("Schirn", 1): (
        0.81388889,
        0.15277778,
        0.27333333,
        0.30666667,
        0.3,
        0.78552632,
        0.5,
        1.0,
    ),
    ("NLR", 0): (
        0.81611111,
        0.15833333,
        0.18,
        0.20666667,
        0.3,
        0.77115385,
        0.89473684,
        0.56666667,
    ),
    ("NLR", 1): (
        0.80296296,
        0.16944444,
        0.3,
        0.24666667,
        0.26666667,
        0.66315789,
        0.86666667,
        0.43333333,
    ),
}


def test_golden(tmp_path):
    numbers = {
        "CandidateRidge": {"lam": 1.0},
        "Schirn": {"alpha": 0.2, "beta": 0.05, "lam": 10.0},
        "NLR": {"beta": 100.0, "gamma": 10.0, "lam": 2.1},
    }
    results = quick([(tiny(), 1)], list(numbers), tmp_path, params=numbers)
    for result in results:
        expected = GOLDEN[result["method"], result["fold"]]
        assert list(result["metrics"]) == [*ALL, NOTHING_PREDICTED]
        values = [np.nan if v is None else v for v in result["metrics"].values()][: len(expected)]
        assert values == pytest.approx(expected, abs=1e-6, nan_ok=True)


class ByBatch(CandidateRidge):
    """Scores that depend on the other rows of the batch."""

    def decision_function(self, X):
        scores = super().decision_function(X)
        return scores - scores.mean(axis=0)


def test_scores_that_depend_on_the_test_batch_are_marked(tmp_path):
    results = quick([(tiny(), 1)], {"batch": ByBatch, "ridge": CandidateRidge}, tmp_path)
    reasons = {result["method"]: (result["status"], result["reason"]) for result in results}
    text = "the scores of a row depend on the other test rows"
    assert reasons == {"batch": ("done", text), "ridge": ("done", None)}


def test_checksums_of_candidates_and_folds_can_be_computed_from_their_description(tmp_path):
    data = tiny()
    results = quick([(data, 2)], ["CandidateRidge"], tmp_path, noise="exact", noise_seed=5)
    splits = list(KFold(2, shuffle=True, random_state=0).split(data.X))
    row_numbers = b"".join(
        name + part.astype("<i8").tobytes()
        for split in splits
        for name, part in zip((b"train", b"test"), split, strict=True)
    )
    for result, (train, _) in zip(results, splits, strict=True):
        candidates = add_noise(data.y_true[train], 2, kind="exact", random_state=5)
        bits = b"30 5\n" + np.packbits(candidates, axis=1).tobytes()
        assert result["candidates_sha256"] == hashlib.sha256(bits).hexdigest()
        assert result["folds_sha256"] == hashlib.sha256(row_numbers).hexdigest()


def test_metrics_of_the_confidence_are_those_of_their_definition():
    truth = np.array([True, True, False, True, False, True])
    confidence = np.array([0.91, 0.99, 0.05, 0.55, 0.58, 1.0])
    arrays = {
        "scores": np.array([[0.3, 0.1]]),
        "truth": np.packbits([[1, 0]], axis=1),
        "candidate_truth": truth,
        "confidence": confidence,
    }
    found = compute_metrics(arrays)
    assert found["noise_auprc"] == pytest.approx((1 + 2 / 3) / 2)
    # Bins: 0.05; 0.55 and 0.58; 0.91, 0.99 and 1.
    assert found["calibration_error"] == pytest.approx((0.05 + abs(1.13 - 1) + 0.1) / 6)
    without = compute_metrics({**arrays, "candidate_truth": np.ones(6, dtype=bool)})
    assert np.isnan(without["noise_auprc"])


def test_measures_and_scores_are_those_of_the_estimator(tmp_path):
    data = tiny()
    (result, _) = quick([data], ["Schirn"], tmp_path)
    (run, _) = plan_runs([data], ["Schirn"], folds=2, tuning="none")
    assert run.key == result["key"]
    prepared = load_data(run)
    train, test = prepared.splits[0]
    model = Schirn().fit(data.X[train], data.candidates[train])
    scores = model.decision_function(data.X[test])
    kept = np.load(tmp_path / result["scores"])["scores"]
    np.testing.assert_array_equal(kept, scores)
    assert result["metrics"]["average_precision"] == average_precision(data.y_true[test], scores)


class Saturated(CandidateRidge):
    """The ridge, squeezed into probabilities that single precision cannot distinguish from 1."""

    def decision_function(self, X):
        return 1 - 1e-10 / (1 + np.exp(super().decision_function(X)))


def test_scores_are_measured_in_the_precision_of_the_method(tmp_path):
    plain, saturated = quick([tiny()], [CandidateRidge, Saturated], tmp_path)[::2]
    ranked = ("average_precision", "ranking_loss", "coverage", "one_error")
    assert {name: saturated["metrics"][name] for name in ranked} == {
        name: plain["metrics"][name] for name in ranked
    }
    assert bench.rescore(tmp_path)[2] == saturated


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("Infinite", "InputError: 2 of 150 scores are not finite; the first is inf, test row 3"),
        ("Undefined", "InputError: 150 of 150 scores are not finite; the first is nan, test row 0"),
        ("Complex", "InputError: the scores have the type complex128; they must be real numbers"),
    ],
)
def test_scores_that_are_not_finite_real_numbers_fail(place, method, reason):
    (result, _) = quick(["tiny.npz:1"], [f"mymethods:{method}"], "out")
    assert result["status"] == "failed"
    assert result["reason"].startswith(reason)
    assert result["metrics"] == {}


def test_legacy_noise_starts_at_r_and_other_kinds_at_the_seed():
    data = tiny()
    for noise, seed in (("legacy", 2), ("exact", 7)):
        run = plan_runs([(data, 2)], ["Schirn"], seeds=(7,), noise=noise)[0]
        assert run.fields["noise_seed"] == seed
        prepared = load_data(run)
        for (train, _), candidates in zip(prepared.splits, prepared.candidates, strict=True):
            if noise == "legacy":
                expected = add_noise(data.y_true, 2, kind=noise, random_state=seed)[train]
            else:
                expected = add_noise(data.y_true[train], 2, kind=noise, random_state=seed)
            np.testing.assert_array_equal(candidates, expected)


DRAWN_AFTER_THE_SPLIT = [kind for kind in KINDS if kind != "legacy"]


def noisy(data, noise, level, folds=2):
    """The arrays of a benchmark."""
    return load_data(plan_runs([(data, level)], ["Schirn"], folds=folds, noise=noise)[0])


@pytest.mark.parametrize("noise", DRAWN_AFTER_THE_SPLIT)
def test_the_truth_of_test_rows_changes_no_training_candidate(noise):
    data = tiny()
    level = 0.3 if noise == "rate" else 2
    before = noisy(data, noise, level)
    for number, (_, test) in enumerate(before.splits):
        truth = data.y_true.copy()
        truth[test] = 1 - truth[test]
        after = noisy(replace(data, y_true=truth), noise, level)
        np.testing.assert_array_equal(after.candidates[number], before.candidates[number])
        assert after.candidates_sha256[number] == before.candidates_sha256[number]


@pytest.mark.parametrize("noise", DRAWN_AFTER_THE_SPLIT)
def test_a_ridge_on_candidates_is_not_better_than_a_ridge_on_the_truth(noise, tmp_path):
    """Noise that learned from the test rows made training on candidates better than on the truth.

    Labels that are rare and many features, as in slashdot: the ridge on the truth is far from
    perfect, so that a leak shows.
    """
    data = rare_labels()
    level = 0.1 if noise == "rate" else 3
    methods = ["CandidateRidge", "OracleRidge"]
    results = quick([(data, level)], methods, tmp_path, noise=noise, seeds=range(3))
    precision = {
        name: np.mean([r["metrics"]["average_precision"] for r in results if r["method"] == name])
        for name in methods
    }
    assert precision["CandidateRidge"] < precision["OracleRidge"] + 0.01


def rare_labels(n=200, n_features=300, n_labels=20, seed=0):
    """Rare labels that sparse features explain in part, as words explain topics."""
    rng = np.random.RandomState(seed)
    X = (rng.random_sample((n, n_features)) < 0.05).astype(float)
    scores = X @ rng.standard_normal((n_features, n_labels)) + rng.standard_normal((n, n_labels))
    y = (scores > np.quantile(scores, 0.93, axis=0)).astype(np.uint8)
    return Dataset("rare_labels", X, y)


def test_own_candidates_where_r_is_empty(tmp_path):
    data = tiny()
    run = plan_runs([data], ["Schirn"])[0]
    assert (run.fields["r"], run.fields["noise"], run.fields["noise_seed"]) == (None, "own", None)
    prepared = load_data(run)
    for (train, _), candidates in zip(prepared.splits, prepared.candidates, strict=True):
        np.testing.assert_array_equal(candidates, data.candidates[train])
    clean = Dataset("clean", data.X, data.y_true)
    with pytest.raises(InputError, match="clean has no candidates of its own"):
        quick([clean], ["Schirn"], tmp_path)


def test_stored_folds(tmp_path):
    data = tiny()
    rows = np.arange(data.n_samples)
    folds = [(rows[20:], rows[:20]), (rows[:40], rows[40:]), (rows[:30], rows[30:])]
    stored = Dataset("stored", data.X, data.y_true, data.candidates, folds=folds)
    assert {run.fields["split"] for run in plan_runs([stored], ["Schirn"])} == {"kfold"}
    runs = plan_runs([stored], ["Schirn"], stored_folds=True)
    assert [run.fields["fold"] for run in runs] == [0, 1, 2]
    assert runs[0].fields["split"] == "stored"
    np.testing.assert_array_equal(load_data(runs[1]).splits[1][1], rows[40:])


def test_what_decides_a_result_is_in_the_key():
    data, other = tiny(), tiny(61)
    base = dict(datasets=[(data, 1)], methods=["GLC"])

    def key(**changes):
        options = {**base, **changes}
        return plan_runs(options.pop("datasets"), options.pop("methods"), **options)[0].key

    keys = [
        key(),
        key(datasets=[(other, 1)]),
        key(datasets=[(data, 2)]),
        key(methods=["NLR"]),
        key(methods={"mine": "GLC"}),
        key(params={"GLC": {"eta": 3.0}}),
        key(params={"GLC": {"mu": 1e-3}}),
        key(tuning="none"),
        key(tuning="oracle"),
        key(folds=4),
        key(inner_folds=4),
        key(seeds=(1,)),
        key(features="auto"),
        key(features="kernel"),
        key(search_rows=30),
        key(noise="exact"),
        key(noise_seed=9),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_nothing_is_run_twice_and_a_new_method_is_added(tmp_path):
    reports = []
    first = quick([tiny()], ["CandidateRidge"], tmp_path, report=reports.append)
    assert reports == first
    again = quick([tiny()], ["CandidateRidge"], tmp_path, report=reports.append)
    assert len(reports) == 2
    assert again == first
    more = quick([tiny()], ["CandidateRidge", "NLR"], tmp_path, report=reports.append)
    assert [result["method"] for result in reports[2:]] == ["NLR", "NLR"]
    assert more[:2] == first


def test_auto_features_undo_a_bad_scale(tmp_path):
    data = tiny(200)
    bad = Dataset("bad", data.X * np.array([1e-6, 1, 1, 1, 1e6]), data.y_true, data.candidates)
    worse, better = (
        quick([bad], ["CandidateRidge"], tmp_path, features=features)[0]["metrics"]
        for features in ("raw", "auto")
    )
    assert better["average_precision"] > worse["average_precision"] + 0.02
    off = quick(
        [bad],
        ["CandidateRidge"],
        tmp_path,
        features="auto",
        params={"CandidateRidge": {"fit_intercept": False}},
    )[0]
    assert off["params"]["fit_intercept"] is False
    assert off["metrics"] != better


@pytest.mark.parametrize("features", ["raw", "auto", "kernel"])
def test_all_methods_get_the_same_features(tmp_path, monkeypatch, features):
    seen = {}

    def spy(cls):
        plain = cls.fit

        def fit(self, X, y, **options):
            seen[cls.__name__] = X
            return plain(self, X, y, **options)

        monkeypatch.setattr(cls, "fit", fit)

    for cls in (schirn.Sieve, schirn.CandidateRidge):
        spy(cls)
    results = quick([tiny()], ["Sieve", "CandidateRidge"], tmp_path, features=features)
    np.testing.assert_array_equal(seen["Sieve"], seen["CandidateRidge"])
    assert results[0]["params"]["features"] == "none"
    assert results[0]["params"]["kernel"] == "linear"
    # Fifty rows with distinct features are as many landmarks.
    assert seen["Sieve"].shape[1] == (5 if features != "kernel" else len(seen["Sieve"]))


def test_kernel_features_show_what_linear_ones_hide(tmp_path):
    X = np.random.RandomState(0).uniform(-1, 1, (240, 2))
    inside = (X**2).sum(axis=1) < 0.5
    truth = np.column_stack([inside, ~inside, X[:, 0] * X[:, 1] > 0]).astype(int)
    ring = Dataset("ring", X, truth, truth)
    flat, curved = (
        quick([ring], ["CandidateRidge"], tmp_path, features=features)[0]["metrics"]
        for features in ("raw", "kernel")
    )
    assert curved["average_precision"] > flat["average_precision"] + 0.1


def test_a_search_on_some_rows(tmp_path, monkeypatch):
    seen = []
    plain = CandidateSearchCV.fit

    def fit(self, X, y, **options):
        seen.append(len(y))
        return plain(self, X, y, **options)

    monkeypatch.setattr(CandidateSearchCV, "fit", fit)
    grids = {"GLC": {"eta": [1.0, 10.0]}}
    options = dict(grids=grids, tuning="candidates")
    few = quick([tiny()], ["GLC"], tmp_path, search_rows=20, **options)[0]
    every = quick([tiny()], ["GLC"], tmp_path, **options)[0]
    assert seen == [20, 20, 30, 30]
    assert (few["search_rows"], every["search_rows"]) == (20, None)
    assert few["n_train"] == every["n_train"] == 30
    with pytest.raises(InputError, match="search_rows must be at least the number of inner folds"):
        quick([tiny()], ["GLC"], tmp_path, search_rows=2)


def test_an_old_setting_asked_for_again_is_found_again(tmp_path):
    settings = [{"Schirn": {"lam": 1.0}}, {"Schirn": {"lam": 100.0}}]
    first, other = (quick([tiny()], ["Schirn"], tmp_path, params=params) for params in settings)
    assert quick([tiny()], ["Schirn"], tmp_path, params=settings[0]) == first
    assert bench.read_rows(tmp_path) == other


def test_variants_of_a_method_have_names(tmp_path):
    chosen = {"flat": "Schirn", "low": Schirn}
    params = {"flat": {"rank_term": "none"}, "low": {"rank_term": "low", "beta": 5.0}}
    results = quick([tiny()], chosen, tmp_path, params=params)
    assert [result["method"] for result in results] == ["flat", "flat", "low", "low"]
    assert results[0]["metrics"] != results[2]["metrics"]


def test_a_failing_method_stops_nothing(place):
    results = quick(["tiny.npz:1"], ["mymethods.Failing", "mymethods:WrongShape", "NLR"], "out")
    assert [result["status"] for result in results] == ["failed"] * 4 + ["done"] * 2
    assert results[0]["reason"] == "RuntimeError: no luck today"
    assert "in fit" in results[0]["traceback"]
    assert results[0]["metrics"] == {}
    assert "the scores have shape (30, 1)" in results[2]["reason"]


def test_failed_runs_are_run_again_only_on_request(place):
    reports = []
    quick(["tiny.npz:1"], ["mymethods.Failing"], "out")
    quick(["tiny.npz:1"], ["mymethods.Failing"], "out", report=reports.append)
    assert not reports
    quick(["tiny.npz:1"], ["mymethods.Failing"], "out", report=reports.append, retry=True)
    assert len(reports) == 2


def test_a_failure_from_the_future_is_run_again(place):
    quick(["tiny.npz:1"], ["mymethods:Mean"], "out")
    path = next((place / "out").glob("*.jsonl"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    ahead = {"status": "failed", "reason": "then", "finished": time.time() + 1e8, "metrics": {}}
    path.write_text("".join(json.dumps(row | ahead) + "\n" for row in rows))
    assert [r["status"] for r in quick(["tiny.npz:1"], ["mymethods:Mean"], "out")] == ["failed"] * 2
    again = quick(["tiny.npz:1"], ["mymethods:Mean"], "out", retry=True)
    assert [result["status"] for result in again] == ["done", "done"]
    assert bench.read_rows("out") == again


def test_a_missing_package_skips_a_run(tmp_path, monkeypatch):
    def fit(self, X, y, **_):
        raise MissingExtraError("training this needs torch: pip install 'schirn[deep]'")

    monkeypatch.setattr(Schirn, "fit", fit)
    results = quick([tiny()], ["Schirn"], tmp_path)
    assert {result["status"] for result in results} == {"skipped"}
    assert "schirn[deep]" in results[0]["reason"]
    monkeypatch.undo()
    assert {result["status"] for result in quick([tiny()], ["Schirn"], tmp_path)} == {"done"}


def test_a_missing_data_set_is_skipped_and_run_once_it_is_available(place):
    names = ["late.npz:1", "no_such_set:2", "tiny.npz:1"]
    results = quick(names, ["CandidateRidge"], "out")
    assert [result["status"] for result in results] == ["skipped"] * 4 + ["done"] * 2
    assert results[0]["reason"] == "late.npz: there is no such file."
    assert "There is no data set 'no_such_set'" in results[2]["reason"]
    reports = []
    quick(names, ["CandidateRidge"], "out", report=reports.append)
    assert not reports
    (place / "late.npz").write_bytes((place / "tiny.npz").read_bytes())
    results = quick(names, ["CandidateRidge"], "out", report=reports.append)
    assert [result["status"] for result in results[:3]] == ["done", "done", "skipped"]
    assert len([result for result in bench.read_rows("out") if result["dataset"] == "late"]) == 2


def test_sets_without_truth_or_features_are_skipped(tmp_path):
    data = tiny()
    blind = Dataset("blind", data.X, candidates=data.candidates)
    bare = Dataset("bare", np.empty((60, 0)), data.y_true, data.candidates)
    small = tiny(3)
    for given, reason in ((blind, "no true labels"), (bare, "no features"), (small, "too few")):
        (result, *_) = quick([given], ["CandidateRidge"], tmp_path, folds=5)
        assert result["status"] == "skipped"
        assert reason in result["reason"]


def test_a_user_method_needs_no_base_class_and_may_bring_a_grid(place):
    results = quick(["tiny.npz:1"], ["mymethods:Tuned"], "out", tuning="candidates")
    assert [result["status"] for result in results] == ["done", "done"]
    assert results[0]["method"] == "Tuned"
    assert results[0]["params"]["weight"] in (0.0, 5.0)
    assert results[0]["metrics"]["noise_auc"] is None


def test_an_edited_method_is_run_again(place):
    import sys

    reports = []
    quick(["tiny.npz:1"], ["mymethods:Mean"], "out")
    (place / "mymethods.py").write_text(METHODS.replace("weight=0.01", "weight=-0.01"))
    del sys.modules["mymethods"]
    results = quick(["tiny.npz:1"], ["mymethods:Mean"], "out", report=reports.append)
    assert len(reports) == 2
    assert bench.read_rows("out") == results
    assert len(bench.read_rows("out", history=True)) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["Schirm"]}, "there is no method 'Schirm'; did you mean 'Schirn'"),
        ({"datasets": ["tiny.npz:5"]}, "tiny has 5 labels, so a row can have at most 4"),
        ({"methods": ["nopkg.Method"]}, "'nopkg.Method' cannot be imported: ModuleNotFoundError"),
        ({"methods": ["mymethods:Absent"]}, "'mymethods' has no class 'Absent'"),
        ({"methods": ["mymethods:NotAMethod"]}, "it lacks fit"),
        ({"methods": []}, "no method was given"),
        ({"datasets": []}, "no data set was given"),
        ({"datasets": [("tiny.npz", 0.5)]}, "takes a whole number of labels, not 0.5"),
        ({"datasets": ["tiny.npz:3"], "noise": "rate"}, "takes a share from 0 to 1, not 3"),
        ({"datasets": ["tiny.npz:1", "x/tiny.npz:1"]}, "two data sets are called 'tiny'"),
        ({"tuning": "truth"}, "tuning must be one of none, candidates, oracle, not 'truth'"),
        ({"folds": 0}, "folds must be at least 1"),
        ({"seeds": []}, "no seed was given"),
        ({"datasets": [" "]}, "' ' is not a data set; give a name or a file"),
        ({"params": {"NLR": {"lam": 1}}}, "'NLR', which is not among the methods Schirn"),
        ({"params": {"Schirn": {"lamm": 1}}}, "Schirn has no parameter 'lamm'; did you mean 'lam'"),
        ({"time_limit": 1}, "a time limit needs a separate process"),
    ],
)
def test_bad_requests(place, options, message):
    asked = {"datasets": ["tiny.npz:1"], "methods": ["Schirn"], **options}
    with pytest.raises(InputError, match=message):
        quick(asked.pop("datasets"), asked.pop("methods"), "out", **asked)
    assert not (place / "out").exists()


def test_rescore_gives_the_same_measures_and_adds_new_ones(tmp_path):
    before = quick([tiny()], ["CandidateRidge", "Schirn"], tmp_path)
    assert bench.rescore(tmp_path) == before
    results = bench.rescore(tmp_path, extra={"precision_at_1": precision_at_k})
    for old, new in zip(before, results, strict=True):
        added = {"precision_at_1": 1 - old["metrics"]["one_error"]}
        assert new["metrics"] == pytest.approx({**old["metrics"], **added})
    assert stable(bench.read_rows(tmp_path)) == stable(results)
    assert bench.rescore(tmp_path) == results


def test_sparse_features(tmp_path):
    data = make_partial_multilabel(n_samples=60, n_labels=5, sparse=True, r=1, random_state=0)
    for features in ("raw", "auto"):
        for tuning in ("none", "oracle"):
            results = quick([data], ["CandidateRidge"], tmp_path, features=features, tuning=tuning)
            assert [result["status"] for result in results] == ["done", "done"]


def test_rescore_leaves_results_without_scores_as_they_are(place):
    failed = quick(["tiny.npz:1"], ["mymethods.Failing"], "out")
    done = quick(["tiny.npz:1"], ["CandidateRidge"], "out")
    results = bench.rescore("out", extra={"precision_at_1": precision_at_k})
    assert results[:2] == failed
    assert [result["key"] for result in results[2:]] == [result["key"] for result in done]
    assert all("precision_at_1" in result["metrics"] for result in results[2:])


def test_a_class_that_other_processes_cannot_find_is_refused(tmp_path):
    class Inside:
        pass

    Inside.fit = Inside.decision_function = lambda self, X, y=None: self
    with pytest.raises(InputError, match="Inside is defined inside a function"):
        quick([tiny()], [Inside], tmp_path)
    Inside.__qualname__, Inside.__module__ = "Inside", "__main__"
    with pytest.raises(InputError, match=r"defined in this program or notebook.* jobs=0"):
        quick([tiny()], [Inside], tmp_path, jobs=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"jobs": -1}, "jobs must be at least 0"),
        ({"threads": 0}, "threads at least 1"),
        ({"time_limit": 0}, "time_limit must be more than 0 seconds, not 0"),
    ],
)
def test_numbers_that_make_no_sense(tmp_path, options, sentence):
    with pytest.raises(InputError, match=sentence):
        bench.run("digits_attributes", ["CandidateRidge"], output=tmp_path, **options)
