"""Proximal steps of Schirn: singular values that move, and the rule of noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linalg.matrices import MATRICES, with_singular_values

from schirn.linalg import prox
from schirn.linalg.prox import noise_threshold, shift_by_gram, shift_singular_values


def shifted(G, tau, term):
    """U f(S) V' by a real SVD; directions that G does not have stay zero."""
    U, S, Vt = np.linalg.svd(G.astype(np.float64), full_matrices=False)
    there = S > S.max(initial=0) * 1e-12
    f = np.where(there, S + tau, 0) if term == "high" else np.maximum(S - tau, 0)
    return (U * f) @ Vt, f


@pytest.fixture
def svd_calls(monkeypatch):
    calls = []
    real = prox.svd

    def spy(*args, **options):
        calls.append(args[0].shape)
        return real(*args, **options)

    monkeypatch.setattr(prox, "svd", spy)
    return calls


@given(st.floats(-2, 3), st.floats(0, 4))
def test_exact_noise_rule_is_the_best_of_zero_and_one(c, alpha):
    M = 1 - c
    cost = [M**2, (1 - M) ** 2 + alpha]
    if abs(cost[0] - cost[1]) > 1e-9:
        assert (c < noise_threshold(alpha, "exact")) == (cost[1] < cost[0])


@given(st.floats(-2, 3), st.floats(0, 4))
def test_printed_noise_rule_shrinks_and_takes_the_sign(c, alpha):
    shrunk = max(1 - c - alpha / 2, 0)
    if abs(1 - c - alpha / 2) > 1e-9:
        assert (c < noise_threshold(alpha, "printed")) == (shrunk > 0)


@given(st.floats(0, 4))
def test_the_two_noise_rules_differ_by_one_in_alpha(alpha):
    assert noise_threshold(alpha, "exact") == pytest.approx(noise_threshold(1 + alpha, "printed"))


@pytest.mark.parametrize("term", ["high", "low"])
@pytest.mark.parametrize("name", MATRICES)
def test_singular_values_move_as_by_a_real_svd(name, term):
    G = MATRICES[name]
    top = np.linalg.norm(G, 2) or 1.0
    for tau in (0, 0.3 * top, 1.5 * top):
        right, values = shift_singular_values(G, tau, term)
        expected, f = shifted(G, tau, term)
        np.testing.assert_allclose(G @ right, expected, rtol=0, atol=3e-8 * (top + tau))
        pad = max(len(values), len(f))
        got, want = (np.sort(np.pad(v, (0, pad - len(v)))) for v in (values, f))
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-9 * (top + tau))


@pytest.mark.parametrize("term", ["high", "low"])
def test_directions_that_are_not_there_stay_untouched(term):
    np.testing.assert_allclose(shift_singular_values(np.zeros((8, 3)), 1.0, term).right, np.eye(3))
    right = shift_singular_values(np.diag([2.0, 1.0, 0.0]), 0.5, term).right
    assert right[2].tolist() == [0, 0, 1]


@pytest.mark.parametrize("term", ["high", "low"])
def test_single_precision_stays_single_and_close(term):
    G = MATRICES["tall"].astype(np.float32)
    right, values = shift_singular_values(G, 0.7, term)
    assert right.dtype == values.dtype == np.float32
    np.testing.assert_allclose(G @ right, shifted(G, 0.7, term)[0], atol=2e-4)


def test_duplicate_columns_of_single_precision_are_not_blown_up():
    G = MATRICES["duplicate columns"].astype(np.float32)
    np.testing.assert_allclose(
        G @ shift_singular_values(G, 1, "high").right, shifted(G, 1, "high")[0], atol=2e-3
    )


@pytest.mark.parametrize(
    ("values", "calls"),
    [([1, 1e-2, 1e-4], 0), ([1, 1e-6], 1), ([1, 3e-6, 0], 1), ([1, 0.5, 0], 0), ([0, 0], 0)],
)
def test_a_wide_spread_goes_to_a_real_svd(svd_calls, values, calls):
    shift_singular_values(with_singular_values(20, 4, values), 0.1, "high")
    assert len(svd_calls) == calls


@pytest.mark.parametrize("term", ["high", "low"])
def test_the_svd_branch_leaves_missing_directions_alone(svd_calls, term):
    G = with_singular_values(20, 4, [1, 3e-6, 0])
    right, values = shift_singular_values(G, 1e-6, term)
    assert svd_calls
    expected = [1 + 1e-6, 4e-6] if term == "high" else [1 - 1e-6, 2e-6]
    np.testing.assert_allclose(values[:2], expected)
    assert not values[2:].any()
    missing = np.linalg.svd(G)[2][2:]
    np.testing.assert_allclose(missing @ right, missing, atol=1e-9)


