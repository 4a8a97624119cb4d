"""Sieve's rounds: pool, experts, choices made on rows held out."""

import numpy as np
import pytest

from schirn.datasets import make_partial_multilabel
from schirn.metrics import average_precision
from schirn.noise.model import candidate_posterior, update_noise
from schirn.solvers.sieve import _pick_cells, choose_ridge, sieve, trusting_ridge
from schirn.solvers.sieve_blocks import row_cells
from schirn.solvers.sieve_pool import fit_stack, newton, soft_logit, stack_sums
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
    lams = [0.1, 1.0]
    got = sieve(spaces.problem(Y), lams, max_iter=1, rng=np.random.RandomState(0))

    whole = spaces.source.space
    F, S2, pen = whole.F, whole.eigenvalues, whole.penalty
    hat = [F @ np.diag(1 / (S2 + t * pen)) @ F.T for t in lams]
    loo = lambda Q, H: Q - (Q - H @ Q) / (1 - np.diag(H))[:, None]  # noqa: E731
    S = loo(Y, hat[-1])
    rate = S[Y == 0].mean()
    from schirn.noise.model import NoiseModel

    P = np.clip((S - rate) / (1 - rate), 1e-4, 1 - 1e-4)
    posterior = candidate_posterior(P, Y, NoiseModel.independent(rate, 7))
    Q = posterior.Q
    for w, t in zip(got.w, lams, strict=True):
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
    cells = row_cells(Q > 0).cells
    sums = stack_sums(S.T, Q[cells.row, cells.label], cells)
    fit = fit_stack(sums, Q.sum(axis=0), 60)
    stack = fit.stack
    # With the ridge of the full fit, row i left out and the centre of the full fit kept.
    C, D = S - stack.centre, Q - stack.mean
    ridge = np.trace(C.T @ C) / 4 * 0.3 + 1e-12
    np.testing.assert_allclose(stack.W, np.linalg.solve(C.T @ C + ridge * np.eye(4), C.T @ D))
    H = 1 / 60 + C @ np.linalg.solve(C.T @ C + ridge * np.eye(4), C.T)
    np.testing.assert_allclose(stack.scores(S), H @ Q, atol=1e-10)
    fitted, spare = fit.leave_one_out(S.T)
    np.testing.assert_allclose(fitted.T, H @ Q, atol=1e-10)
    np.testing.assert_allclose(spare, 1 / (1 - np.diag(H)), atol=1e-10)


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
    data, spaces = problem()
    Y = data.candidates.astype(float)
    grid = np.array([1e-6, 1.0, 1e6])
    errors, precisions = [], []
    for t in grid:
        error = precision = 0.0
        for cut, where in zip(spaces.cuts[1:], spaces.places[1:], strict=True):
            F = cut.rows.F
            ridge = np.diag(where.eigenvalues + t * where.penalty)
            scores = cut.held.F @ np.linalg.solve(ridge, F.T @ Y[cut.take])
            error += np.mean((scores - Y[cut.held_take]) ** 2)
            precision += average_precision(Y[cut.held_take], scores)
        errors.append(error)
        precisions.append(precision)
    assert choose_ridge(spaces.problem(Y), grid) == grid[int(np.argmin(errors))]
    best = choose_ridge(spaces.problem(Y), grid, average_precision)
    assert best == grid[int(np.argmax(precisions))]


def test_splits_cover_all_rows_once_and_never_meet_their_rest():
    _, spaces = problem()
    held = np.concatenate(spaces.held)
    assert sorted(held.tolist()) == list(range(160))
    for cut, rows in zip(spaces.cuts[1:], spaces.held, strict=True):
        np.testing.assert_array_equal(cut.held_take, np.sort(rows))
        assert not set(rows) & set(cut.take)


def test_rate_is_found_without_being_told():
    data, spaces = problem(n=600, r=2)
    Y, truth = data.candidates.astype(float), data.y_true
    result = sieve(spaces.problem(Y), [0.3, 1.0], rng=np.random.RandomState(0))
    assert result.noise.rate == pytest.approx(Y[truth == 0].mean(), abs=0.06)
    Q = result.Q
    assert (Q[Y == 0] == 0).all()
    assert Q[(Y == 1) & (truth == 1)].mean() > Q[(Y == 1) & (truth == 0)].mean() + 0.4


def test_a_known_rate_is_kept():
    data, spaces = problem()
    Y = data.candidates.astype(float)
    assert sieve(
        spaces.problem(Y, 0.25), [1.0], rng=np.random.RandomState(0)
    ).noise.rate == pytest.approx(0.25)
    rates = np.linspace(0.1, 0.5, len(Y))
    kept = sieve(spaces.problem(Y, rates), [1.0], rng=np.random.RandomState(0)).noise.rate
    np.testing.assert_allclose(kept, rates)


def test_trusting_ridge_is_ridge():
    data, spaces = problem()
    Y = data.candidates.astype(float)
    result = trusting_ridge(spaces.problem(Y), 0.5)
    space = spaces.source.space
    F, S2 = space.F, space.eigenvalues
    scores = F @ ((F.T @ Y) / (S2 + 0.5 * space.penalty)[:, None])
    np.testing.assert_allclose(F @ result.w[0], scores, atol=1e-10)
    assert result.objective == pytest.approx(np.mean((scores - Y) ** 2))
    left_out = space.leave_one_out(Y, scores, 0.5)
    np.testing.assert_allclose(result.log_odds, result.pool.log_odds([left_out]), atol=1e-8)
    np.testing.assert_array_equal(result.Q, Y)
    order = np.argsort(result.pool.log_odds([scores]), axis=1)
    np.testing.assert_array_equal(order, np.argsort(scores, axis=1))


def test_all_rows_listed_everywhere_does_not_crash():
    data, spaces = problem()
    result = sieve(
        spaces.problem(np.ones_like(data.candidates)),
        [1.0],
        max_iter=3,
        rng=np.random.RandomState(0),
    )
    assert np.isfinite(result.log_odds).all()


@pytest.mark.parametrize("many", [10, 10**6], ids=["of many", "of few"])
def test_cells_to_learn_the_pool_from(monkeypatch, many):
    monkeypatch.setattr("schirn.solvers.sieve._MANY_CELLS", many)
    held = np.array([3, 8, 21, 40])
    row, label = _pick_cells(held, 7, 15, np.random.RandomState(0))
    assert len(row) == 15
    assert (np.diff(row) >= 0).all()
    assert set(row) <= set(held)
    assert set(label) <= set(range(7))
    assert len(set(zip(row.tolist(), label.tolist(), strict=True))) == 15
    again = _pick_cells(held, 7, 15, np.random.RandomState(0))
    np.testing.assert_array_equal(again, (row, label))
