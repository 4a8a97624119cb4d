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
def test_verdicts_are_those_of_the_formulas(data, seed):
    X, Y = data.X[:200], np.asarray(data.candidates)[:200]
    engine = Recorder()
    options = {"random_state": seed, "n_unlisted": 5}
    ranking = judge(X, Y, fit=engine.fit, score=engine.score, **options)
    cells = engine.cells[0] | engine.cells[1]
    scores = np.zeros(Y.shape)
    scores[tuple(zip(*cells, strict=True))] = list(cells.values())
    judged = np.zeros(Y.shape, dtype=bool)
    judged[ranking.row[ranking.judged], ranking.column[ranking.judged]] = True
    assert judged.sum() > 0.9 * Y.sum()
    assert all(cell in cells for cell in zip(*np.nonzero(judged), strict=True))
    # A cell may be drawn twice.
    sampled = [cell for asked in engine.asked[:2] for cell in asked if not Y[cell]]
    expected = confidences(scores, Y, judged, sampled)
    assert ranking.matrix() == pytest.approx(expected * Y, abs=1e-6)
    dense = judge(X, Y, **options)
    sparse = judge(sp.csr_array(X), sp.csr_array(Y), **options)
    assert sparse.confidence == pytest.approx(dense.confidence, abs=1e-3)


def test_the_centroids_are_those_of_the_formulas(data):
    X, Y = data.X[:200], np.asarray(data.candidates)[:200]
    rows, labels = (part.ravel() for part in np.indices((600, 50)))
    expected = centroid_scores(X, Y, data.X)
    for kind in (np.asarray, sp.csr_array):
        ranking = score_centroids(
            fit_centroids(kind(X), sp.csr_array(Y)), kind(data.X), rows, labels
        )
        assert ranking.reshape(600, 50) == pytest.approx(expected, abs=1e-5)


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


def test_wrong_tags_are_found(data):
    ranking = judge(data.X, data.candidates).remove(below=0.5)
    true = np.asarray(data.y_true)[ranking.row, ranking.column] == 1
    assert roc_auc_score(true[ranking.judged], ranking.confidence[ranking.judged]) > 0.85
    assert (~true[ranking.removed]).mean() > 0.75


def test_a_seed_gives_the_same_verdicts(data):
    first, again, other = (judge(data.X, data.candidates, random_state=seed) for seed in (3, 3, 4))
    assert (first.confidence == again.confidence).all()
    np.testing.assert_array_equal(first.planted_confidence, again.planted_confidence)
    assert (first.confidence != other.confidence).any()


def test_features_that_say_nothing_rank_at_random(data):
    X = np.random.default_rng(0).normal(size=data.X.shape)
    ranking = judge(X, data.candidates)
    wrong = np.asarray(data.y_true)[ranking.row, ranking.column] == 0
    # Only how often labels are listed says anything.
    assert roc_auc_score(wrong[ranking.judged], -ranking.confidence[ranking.judged]) < 0.7
    assert ranking.planted_among_suspects() < 0.25


def test_an_engine_may_know_only_its_best_labels(data):
    """Most cells have the same lowest score, wherever the median is."""
    truth = np.asarray(data.y_true)

    def score(model, X, rows, labels):
        return truth[rows, labels] * 0.9

    ranking = judge(data.X, data.candidates, fit=lambda *_: None, score=score).remove(below=0.5)
    true = truth[ranking.row, ranking.column] == 1
    assert (ranking.removed == (~true & ranking.judged)).mean() > 0.97


def table(n, l, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, l)) < 0.3).astype(np.uint8)
    return rng.normal(size=(n, n_features)) + Y[:, :1], Y


def test_labels_in_no_row_and_in_all_rows_are_not_judged():
    X, Y = table(60, 6)
    Y[:, 1], Y[:, 2] = 0, 1
    Y[:, 3] = 0
    Y[:3, 3] = 1
    ranking = judge(X, sp.csr_array(Y))
    rare = np.isin(ranking.column, (2, 3))
    assert not ranking.judged[rare].any()
    assert (ranking.confidence[rare] == 0.5).all()
    assert not ranking.removed[rare].any()
    assert ranking.judged[~rare].all()


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_without_tags_or_features(sparse):
    X, Y = table(60, 6)
    X[:5], Y[3:9] = 0, 0
    ranking = judge(sp.csr_array(X) if sparse else X, Y).remove(below=0.5)
    assert np.isfinite(ranking.confidence).all()
    assert not np.isin(ranking.row, range(3, 9)).any()
    assert (ranking.clean_sparse.toarray() == ranking.clean).all()


