"""Sieve's steps and rounds against a plain reference and against formulas written out."""

import numpy as np
import pytest
from reference.noise import update_noise
from reference.sieve import sieve as reference

from schirn import Sieve
from schirn.datasets import make_partial_multilabel
from schirn.linalg.features import learn_scale
from schirn.linalg.leave_one_out import KernelInverse
from schirn.metrics import average_precision
from schirn.noise.model import NoiseModel, candidate_posterior
from schirn.solvers.kernel_ridges import (
    FEW_ROWS,
    KernelRidges,
    fit_kernel_matrix,
    fit_stack,
    kernel_lams,
    kernel_matrix,
)
from schirn.solvers.sieve import (
    GRIDS,
    Knowledge,
    SieveOptions,
    newton,
    sieve,
    soft_logit,
    trusting_ridge,
)


def problem(n=160, seed=0, r=2, kernel="rbf", **options):
    data = make_partial_multilabel(
        n_samples=n, n_features=6, n_labels=7, r=r, random_state=seed, **options
    )
    Z = learn_scale(data.X, "spread").transform(data.X)
    return data, kernel_matrix(Z, kernel, np.random.RandomState(0))[1]


def rounds(K, Y, lams, **parameters):
    rng = np.random.RandomState(0)
    return sieve(KernelRidges(K, Y, lams, rng=rng), SieveOptions(**parameters), rng)


def choose(K, Y, **options):
    return kernel_lams(K, Y, SieveOptions(**options), Knowledge(), np.random.RandomState(0))


def listed(rows):
    return rows.candidates.dense(np.ones(rows.candidates.size))


def ridge_with_intercept(K, Q, lam, train, others):
    """Scores of other rows, by one linear system."""
    n = len(train)
    A = np.block([[K[np.ix_(train, train)] + lam * np.eye(n), np.ones((n, 1))], [np.ones(n), 0]])
    solution = np.linalg.solve(A, np.vstack([Q[train], np.zeros(Q.shape[1])]))
    return K[np.ix_(others, train)] @ solution[:-1] + solution[-1]


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_equals_the_plain_reference(sparse, kernel):
    options = {"n_features": 25, "sparse": True, "density": 0.15} if sparse else {"n_features": 8}
    data = make_partial_multilabel(n_samples=90, n_labels=5, r=2, random_state=1, **options)
    X = abs(data.X) if sparse else data.X
    model = Sieve(kernel=kernel, features="text" if sparse else "spread").fit(X, data.candidates)
    dense, scale = (X.toarray(), "text") if sparse else (X, "spread")
    wide = bool(sparse) and kernel == "linear"
    Q, log_odds, rate, lams = reference(
        dense, data.candidates, scale=scale, kernel=kernel, wide=wide
    )
    np.testing.assert_allclose(model.lams_, lams, rtol=1e-10)
    assert model.noise_model_.rate == pytest.approx(rate, rel=1e-8)
    believed = 1 - model.informativeness_ * (1 - Q)
    listed = data.candidates == 1
    np.testing.assert_allclose(model.label_confidence_[listed], believed[listed], atol=1e-8)
    Z = model.scale_.transform(X)
    _, K = kernel_matrix(Z, kernel, np.random.RandomState(0))
    result = fit_kernel_matrix(K, data.candidates, SieveOptions(kernel, wide=wide))
    np.testing.assert_allclose(result.confidence().toarray(), Q, atol=1e-8)
    np.testing.assert_allclose(result.log_odds(), log_odds, atol=1e-6)


def test_experts_are_ridges_on_the_posterior_with_leave_one_out_scores():
    """One round, written out."""
    data, K = problem()
    Y, lams = data.candidates.astype(float), [0.1, 1.0]
    got = rounds(K, Y, lams, max_iter=1)

    n, l = Y.shape
    C = np.eye(n) - 1 / n
    hat = [1 / n + C @ K @ C @ np.linalg.inv(C @ K @ C + t * np.eye(n)) for t in lams]
    loo = lambda Q, H: Q - (Q - H @ Q) / (1 - np.diag(H))[:, None]  # noqa: E731
    S = loo(Y, hat[-1])
    rate = S[Y == 0].mean()
    P = np.clip((S - rate) / (1 - rate), 1e-4, 1 - 1e-4)
    posterior = candidate_posterior(P, Y, NoiseModel.independent(rate, l))
    Q = posterior.Q
    everything = np.arange(n)
    for (A, b), t in zip(got.ridges, lams, strict=True):
        fitted = ridge_with_intercept(K, Q, t, everything, everything)
        np.testing.assert_allclose(K @ A + b, fitted, atol=1e-10)
    assert got.noise.rate == pytest.approx(update_noise(Y, posterior).rate)
    experts = [loo(Q, H) for H in hat]
    D = experts[1] - experts[1].mean(axis=0)
    G = D.T @ D
    G += np.eye(l) * (np.trace(G) / l * 0.3 + 1e-12)
    experts.append(loo(Q, 1 / n + D @ np.linalg.solve(G, D.T)))
    log_odds = sum(soft_logit(E) for E in experts) / 3
    np.testing.assert_allclose(got.log_odds(), log_odds, atol=1e-6)
    P = np.clip(1 / (1 + np.exp(-log_odds)), 1e-4, 1 - 1e-4)
    q, p = Q[Y == 1], P[Y == 1]
    objective = -np.mean(q * np.log(p) + (1 - q) * np.log(1 - p))
    np.testing.assert_allclose(got.trace[0][1], objective, rtol=1e-8)
    expected = candidate_posterior(P, Y, got.noise).Q
    np.testing.assert_allclose(got.confidence().toarray(), expected, atol=1e-8)


