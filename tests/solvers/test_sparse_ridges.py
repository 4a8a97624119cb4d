"""Ridges of many sparse rows: conjugate gradients and folds against dense solutions."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from schirn import Sieve, find_noisy_labels
from schirn.datasets import add_noise
from schirn.metrics import noise_auc
from schirn.scale.blocks import Block, FeatureRows, MemoryRows, candidate_cells
from schirn.solvers import sparse_ridges
from schirn.solvers.sieve import Knowledge
from schirn.solvers.sparse_ridges import (
    FOLDS,
    Lesson,
    SparseRidges,
    lesson_sums,
    solve_on_blocks,
    solve_ridge,
)


def ridge(X, Q, lam):
    """Weights and intercepts of a ridge on centred rows."""
    centred, level = X - X.mean(axis=0), Q.mean(axis=0)
    W = np.linalg.solve(centred.T @ centred + lam * np.eye(X.shape[1]), centred.T @ (Q - level))
    return W, level - X.mean(axis=0) @ W


@pytest.fixture
def exact(monkeypatch):
    """Conjugate gradients to the last digit."""
    monkeypatch.setattr(sparse_ridges, "_TOLERANCE", 1e-10)
    monkeypatch.setattr(sparse_ridges, "_MOST_STEPS", 500)


@pytest.fixture
def problem():
    X = sp.csr_array(sp.random(120, 200, density=0.05, rng=np.random.default_rng(0)))
    Y = sp.csr_array((np.random.default_rng(1).random((120, 7)) < 0.3).astype(float))
    return X, Y


@pytest.mark.parametrize("lam", [0.02, 0.5, 8.0])
@pytest.mark.parametrize("labels_together", [3, 128])
def test_the_ridges_of_all_labels_at_once(problem, exact, monkeypatch, labels_together, lam):
    monkeypatch.setattr(sparse_ridges, "_LABELS", labels_together)
    X, Y = problem
    for columns, (W, b) in solve_ridge(X, Y, lam):
        expected = ridge(X.toarray(), Y.toarray()[:, columns], lam)
        np.testing.assert_allclose(W, expected[0], atol=1e-7)
        np.testing.assert_allclose(b, expected[1], atol=1e-7)


def test_labels_that_do_not_vary_and_features_of_zeros():
    Y = np.zeros((6, 3))
    Y[:, 1], Y[:2, 2] = 1, 1
    for columns, (W, b) in solve_ridge(sp.csr_array((6, 4)), sp.csr_array(Y), 1.0):
        np.testing.assert_array_equal(W, 0)
        np.testing.assert_allclose(b, Y[:, columns].mean(axis=0))


def test_rows_in_several_blocks(problem, exact):
    X, Y = problem
    pieces = [slice(0, 50), slice(50, 120)]
    none = candidate_cells(sp.csr_array((1, 0)))
    store = MemoryRows([Block(FeatureRows(X[rows], rows.start), none) for rows in pieces])
    store.states = [Lesson(X[rows], Y[rows]) for rows in pieces]
    blocks = solve_on_blocks(store, lesson_sums(store), Y.shape[1], 0.1)
    for (_, (W, b)), (_, (W_whole, b_whole)) in zip(blocks, solve_ridge(X, Y, 0.1), strict=True):
        np.testing.assert_allclose(W, W_whole, atol=1e-7)
        np.testing.assert_allclose(b, b_whole, atol=1e-7)


def test_each_row_is_scored_by_the_folds_that_it_is_not_in(problem, exact):
    X, Y = problem
    groups = np.arange(120) // 2
    ridges = SparseRidges(X, Y, 0.1, Knowledge(groups=groups))
    q = np.random.default_rng(2).random(Y.nnz)
    (S,) = ridges.left_out([q])
    Q = sp.csr_array((q, Y.indices, Y.indptr), shape=Y.shape).toarray()
    row, column = Y.nonzero()
    for fold in range(FOLDS):
        test = groups % FOLDS == fold
        W, b = ridge(X.toarray()[~test], Q[~test], 0.1)
        scores = X.toarray() @ W + b
        cells = test[row]
        np.testing.assert_allclose(S[0, cells], scores[row, column][cells], atol=1e-7)


def test_the_label_stack_is_that_of_a_kernel_matrix(problem, exact):
    from schirn.solvers.kernel_ridges import fit_stack

    X, Y = problem
    ridges = SparseRidges(X, Y, 1.0, Knowledge())
    (S,) = ridges.left_out([np.ones(Y.nnz)], leader=0)
    scores = ridges.log_odds(lambda S: S)
    _, expected = fit_stack(scores[0].astype(float), Y.toarray())
    np.testing.assert_allclose(scores[1], expected, atol=1e-6)
    row, column = Y.nonzero()
    np.testing.assert_allclose(S[1], expected[row, column], atol=1e-6)


class Words(NamedTuple):
    y_true: np.ndarray
    candidates: np.ndarray


def many_words(n=700):
    """Rows of 12 words out of 1,600: six of their labels, which have 30 words each, six others."""
    rng = np.random.default_rng(0)
    truth = (rng.random((n, 6)) < 0.3).astype(np.uint8)
    truth[np.arange(n), rng.integers(6, size=n)] = 1
    X = np.zeros((n, 1600))
    for i in range(n):
        label = rng.choice(np.flatnonzero(truth[i]), 6)
        X[i, 30 * label + rng.integers(30, size=6)] = 1
        X[i, rng.integers(180, 1600, size=6)] = 1
    X /= np.linalg.norm(X, axis=1)[:, None]
    return sp.csr_array(X), Words(truth, add_noise(truth, 1, random_state=0))


def test_many_rows_are_ranked_much_as_few_are():
    X, data = many_words()
    few = Sieve(kernel="linear", features="none", max_iter=2).fit(X, data.candidates)
    many = clone_with(few, max_kernel_rows=100).fit(X, data.candidates)
    np.testing.assert_allclose(few.lams_[-1:], many.lams_, rtol=1e-6)
    auc = [noise_auc(data.y_true, data.candidates, m.label_confidence_) for m in (few, many)]
    assert auc[0] > 0.8
    # Folds of few rows lose a little to leaving out one row.
    assert abs(auc[0] - auc[1]) < 0.05
    scores = [m.decision_function(X).ravel() for m in (few, many)]
    assert np.corrcoef(*scores)[0, 1] > 0.95


def clone_with(model, **changes):
    return type(model)(**{**model.get_params(), **changes})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_predictions_keep_the_type_and_the_seed_changes_little(dtype):
    X, data = many_words(400)
    models = [
        Sieve(kernel="linear", features="none", max_kernel_rows=100, random_state=seed).fit(
            X.astype(dtype), data.candidates
        )
        for seed in (0, 0, 1)
    ]
    assert models[0].n_iter_ == 2
    assert models[0].decision_function(X.astype(dtype)).dtype == dtype
    confidence = [m.label_confidence_[data.candidates == 1] for m in models]
    np.testing.assert_array_equal(confidence[0], confidence[1])
    assert np.corrcoef(confidence[0], confidence[2])[0, 1] > 0.98


def test_groups_and_known_labels_of_many_sparse_rows():
    X, data = many_words(400)
    groups = np.arange(400) // 4
    model = Sieve(kernel="linear", features="none", max_kernel_rows=100, max_iter=2)
    known = np.zeros(data.candidates.shape, dtype=int)
    row, column = np.nonzero((data.candidates == 1) & (data.y_true == 0))
    known[row[:20], column[:20]] = -1
    confidence = model.fit(X, data.candidates, groups=groups, known=known).label_confidence_
    assert (confidence[row[:20], column[:20]] == 0).all()
    ranking = find_noisy_labels(X, data.candidates, method=model, groups=groups)
    assert ranking.method == "Sieve"
