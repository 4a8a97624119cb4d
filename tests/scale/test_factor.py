"""Ridge systems over blocks: conjugate gradients against the factored solver."""

import logging
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from schirn import Schirn
from schirn.linalg.row_space import row_space
from schirn.scale.blocks import Block, FeatureRows, Layout, MemoryRows, candidate_cells
from schirn.scale.factor import MOST_FACTORED, choose_solver, iterative_factor
from schirn.solvers.schirn import schirn, schirn_rounds

storages = pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
intercepts = pytest.mark.parametrize("intercept", [False, True])


def problem(n=120, d=25, l=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.4)
    truth = X @ rng.normal(size=(d, l)) > 0.3
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(float)


def blocks(X, Y, cuts=(50,)):
    edges = [0, *cuts, X.shape[0]]
    return MemoryRows(
        [Block(FeatureRows(X[i:j], i), candidate_cells(Y[i:j])) for i, j in pairwise(edges)]
    )


def layout(X):
    return Layout(*X.shape, X.dtype, sp.issparse(X))


@storages
@intercepts
def test_rounds_are_those_of_the_factored_solver(storage, intercept):
    X, Y = problem()
    options = {"alpha": 0.5, "beta": 0.1, "lam": 0.5}
    space = row_space(X, ridge=0.1, fit_intercept=intercept)
    expected, _ = schirn(space, Y, **options)
    store = blocks(storage(X), Y)
    factor = iterative_factor(store, layout(X), fit_intercept=intercept)
    found = schirn_rounds(store, factor.coordinates, **options)
    W, b = factor.coefficients(found.w)
    W0, b0 = space.coefficients(expected.w)
    np.testing.assert_allclose(X @ W + b, X @ W0 + b0, atol=1e-6)
    np.testing.assert_array_equal(found.n_noise, expected.n_noise)
    assert 0 < found.n_noise[-1] < Y.sum()
    # Later rounds start from earlier ones.
    assert factor.coordinates.n_steps < 100 * X.shape[1]


@storages
@intercepts
def test_leverages_are_near_the_exact_ones(storage, intercept):
    X, Y = problem(n=400)
    store = blocks(storage(X), Y)
    factor = iterative_factor(store, layout(X), fit_intercept=intercept)
    message = factor.leverage(2.0)
    found = np.concatenate([block.rows.squares(message) for block in store.blocks])
    exact = row_space(X, ridge=1.0, fit_intercept=intercept).leverage(2.0)
    assert np.abs(found / exact - 1).mean() < 0.25
    assert found.sum() == pytest.approx(exact.sum(), rel=0.1)


@storages
@intercepts
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_estimator_gives_nearly_the_same_model(storage, intercept, dtype):
    X, Y = problem()
    X = X.astype(dtype)
    options = {"alpha": 0.2, "beta": 0.05, "lam": 2.0, "fit_intercept": intercept}
    factored = Schirn(solver="factor", **options).fit(storage(X), Y)
    iterated = Schirn(solver="cg", **options).fit(storage(X), Y)
    scores = factored.decision_function(X)
    assert iterated.coef_.dtype == dtype
    atol = 1e-6 if dtype is np.float64 else 2e-3
    np.testing.assert_allclose(iterated.decision_function(X), scores, atol=atol)
    np.testing.assert_array_equal(iterated.noise_, factored.noise_)
    difference = iterated.label_confidence_ - factored.label_confidence_
    assert np.abs(difference).mean() < 0.02
    assert iterated.label_confidence_.shape == Y.shape
    assert (iterated.label_confidence_[Y == 0] == 0).all()


def test_the_choice_has_a_reason_and_is_logged(caplog):
    assert choose_solver((10**6, MOST_FACTORED))[0] == "factor"
    chosen, reason = choose_solver((10**6, 100_000))
    assert chosen == "cg"
    assert "80 GB" in reason
    assert choose_solver((10, 10), "cg") == ("cg", "requested")
    X, Y = problem()
    with caplog.at_level(logging.INFO, logger="schirn"):
        Schirn(alpha=0.2, beta=0.05, lam=10.0, solver="cg", max_iter=2).fit(X, Y)
    assert "conjugate gradients" in caplog.text


def test_nearly_dependent_features_warn():
    X, Y = problem()
    U, _, Vt = np.linalg.svd(X, full_matrices=False)
    X = (U * np.logspace(0, -8, X.shape[1])) @ Vt
    with pytest.warns(UserWarning, match="conjugate gradients stopped after 500 steps"):
        Schirn(alpha=0.2, beta=0.05, solver="cg", lam=1e-16, max_iter=1, mu=1.0).fit(X, Y)
