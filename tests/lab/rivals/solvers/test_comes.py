"""The closed form of COMES against descent on the risk, and the estimate of the priors."""

import numpy as np
import pytest
from reference.comes import plain_comes, plain_gradient, plain_priors, plain_risk

from schirn.lab.rivals.solvers._comes import comes, coordinates, priors_from_candidates
from schirn.linalg.row_space import ridge, row_space


def data(n=50, d=4, l=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1
    truth = X @ rng.normal(size=(d, l)) > 0.5
    listed = truth | (rng.random((n, l)) < [0.1, 0.3, 0.6])
    return X, listed.astype(float), truth.mean(axis=0)


@pytest.mark.parametrize("lam", [0.1, 5.0])
def test_equals_descent_on_the_risk(lam):
    X, Y, priors = data()
    space = row_space(X, ridge=lam, fit_intercept=True)
    result = comes(space, Y, lam=lam, priors=priors)
    W, b = space.coefficients(result.w)
    plain_W, plain_b = plain_comes(X, Y, priors, lam)
    np.testing.assert_allclose(W, plain_W, atol=1e-7)
    np.testing.assert_allclose(b, plain_b, atol=1e-7)
    for gradient in plain_gradient(W, b, X, Y, priors, lam):
        np.testing.assert_allclose(gradient, 0, atol=1e-8)
    np.testing.assert_allclose(coordinates(space, Y, lam=lam, priors=priors), result.w)


def test_the_objective_is_the_risk_up_to_a_constant():
    X, Y, priors = data()
    objectives, risks = [], []
    for lam in (0.1, 1.0, 10.0):
        space = row_space(X, ridge=lam, fit_intercept=True)
        result = comes(space, Y, lam=lam, priors=priors)
        objectives.append(result.objective)
        risks.append(plain_risk(*space.coefficients(result.w), X, Y, priors, lam))
    np.testing.assert_allclose(np.diff(objectives), np.diff(risks), rtol=1e-9)


def test_leave_one_out_scores_hold_the_targets_of_all_rows():
    """Row i is scored by the solution without row i, for the same slopes and offsets."""
    X, Y, priors = data(n=20)
    space = row_space(X, ridge=1.0, fit_intercept=True)
    result = comes(space, Y, lam=1.0, priors=priors)
    slope = (1 - priors) / (1 - Y.mean(axis=0))
    targets = 1 - slope * (1 - Y)
    for i in (0, 7, 19):
        rest = np.arange(20) != i
        other = row_space(X[rest], ridge=1.0, fit_intercept=True)
        W, b = other.coefficients(ridge(other, targets[rest], 1.0).w)
        np.testing.assert_allclose(result.loo_scores[i], X[i] @ W + b)


def test_priors_equal_the_plain_ones():
    X, Y, _ = data(n=61)
    scores = ridge(row_space(X, ridge=1.0, fit_intercept=True), Y, 1.0).loo_scores
    found = priors_from_candidates(scores, Y)
    np.testing.assert_allclose(found, plain_priors(scores, Y))
    assert (found >= 0).all()
    assert (found <= Y.mean(axis=0)).all()


def test_priors_of_separable_labels_are_found():
    rng = np.random.default_rng(0)
    scores = rng.random((4000, 3))
    truth = scores > [0.9, 0.7, 0.5]
    Y = truth | (rng.random(truth.shape) < [0.1, 0.3, 0.6])
    np.testing.assert_allclose(
        priors_from_candidates(scores, Y.astype(int)), truth.mean(axis=0), atol=0.05
    )


def test_priors_are_not_larger_than_the_share_of_candidates():
    X, Y, _ = data()
    space = row_space(X, ridge=1.0, fit_intercept=True)
    result = comes(space, Y, lam=1.0, priors=np.ones(3))
    np.testing.assert_allclose(result.priors, Y.mean(axis=0))
    np.testing.assert_allclose(result.w, ridge(space, Y, 1.0).w)
