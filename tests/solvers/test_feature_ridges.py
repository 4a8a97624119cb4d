"""Ridges on features of many rows: sums over rows give what the kernel matrix gives."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn.datasets import make_partial_multilabel
from schirn.linalg.features import learn_scale
from schirn.metrics import average_precision
from schirn.noise.model import Candidates
from schirn.scale.blocks import one_block
from schirn.solvers import kernel_ridges
from schirn.solvers.feature_ridges import FeatureRidges, fit_stack, stack_sums
from schirn.solvers.kernel_ridges import KernelRidges
from schirn.solvers.sieve import (
    Knowledge,
    RowLabels,
    SieveOptions,
    Split,
    best_weight,
    draw_cells,
    sieve,
    trusting_ridge,
)


def problem(n=160, seed=0, r=2, kernel="rbf", n_landmarks=50):
    data = make_partial_multilabel(n_samples=n, n_features=6, n_labels=7, r=r, random_state=seed)
    Z = learn_scale(data.X, "spread").transform(data.X)
    options = SieveOptions(kernel, n_landmarks=n_landmarks)
    return data, Z, FeatureRidges(one_block(Z), n, options, Z.dtype, lambda rows: rows)


def ridges_of(ridges, Y, lams, knowledge=None):
    ridges.use_candidates(sp.csr_array(Y), knowledge or Knowledge())
    # The weights are those of this test, not chosen.
    ridges.use_lams(lams)
    return ridges


def chosen(ridges, Y, grid, kernel, trusting=False):
    ridges.use_candidates(sp.csr_array(Y))
    losses = ridges.losses(np.asarray(grid), ranked=kernel == "linear" or trusting)
    return grid[best_weight(*losses, SieveOptions(kernel, trusting=trusting))]


def test_a_quarter_of_the_rows_is_held_out():
    _, _, factored = problem()
    (rows,), (edge,) = factored.rows, factored.edges
    assert len(factored.drawn) == 40
    np.testing.assert_array_equal(rows[edge:], np.sort(factored.drawn))
    assert sorted(rows.tolist()) == list(range(160))


def test_the_stack_from_sums_is_that_of_the_scores():
    rng = np.random.default_rng(0)
    S, Q = rng.normal(size=(60, 4)), rng.random((60, 4)) * (rng.random((60, 4)) < 0.5)
    candidates = Candidates(sp.csr_array(Q > 0), S)
    fit = fit_stack(stack_sums(S, Q[Q > 0], candidates), Q.sum(axis=0), 60)
    stack, left_out = kernel_ridges.fit_stack(S, Q)
    for found, expected in zip(fit.stack[:3], stack[:3], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    found = Q - (Q - fit.stack.scores(S)) * fit.factors(S)[:, None]
    np.testing.assert_allclose(found, left_out, atol=1e-10)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("density", [0.0, 0.003, 0.4], ids=["none", "sparse", "dense"])
def test_sums_over_candidates_are_products_with_a_dense_matrix(library, density):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    rng = np.random.default_rng(0)
    Y, X = rng.random((300, 9)) < density, rng.normal(size=(300, 5))
    B = np.where(Y, rng.random(Y.shape), 0)
    for first, last in ((0, 300), (0, 120), (120, 300), (40, 40)):
        rows = slice(first, last)
        c = Candidates(sp.csr_array(Y[rows]), xp.asarray(X))
        values = xp.asarray(B[rows][Y[rows]])
        project = c.project(values, xp.asarray(X[rows]))
        np.testing.assert_allclose(np.asarray(project), X[rows].T @ B[rows], atol=1e-12)
        np.testing.assert_allclose(c.total(values), B[rows].sum(axis=0), atol=1e-12)
        np.testing.assert_array_equal(c.listed, Y[rows].sum(axis=0))
        np.testing.assert_array_equal(np.asarray(c.flat), np.flatnonzero(Y[rows]))


@pytest.mark.parametrize("trusting", [False, True], ids=["squared error", "average precision"])
def test_the_ridge_is_chosen_on_rows_held_out(trusting):
    scores, Y, grid, factored, data = held_out_scores([1e-6, 1.0, 1e6])
    losses = [-average_precision(Y, S) if trusting else np.mean((S - Y) ** 2) for S in scores]
    found = chosen(factored, data.candidates, grid, "rbf", trusting)
    assert found == grid[int(np.argmin(losses))]


@pytest.mark.parametrize("ranked", [20, 2000])
def test_a_linear_kernel_compares_rankings_of_some_rows_first(ranked, monkeypatch):
    monkeypatch.setattr("schirn.solvers.feature_ridges.RANKED_ROWS", ranked)
    scores, Y, grid, factored, data = held_out_scores(10.0 ** np.arange(3, -4, -0.5))
    rows = np.flatnonzero(np.isin(np.sort(factored.drawn), factored.drawn[:ranked]))
    rows = rows[(Y[rows].sum(axis=1) > 0) & (Y[rows].sum(axis=1) < Y.shape[1])]
    ranks = np.array([[average_precision(Y[[i]], S[[i]]) for i in rows] for S in scores])
    behind = ranks[np.argmax(ranks.mean(axis=1))] - ranks
    near = behind.mean(axis=1) <= behind.std(axis=1) / np.sqrt(len(rows))
    errors = np.array([np.mean((S - Y) ** 2) for S in scores])
    found = chosen(factored, data.candidates, grid, "linear")
    assert found == grid[np.argmin(np.where(near, errors, np.inf))]


def held_out_scores(grid):
    """Scores and candidates of the rows held out, by ridges on the others."""
    data, Z, factored = problem(kernel="linear")
    Y, held = data.candidates.astype(float), np.sort(factored.drawn)
    train = np.setdiff1d(np.arange(160), held)
    A, mean = Z[train] - Z[train].mean(axis=0), Y[train].mean(axis=0)
    W = [np.linalg.solve(A.T @ A + t * np.eye(6), A.T @ Y[train]) for t in grid]
    scores = [(Z[held] - Z[train].mean(axis=0)) @ B + mean for B in W]
    return scores, Y[held], np.asarray(grid), factored, data


def test_all_rows_as_landmarks_are_the_kernel_matrix():
    data, Z, factored = problem(n_landmarks=160)
    kernel, K = kernel_ridges.kernel_matrix(Z, "rbf", np.random.RandomState(0))
    assert kernel.width == pytest.approx(factored.source.kernel.width)
    many = trusting_ridge(ridges_of(factored, data.candidates, [0.5]))
    few = trusting_ridge(KernelRidges(K, data.candidates, [0.5]))
    np.testing.assert_allclose(many.log_odds(), few.log_odds(), atol=2e-3)
    found, expected = (np.array(result.trace)[:, :2] for result in (many, few))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_array_equal(many.confidence().toarray(), data.candidates)
    new = Z[:9] + 0.1
    found, expected = (
        result.pool.log_odds([rows @ W + b for W, b in result.ridges])
        for result, rows in ((many, factored.source.features(new)), (few, kernel(new, Z)))
    )
    np.testing.assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize("known", [False, True], ids=["", "known labels"])
def test_all_rows_as_landmarks_take_the_rounds_of_the_kernel_matrix(known):
    """One round: the pool of later ones is fitted to other rows held out."""
    data, Z, factored = problem(n_landmarks=160)
    Y, rng = data.candidates, np.random.RandomState(0)
    told = np.where(np.arange(160)[:, None] < 60, 2 * data.y_true - 1, 0) * Y if known else None
    _, K = kernel_ridges.kernel_matrix(Z, "rbf", rng)
    knowledge = Knowledge(told)
    few, many = (
        sieve(ridges, SieveOptions(max_iter=1), rng)
        for ridges in (
            KernelRidges(K, Y, [0.1, 0.5], knowledge, rng),
            ridges_of(factored, Y, [0.1, 0.5], knowledge),
        )
    )
    np.testing.assert_allclose(many.log_odds(), few.log_odds(), atol=1e-2)
    few_Q, many_Q = (result.confidence().toarray() for result in (few, many))
    np.testing.assert_allclose(many_Q, few_Q, atol=2e-3)
    np.testing.assert_allclose(many.noise.rate, few.noise.rate, rtol=1e-3)
    # The evidence is that of other rows held out.
    found, expected = (np.array(result.trace)[:, :2] for result in (many, few))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_the_rate_is_estimated():
    data, _, factored = problem(n=600)
    Y, truth = data.candidates.astype(float), data.y_true
    ridges = ridges_of(factored, Y, [0.3, 1.0])
    result = sieve(ridges, SieveOptions(), np.random.RandomState(0))
    assert result.noise.rate == pytest.approx(Y[truth == 0].mean(), abs=0.06)
    Q = result.confidence().toarray()
    assert (Q[Y == 0] == 0).all()
    assert Q[(Y == 1) & (truth == 1)].mean() > Q[(Y == 1) & (truth == 0)].mean() + 0.4


def test_all_rows_listed_everywhere_does_not_crash():
    data, _, factored = problem()
    everything = ridges_of(factored, np.ones_like(data.candidates), [1.0])
    result = sieve(everything, SieveOptions(max_iter=3), np.random.RandomState(0))
    assert np.isfinite(result.log_odds()).all()


@pytest.mark.parametrize("many", [10, 10**6], ids=["of many", "of few"])
def test_cells_that_fit_the_pool(monkeypatch, many):
    monkeypatch.setattr("schirn.solvers.sieve.MANY_CELLS", many)
    Y = sp.csr_array(np.random.default_rng(0).random((4, 7)) < 0.3)
    labels = RowLabels(Candidates(Y))
    split = Split(labels, np.arange(0), labels, np.array([2, 0, 3, 1]))
    row, label, candidates = draw_cells(split, 15, np.random.RandomState(0))
    assert len(set(zip(row.tolist(), label.tolist(), strict=True))) == 15
    assert (np.diff(row) >= 0).all()
    cells = np.column_stack(Y.nonzero())
    for k, candidate in enumerate(candidates):
        is_listed = bool(Y[row[k], label[k]])
        assert is_listed == (candidate < Y.nnz)
        if is_listed:
            assert cells[candidate].tolist() == [row[k], label[k]]
    repeated, _, _ = draw_cells(split, 15, np.random.RandomState(0))
    np.testing.assert_array_equal(repeated, row)