@pytest.mark.parametrize("shape", [(60, 4), (12, 30)], ids=["many rows", "many labels"])
def test_the_stack_is_a_ridge_from_all_scores(shape):
    rng = np.random.default_rng(0)
    S, Q = rng.normal(size=shape), rng.random(shape) * (rng.random(shape) < 0.5)
    n, l = shape
    groups = np.arange(n) // 3 * (np.arange(n) < 6)
    groups[6:] = np.arange(6, n)
    stack, left_out = fit_stack(S, Q)
    _, without_group = fit_stack(S, Q, groups=groups)
    D = S - S.mean(axis=0)
    ridge = np.trace(D.T @ D) / l * 0.3
    H = 1 / n + D @ np.linalg.solve(D.T @ D + ridge * np.eye(l), D.T)
    np.testing.assert_allclose(stack.scores(S), H @ Q, atol=1e-9)
    errors = (Q - H @ Q) / (1 - np.diag(H))[:, None]
    np.testing.assert_allclose(left_out, Q - errors, atol=1e-9)
    for rows in (slice(0, 3), slice(3, 6)):
        block = np.linalg.solve(np.eye(3) - H[rows, rows], (Q - H @ Q)[rows])
        np.testing.assert_allclose(without_group[rows], (Q[rows] - block), atol=1e-6)
    np.testing.assert_allclose(without_group[6:], left_out[6:], atol=1e-12)
    W = np.linalg.solve(D.T @ D + ridge * np.eye(l), D.T @ (Q - Q.mean(axis=0)))
    others = rng.normal(size=(5, l))
    expected = Q.mean(axis=0) + (others - S.mean(axis=0)) @ W
    np.testing.assert_allclose(stack.scores(others), expected, atol=1e-9)


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


@pytest.mark.parametrize("trusting", [False, True])
def test_ridge_weights_are_chosen_on_rows_left_out(trusting):
    """By squared error, or by average precision if the candidates are trusted."""
    data, K = problem(n=40)
    Y, rows = data.candidates.astype(float), np.arange(40)
    variance = np.trace(K) / 40 - K.mean()
    losses = []
    for t in variance * GRIDS["rbf"]:
        S = np.array([ridge_with_intercept(K, Y, t, np.delete(rows, i), [i])[0] for i in rows])
        losses.append(-average_precision(Y, S) if trusting else np.mean((S - Y) ** 2))
    best = min(variance * GRIDS["rbf"][np.argmin(losses)], 6 * variance)
    expected = [best] if trusting else [best / 20, best / 4, best]
    np.testing.assert_allclose(choose(K, Y, trusting=trusting), expected, rtol=1e-9)
    assert fit_kernel_matrix(K, Y, SieveOptions("rbf", lam=0.7, max_iter=1)).lams == [0.7]


def hidden_features(n=200):
    """Labels that depend on five features, beside one feature in units 10,000 times as large."""
    data = make_partial_multilabel(n_samples=n, n_features=5, n_labels=6, r=1, random_state=0)
    noise = 1e4 * np.random.default_rng(0).standard_normal((n, 1))
    return data, np.hstack([noise, data.X])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_in_small_units_are_not_lost(dtype):
    """Relative to the variance of all features, the ridge weight that they need is tiny."""
    data, X = hidden_features()
    options = {"kernel": "linear", "features": "none"}
    model = Sieve(**options).fit(X[:100].astype(dtype), data.candidates[:100])
    assert model.lams_[-1] < 1e-4 * X[:100].var(axis=0).sum()
    alone = Sieve(**options).fit(X[:100, 1:], data.candidates[:100])
    found, best = (
        average_precision(data.y_true[100:], m.decision_function(rows))
        for m, rows in ((model, X[100:].astype(dtype)), (alone, X[100:, 1:]))
    )
    assert found > best - 0.03


