import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.schirn import plain_schirn

from schirn import Schirn
from schirn.datasets import load
from schirn.linalg.row_space import row_space
from schirn.solvers.schirn import schirn
from schirn.solvers.schirn_blocks import schirn_in_one_block

rules = pytest.mark.parametrize("rule", ["exact", "printed"])
terms = pytest.mark.parametrize("term", ["high", "low", "none"])
solvers = pytest.mark.parametrize("solver", [schirn, schirn_in_one_block], ids=["loop", "block"])
storages = pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
SHAPES = {
    "d > n": (25, 60, 6),
    "n > d": (60, 12, 6),
    "n < l": (9, 14, 20),
    "n < l, n > d": (9, 4, 20),
}


def problem(n, d, l, seed=0):
    """Labels that follow the features, with false ones added."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    truth = X @ rng.normal(size=(d, l)) > 0.5
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(float)


def alpha_for(rule):
    return 0.3 if rule == "exact" else 1.3


def solve(X, Y, alpha=0.3, beta=0.1, lam=0.5, rule="exact", term="high", rounds=100, **options):
    mu, rho = options.get("mu", 1e-4), options.get("rho", 1.1)
    largest = min(options.get("mu_max", 10.0), mu * rho ** (rounds - 1))
    fit_intercept = options.pop("fit_intercept", False)
    space = row_space(X, ridge=2 * lam / largest, fit_intercept=fit_intercept)
    solver = options.pop("solver", schirn)
    numbers = {"alpha": alpha, "beta": beta, "lam": lam, "max_iter": rounds, **options}
    return space, solver(space, Y, noise_rule=rule, rank_term=term, **numbers)


def assert_same(X, Y, got, expected, rtol=1e-6):
    space, result = got
    W, N, objective, residual, n_noise = expected
    scores = X @ W
    assert np.abs(space.expand(result.w) - scores).max() <= rtol * np.abs(scores).max()
    coef, b = space.coefficients(result.w)
    assert np.abs(X @ coef + b - scores).max() <= rtol * np.abs(scores).max()
    assert result.N.dtype == bool
    np.testing.assert_array_equal(result.N, N)
    np.testing.assert_array_equal(result.n_noise, n_noise)
    np.testing.assert_allclose(result.objective, objective, rtol=rtol)
    np.testing.assert_allclose(result.residual, residual, rtol=rtol, atol=rtol * residual[0])
    assert (result.N <= (Y != 0)).all()


@solvers
@rules
@terms
@storages
@pytest.mark.parametrize("name", SHAPES)
def test_equals_the_plain_transcription(name, storage, term, rule, solver):
    X, Y = problem(*SHAPES[name])
    lam = 20.0 if name == "d > n" else 0.5
    options = {"alpha": alpha_for(rule), "beta": 0.1, "lam": lam, "rule": rule, "term": term}
    expected = plain_schirn(X, Y, **options)
    assert 0 < expected[1].sum() < Y.sum()
    assert_same(X, Y, solve(storage(X), Y, solver=solver, **options), expected)


@rules
@pytest.mark.parametrize("alpha", [0.0, 0.9, 5.0])
def test_prices_of_noise(alpha, rule):
    X, Y = problem(*SHAPES["n > d"])
    expected = plain_schirn(X, Y, alpha, 0.1, 0.5, rule)
    assert_same(X, Y, solve(X, Y, alpha, rule=rule), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"mu": 0.1, "mu_max": 0.4, "rho": 1.5},
        {"mu": 1.0, "mu_max": 10.0, "rho": 1.0},
        {"mu": 20.0, "mu_max": 10.0, "rho": 1.1},
    ],
)
def test_penalty_schedules(options):
    X, Y = problem(*SHAPES["n > d"])
    expected = plain_schirn(X, Y, 0.3, 0.1, 0.5, rounds=50, **options)
    assert_same(X, Y, solve(X, Y, rounds=50, **options), expected)


@solvers
@terms
def test_odd_label_columns(term, solver):
    X, Y = problem(*SHAPES["n > d"])
    Y[:, 1], Y[:, 2], Y[:, 4] = 0, 1, Y[:, 3]
    expected = plain_schirn(X, Y, 0.3, 0.1, 0.5, term=term)
    got = solve(X, Y, term=term, solver=solver)
    assert_same(X, Y, got, expected)
    assert not got[1].N[:, 1].any()
    np.testing.assert_array_equal(got[1].N[:, 3], got[1].N[:, 4])


@terms
@rules
def test_one_label(term, rule):
    X, Y = problem(40, 6, 1)
    options = {"alpha": alpha_for(rule), "beta": 0.1, "lam": 0.5, "rule": rule, "term": term}
    assert_same(X, Y, solve(X, Y, **options), plain_schirn(X, Y, **options))


@solvers
@terms
def test_one_row(term, solver):
    X, Y = problem(1, 5, 3, seed=2)
    Y[:] = [[1, 0, 1]]
    got = solve(X, Y, term=term, solver=solver)
    assert_same(X, Y, got, plain_schirn(X, Y, 0.3, 0.1, 0.5, term=term))


def test_one_round():
    X, Y = problem(*SHAPES["n > d"])
    got = solve(X, Y, rounds=1)
    assert len(got[1].objective) == 1
    assert_same(X, Y, got, plain_schirn(X, Y, 0.3, 0.1, 0.5, rounds=1))


@terms
def test_no_rank_weight_is_no_rank_term(term):
    X, Y = problem(*SHAPES["n > d"])
    first, second = solve(X, Y, beta=0.0, term=term), solve(X, Y, term="none")
    np.testing.assert_allclose(first[1].w, second[1].w, rtol=1e-12)
    np.testing.assert_allclose(first[1].objective, second[1].objective, rtol=1e-12)


@storages
def test_features_that_are_all_zero(storage):
    _, Y = problem(20, 4, 5)
    X = np.zeros((20, 4))
    assert_same(X, Y, solve(storage(X), Y), plain_schirn(X, Y, 0.3, 0.1, 0.5))


@pytest.mark.parametrize("shape", ["n > d", "d > n"])
def test_badly_scaled_features(shape):
    X, Y = problem(*SHAPES[shape])
    X = X * 10.0 ** np.linspace(-2, 4, X.shape[1])
    got = solve(X, Y)
    assert got[0].how == "svd"
    assert_same(X, Y, got, plain_schirn(X, Y, 0.3, 0.1, 0.5))


@pytest.mark.parametrize(
    "form",
    [
        np.asfortranarray,
        lambda Y: Y.astype(bool),
        lambda Y: Y.astype(np.uint8),
        lambda Y: np.asfortranarray(Y.astype(bool)),
        lambda Y: np.repeat(Y, 2, axis=1)[:, ::2],
    ],
    ids=["fortran", "bool", "uint8", "fortran bool", "strided"],
)
@pytest.mark.parametrize("name", ["n > d", "n < l"])
def test_forms_of_the_labels(name, form):
    X, Y = problem(*SHAPES[name])
    before = Y.copy()
    expected, got = solve(X, Y)[1], solve(X, form(Y))[1]
    np.testing.assert_array_equal(got.N, expected.N)
    np.testing.assert_allclose(got.w, expected.w, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(Y, before)


@solvers
@terms
@storages
@pytest.mark.parametrize("name", SHAPES)
def test_single_precision_is_close(name, storage, term, solver):
    X, Y = problem(*SHAPES[name])
    lam = 20.0
    double = solve(X, Y, lam=lam, term=term)
    single = solve(storage(X.astype(np.float32)), Y, lam=lam, term=term, solver=solver)
    scores, close = double[0].expand(double[1].w), single[0].expand(single[1].w)
    assert close.dtype == single[1].w.dtype == np.float32
    assert np.abs(close - scores).max() <= 1e-3 * np.abs(scores).max()
    assert (single[1].N != double[1].N).mean() <= 0.01


@storages
@pytest.mark.parametrize("name", ["n > d", "d > n"])
def test_intercept_is_a_column_that_costs_nothing(name, storage):
    X, Y = problem(*SHAPES[name])
    size = 1e5
    augmented = np.column_stack([X - X.mean(axis=0), np.full(len(X), size)])
    W, N, objective, residual, n_noise = plain_schirn(augmented, Y, 0.3, 0.1, 0.5)
    space, result = solve(storage(X), Y, fit_intercept=True)
    expected = augmented @ W
    assert np.abs(space.expand(result.w) - expected).max() <= 1e-5 * np.abs(expected).max()
    coef, b = space.coefficients(result.w)
    assert np.abs(X @ coef + b - expected).max() <= 1e-5 * np.abs(expected).max()
    np.testing.assert_array_equal(result.N, N)
    np.testing.assert_array_equal(result.n_noise, n_noise)
    # In the first round the column is used so much that its small cost shows.
    np.testing.assert_allclose(result.objective[1:], objective[1:], rtol=1e-5)
    np.testing.assert_allclose(result.residual, residual, rtol=1e-4, atol=1e-5 * residual[0])


@terms
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
def test_the_two_noise_rules_are_one(alpha, term):
    X, Y = problem(*SHAPES["n > d"])
    exact = solve(X, Y, alpha=alpha, rule="exact", term=term)[1]
    printed = solve(X, Y, alpha=1 + alpha, rule="printed", term=term)[1]
    np.testing.assert_array_equal(exact.N, printed.N)
    np.testing.assert_array_equal(exact.w, printed.w)
    np.testing.assert_array_equal(exact.residual, printed.residual)
    np.testing.assert_allclose(printed.objective - exact.objective, exact.n_noise, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(sorted(SHAPES)), st.sampled_from(["high", "low", "none"]), st.integers(0, 99)
)
def test_labels_and_rows_have_no_order(name, term, seed):
    X, Y = problem(*SHAPES[name], seed=seed)
    rng = np.random.default_rng(seed)
    rows, labels = rng.permutation(len(Y)), rng.permutation(Y.shape[1])
    first, second = solve(X, Y, term=term), solve(X[rows], Y[rows][:, labels], term=term)
    expected = first[0].expand(first[1].w)[rows][:, labels]
    got = second[0].expand(second[1].w)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-7 * np.abs(expected).max())
    np.testing.assert_array_equal(second[1].N, first[1].N[rows][:, labels])


@solvers
@rules
@terms
def test_tolerance_stops_early_with_the_same_noise(term, rule, solver):
    X, Y = problem(*SHAPES["n > d"])
    options = {"solver": solver, "alpha": alpha_for(rule), "lam": 5.0, "rule": rule, "term": term}
    full, early = (solve(X, Y, rounds=400, tol=tol, **options)[1] for tol in (0.0, 1e-4))
    assert len(full.objective) == 400
    n_iter = len(early.objective)
    assert 1 < n_iter < 400
    assert n_iter == len(early.residual) == len(early.n_noise)
    np.testing.assert_array_equal(early.N, full.N)
    np.testing.assert_allclose(early.residual, full.residual[:n_iter])
    # One round before, either the residual was too large or N had just changed.
    previous = early.residual[-2] / early.residual[-1]
    assert previous > 1 or early.n_noise[-1] != early.n_noise[-2]


def test_tolerance_waits_for_the_noise():
    X, Y = problem(*SHAPES["n > d"])
    # A bonus for noise turns every candidate to noise in round one; nothing changes in round two.
    result = solve(X, Y, alpha=-9.0, tol=1e9)[1]
    assert result.n_noise.tolist() == [Y.sum(), Y.sum()]
    assert len(solve(X, Y, tol=1e9)[1].objective) == 1


@storages
def test_projections_follow_where_many_labels_change_at_once(storage):
    X, Y = problem(*SHAPES["n > d"])
    # Many candidates, no price and a strong ridge: a large part turns to noise in one round.
    Y = np.maximum(Y, np.random.default_rng(0).random(Y.shape) < 0.6)
    got = solve(storage(X), Y, alpha=0.0, lam=50.0)
    assert np.abs(np.diff(got[1].n_noise)).max() > Y.size / 4
    assert_same(X, Y, got, plain_schirn(X, Y, 0.0, 0.1, 50.0))


def test_without_rank_term_the_end_is_ridge_on_what_is_kept():
    X, Y = problem(*SHAPES["n > d"])
    space, result = solve(X, Y, lam=5.0, term="none", rounds=600)
    kept = Y - result.N
    expected = space.ridge(space.project(kept), 5.0)
    np.testing.assert_allclose(space.expand(result.w), space.expand(expected), atol=1e-6)
    # N is the best binary matrix for these scores, cell by cell.
    M = Y - space.expand(result.w)
    away = np.abs(M - 0.65) > 1e-6
    np.testing.assert_array_equal(result.N[away], ((Y == 1) & (M > 0.65))[away])


@cache
def real_problem(name):
    folder = os.environ.get("SCHIRN_DATA")
    if not folder:
        pytest.skip("SCHIRN_DATA does not name the folder of data sets")
    if not (Path(folder.split(os.pathsep)[0]) / f"{name}.npz").is_file():
        pytest.skip(f"SCHIRN_DATA holds no {name}.npz")
    data = load(name)
    rows = data.folds[0][0] if name == "birds_nlr_r3" else np.arange(300)
    part = data.subset(rows)
    return part.X.astype(float), np.asarray(part.candidates, dtype=float)


@rules
@terms
@pytest.mark.parametrize(("name", "how"), [("birds_nlr_r3", "svd"), ("yeastmf", "gram-rows")])
def test_real_data(name, how, term, rule):
    X, Y = real_problem(name)
    alpha = {"exact": 0.1, "printed": 1.1}[rule]
    options = {"beta": 0.5, "lam": 1.0, "rule": rule, "term": term}
    if name == "yeastmf" or rule == "printed":
        # The plain form is slow: fewer and longer steps to the same end.
        options |= {"mu": 1e-2, "rho": 1.4, "rounds": 20}
    got = solve(X, Y, alpha, **options)
    assert got[0].how == how
    expected = plain_schirn(X, Y, alpha, **options)
    assert_same(X, Y, got, expected)
    assert 0 < expected[1].sum() < Y.sum()


@solvers
@pytest.mark.parametrize("rounds", [40, 100])
@pytest.mark.parametrize("name", ["birds_nlr_r3", "yeastmf"])
def test_real_data_in_single_precision(name, rounds, solver):
    X, Y = real_problem(name)
    options = {"lam": 1.0, "rounds": rounds, "solver": solver}
    double, single = (solve(X.astype(t), Y, **options) for t in (float, np.float32))
    scores, close = double[0].expand(double[1].w), single[0].expand(single[1].w)
    assert close.dtype == np.float32
    assert np.abs(close - scores).max() <= 1e-3 * np.abs(scores).max()
    assert (single[1].N != double[1].N).mean() <= 1e-3


def test_residual_in_single_precision_where_noise_changes():
    """Means are kept apart from the array in single precision, and so is what N adds to them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 12)) + 1
    S = X @ rng.standard_normal((12, 8))
    Y = (np.quantile(S, 0.7, axis=0) < S) | (rng.random(S.shape) < 0.15)
    Y[np.arange(600), S.argmax(axis=1)] = True
    single, double = (
        Schirn(alpha=0.5, beta=0.05, lam=1.0).fit(X.astype(t), Y.astype(int))
        for t in (np.float32, float)
    )
    assert len(np.unique(double.n_noise_)) > 2
    np.testing.assert_allclose(single.residual_, double.residual_, rtol=1e-3)
