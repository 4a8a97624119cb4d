"""Cleaning very many labels: against its formulas, on degenerate tables, and in bounded memory."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from schirn import find_noisy_labels
from schirn.cleaning import CentroidRanker, find_noisy_labels_sparse
from schirn.cleaning.centroids import fit_centroids, score_centroids
from schirn.cleaning.shares import wrong_shares
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.scale import RowFile
from schirn.scale.memory import memory_limit
from tests.reference.many import centroid_scores, confidences


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(
        n_samples=600, n_features=40, n_labels=50, cardinality=3, r=3, random_state=0
    )


def judge(X, candidates, *, fit=None, score=None, n_unlisted=20, **options):
    ranker = CentroidRanker(fit=fit, score=score, n_unlisted=n_unlisted)
    return find_noisy_labels(X, candidates, method=ranker, **options)


class Recorder:
    """An engine that scores by plain loops and remembers what it was asked."""

    def __init__(self, scores=centroid_scores):
        self.scores, self.learned, self.asked, self.cells = scores, [], [], []

    def fit(self, X, candidates):
        self.learned.append(candidates.toarray())
        return X, self.learned[-1]

    def score(self, model, X, rows, labels):
        table = self.scores(*model, X)
        self.asked.append(list(zip(rows, labels, strict=True)))
        self.cells.append({cell: table[cell] for cell in self.asked[-1]})
        return table[rows, labels]


@pytest.mark.parametrize("seed", [0, 1])
def test_verdicts_are_those_of_the_formulas(data, seed, monkeypatch):
    X, Y = data.X[:200], np.asarray(data.candidates)[:200]
    engine, shares = Recorder(), []

    def recorded(*args):
        shares.append(wrong_shares(*args))
        return shares[-1]

    monkeypatch.setattr("schirn.cleaning.centroid_ranker.wrong_shares", recorded)
    options = {"random_state": seed, "n_unlisted": 5}
    found = judge(X, Y, fit=engine.fit, score=engine.score, **options)
    # The two halves come first; then they are scored again by what thinned labels teach.
    cells = engine.cells[0] | engine.cells[1]
    scores = np.zeros(Y.shape)
    scores[tuple(zip(*cells, strict=True))] = list(cells.values())
    judged = np.zeros(Y.shape, dtype=bool)
    judged[found.row[found.judged], found.column[found.judged]] = True
    assert judged.sum() > 0.9 * Y.sum()
    assert all(cell in cells for cell in zip(*np.nonzero(judged), strict=True))
    # A cell may be drawn twice.
    sampled = [cell for asked in engine.asked[:2] for cell in asked if not Y[cell]]
    expected = confidences(scores, Y, judged, sampled, shares[0])
    assert found.matrix() == pytest.approx(expected * Y, abs=1e-6)
    dense = judge(X, Y, **options)
    sparse = judge(sp.csr_array(X), sp.csr_array(Y), **options)
    assert sparse.confidence == pytest.approx(dense.confidence, abs=1e-3)


def test_the_centroids_are_those_of_the_formulas(data):
    X, Y = data.X[:200], np.asarray(data.candidates)[:200]
    rows, labels = (part.ravel() for part in np.indices((600, 50)))
    expected = centroid_scores(X, Y, data.X)
    for kind in (np.asarray, sp.csr_array):
        found = score_centroids(fit_centroids(kind(X), sp.csr_array(Y)), kind(data.X), rows, labels)
        assert found.reshape(600, 50) == pytest.approx(expected, abs=1e-5)


def test_an_engine_learns_thinned_labels_once_more():
    """The second time, frequent labels have few rows; all others stay as they are."""
    rng = np.random.default_rng(0)
    Y = (rng.random((400, 30)) < np.r_[np.full(20, 0.02), np.full(10, 0.4)]).astype(np.uint8)
    Y[:, 0] = 1
    X = np.c_[np.arange(400.0) + 1, rng.normal(size=(400, 5)) + Y[:, -5:]]
    engine = Recorder()
    rows = []

    def fit(X, candidates):
        rows.append(X[:, 0])
        return engine.fit(X, candidates)

    judge(X, Y, fit=fit, score=engine.score)
    first, second = engine.learned[0], engine.learned[2]
    assert len(engine.learned) == 4
    assert (rows[0] == rows[2]).all()
    changed = (first != second).any(axis=0)
    assert changed.any()
    assert not changed[:20].any()
    assert (second.sum(axis=0) <= first.sum(axis=0) / 4)[changed].all()
    # Only thinned labels are scored again, on rows of the other half.
    assert {label for _, label in engine.asked[2]} == set(np.flatnonzero(changed))
    assert not set(rows[2].astype(int) - 1) & {row for row, _ in engine.asked[2]}


def test_no_row_is_judged_by_an_engine_that_has_seen_it(data):
    X = np.c_[np.arange(600.0) + 1, data.X]
    seen = []

    def fit(X, candidates):
        return set(X[:, 0])

    def score(model, X, rows, labels):
        seen.extend(x in model for x in X[rows, 0])
        return np.zeros(len(rows))

    judge(X, data.candidates, fit=fit, score=score)
    assert len(seen) > 1000
    assert not any(seen)


def test_copies_are_judged_together(data):
    X, Y = np.repeat(data.X[:150], 2, axis=0), np.repeat(data.candidates[:150], 2, axis=0)
    seen = []

    def fit(X, candidates):
        return {x.tobytes() for x in X}

    def score(model, X, rows, labels):
        seen.extend(X[i].tobytes() in model for i in rows)
        return np.zeros(len(rows))

    judge(X, Y, fit=fit, score=score)
    assert seen
    assert not any(seen)


def test_wrong_tags_are_found_and_the_claims_hold(data):
    found = judge(data.X, data.candidates, precision=None)
    true = np.asarray(data.y_true)[found.row, found.column] == 1
    assert roc_auc_score(true[found.judged], found.confidence[found.judged]) > 0.85
    assert found.wrong_share == pytest.approx((~true).mean(), abs=0.1)
    assert found.noise_rate == pytest.approx((~true).mean(), abs=0.1)
    assert (~true[found.removed]).mean() > 0.75


def test_a_seed_gives_the_same_verdicts(data):
    first, again, other = (judge(data.X, data.candidates, random_state=seed) for seed in (3, 3, 4))
    assert (first.confidence == again.confidence).all()
    assert first.trust.to_dict() == again.trust.to_dict()
    assert (first.confidence != other.confidence).any()


def test_nothing_is_removed_where_features_say_nothing(data):
    X = np.random.default_rng(0).normal(size=data.X.shape)
    for candidates in (data.candidates, data.y_true):
        found = judge(X, candidates)
        assert found.trust.level == "none"
        assert "too little" in found.trust.sentence
        assert not found.removed.any()


def test_correct_tags_are_kept(data):
    found = judge(data.X, data.y_true)
    assert found.removed.mean() < 0.01


def test_an_engine_that_scores_all_cells_alike_removes_nothing(data):
    found = judge(
        data.X,
        data.candidates,
        fit=lambda X, candidates: None,
        score=lambda model, X, rows, labels: np.zeros(len(rows)),
    )
    assert not found.removed.any()


def test_an_engine_may_know_only_its_best_labels(data):
    """Most cells have the same lowest score, wherever the median is."""
    truth = np.asarray(data.y_true)

    def score(model, X, rows, labels):
        return truth[rows, labels] * 0.9

    found = judge(data.X, data.candidates, fit=lambda *_: None, score=score, precision=None)
    true = truth[found.row, found.column] == 1
    assert found.wrong_share == pytest.approx((~true).mean(), abs=0.02)
    assert (found.removed == (~true & found.judged)).mean() > 0.97


def table(n, l, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, l)) < 0.3).astype(np.uint8)
    return rng.normal(size=(n, n_features)) + Y[:, :1], Y


def test_labels_in_no_row_and_in_all_rows_are_not_judged():
    X, Y = table(60, 6)
    Y[:, 1], Y[:, 2] = 0, 1
    Y[:, 3] = 0
    Y[:3, 3] = 1
    found = judge(X, sp.csr_array(Y))
    rare = np.isin(found.column, (2, 3))
    assert not found.judged[rare].any()
    assert (found.confidence[rare] == 0.5).all()
    assert not found.removed[rare].any()
    assert found.judged[~rare].all()


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_without_tags_or_features(sparse):
    X, Y = table(60, 6)
    X[:5], Y[3:9] = 0, 0
    found = judge(sp.csr_array(X) if sparse else X, Y, precision=None)
    assert np.isfinite(found.confidence).all()
    assert not np.isin(found.row, range(3, 9)).any()
    assert (found.clean_sparse.toarray() == found.clean).all()


@pytest.mark.parametrize("shape", [(40, 1), (30, 200), (1, 3), (2, 3), (12, 400)])
def test_one_label_more_labels_than_rows_and_hardly_any_rows(shape):
    X, Y = table(*shape)
    Y[0, 0] = 1
    found = judge(X, sp.csr_array(Y), min_count=1)
    assert len(found.row) == Y.sum()
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    assert (found.clean_sparse.toarray() <= Y).all()


def test_limits_to_what_a_row_may_lose(data):
    options = {"precision": None, "threshold": 1.0}
    found = judge(data.X, data.candidates, **options)
    kept = found.clean_sparse.sum(axis=1)
    listed = np.asarray(data.candidates).sum(axis=1)
    assert (kept[listed > 0] >= 1).all()
    one = judge(data.X, data.candidates, max_remove_per_row=1, **options)
    assert np.bincount(one.row[one.removed]).max() == 1


def test_names_changes_and_the_report(data):
    names = [f"tag {j}" for j in range(50)]
    found = judge(data.X, data.candidates, label_names=names, precision=None)
    assert found.removed.any()
    changes = found.changes()
    assert len(changes.changes) == found.removed.sum()
    assert "label centroids" in found.report().html()
    lists = judge(data.X, [[names[j] for j in np.flatnonzero(row)] for row in data.candidates])
    assert set(lists.label_names) == set(found.label_names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": lambda X, Y: None}, "give both or neither"),
        ({"score": lambda *_: None}, "give both or neither"),
        ({"n_unlisted": 0}, "n_unlisted"),
        ({"threshold": 2}, "threshold"),
        ({"fit": lambda X, Y: None, "score": lambda *_: np.zeros(3)}, "one per cell"),
        (
            {"fit": lambda X, Y: None, "score": lambda m, X, rows, _: np.full(len(rows), np.nan)},
            "with NaN or infinity",
        ),
    ],
)
def test_bad_parameters(data, options, message):
    with pytest.raises(InputError, match=message):
        judge(data.X, data.candidates, **options)


def test_bad_tables(data):
    with pytest.raises(InputError, match="nothing to clean"):
        judge(data.X, sp.csr_array((600, 5), dtype=np.uint8))
    with pytest.raises(InputError, match="600 rows"):
        judge(data.X[:10], data.candidates)


CHILD = """
import numpy as np, scipy.sparse as sp
from schirn import find_noisy_labels
from schirn.cleaning import CentroidRanker

