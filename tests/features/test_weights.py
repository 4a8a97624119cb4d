"""Weights of blocks of features, chosen by the tags."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn.features._weights import choose_weights
from schirn.labels.tags import read_tags


@pytest.fixture(scope="module")
def data():
    """Two blocks of unit variance that both matter, one that does not, and tags."""
    rng = np.random.default_rng(0)
    A, B, noise = (rng.normal(size=(300, 3)) / np.sqrt(3) for _ in range(3))
    Y = np.c_[A[:, :2] > 0, B[:, :2] > 0].astype(np.uint8)
    return A, B, noise, read_tags(Y, None)


def left_out_error(blocks, weights, Y, ridge):
    """Errors of kernel ridges fitted without each row."""
    X = np.hstack([w * block for w, block in zip(weights, blocks, strict=True)])
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    K = np.exp(-D / np.median(D[np.triu_indices(len(X), 1)]))
    errors = np.zeros(Y.shape)
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        mean = Y[rest].mean(axis=0)
        # A free intercept: the saddle point system.
        A = np.block(
            [
                [K[np.ix_(rest, rest)] + ridge * np.eye(rest.sum()), np.ones((rest.sum(), 1))],
                [np.ones((1, rest.sum())), np.zeros((1, 1))],
            ]
        )
        a = np.linalg.solve(A, np.vstack([Y[rest] - mean, np.zeros((1, Y.shape[1]))]))
        errors[i] = Y[i] - mean - (K[i, rest] @ a[:-1] + a[-1])
    return ((errors**2).sum(axis=0) / ((Y - Y.mean(axis=0)) ** 2).sum(axis=0)).mean()


def test_a_block_of_noise_gets_the_smallest_weight(data):
    A, B, noise, tags = data
    weights = choose_weights([A, B, noise], tags)
    assert weights[2] < 0.5 * min(weights[:2])
    sparse = choose_weights([sp.csr_array(A), B, noise], tags)
    np.testing.assert_array_equal(sparse, weights)


def test_blocks_that_matter_alike_count_alike(data):
    A, B, _, tags = data
    weights = choose_weights([A, B], tags)
    assert weights[0] == weights[1]


def test_the_chosen_weights_are_better_for_rows_left_out(data):
    A, _, noise, tags = data
    A, noise = A[:80], noise[:80]
    tags = read_tags(tags.dense()[:80], None)
    Y = tags.dense().astype(float)
    weights = choose_weights([A, noise], tags)
    ridges = (0.01, 0.1, 1, 10)
    chosen, equal = (
        min(left_out_error([A, noise], w, Y, ridge) for ridge in ridges)
        for w in (weights, np.ones(2))
    )
    assert chosen < 0.995 * equal


def test_nothing_is_chosen_without_evidence(data):
    A, B, _, tags = data
    few = read_tags(tags.dense()[:10], None)
    assert choose_weights([A[:10], B[:10]], few).tolist() == [1, 1]
    every = read_tags(np.ones((300, 2), dtype=np.uint8), None)
    assert choose_weights([A, B], every).tolist() == [1, 1]
    alike = choose_weights([np.zeros((300, 2)), np.zeros((300, 1))], tags)
    assert alike.tolist() == [1, 1]
