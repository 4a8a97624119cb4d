"""The block version beside the loop of the paper, and its steps one by one."""

import numpy as np
import pytest

from schirn.lab.rivals.solvers.prox import singular_value_threshold
from schirn.linalg.prox import shift_by_gram
from schirn.linalg.row_space import row_space
from schirn.scale.blocks import memory_rows
from schirn.solvers.schirn import schirn
from schirn.solvers.schirn_blocks import (
    Centred,
    Shift,
    begin_round,
    finish_round,
    schirn_in_one_block,
    start,
)

dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def problem(n=90, d=12, l=7, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    truth = X @ rng.normal(size=(d, l)) > 0.5
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(float)


def assert_equal(block, loop):
    np.testing.assert_array_equal(block.N, loop.N)
    np.testing.assert_array_equal(block.n_noise, loop.n_noise)
    np.testing.assert_allclose(block.w, loop.w, rtol=0, atol=1e-9 * np.abs(loop.w).max())
    for name in ("objective", "residual"):
        trace = getattr(loop, name)
        atol = 1e-10 * np.abs(trace).max()
        np.testing.assert_allclose(getattr(block, name), trace, rtol=0, atol=atol)


@pytest.mark.parametrize("shape", [(60, 12, 6), (25, 60, 6), (9, 14, 20)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("term", ["high", "low", "none"])
def test_one_block_is_the_loop_of_the_paper(term, intercept, shape):
    X, Y = problem(*shape)
    space = row_space(X, ridge=0.1, fit_intercept=intercept)
    numbers = {"alpha": 0.0, "beta": 0.1, "lam": 60.0}
    loop = schirn(space, Y, rank_term=term, **numbers)
    block = schirn_in_one_block(space, Y, rank_term=term, **numbers)
    assert loop.N.any()
    assert_equal(block, loop)


@pytest.mark.parametrize("term", ["high", "low", "none"])
def test_one_block_stops_where_the_loop_does(term):
    X, Y = problem()
    space = row_space(X, ridge=0.1)
    numbers = {"alpha": 0.3, "beta": 0.1, "lam": 5.0, "max_iter": 400, "tol": 1e-4}
    loop = schirn(space, Y, rank_term=term, **numbers)
    assert len(loop.objective) < 400
    assert_equal(schirn_in_one_block(space, Y, rank_term=term, **numbers), loop)


@dtypes
def test_steps_leave_the_old_state_alone(dtype):
    X, Y = problem()
    store, _ = memory_rows(row_space(X.astype(dtype), ridge=1.0), Y)
    (block,) = store.blocks
    first, _ = start(block, None)
    w = np.ones((12, 7), dtype=dtype)
    second, over_G = begin_round(block, first, w, 0.35, True)
    shift = Shift((over_G.gram / 100).astype(dtype), 0.5, 1.0, 1.0, 1.0)
    third, over_C = finish_round(block, second, shift)
    np.testing.assert_allclose(first.S.whole(), 1 + 2 * Y.T, rtol=1e-6)
    second_again, _ = begin_round(block, first, w, 0.35, True)
    np.testing.assert_array_equal(second_again.G.values, second.G.values)
    third_again, over_C_again = finish_round(block, second_again, shift)
    np.testing.assert_array_equal(third_again.S.values, third.S.values)
    assert over_C_again == over_C


@dtypes
def test_the_low_rank_step_is_singular_value_thresholding(dtype):
    X, Y = problem()
    store, _ = memory_rows(row_space(X.astype(dtype), ridge=1.0), Y)
    mu = 0.4
    beta = 0.9
    store.step(start)
    w = np.random.default_rng(0).normal(size=(X.shape[1], Y.shape[1])).astype(dtype)
    over_G = store.step(begin_round, w, 0.0, True)
    G = store.states[0].G.whole()
    shifted = shift_by_gram(over_G.gram, 2 * beta, "low")
    R = (shifted.right / (2 + mu)).astype(dtype)
    store.step(finish_round, Shift(R, 1 / (2 + mu), mu, 1.0, 1.0))
    expected = singular_value_threshold(G.T.astype(float) / (2 + mu), 2 * beta / (2 + mu))
    at_candidates = expected.T.reshape(-1)[store.blocks[0].cells.flat]
    tolerance = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(store.states[0].C, at_candidates, atol=tolerance)
    nuclear_norm = float(shifted.values.sum()) / (2 + mu)
    assert nuclear_norm == pytest.approx(np.linalg.norm(expected, "nuc"), rel=1e-5)


def test_means_are_kept_apart_in_single_precision():
    A = np.arange(6.0).reshape(2, 3) + 100
    double = Centred.of(A.copy())
    assert double.mean is None
    np.testing.assert_array_equal(double.values, A)
    single = Centred.of(A.astype(np.float32))
    np.testing.assert_array_equal(single.mean, [101, 104])
    np.testing.assert_array_equal(single.values, [[-1, 0, 1], [-1, 0, 1]])
    np.testing.assert_array_equal(single.whole(), A)
    assert single.square() == pytest.approx(np.sum(A**2))
    np.testing.assert_allclose(single.gram()[0], A @ A.T, rtol=1e-12)
