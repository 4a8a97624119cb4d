"""Sieve's rounds: pool, experts, choices made on rows held out."""

import numpy as np
import pytest

from schirn.datasets import make_partial_multilabel
from schirn.metrics import average_precision
from schirn.noise import candidate_posterior, update_noise
from schirn.solvers import sieve as module
from schirn.solvers.sieve import choose_ridge, sieve, trusting_ridge
from schirn.solvers.sieve_spaces import factor_spaces


def problem(n=160, seed=0, r=2, **options):
    data = make_partial_multilabel(
        n_samples=n, n_features=6, n_labels=7, r=r, random_state=seed, **options
    )
    spaces = factor_spaces(
        data.X,
        kernel="rbf",
        max_kernel_rows=1000,
        n_landmarks=50,
        rng=np.random.RandomState(0),
    )
    return data, spaces


def test_experts_are_ridges_on_the_posterior_with_leave_one_out_scores():
    """One round, written out."""
    data, spaces = problem()
    Y = data.candidates.astype(float)
    (whole, *_) = parts = spaces.parts(Y, None)
    lams = [0.1, 1.0]
    got = sieve(parts, lams, max_iter=1, rng=np.random.RandomState(0))

    F, S2, pen = whole.space.F, whole.space.eigenvalues, whole.space.penalty
    hat = [F @ np.diag(1 / (S2 + t * pen)) @ F.T for t in lams]
    loo = lambda Q, H: Q - (Q - H @ Q) / (1 - np.diag(H))[:, None]  # noqa: E731
    S = loo(Y, hat[-1])
    rate = S[Y == 0].mean()
    from schirn.noise import NoiseModel

    P = np.clip((S - rate) / (1 - rate), 1e-4, 1 - 1e-4)
    posterior = candidate_posterior(P, Y, NoiseModel.independent(rate, 7))
    Q = posterior.Q
    for w, t in zip(got.w, lams, strict=True):
        np.testing.assert_allclose(w, whole.space.ridge(F.T @ Q, t), atol=1e-10)
    assert got.noise.rate == pytest.approx(update_noise(Y, posterior).rate)
    experts = [loo(Q, H) for H in hat]
    C = experts[1] - experts[1].mean(axis=0)
    G = C.T @ C
    G += np.eye(7) * (np.trace(G) / 7 * 0.3 + 1e-12)
    stack = 1 / len(Y) + C @ np.linalg.solve(G, C.T)
    experts.append(Q - (Q - stack @ Q) / (1 - np.diag(stack))[:, None])
    log_odds = sum(module._soft_logit(E) for E in experts) / 3
    np.testing.assert_allclose(got.log_odds, log_odds, atol=1e-6)


def test_stack_leave_one_out_equals_refitting():
    rng = np.random.default_rng(0)
    S, Q = rng.normal(size=(60, 4)), rng.random((60, 4))
    stack, scores = module._fit_stack(S, Q)
    # With the ridge of the full fit, row i left out and the centre of the full fit kept.
    C, D = S - stack.centre, Q - stack.mean
    ridge = np.trace(C.T @ C) / 4 * 0.3 + 1e-12
    np.testing.assert_allclose(stack.W, np.linalg.solve(C.T @ C + ridge * np.eye(4), C.T @ D))
    H = 1 / 60 + C @ np.linalg.solve(C.T @ C + ridge * np.eye(4), C.T)
    i = 5
    expected = (H[i] @ Q - H[i, i] * Q[i]) / (1 - H[i, i])
    np.testing.assert_allclose(scores[i], expected, atol=1e-10)


def test_newton_finds_the_optimum_of_the_penalised_logistic_loss():
    rng = np.random.default_rng(0)
    Z = np.column_stack([np.ones(500), rng.normal(size=(500, 2))])
    q = 1 / (1 + np.exp(-(Z @ [0.3, 1.0, -0.5])))
    equal = np.array([0.0, 0.5, 0.0])
    w = module._newton(Z, q, equal, equal, steps=20)
    gradient = Z.T @ (q - 1 / (1 + np.exp(-(Z @ w)))) - 10 * (w - equal)
    np.testing.assert_allclose(gradient, 0, atol=1e-8)


def test_soft_logit_rises_strictly_and_never_overflows():
    s = np.array([-1e8, -5.0, -0.5, 0.0, 0.3, 0.5, 1.0, 3.0, 1e8])
    z = module._soft_logit(s)
    assert np.isfinite(z).all()
    assert (np.diff(z) > 0).all()
    assert z[5] == pytest.approx(0, abs=1e-12)


def test_ridge_is_chosen_on_rows_held_out():
    data, spaces = problem()
    parts = spaces.parts(data.candidates.astype(float), None)
    grid = np.array([1e-6, 1.0, 1e6])
    errors = []
    for t in grid:
        error = 0.0
        for part in parts[1:]:
            w = part.space.ridge(part.space.project(part.Y), t)
            error += np.mean((part.held @ w - part.Y_held) ** 2)
        errors.append(error)
    assert choose_ridge(parts[1:], grid) == grid[int(np.argmin(errors))]
    best = choose_ridge(parts[1:], grid, average_precision)
    assert best in grid


def test_splits_cover_all_rows_once_and_never_meet_their_rest():
    _, spaces = problem()
    held = np.concatenate([split.held for split in spaces.splits])
    assert sorted(held.tolist()) == list(range(160))
    for split in spaces.splits:
        assert not set(split.held) & set(split.rest)


def test_rate_is_found_without_being_told():
    data, spaces = problem(n=600, r=2)
    Y, truth = data.candidates.astype(float), data.y_true
    result = sieve(spaces.parts(Y, None), [0.3, 1.0], rng=np.random.RandomState(0))
    assert result.noise.rate == pytest.approx(Y[truth == 0].mean(), abs=0.06)
    assert (result.Q[Y == 0] == 0).all()
    assert result.Q[(Y == 1) & (truth == 1)].mean() > result.Q[(Y == 1) & (truth == 0)].mean() + 0.4


def test_a_known_rate_is_kept():
    data, spaces = problem()
    Y = data.candidates.astype(float)
    assert sieve(
        spaces.parts(Y, 0.25), [1.0], rng=np.random.RandomState(0)
    ).noise.rate == pytest.approx(0.25)
    rates = np.linspace(0.1, 0.5, len(Y))
    kept = sieve(spaces.parts(Y, rates), [1.0], rng=np.random.RandomState(0)).noise.rate
    np.testing.assert_allclose(kept, rates)


def test_trusting_ridge_is_ridge():
    data, spaces = problem()
    part = spaces.parts(data.candidates.astype(float), None)[0]
    result = trusting_ridge(part, 0.5)
    F, S2 = part.space.F, part.space.eigenvalues
    scores = F @ ((F.T @ part.Y) / (S2 + 0.5 * part.space.penalty)[:, None])
    np.testing.assert_allclose(part.space.expand(result.w[0]), scores, atol=1e-10)
    order = np.argsort(result.pool.log_odds([scores]), axis=1)
    np.testing.assert_array_equal(order, np.argsort(scores, axis=1))


def test_all_rows_listed_everywhere_does_not_crash():
    data, spaces = problem()
    parts = spaces.parts(np.ones_like(data.candidates, dtype=float), None)
    result = sieve(parts, [1.0], max_iter=3, rng=np.random.RandomState(0))
    assert np.isfinite(result.log_odds).all()
