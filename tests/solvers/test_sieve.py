"""Sieve's steps and rounds against a plain reference and against formulas written out."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.sieve import sieve as reference

from schirn import Sieve
from schirn.datasets import make_partial_multilabel
from schirn.metrics import average_precision
from schirn.noise.model import NoiseModel, candidate_posterior, update_noise
from schirn.solvers.sieve import (
    choose_ridge,
    fit_stack,
    newton,
    pick_cells,
    sieve,
    soft_logit,
    stack_sums,
    trusting_ridge,
)
from schirn.solvers.sieve_blocks import factor, make_rows


def problem(n=160, seed=0, r=2, **options):
    data = make_partial_multilabel(
        n_samples=n, n_features=6, n_labels=7, r=r, random_state=seed, **options
    )
    rng = np.random.RandomState(0)
    return data, factor(data.X, kernel="rbf", max_kernel_rows=1000, n_landmarks=50, rng=rng)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_equals_the_plain_reference(sparse, kernel):
    options = {"n_features": 25, "sparse": True, "density": 0.15} if sparse else {"n_features": 8}
    data = make_partial_multilabel(n_samples=90, n_labels=5, r=2, random_state=1, **options)
    X = abs(data.X) if sparse else data.X
    model = Sieve(kernel=kernel, features="text" if sparse else "spread").fit(X, data.candidates)
    dense, scale = (X.toarray(), "text") if sparse else (X, "spread")
    Q, _, rate, lams = reference(dense, data.candidates, scale=scale, kernel=kernel)
    np.testing.assert_allclose(model.label_confidence_, Q, atol=1e-10)
    np.testing.assert_allclose(model.lams_, lams, rtol=1e-10)
    assert model.noise_model_.rate == pytest.approx(rate, rel=1e-10)


def test_log_odds_equal_those_of_the_reference():
    data, _ = problem(n=60)
    _, log_odds, _, _ = reference(data.X, data.candidates, max_iter=3)
    model = Sieve(max_iter=3)
    factored = model._factor(model._fit_features(data.X))
    result = model._solve(factored, data.candidates)
    np.testing.assert_allclose(result.log_odds, log_odds, atol=1e-8)


def test_experts_are_ridges_on_the_posterior_with_leave_one_out_scores():
    """One round, written out."""
    data, factored = problem()
    Y = data.candidates.astype(float)
    lams = [0.1, 1.0]
    got = sieve(factored.problem(Y), lams, max_iter=1, rng=np.random.RandomState(0))

    whole = factored.source.space
    F, S2, pen = whole.F, whole.eigenvalues, whole.penalty
    hat = [F @ np.diag(1 / (S2 + t * pen)) @ F.T for t in lams]
    loo = lambda Q, H: Q - (Q - H @ Q) / (1 - np.diag(H))[:, None]  # noqa: E731
    S = loo(Y, hat[-1])
    rate = S[Y == 0].mean()
    P = np.clip((S - rate) / (1 - rate), 1e-4, 1 - 1e-4)
    posterior = candidate_posterior(P, Y, NoiseModel.independent(rate, 7))
    Q = posterior.Q
    for (w, _), t in zip(got.ridges, lams, strict=True):
        np.testing.assert_allclose(w, whole.ridge(F.T @ Q, t), atol=1e-10)
    assert got.noise.rate == pytest.approx(update_noise(Y, posterior).rate)
    experts = [loo(Q, H) for H in hat]
    C = experts[1] - experts[1].mean(axis=0)
    G = C.T @ C
    G += np.eye(7) * (np.trace(G) / 7 * 0.3 + 1e-12)
    stack = 1 / len(Y) + C @ np.linalg.solve(G, C.T)
    experts.append(Q - (Q - stack @ Q) / (1 - np.diag(stack))[:, None])
    log_odds = sum(soft_logit(E) for E in experts) / 3
    np.testing.assert_allclose(got.log_odds, log_odds, atol=1e-6)
    P = np.clip(1 / (1 + np.exp(-log_odds)), 1e-4, 1 - 1e-4)
    np.testing.assert_allclose(
        got.objective, -np.mean(Q * np.log(P) + (1 - Q) * np.log(1 - P)), rtol=1e-8
    )
    np.testing.assert_allclose(got.Q, candidate_posterior(P, Y, got.noise).Q, atol=1e-8)


def test_stack_leave_one_out_equals_refitting():
    rng = np.random.default_rng(0)
    S, Q = rng.normal(size=(60, 4)), rng.random((60, 4)) * (rng.random((60, 4)) < 0.5)
    candidates = make_rows(S, sp.csr_array(Q > 0), np.arange(60)).candidates
    fit = fit_stack(stack_sums(S, Q[Q > 0], candidates), Q.sum(axis=0), 60)
    stack = fit.stack
    # With the ridge of the full fit, row i left out and the centre of the full fit kept.
    C, D = S - stack.centre, Q - stack.mean
    ridge = np.trace(C.T @ C) / 4 * 0.3 + 1e-12
    np.testing.assert_allclose(stack.W, np.linalg.solve(C.T @ C + ridge * np.eye(4), C.T @ D))
    H = 1 / 60 + C @ np.linalg.solve(C.T @ C + ridge * np.eye(4), C.T)
    np.testing.assert_allclose(stack.scores(S), H @ Q, atol=1e-10)
    np.testing.assert_allclose(fit.factors(S), 1 / (1 - np.diag(H)), atol=1e-10)


def test_newton_finds_the_optimum_of_the_penalised_logistic_loss():
    rng = np.random.default_rng(0)
    Z = np.column_stack([np.ones(500), rng.normal(size=(500, 2))])
    q = 1 / (1 + np.exp(-(Z @ [0.3, 1.0, -0.5])))
    equal = np.array([0.0, 0.5, 0.0])
    w = newton(Z, q, equal, equal, steps=20)
    gradient = Z.T @ (q - 1 / (1 + np.exp(-(Z @ w)))) - 10 * (w - equal)
    np.testing.assert_allclose(gradient, 0, atol=1e-8)


def test_soft_logit_rises_strictly_and_never_overflows():
    s = np.array([-1e8, -5.0, -0.5, 0.0, 0.3, 0.5, 1.0, 3.0, 1e8])
    z = soft_logit(s)
    assert np.isfinite(z).all()
    assert (np.diff(z) > 0).all()
    assert z[5] == pytest.approx(0, abs=1e-12)


def test_ridge_is_chosen_on_rows_held_out():
    data, factored = problem()
    Y = data.candidates.astype(float)
    grid = np.array([1e-6, 1.0, 1e6])
    errors, precisions = [], []
    for t in grid:
        error = precision = 0.0
        for split in factored.splits[1:]:
            ridge = np.diag(np.append(split.spectrum.eigenvalues + t, len(split.indices)))
            scores = split.X_held @ np.linalg.solve(ridge, split.X.T @ Y[split.indices])
            error += np.mean((scores - Y[split.held]) ** 2)
            precision += average_precision(Y[split.held], scores)
        errors.append(error)
        precisions.append(precision)
    assert choose_ridge(factored.problem(Y), grid) == grid[int(np.argmin(errors))]
    best = choose_ridge(factored.problem(Y), grid, precision=True)
    assert best == grid[int(np.argmax(precisions))]


def test_splits_hold_out_every_row_once():
    _, factored = problem()
    assert sorted(np.concatenate(factored.drawn).tolist()) == list(range(160))
    for split, rows in zip(factored.splits[1:], factored.drawn, strict=True):
        np.testing.assert_array_equal(split.held, np.sort(rows))
        assert not set(rows) & set(split.indices)


def test_the_rate_is_estimated():
    data, factored = problem(n=600, r=2)
    Y, truth = data.candidates.astype(float), data.y_true
    result = sieve(factored.problem(Y), [0.3, 1.0], rng=np.random.RandomState(0))
    assert result.noise.rate == pytest.approx(Y[truth == 0].mean(), abs=0.06)
    Q = result.Q
    assert (Q[Y == 0] == 0).all()
    assert Q[(Y == 1) & (truth == 1)].mean() > Q[(Y == 1) & (truth == 0)].mean() + 0.4


def test_a_known_rate_is_kept():
    data, factored = problem()
    Y = data.candidates.astype(float)
    found = sieve(factored.problem(Y, 0.25), [1.0], rng=np.random.RandomState(0))
    assert found.noise.rate == pytest.approx(0.25)
    rates = np.linspace(0.1, 0.5, len(Y))
    kept = sieve(factored.problem(Y, rates), [1.0], rng=np.random.RandomState(0)).noise.rate
    np.testing.assert_allclose(kept, rates)


def test_trusting_ridge_is_ridge():
    data, factored = problem()
    Y = data.candidates.astype(float)
    result = trusting_ridge(factored.problem(Y), 0.5)
    space = factored.source.space
    F, S2 = space.F, space.eigenvalues
    scores = F @ ((F.T @ Y) / (S2 + 0.5 * space.penalty)[:, None])
    np.testing.assert_allclose(F @ result.ridges[0][0], scores, atol=1e-10)
    assert result.objective == pytest.approx(np.mean((scores - Y) ** 2))
    left_out = space.leave_one_out(Y, scores, 0.5)
    np.testing.assert_allclose(result.log_odds, result.pool.log_odds([left_out]), atol=1e-8)
    np.testing.assert_array_equal(result.Q, Y)
    order = np.argsort(result.pool.log_odds([scores]), axis=1)
    np.testing.assert_array_equal(order, np.argsort(scores, axis=1))


def test_all_rows_listed_everywhere_does_not_crash():
    data, factored = problem()
    result = sieve(
        factored.problem(np.ones_like(data.candidates)),
        [1.0],
        max_iter=3,
        rng=np.random.RandomState(0),
    )
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
