import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from schirn.lab.rivals.solvers.prox import (
    polar_factor,
    project_simplex,
    singular_value_threshold,
    soft_threshold,
)
from schirn.linalg import prox
from schirn.linalg.prox import noise_threshold, shift_by_gram, shift_singular_values

entries = st.floats(-10, 10, allow_subnormal=False)


def shifted(G, tau, term):
    """U f(S) V' by a real SVD; directions that G does not have stay zero."""
    U, S, Vt = np.linalg.svd(G.astype(np.float64), full_matrices=False)
    there = S > S.max(initial=0) * 1e-12
    f = np.where(there, S + tau, 0) if term == "high" else np.maximum(S - tau, 0)
    return (U * f) @ Vt, f


def with_singular_values(n, l, values, seed=0):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(n, len(values))))[0]
    V = np.linalg.qr(rng.normal(size=(l, len(values))))[0]
    return (U * np.asarray(values)) @ V.T


@pytest.fixture
def svd_calls(monkeypatch):
    calls = []
    real = prox.svd

    def spy(*args, **options):
        calls.append(args[0].shape)
        return real(*args, **options)

    monkeypatch.setattr(prox, "svd", spy)
    return calls


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


@given(st.floats(-2, 3), st.floats(0, 4))
def test_exact_noise_rule_is_the_best_of_zero_and_one(c, alpha):
    M = 1 - c
    cost = [M**2, (1 - M) ** 2 + alpha]
    if abs(cost[0] - cost[1]) > 1e-9:
        assert (c < noise_threshold(alpha, "exact")) == (cost[1] < cost[0])


@given(st.floats(-2, 3), st.floats(0, 4))
def test_printed_noise_rule_shrinks_and_takes_the_sign(c, alpha):
    shrunk = soft_threshold(np.array(1 - c), alpha / 2)
    if abs(1 - c - alpha / 2) > 1e-9:
        assert (c < noise_threshold(alpha, "printed")) == (shrunk > 0)


@given(st.floats(0, 4))
def test_the_two_noise_rules_differ_by_one_in_alpha(alpha):
    assert noise_threshold(alpha, "exact") == pytest.approx(noise_threshold(1 + alpha, "printed"))


MATRICES = {
    "tall": with_singular_values(30, 6, [9, 5, 3, 2, 1, 0.5]),
    "square": with_singular_values(6, 6, [9, 5, 3, 2, 1, 0.5]),
    "wide": with_singular_values(6, 30, [9, 5, 3, 2, 1, 0.5]),
    "rank two": with_singular_values(30, 6, [4, 2]),
    "wide, rank two": with_singular_values(6, 30, [4, 2]),
    "equal values": with_singular_values(30, 3, [2, 2, 2]),
    "duplicate columns": np.repeat(with_singular_values(20, 3, [3, 2, 1]), 2, axis=1),
    "zero column": np.pad(with_singular_values(20, 3, [3, 2, 1]), ((0, 0), (1, 1))),
    "zero": np.zeros((8, 3)),
    "one row": np.array([[1.0, -2.0, 2.0]]),
    "one column": np.array([[1.0], [-2.0], [2.0]]),
    "one cell": np.array([[-3.0]]),
    "spread": with_singular_values(30, 5, [1, 1e-2, 1e-4, 1e-5, 1e-6]),
    "wide, spread": with_singular_values(5, 30, [1, 1e-2, 1e-4, 1e-5, 1e-6]),
    "huge": 1e100 * with_singular_values(30, 3, [3, 2, 1]),
    "tiny": 1e-100 * with_singular_values(30, 3, [3, 2, 1]),
}


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
