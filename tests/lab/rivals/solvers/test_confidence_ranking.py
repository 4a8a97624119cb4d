import numpy as np
import pytest
from reference.confidence_ranking import errors, plain_confidence_ranking
from scipy.optimize import check_grad

from schirn.lab.rivals.solvers._confidence_ranking import (
    FeaturePrototypes,
    LabelCorrelation,
    confidence_ranking,
    ranking_errors,
)
from schirn.linalg.row_space import row_space

TERMS = {"lc": LabelCorrelation, "fp": FeaturePrototypes}


def make(n=14, d=2, l=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    Y = (X @ rng.normal(size=(d, l)) + rng.normal(size=(n, l)) > 0.2).astype(float)
    Y[0], Y[1] = 0, 1  # A row without candidates, and one that lists every label.
    return np.hstack([X, np.ones((n, 1))]), Y


def solve(Z, Y, kind, gamma=0.5, lam=1.0, alpha=1.0, **options):
    space = row_space(Z, ridge=lam)
    term = TERMS[kind](space, Y, gamma)
    result = confidence_ranking(space, Y, term, lam=lam, alpha=alpha, **options)
    return result, space.coefficients(result.w)[0]


@pytest.mark.parametrize("kind", TERMS)
@pytest.mark.parametrize(("lam", "alpha", "gamma"), [(1.0, 1.0, 0.5), (0.5, 0.4, 2.0)])
def test_equals_the_plain_rounds(kind, lam, alpha, gamma):
    Z, Y = make()
    W, P, objective = plain_confidence_ranking(Z, Y, kind, lam, alpha, gamma, rounds=3)
    result, weights = solve(Z, Y, kind, gamma, lam, alpha, max_iter=3, tol=0)
    np.testing.assert_allclose(result.objective, objective, rtol=1e-5)
    np.testing.assert_allclose(result.P, P, atol=2e-3)
    np.testing.assert_allclose(weights, W, atol=2e-3)


def test_errors_and_their_gradient():
    _Z, Y = make(n=6)
    rng = np.random.default_rng(1)
    F, P = rng.normal(size=Y.shape), Y * rng.uniform(size=Y.shape)
    expected = np.array([errors(f, y) for f, y in zip(F, Y, strict=True)])
    np.testing.assert_allclose(ranking_errors(F, Y, P)[0], expected)
    difference = check_grad(
        lambda f: np.sum(P * ranking_errors(f.reshape(Y.shape), Y, P)[0]),
        lambda f: ranking_errors(f.reshape(Y.shape), Y, P)[1].ravel(),
        F.ravel(),
    )
    assert difference < 1e-5


@pytest.mark.parametrize("kind", TERMS)
@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_objective_never_rises_and_confidences_stay_feasible(kind, alpha):
    Z, Y = make(60, 5, 6, seed=2)
    result, _ = solve(Z, Y, kind, alpha=alpha, max_iter=15, tol=0)
    assert len(result.objective) > 3
    assert (np.diff(result.objective) <= 1e-8 * np.abs(result.objective[:-1])).all()
    assert ((result.P >= 0) & (result.P <= Y)).all()
    listed = Y.any(axis=1)
    assert (result.P[listed].sum(axis=1) > 1 - 1e-9).all()
    assert not result.P[~listed].any()


def test_without_a_term_the_confidence_is_one_minus_the_error():
    Z, Y = make(60, 5, 6, seed=2)
    result, _ = solve(Z, Y, "lc", gamma=0.0, max_iter=1)
    E = ranking_errors(result.scores, Y, Y)[0]
    free = result.P.sum(axis=1) > 1 + 1e-6
    assert free.sum() > 20
    np.testing.assert_allclose(result.P[free], (Y * np.clip(1 - E, 0, 1))[free], atol=1e-9)


def test_a_candidate_without_its_companions_is_doubted():
    rng = np.random.default_rng(0)
    first, second = rng.random(200) < 0.3, rng.random(200) < 0.3
    Y = np.column_stack([first, first, second, second]).astype(float)
    Y[0] = [1, 0, 1, 1]
    Z = np.ones((200, 1))
    P = solve(Z, Y, "lc", gamma=3.0, alpha=5.0)[0].P
    assert P[0, 0] < min(P[0, 2:].min(), P[1:, :2][first[1:] & ~second[1:]].min()) - 0.05


def test_a_candidate_far_from_its_prototype_is_doubted():
    rng = np.random.default_rng(0)
    side = rng.random(200) < 0.5
    Z = np.column_stack([np.where(side, 1.0, -1.0) + 0.1 * rng.normal(size=200), np.ones(200)])
    Y = np.column_stack([side, ~side, rng.random(200) < 0.5]).astype(float)
    wrong = np.flatnonzero(~side)[:3]
    Y[wrong, 0] = 1
    doubted, trusted = (solve(Z, Y, "fp", gamma=g, lam=1e3)[0].P for g in (1.0, 0.0))
    assert doubted[wrong, 0].max() < 0.1 < 0.9 < doubted[side, 0].min()
    assert trusted[wrong, 0].min() > doubted[wrong, 0].max()