def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))

rng = np.random.default_rng(0)
n, d, l = 12_000, 12_000, 12_000
word = rng.integers(d, size=(n, 20))
tags = np.c_[word[:, :4], rng.integers(l, size=(n, 4))]
rows = np.arange(n)[:, None]
X = sp.csr_array((np.ones(n * 20, np.float32), ((rows + 0 * word).ravel(), word.ravel())), (n, d))
Y = sp.csr_array((np.ones(n * 8, np.uint8), ((rows + 0 * tags).ravel(), tags.ravel())), (n, l))
Y.sum_duplicates()
Y.data[:] = 1
small = slice(0, 500)
find_noisy_labels(X[small], Y[small], method=CentroidRanker(), min_count=1)
before = peak()
found = find_noisy_labels(X, Y)
found.clean_sparse, found.labels(), found.changes()
print(before, peak())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory_does_not_hold_rows_times_labels():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    before, peak = map(int, done.stdout.split())
    # One byte per row and label would be 137 MB.
    assert peak - before < 100


def test_checked_rows_are_kept_and_groups_stay_together(data):
    checked = np.arange(600) % 3 == 0
    groups = np.arange(600) // 2
    engine = Recorder()
    seen = []

    def fit(X, candidates):
        seen.append({row.tobytes() for row in X})
        return engine.fit(X, candidates)

    options = {"known_clean": checked, "groups": groups, "precision": None}
    found = judge(data.X, data.candidates, fit=fit, score=engine.score, **options)
    mine = checked[found.row]
    assert (found.confidence[mine] == 1).all()
    assert found.judged[mine].all()
    assert found.removed[~mine].any()
    halves = np.array([row.tobytes() in seen[0] for row in data.X])
    assert (halves[::2] == halves[1::2]).all()
    assert 0 < halves.sum() < 600


