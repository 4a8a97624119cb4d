"""Preparation of published data sets: rows that are left out, and labels that are tied."""

import numpy as np
import pytest
from scipy import sparse

from schirn.datasets import Dataset, add_noise
from schirn.exceptions import InputError
from schirn.lab.data import make_cooccurrence, prepare_yeast


def random_labels(n=200, n_labels=20, seed=0):
    return (np.random.RandomState(seed).random_sample((n, n_labels)) < 0.15).astype(np.uint8)


def test_prepare_yeast_keeps_rows_with_two_labels():
    y = random_labels(50)
    candidates = add_noise(y, 1, random_state=0)
    prepared = prepare_yeast(Dataset("toy", np.arange(50.0)[:, None], y, candidates), 3)
    keep = y.sum(axis=1) >= 2
    assert prepared.X.ravel().tolist() == np.flatnonzero(keep).tolist()
    assert prepared.n_dropped == (~keep).sum() > 0
    expected = add_noise(y[keep], 3, kind="legacy") | candidates[keep]
    assert (prepared.candidates == expected).all()
    thin = Dataset("toy", np.ones((50, 1)), sparse.csr_array(y), sparse.csr_array(candidates))
    assert (prepare_yeast(thin, 3).candidates.toarray() == expected).all()
    with pytest.raises(InputError, match="needs true labels and candidates"):
        prepare_yeast(Dataset("toy", np.ones((50, 1)), y), 3)


def test_cooccurrence_ties_disjoint_pairs_to_their_union():
    y = random_labels()
    tied = make_cooccurrence(y, 0.25, random_state=0)
    changed = np.flatnonzero((tied != y).any(axis=0))
    assert (tied >= y).all()
    partners = [
        [k for k in range(20) if k != j and (tied[:, k] == tied[:, j]).all()] for j in changed
    ]
    assert len(changed) == 10
    for j, partner in zip(changed, partners, strict=True):
        assert len(partner) == 1
        assert (tied[:, j] == (y[:, j] | y[:, partner[0]])).all()
    assert np.linalg.matrix_rank(tied) == 15


def test_cooccurrence_reaches_a_rank():
    y = random_labels()
    tied = make_cooccurrence(sparse.csr_array(y), target_rank=13, random_state=0)
    assert isinstance(tied, sparse.csr_array)
    assert np.linalg.matrix_rank(tied.toarray()) == 13
    same = make_cooccurrence(y, target_rank=20, random_state=0)
    assert (same == y).all()
    with pytest.raises(InputError, match="from 20 to 10, not to 5"):
        make_cooccurrence(y, target_rank=5, random_state=0)
    with pytest.raises(InputError, match=r"between 0 and 0\.5"):
        make_cooccurrence(y, 0.8)


def test_a_pair_that_would_go_below_the_rank_is_left_alone():
    """The union of the first two columns is the third: two ranks less at once."""
    y = np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=np.uint8)
    for seed in range(20):
        tied = make_cooccurrence(y, target_rank=3, random_state=seed)
        assert np.linalg.matrix_rank(tied) == 3
        assert (tied[:, 0] != tied[:, 1]).any()


def test_cooccurrence_with_an_odd_number_of_labels():
    assert make_cooccurrence(random_labels(50, 7), 0.5, random_state=0).shape == (50, 7)