def test_a_matrix_without_columns():
    right, values = shift_singular_values(np.zeros((4, 0)), 1.0, "high")
    assert right.shape == (0, 0)
    assert values.shape == (0,)


def test_the_svd_branch_beats_the_gram_matrix(svd_calls):
    G = with_singular_values(40, 4, [1, 0.5, 1e-3, 1e-6])
    right, values = shift_singular_values(G, 0.2, "high")
    assert svd_calls == [(40, 4)]
    np.testing.assert_allclose(values, [1.2, 0.7, 0.201, 0.200001], rtol=1e-12)
    np.testing.assert_allclose(G @ right, shifted(G, 0.2, "high")[0], atol=1e-8)


def test_the_svd_branch_in_single_precision(svd_calls):
    G = with_singular_values(40, 3, [1, 0.5, 2e-3]).astype(np.float32)
    right, values = shift_singular_values(G, 0.2, "high")
    assert svd_calls == [(40, 3)]
    assert right.dtype == np.float32
    np.testing.assert_allclose(np.sort(values), [0.202, 0.7, 1.2], rtol=1e-4)


def tall(values):
    return with_singular_values(30, len(values), values)


@pytest.mark.parametrize("term", ["high", "low"])
@pytest.mark.parametrize("tau", [0.0, 0.7, 2.5])
def test_the_gram_matrix_alone_gives_the_shift_of_the_singular_values(term, tau):
    G = tall([5.0, 3.0, 1.0, 0.5])
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    shifted = s + tau if term == "high" else np.maximum(s - tau, 0)
    found = shift_by_gram(G.T @ G, tau, term)
    np.testing.assert_allclose(G @ found.right, (U * shifted) @ Vt, atol=1e-12)
    np.testing.assert_allclose(np.sort(found.values), np.sort(shifted), atol=1e-12)
    whole = shift_singular_values(G, tau, term)
    np.testing.assert_allclose(found.right, whole.right, atol=1e-10)


@pytest.mark.parametrize("term", ["high", "low"])
def test_missing_directions_of_a_gram_matrix_stay(term):
    G = tall([4.0, 2.0, 0.0])
    found = shift_by_gram(G.T @ G, 1.0, term)
    missing = np.linalg.svd(G)[2][-1]
    np.testing.assert_allclose(found.right @ missing, missing, atol=1e-7)
    expected = [0, 3, 5] if term == "high" else [0, 1, 3]
    np.testing.assert_allclose(np.sort(found.values), expected, atol=1e-7)


def test_a_coarse_direction_gives_none_unless_strict_is_off():
    # Squared, it is between 1e-13, which is rounding noise, and 1e-10, which is resolved.
    small = 10**-5.75
    G = tall([1.0, small])
    assert shift_by_gram(G.T @ G, 0.1, "high") is None
    found = shift_by_gram(G.T @ G, 0.1, "high", strict=False)
    np.testing.assert_allclose(np.sort(found.values), [small + 0.1, 1.1], rtol=1e-6)
    # Coarse is measured against the largest value, not against a neighbour.
    three = tall([1.0, small, small])
    assert shift_by_gram(three.T @ three, 0.1, "high") is None
    clear = tall([1.0, 2e-5])
    assert shift_by_gram(clear.T @ clear, 0.1, "high") is not None


def test_below_the_floor_is_zero_and_ten_floors_are_coarse():
    G = tall([1.0, 0.1])
    gram = G.T @ G
    np.testing.assert_allclose(
        np.sort(shift_by_gram(gram, 1.0, "high", floor=0.02).values), [0, 2], atol=1e-12
    )
    assert shift_by_gram(gram, 1.0, "high", floor=0.005) is None
    np.testing.assert_allclose(
        np.sort(shift_by_gram(gram, 1.0, "high", floor=0.0009).values), [1.1, 2], rtol=1e-9
    )


def test_single_precision_has_coarser_limits():
    def shifted_values(small, kind):
        shift = shift_by_gram(np.diag([1, small**2]).astype(kind), 0.5, "high")
        return None if shift is None else np.sort(shift.values)

    # Up to the first limit a direction is not there, and up to the second one too coarse.
    for kind, first, second in ((np.float64, 1e-13, 1e-10), (np.float32, 1e-6, 1e-5)):
        np.testing.assert_allclose(shifted_values(0.9 * first**0.5, kind), [0, 1.5])
        assert shifted_values(1.1 * first**0.5, kind) is None
        assert shifted_values(0.9 * second**0.5, kind) is None
        small = 1.1 * second**0.5
        np.testing.assert_allclose(shifted_values(small, kind), [small + 0.5, 1.5], rtol=1e-6)


def test_what_is_below_tau_becomes_zero():
    G = tall([3.0, 1.0])
    np.testing.assert_allclose(
        np.sort(shift_by_gram(G.T @ G, 2.0, "low").values), [0, 1], atol=1e-12
    )
