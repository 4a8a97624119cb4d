"""Votes of several people as candidates."""

import numpy as np
import pytest

from schirn import find_noisy_labels
from schirn.cleaning import votes_to_candidates
from schirn.datasets import load_digits_attributes
from schirn.exceptions import InputError


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2)


def test_votes():
    items = ["p", "p", "p", "q", "p"]
    workers = [1, 2, 2, 1, 2]
    tags = ["dog", "dog", "cat", "cat", "cat"]
    votes = votes_to_candidates(items, workers, tags)
    assert votes.items == ["p", "q"]
    assert votes.counts.tolist() == [[1, 2], [1, 0]]
    assert votes.candidates.tolist() == [[1, 1], [1, 0]]
    np.testing.assert_allclose(votes.prior, [[2 / 4, 3 / 4], [2 / 3, 0]])
    ordered = votes_to_candidates(items, workers, tags, order=["z", "q", "p"])
    assert ordered.candidates.tolist() == [[0, 0], [1, 0], [1, 1]]
    for bad, words in (
        ({"order": ["p"]}, "'q' has votes"),
        ({"order": ["p", "p", "q"]}, "twice"),
    ):
        with pytest.raises(InputError, match=words):
            votes_to_candidates(items, workers, tags, **bad)
    with pytest.raises(InputError, match="same length, not 5, 2, 5"):
        votes_to_candidates(items, workers[:2], tags)


def test_votes_help_to_find_wrong_tags(digits):
    rng = np.random.default_rng(0)
    X, truth = digits.X[:400], digits.y_true[:400]
    rows = [
        (i, w, j)
        for w in range(5)
        for i, j in np.argwhere(rng.random(truth.shape) < np.where(truth, 0.8, 0.15))
    ]
    items, workers, tags = zip(*rows, strict=True)
    votes = votes_to_candidates(items, workers, tags, order=range(400))
    assert votes.label_names == [str(j) for j in range(10)]
    plain = find_noisy_labels(X, votes.candidates).remove(below=0.5)
    helped = find_noisy_labels(X, votes.candidates, prior=votes.prior).remove(below=0.5)
    right = truth[plain.row, plain.column] == 1
    errors = [int((f.removed == right).sum()) for f in (plain, helped)]
    assert errors[1] < errors[0]
