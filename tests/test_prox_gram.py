"""Singular values shifted through a Gram matrix alone."""

import numpy as np
import pytest

from schirn.linalg.prox import _resolution, shift_by_gram, shift_singular_values


def with_singular_values(values, n=30, seed=0, dtype=np.float64):
    """A matrix (n, l) with these singular values."""
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.normal(size=(n, len(values))))
    V, _ = np.linalg.qr(rng.normal(size=(len(values), len(values))))
    return ((U * np.array(values)) @ V.T).astype(dtype)


@pytest.mark.parametrize("term", ["high", "low"])
@pytest.mark.parametrize("tau", [0.0, 0.7, 2.5])
def test_it_is_the_shift_of_the_singular_values(term, tau):
    G = with_singular_values([5.0, 3.0, 1.0, 0.5])
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    shifted = s + tau if term == "high" else np.maximum(s - tau, 0)
    found = shift_by_gram(G.T @ G, tau, term)
    np.testing.assert_allclose(G @ found.right, (U * shifted) @ Vt, atol=1e-12)
    np.testing.assert_allclose(np.sort(found.values), np.sort(shifted), atol=1e-12)
    whole = shift_singular_values(G, tau, term)
    np.testing.assert_allclose(found.right, whole.right, atol=1e-10)


@pytest.mark.parametrize("term", ["high", "low"])
def test_directions_that_are_not_there_stay(term):
    G = with_singular_values([4.0, 2.0, 0.0])
    found = shift_by_gram(G.T @ G, 1.0, term)
    missing = np.linalg.svd(G)[2][-1]
    np.testing.assert_allclose(found.right @ missing, missing, atol=1e-7)
    expected = [0, 3, 5] if term == "high" else [0, 1, 3]
    np.testing.assert_allclose(np.sort(found.values), expected, atol=1e-7)


def test_a_coarse_direction_is_refused_or_taken_as_it_is():
    zero, coarse = _resolution(np.dtype(np.float64))
    small = np.sqrt(np.sqrt(zero * coarse))
    G = with_singular_values([1.0, small])
    assert shift_by_gram(G.T @ G, 0.1, "high") is None
    found = shift_by_gram(G.T @ G, 0.1, "high", strict=False)
    np.testing.assert_allclose(np.sort(found.values), [small + 0.1, 1.1], rtol=1e-6)
    # Coarse is measured against the largest value, not against a neighbour.
    three = with_singular_values([1.0, small, small])
    assert shift_by_gram(three.T @ three, 0.1, "high") is None
    clear = with_singular_values([1.0, 2 * np.sqrt(coarse)])
    assert shift_by_gram(clear.T @ clear, 0.1, "high") is not None


def test_below_the_floor_is_zero_and_ten_floors_are_coarse():
    G = with_singular_values([1.0, 0.1])
    gram = G.T @ G
    np.testing.assert_allclose(
        np.sort(shift_by_gram(gram, 1.0, "high", floor=0.02).values), [0, 2], atol=1e-12
    )
    assert shift_by_gram(gram, 1.0, "high", floor=0.005) is None
    np.testing.assert_allclose(
        np.sort(shift_by_gram(gram, 1.0, "high", floor=0.0009).values), [1.1, 2], rtol=1e-9
    )


def test_single_precision_has_coarser_limits():
    double, single = (_resolution(np.dtype(kind)) for kind in (np.float64, np.float32))
    assert 0 < double[0] < double[1] < single[1] == 1e-5
    assert double[0] < single[0] <= 1e-6
    G = with_singular_values([1.0, 1e-4], dtype=np.float32)
    assert np.sort(shift_by_gram(G.T @ G, 0.5, "high").values)[0] == 0


def test_what_is_below_tau_becomes_zero():
    G = with_singular_values([3.0, 1.0])
    np.testing.assert_allclose(
        np.sort(shift_by_gram(G.T @ G, 2.0, "low").values), [0, 1], atol=1e-12
    )
