"""How many tags of rare labels are wrong, and whether the expected precision is kept."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn import find_noisy_labels
from schirn.cleaning import CentroidRanker

N, L = 4000, 2000


def table(seed, *, wrong=3, popular=True, words=8, n_words=4000, other=20):
    """Rows of words, their true labels, with frequencies that fall like 1/rank, and candidates."""
    rng = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, L + 1)
    frequency /= frequency.sum()
    label = rng.choice(L, (N, 3), p=frequency)
    truth = np.zeros((N, L), dtype=bool)
    np.put_along_axis(truth, label, True, axis=1)
    vocabulary = rng.integers(n_words, size=(L, 10))
    own = vocabulary[label[:, :, None], rng.integers(10, size=(N, 3, words))].reshape(N, -1)
    text = np.c_[own, rng.integers(n_words, size=(N, other))]
    at = np.repeat(np.arange(N), text.shape[1]), text.ravel()
    X = sp.csr_array((np.ones(text.size, np.float32), at), shape=(N, n_words))
    candidates = truth.copy()
    added = rng.choice(L, (N, wrong), p=frequency if popular else None)
    np.put_along_axis(candidates, added, True, axis=1)
    return X, truth, candidates


def judge(X, truth, candidates):
    found = find_noisy_labels(X, sp.csr_array(candidates), method=CentroidRanker())
    return found, ~truth[found.row, found.column]


@pytest.mark.parametrize(("popular", "wrong"), [(True, 3), (True, 1), (False, 3)])
def test_the_expected_precision_is_kept(popular, wrong):
    found, is_wrong = judge(*table(0, popular=popular, wrong=wrong))
    assert found.trust.level != "none"
    assert found.wrong_share == pytest.approx(is_wrong.mean(), abs=0.06)
    flagged = found.judged & (found.confidence < 0.5)
    assert is_wrong[flagged].mean() > found.trust.expected_precision - 0.02
    assert is_wrong[found.removed].mean() > 0.9


def test_confidences_of_rare_labels_are_calibrated():
    """Centroids of two or three rows, half of them wrong, miss many correct tags."""
    found, is_wrong = judge(*table(1))
    counts = np.bincount(found.column, minlength=L)[found.column]
    rare = found.judged & (counts < 10)
    assert rare.sum() > 1000
    assert (1 - found.confidence[rare]).mean() == pytest.approx(is_wrong[rare].mean(), abs=0.1)
    flagged = rare & (found.confidence < 0.5)
    assert (1 - found.confidence[flagged]).mean() < is_wrong[flagged].mean() + 0.05


def test_next_to_nothing_is_removed_without_need():
    found, _ = judge(*table(0, wrong=0))
    assert found.removed.mean() < 0.001
    X, truth, candidates = table(0)
    shuffled = X[np.random.default_rng(0).permutation(N)]
    assert not judge(shuffled, truth, candidates)[0].removed.any()


def test_tags_are_kept_where_words_are_missing():
    """Of most correct tags, not a single word is left: they look wrong."""
    X, truth, _ = table(0, words=1)
    some = np.sort(np.random.default_rng(0).choice(X.shape[1], 1000, replace=False))
    found, _ = judge(sp.csr_array(X[:, some]), truth, truth)
    assert found.removed.mean() < 0.001