@pytest.mark.parametrize("shape", [(40, 1), (30, 200), (1, 3), (2, 3), (12, 400)])
def test_one_label_more_labels_than_rows_and_hardly_any_rows(shape):
    X, Y = table(*shape)
    Y[0, 0] = 1
    ranking = judge(X, sp.csr_array(Y), min_count=1)
    assert len(ranking.row) == Y.sum()
    assert ((ranking.confidence >= 0) & (ranking.confidence <= 1)).all()
    assert (ranking.clean_sparse.toarray() <= Y).all()


def test_limits_to_what_a_row_may_lose(data):
    ranking = judge(data.X, data.candidates).remove(below=1.0)
    kept = ranking.clean_sparse.sum(axis=1)
    listed = np.asarray(data.candidates).sum(axis=1)
    assert (kept[listed > 0] >= 1).all()


def test_names_changes_and_the_report(data):
    names = [f"tag {j}" for j in range(50)]
    ranking = judge(data.X, data.candidates, label_names=names).remove(below=0.5)
    assert ranking.removed.any()
    changes = ranking.changes()
    assert len(changes.changes) == ranking.removed.sum()
    assert "label centroids" in ranking.report().html()
    lists = judge(data.X, [[names[j] for j in np.flatnonzero(row)] for row in data.candidates])
    assert set(lists.label_names) == set(ranking.label_names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": lambda X, Y: None}, "give both or neither"),
        ({"score": lambda *_: None}, "give both or neither"),
        ({"n_unlisted": 0}, "n_unlisted"),
        ({"precision": 2}, "precision"),
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
ranking = find_noisy_labels(X, Y)
ranking.clean_sparse, ranking.labels(), ranking.changes()
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

    options = {"known_clean": checked, "groups": groups}
    ranking = judge(data.X, data.candidates, fit=fit, score=engine.score, **options)
    ranking = ranking.remove(below=0.5)
    mine = checked[ranking.row]
    assert (ranking.confidence[mine] == 1).all()
    assert ranking.judged[mine].all()
    assert ranking.removed[~mine].any()
    halves = np.array([row.tobytes() in seen[0] for row in data.X])
    assert (halves[::2] == halves[1::2]).all()
    assert 0 < halves.sum() < 600


def test_rows_in_a_file_get_the_verdicts_of_those_in_memory(data, tmp_path):
    np.save(tmp_path / "X.npy", data.X)
    expected = judge(data.X, data.candidates)
    with memory_limit(1e-6), RowFile(tmp_path / "X.npy") as rows:
        ranking = judge(rows, data.candidates)
    np.testing.assert_allclose(ranking.confidence, expected.confidence, atol=1e-12)


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
            ranking = judge(
                data.X, data.candidates, fit=engine.fit, score=score, random_state=1, **options
            )
        except KeyboardInterrupt:
            assert (tmp_path / "kept").exists()
    assert len(calls) == len(engine.asked) // 2 + 1
    np.testing.assert_array_equal(ranking.confidence, expected.confidence)
    assert not (tmp_path / "kept").exists()


def test_very_many_labels_choose_this_ranker(data, monkeypatch):
    monkeypatch.setattr("schirn.cleaning.find.MANY_LABELS", 30)
    expected = judge(data.X, data.candidates)
    ranking = find_noisy_labels(data.X, data.candidates)
    assert ranking.method == expected.method == "label centroids"
    np.testing.assert_array_equal(ranking.confidence, expected.confidence)
    for options in ({"method": "Sieve"}, {"cv": 2}, {"votes": (data.candidates, 1)}):
        assert find_noisy_labels(data.X, data.candidates, **options).method == "Sieve"


def test_the_former_function_is_deprecated(data):
    engine = Recorder()
    options = {"fit": engine.fit, "score": engine.score, "n_unlisted": 5}
    with pytest.warns(DeprecationWarning, match="CentroidRanker"):
        ranking = find_noisy_labels_sparse(data.X, data.candidates, **options)
    expected = judge(data.X, data.candidates, **options)
    np.testing.assert_array_equal(ranking.confidence, expected.confidence)
    np.testing.assert_array_equal(ranking.removed, expected.removed)
