"""Cleaning very many labels: against its formulas, on degenerate tables, and in bounded memory."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from schirn import find_noisy_labels
from schirn.cleaning import CentroidRanker, centroid_ranker, ranker
from schirn.cleaning.centroid_ranker import score_by_centroids
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


def judge(X, candidates, **options):
    return find_noisy_labels(X, candidates, method=CentroidRanker(), **options)


class Recorder:
    """Scores by plain loops, and remembers what was learned and asked."""

    def __init__(self):
        self.learned, self.asked, self.cells = [], [], {}

    def __call__(self, X, listed, train, rows, labels):
        table = centroid_scores(X[train], listed.toarray()[train], X)
        self.learned.append(train)
        cells = list(zip(rows.tolist(), labels.tolist(), strict=True))
        self.asked += cells
        self.cells |= {cell: table[cell] for cell in cells}
        assert not train[rows].any()
        return table[rows, labels]


@pytest.fixture
def recorder(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(centroid_ranker, "score_by_centroids", recorder)
    return recorder


@pytest.mark.parametrize("seed", [0, 1])
def test_verdicts_are_those_of_the_formulas(data, seed, recorder, monkeypatch):
    monkeypatch.setattr(centroid_ranker, "_N_UNLISTED", 5)
    # All other unlisted cells that are scored are sampled ones.
    monkeypatch.setattr(ranker, "_MAX_PLANTED", 0)
    X, Y = data.X[:200], np.asarray(data.candidates)[:200]
    ranking = judge(X, Y, random_state=seed)
    scores = np.zeros(Y.shape)
    scores[tuple(zip(*recorder.cells, strict=True))] = list(recorder.cells.values())
    judged = np.zeros(Y.shape, dtype=bool)
    judged[ranking.row[ranking.judged], ranking.column[ranking.judged]] = True
    assert judged.sum() > 0.9 * Y.sum()
    assert all(cell in recorder.cells for cell in zip(*np.nonzero(judged), strict=True))
    # A cell may be drawn twice.
    sampled = [cell for cell in recorder.asked if not Y[cell]]
    expected = confidences(scores, Y, judged, sampled)
    assert ranking.matrix() == pytest.approx(expected * Y, abs=1e-6)


def test_sparse_rows_get_the_verdicts_of_dense_ones(data):
    dense = judge(data.X, data.candidates)
    sparse = judge(sp.csr_array(data.X), sp.csr_array(data.candidates))
    assert sparse.confidence == pytest.approx(dense.confidence, abs=1e-3)


def test_the_centroids_are_those_of_the_formulas(data):
    train, Y = np.arange(600) < 200, np.array(data.candidates)
    Y[~train] = 0
    rows, labels = (part.ravel() for part in np.indices((600, 50)))
    expected = centroid_scores(data.X[train], Y[train], data.X)
    for kind in (np.asarray, sp.csr_array):
        scores = score_by_centroids(kind(data.X), sp.csr_array(Y), train, rows, labels)
        assert scores.reshape(600, 50) == pytest.approx(expected, abs=1e-5)


def test_copies_are_judged_together(data, recorder):
    X, Y = np.repeat(data.X[:150], 2, axis=0), np.repeat(data.candidates[:150], 2, axis=0)
    judge(X, Y)
    assert recorder.learned
    assert all((train[::2] == train[1::2]).all() for train in recorder.learned)


def test_wrong_tags_are_found(data):
    ranking = judge(data.X, data.candidates).remove(below=0.5)
    true = np.asarray(data.y_true)[ranking.row, ranking.column] == 1
    assert roc_auc_score(true[ranking.judged], ranking.confidence[ranking.judged]) > 0.85
    assert (~true[ranking.removed]).mean() > 0.75


def test_a_seed_gives_the_same_verdicts(data):
    first, again, other = (judge(data.X, data.candidates, random_state=seed) for seed in (3, 3, 4))
    assert (first.confidence == again.confidence).all()
    np.testing.assert_array_equal(first.ranked.planted_confidence, again.ranked.planted_confidence)
    assert (first.confidence != other.confidence).any()


def test_features_that_say_nothing_rank_at_random(data):
    X = np.random.default_rng(0).normal(size=data.X.shape)
    ranking = judge(X, data.candidates)
    wrong = np.asarray(data.y_true)[ranking.row, ranking.column] == 0
    # Only how often labels are listed says anything.
    assert roc_auc_score(wrong[ranking.judged], -ranking.confidence[ranking.judged]) < 0.7
    assert ranking.planted_among_suspects() < 0.25


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


def test_checked_rows_are_kept_and_groups_stay_together(data, recorder):
    checked = np.arange(600) % 3 == 0
    options = {"known_clean": checked, "groups": np.arange(600) // 2}
    ranking = judge(data.X, data.candidates, **options).remove(below=0.5)
    tags_of_checked = checked[ranking.row]
    assert (ranking.confidence[tags_of_checked] == 1).all()
    assert ranking.judged[tags_of_checked].all()
    assert ranking.removed[~tags_of_checked].any()
    train = recorder.learned[0]
    assert (train[::2] == train[1::2]).all()
    assert 0 < train.sum() < 600


def test_rows_in_a_file_get_the_verdicts_of_those_in_memory(data, tmp_path):
    np.save(tmp_path / "X.npy", data.X)
    expected = judge(data.X, data.candidates)
    with memory_limit(1e-6), RowFile(tmp_path / "X.npy") as rows:
        ranking = judge(rows, data.candidates)
    np.testing.assert_allclose(ranking.confidence, expected.confidence, atol=1e-12)


def test_very_many_labels_choose_this_ranker(data, monkeypatch):
    monkeypatch.setattr("schirn.cleaning.find.MANY_LABELS", 30)
    expected = judge(data.X, data.candidates)
    ranking = find_noisy_labels(data.X, data.candidates)
    assert ranking.method == expected.method == "label centroids"
    np.testing.assert_array_equal(ranking.confidence, expected.confidence)
    for options in ({"method": "Sieve"}, {"cv": 2}, {"votes": (data.candidates, 1)}):
        assert find_noisy_labels(data.X, data.candidates, **options).method == "Sieve"