def test_rows_in_a_file_get_the_verdicts_of_those_in_memory(data, tmp_path):
    np.save(tmp_path / "X.npy", data.X)
    expected = judge(data.X, data.candidates)
    with memory_limit(1e-6), RowFile(tmp_path / "X.npy") as rows:
        found = judge(rows, data.candidates)
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-12)


def test_a_killed_run_goes_on(data, tmp_path):
    """What was scored is not scored again."""
    engine = Recorder()
    options = {"checkpoint": tmp_path / "kept"}
    expected = judge(data.X, data.candidates, fit=engine.fit, score=engine.score, random_state=1)
    calls = []

    def stops(*args):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return engine.score(*args)

    def goes_on(*args):
        calls.append(1)
        return engine.score(*args)

    goes_on.__qualname__ = stops.__qualname__
    for score in (stops, goes_on):
        try:
            found = judge(
                data.X, data.candidates, fit=engine.fit, score=score, random_state=1, **options
            )
        except KeyboardInterrupt:
            assert (tmp_path / "kept").exists()
    assert len(calls) == len(engine.asked) // 2 + 1
    np.testing.assert_array_equal(found.confidence, expected.confidence)
    assert not (tmp_path / "kept").exists()


def test_very_many_labels_choose_this_ranker(data, monkeypatch):
    monkeypatch.setattr("schirn.cleaning.find.MANY_LABELS", 30)
    expected = judge(data.X, data.candidates)
    found = find_noisy_labels(data.X, data.candidates)
    assert found.method == expected.method == "label centroids"
    np.testing.assert_array_equal(found.confidence, expected.confidence)
    for options in ({"method": "Sieve"}, {"cv": 2}, {"votes": (data.candidates, 1)}):
        assert find_noisy_labels(data.X, data.candidates, **options).method == "Sieve"


def test_the_former_function_is_deprecated(data):
    engine = Recorder()
    options = {"fit": engine.fit, "score": engine.score, "n_unlisted": 5, "precision": None}
    with pytest.warns(DeprecationWarning, match="CentroidRanker"):
        found = find_noisy_labels_sparse(data.X, data.candidates, **options)
    expected = judge(data.X, data.candidates, **options)
    np.testing.assert_array_equal(found.confidence, expected.confidence)
    np.testing.assert_array_equal(found.removed, expected.removed)
