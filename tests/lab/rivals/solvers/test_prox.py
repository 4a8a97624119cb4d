"""Proximal steps of the compared methods against their optimality conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from linalg.matrices import MATRICES

from schirn.lab.rivals.solvers.prox import (
    polar_factor,
    project_simplex,
    singular_value_threshold,
    soft_threshold,
)

entries = st.floats(-10, 10, allow_subnormal=False)


@given(entries, st.floats(0, 5))
def test_soft_threshold_is_the_best_point_of_a_grid(a, t):
    grid = np.append(np.linspace(-10, 10, 4001), 0)

    def cost(b):
        return (b - a) ** 2 / 2 + t * np.abs(b)

    assert cost(soft_threshold(np.array([a]), t)[0]) <= cost(grid).min() + 1e-12


@given(arrays(float, array_shapes(max_dims=2, max_side=5), elements=entries), st.floats(0, 5))
def test_soft_threshold_meets_the_subgradient_condition(A, t):
    B = soft_threshold(A, t)
    np.testing.assert_allclose((A - B)[B != 0], (t * np.sign(B))[B != 0], atol=1e-12)
    assert (np.abs(A - B)[B == 0] <= t + 1e-12).all()


def test_soft_threshold_takes_one_threshold_per_entry_and_keeps_the_type():
    B = soft_threshold(np.array([3, -3, 0.5], dtype=np.float32), np.float32([1, 2, 1]))
    assert B.dtype == np.float32
    assert B.tolist() == [2, -1, 0]


@pytest.mark.parametrize("name", MATRICES)
def test_singular_value_threshold_meets_its_optimality_condition(name):
    A = MATRICES[name]
    top = np.linalg.norm(A, 2) or 1.0
    for t in (0.2 * top, 2 * top):
        B = singular_value_threshold(A, t)
        assert np.linalg.norm(A - B, 2) <= t * (1 + 1e-9)
        U, S, Vt = np.linalg.svd(B, full_matrices=False)
        r = int((S > 1e-6 * top).sum())
        inner = U[:, :r].T @ (A - B) @ Vt[:r].T
        np.testing.assert_allclose(inner, t * np.eye(r), rtol=0, atol=1e-7 * top)


@settings(max_examples=50)
@given(arrays(float, (4, 3), elements=entries), arrays(float, (4, 3), elements=entries))
def test_no_other_matrix_beats_singular_value_threshold(A, other):
    def cost(B):
        return np.sum((B - A) ** 2) / 2 + 2 * np.linalg.norm(B, "nuc")

    best = cost(singular_value_threshold(A, 2.0))
    assert best <= cost(other) + 1e-6
    for step in (1e-3, 0.1):
        nearby = singular_value_threshold(A, 2.0) + step * other
        assert best <= cost(nearby) + 1e-6


def test_singular_value_threshold_of_the_transpose():
    A = MATRICES["tall"]
    B = singular_value_threshold(A, 1.0)
    np.testing.assert_allclose(singular_value_threshold(A.T, 1.0).T, B, atol=1e-12)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_polar_factor_is_the_nearest_isometry(shape):
    rng = np.random.default_rng(0)
    A = rng.normal(size=shape)
    found = polar_factor(A)
    U, _, Vt = np.linalg.svd(A, full_matrices=False)
    np.testing.assert_allclose(found, U @ Vt, atol=1e-10)
    small = found @ found.T if shape[0] < shape[1] else found.T @ found
    np.testing.assert_allclose(small, np.eye(min(shape)), atol=1e-10)


def test_polar_factor_leaves_null_directions_at_zero():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 5))
    U, _, Vt = np.linalg.svd(A)
    np.testing.assert_allclose(polar_factor(A), U[:, :2] @ Vt[:2], atol=1e-10)
    assert not polar_factor(np.zeros((3, 2))).any()


def test_project_simplex_meets_its_optimality_condition():
    """A - P is the same number at all positive entries of a row and no larger elsewhere."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 7)) * rng.choice([0.1, 1, 100], size=(40, 1))
    P = project_simplex(A)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (P >= 0).all()
    cut = np.max(np.where(P > 0, A - P, -np.inf), axis=1, keepdims=True)
    np.testing.assert_allclose(np.where(P > 0, A - P, cut), np.broadcast_to(cut, A.shape))
    assert (A - P <= cut + 1e-9).all()
    assert project_simplex(A.astype(np.float32)).dtype == np.float32