@pytest.mark.parametrize("trusting", [False, True])
def test_a_linear_kernel_compares_rankings_first(trusting):
    """The least squared error among the weights within one standard error of the best ranking."""
    data, X = hidden_features(60)
    K, Y = X @ X.T, data.candidates.astype(float)
    lams = (np.trace(K) / 60 - K.mean()) * GRIDS["linear"]
    scores = KernelInverse(K, lams.tolist()).fit(Y)[0]
    rows = np.flatnonzero(Y.sum(axis=1) < 6)
    ranks = np.array([[average_precision(Y[[i]], S[[i]]) for i in rows] for S in scores])
    behind = ranks[np.argmax(ranks.mean(axis=1))] - ranks
    near = behind.mean(axis=1) <= behind.std(axis=1) / np.sqrt(len(rows))
    errors = ((scores - Y) ** 2).mean(axis=(1, 2))
    # Otherwise this would not test anything.
    assert not near[np.argmin(errors)]
    best = lams[np.argmin(np.where(near, errors, np.inf))]
    found = choose(K, Y, kernel="linear", trusting=trusting)
    np.testing.assert_allclose(found, [best] if trusting else [best / 20, best / 4, best])


def test_rows_with_all_labels_leave_the_choice_to_the_squared_error():
    _, K = problem(n=40, kernel="linear")
    found = choose(K, np.ones((40, 3)), kernel="linear", trusting=True)
    assert np.isfinite(found).all()


def test_at_most_600_rows_choose_the_ridge_weights(monkeypatch):
    data, K = problem(n=50)
    monkeypatch.setattr("schirn.solvers.kernel_ridges.TUNING_ROWS", 20)
    found = choose(K, data.candidates)
    rows = np.sort(np.random.RandomState(0).choice(50, 20, replace=False))
    variance = np.trace(K) / 50 - K.mean()
    Y = data.candidates[rows].astype(float)
    lams = variance * GRIDS["rbf"]
    scores = KernelInverse(K[np.ix_(rows, rows)], lams.tolist()).fit(Y)[0]
    best = min(lams[np.argmin(((scores - Y) ** 2).mean(axis=(1, 2)))], 6 * variance)
    np.testing.assert_allclose(found, [best / 20, best / 4, best])


def test_splits_hold_out_every_row_once():
    data, K = problem()
    rng = np.random.RandomState(0)
    whole, *inner = KernelRidges(K, data.candidates, [1.0], rng=rng).splits
    np.testing.assert_array_equal(listed(whole.train), data.candidates)
    assert len(whole.drawn) == 0
    held = np.concatenate([listed(s.held) for s in inner])
    np.testing.assert_array_equal(np.sort(held, axis=0), np.sort(data.candidates, axis=0))
    sizes = [len(s.rows) + len(s.drawn) for s in inner]
    assert sizes == [160, 160, 160]


def test_splits_keep_groups_together():
    groups = np.arange(60) // 4
    # Candidates that name the group: no group may be on both sides of a split.
    Y = (groups[:, None] == np.arange(15)).astype(int)
    knowledge = Knowledge(groups=groups)
    inner = KernelRidges(np.eye(60), Y, [1.0], knowledge, np.random.RandomState(0)).splits[1:]
    for split in inner:
        train, held = (listed(rows).any(axis=0) for rows in (split.train, split.held))
        assert not (train & held).any()


def test_many_rows_have_one_split():
    n = FEW_ROWS
    Y = np.ones((n, 1), dtype=int)
    K = np.eye(n, dtype=np.float32)
    assert len(KernelRidges(K, Y, [1.0], rng=np.random.RandomState(0)).splits) == 2


def test_the_rate_is_estimated():
    data, K = problem(n=600, r=2)
    Y, truth = data.candidates.astype(float), data.y_true
    result = rounds(K, Y, [0.3, 1.0])
    assert result.noise.rate == pytest.approx(Y[truth == 0].mean(), abs=0.06)
    Q = result.confidence().toarray()
    assert (Q[Y == 0] == 0).all()
    assert Q[(Y == 1) & (truth == 1)].mean() > Q[(Y == 1) & (truth == 0)].mean() + 0.4


def test_trusting_ridge_is_ridge():
    data, K = problem()
    Y, rows = data.candidates.astype(float), np.arange(160)
    result = trusting_ridge(KernelRidges(K, Y, [0.5]))
    (A, b) = result.ridges[0]
    scores = ridge_with_intercept(K, Y, 0.5, rows, rows)
    np.testing.assert_allclose(K @ A + b, scores, atol=1e-9)
    S = np.array([ridge_with_intercept(K, Y, 0.5, np.delete(rows, i), [i])[0] for i in rows])
    log_odds = result.pool.log_odds([S])
    P = np.clip(1 / (1 + np.exp(-log_odds)), 1e-4, 1 - 1e-4)
    assert result.trace[0][1] == pytest.approx(-np.log(P[Y == 1]).mean())
    np.testing.assert_allclose(result.log_odds(), log_odds, atol=1e-7)
    np.testing.assert_array_equal(result.confidence().toarray(), Y)
    order = np.argsort(result.pool.log_odds([scores]), axis=1)
    np.testing.assert_array_equal(order, np.argsort(scores, axis=1))


def test_all_rows_listed_everywhere_does_not_crash():
    data, K = problem()
    Y = np.ones_like(data.candidates)
    result = rounds(K, Y, [1.0], max_iter=3)
    assert np.isfinite(result.log_odds()).all()
