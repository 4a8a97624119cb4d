"""Sieve's steps for many rows: sums over rows give what the kernel matrix gives."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn.datasets import make_partial_multilabel
from schirn.linalg.features import learn_scale
from schirn.metrics import average_precision
from schirn.solvers import sieve_kernel
from schirn.solvers.sieve import fit, pick_cells, sieve, trusting_ridge
from schirn.solvers.sieve_landmarks import choose_ridge, factor, fit_stack, stack_sums
from schirn.solvers.sieve_rows import make_rows


def problem(n=160, seed=0, r=2, kernel="rbf", n_landmarks=50):
    data = make_partial_multilabel(n_samples=n, n_features=6, n_labels=7, r=r, random_state=seed)
    Z = learn_scale(data.X, "spread").transform(data.X)
    rng = np.random.RandomState(0)
    return data, Z, factor(Z, kernel=kernel, n_landmarks=n_landmarks, rng=rng)


def test_a_quarter_of_the_rows_is_held_out():
    _, _, factored = problem()
    assert len(factored.drawn) == 40
    np.testing.assert_array_equal(factored.indices[factored.edge :], np.sort(factored.drawn))
    assert sorted(factored.indices.tolist()) == list(range(160))


def test_the_stack_from_sums_is_that_of_the_scores():
    rng = np.random.default_rng(0)
    S, Q = rng.normal(size=(60, 4)), rng.random((60, 4)) * (rng.random((60, 4)) < 0.5)
    candidates = make_rows(S, sp.csr_array(Q > 0), np.arange(60)).candidates
    fit = fit_stack(stack_sums(S, Q[Q > 0], candidates), Q.sum(axis=0), 60)
    stack, left_out = sieve_kernel.fit_stack(S, Q)
    for found, expected in zip(fit.stack[:3], stack[:3], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    found = Q - (Q - fit.stack.scores(S)) * fit.factors(S)[:, None]
    np.testing.assert_allclose(found, left_out, atol=1e-10)


@pytest.mark.parametrize("trusting", [False, True], ids=["squared error", "average precision"])
def test_the_ridge_is_chosen_on_rows_held_out(trusting):
    scores, Y, grid, factored, data = held_out_scores([1e-6, 1.0, 1e6])
    losses = [-average_precision(Y, S) if trusting else np.mean((S - Y) ** 2) for S in scores]
    found = choose_ridge(factored.problem(data.candidates), grid, kernel="rbf", trusting=trusting)
    assert found == grid[int(np.argmin(losses))]


@pytest.mark.parametrize("ranked", [20, 2000])
def test_a_linear_kernel_compares_rankings_of_some_rows_first(ranked, monkeypatch):
    monkeypatch.setattr("schirn.solvers.sieve_landmarks.RANKED_ROWS", ranked)
    scores, Y, grid, factored, data = held_out_scores(10.0 ** np.arange(3, -4, -0.5))
    rows = np.flatnonzero(np.isin(np.sort(factored.drawn), factored.drawn[:ranked]))
    rows = rows[(Y[rows].sum(axis=1) > 0) & (Y[rows].sum(axis=1) < Y.shape[1])]
    ranks = np.array([[average_precision(Y[[i]], S[[i]]) for i in rows] for S in scores])
    behind = ranks[np.argmax(ranks.mean(axis=1))] - ranks
    near = behind.mean(axis=1) <= behind.std(axis=1) / np.sqrt(len(rows))
    errors = np.array([np.mean((S - Y) ** 2) for S in scores])
    found = choose_ridge(factored.problem(data.candidates), grid, kernel="linear", trusting=False)
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
    kernel, K = sieve_kernel.kernel_matrix(Z, "rbf", np.random.RandomState(0))
    assert kernel.width == pytest.approx(factored.source.kernel.width)
    many = trusting_ridge(factored.problem(data.candidates), 0.5)
    few = trusting_ridge(sieve_kernel.KernelProblem(K, data.candidates, [0.5]), 0.5)
    np.testing.assert_allclose(many.log_odds, few.log_odds, atol=2e-3)
    np.testing.assert_allclose(many.objective, few.objective, rtol=1e-4)
    np.testing.assert_array_equal(many.Q, data.candidates)
    new = Z[:9] + 0.1
    found = many.scores(factored.source.features(new))
    np.testing.assert_allclose(found, few.scores(kernel(new, Z)), atol=2e-3)


@pytest.mark.parametrize("noise", ["estimated", "given", "given per row"])
@pytest.mark.parametrize("known", [False, True], ids=["", "known labels"])
def test_all_rows_as_landmarks_take_the_rounds_of_the_kernel_matrix(noise, known):
    """One round: the pool of later ones is fitted to other rows held out."""
    data, Z, factored = problem(n_landmarks=160)
    Y, rng = data.candidates, np.random.RandomState(0)
    rates = {"estimated": None, "given": 0.3, "given per row": np.linspace(0.1, 0.6, 160)}[noise]
    told = np.where(np.arange(160)[:, None] < 60, 2 * data.y_true - 1, 0) * Y if known else None
    _, K = sieve_kernel.kernel_matrix(Z, "rbf", rng)
    options = sieve_kernel.Options(rates, told)
    few, many = (
        fit(rows, [0.1, 0.5], trusting=False, max_iter=1, rng=rng, known=known)
        for rows in (
            sieve_kernel.KernelProblem(K, Y, [0.1, 0.5], options, rng),
            factored.problem(Y, rates, told),
        )
    )
    np.testing.assert_allclose(many.log_odds, few.log_odds, atol=1e-2)
    np.testing.assert_allclose(many.Q, few.Q, atol=2e-3)
    np.testing.assert_allclose(many.noise.rate, few.noise.rate, rtol=1e-3)
    np.testing.assert_allclose(many.objective, few.objective, rtol=1e-3)


def test_the_rate_is_estimated():
    data, _, factored = problem(n=600)
    Y, truth = data.candidates.astype(float), data.y_true
    result = sieve(factored.problem(Y), [0.3, 1.0], rng=np.random.RandomState(0))
    assert result.noise.rate == pytest.approx(Y[truth == 0].mean(), abs=0.06)
    Q = result.Q
    assert (Q[Y == 0] == 0).all()
    assert Q[(Y == 1) & (truth == 1)].mean() > Q[(Y == 1) & (truth == 0)].mean() + 0.4


def test_a_known_rate_is_kept():
    data, _, factored = problem()
    Y, rng = data.candidates, np.random.RandomState(0)
    assert sieve(factored.problem(Y, 0.25), [1.0], rng=rng).noise.rate == pytest.approx(0.25)
    rates = np.linspace(0.1, 0.5, len(Y))
    kept = sieve(factored.problem(Y, rates), [1.0], rng=rng).noise.rate
    np.testing.assert_allclose(kept, rates)


def test_all_rows_listed_everywhere_does_not_crash():
    data, _, factored = problem()
    everything = factored.problem(np.ones_like(data.candidates))
    result = sieve(everything, [1.0], max_iter=3, rng=np.random.RandomState(0))
    assert np.isfinite(result.log_odds).all()


@pytest.mark.parametrize("many", [10, 10**6], ids=["of many", "of few"])
def test_cells_that_fit_the_pool(monkeypatch, many):
    monkeypatch.setattr("schirn.solvers.sieve.MANY_CELLS", many)
    held = np.array([3, 8, 21, 40])
    row, label = pick_cells(held, 7, 15, np.random.RandomState(0))
    assert len(row) == 15
    assert (np.diff(row) >= 0).all()
    assert set(row) <= set(held)
    assert set(label) <= set(range(7))
    assert len(set(zip(row.tolist(), label.tolist(), strict=True))) == 15
    again = pick_cells(held, 7, 15, np.random.RandomState(0))
    np.testing.assert_array_equal(again, (row, label))
