"""Closed forms of kernel ridges against refits."""

import numpy as np
import pytest

from schirn.linalg.features import Kernel
from schirn.linalg.leave_one_out import KernelInverse, left_out_scores


@pytest.fixture
def problem():
    rng = np.random.RandomState(0)
    Z, Q = rng.randn(30, 4), rng.rand(30, 3)
    return Kernel("rbf", 6.0)(Z, Z), Q


def refit(K, Q, lam, train, others):
    """Scores of other rows from a ridge with a free intercept, by one linear system."""
    n = len(train)
    A = np.block([[K[np.ix_(train, train)] + lam * np.eye(n), np.ones((n, 1))], [np.ones(n), 0]])
    solution = np.linalg.solve(A, np.vstack([Q[train], np.zeros(Q.shape[1])]))
    return K[np.ix_(others, train)] @ solution[:-1] + solution[-1]


@pytest.mark.parametrize("lam", [0.01, 1.0, 50.0])
def test_a_row_left_out_scores_as_a_refit_without_it(problem, lam):
    K, Q = problem
    S = KernelInverse(K, [lam]).fit(Q)[0][0]
    everything = np.arange(30)
    for i in everything:
        np.testing.assert_allclose(
            S[i], refit(K, Q, lam, np.delete(everything, i), [i])[0], atol=1e-9
        )


def test_groups_are_left_out_together(problem):
    K, Q = problem
    groups = np.array([0, 1, 0, 2, 2, 2, *range(3, 27)])
    S = KernelInverse(K, [0.3], groups).fit(Q)[0][0]
    for g in range(27):
        rows = np.flatnonzero(groups == g)
        np.testing.assert_allclose(
            S[rows], refit(K, Q, 0.3, np.flatnonzero(groups != g), rows), atol=1e-9
        )


def test_a_group_of_all_rows_scores_the_mean(problem):
    K, Q = problem
    inverse = KernelInverse(K, [0.3], np.zeros(30))
    np.testing.assert_allclose(inverse.fit(Q)[0][0] - Q.mean(axis=0), 0, atol=1e-9)
    train = inverse.hold_out(np.arange(5)).fit(Q[5:])[0][0]
    np.testing.assert_allclose(train - Q[5:].mean(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_held_out_score_as_a_refit_without_them(problem, grouped):
    K, Q = problem
    groups = np.arange(30) // 2 if grouped else None
    held = np.array([3, 20, 7, 11, 12])
    train = np.setdiff1d(np.arange(30), held)
    found = KernelInverse(K, [0.1, 2.0], groups).hold_out(held).fit(Q[train])
    for k, lam in enumerate((0.1, 2.0)):
        np.testing.assert_allclose(found[1][k], refit(K, Q, lam, train, np.sort(held)), atol=1e-9)
        for place, i in enumerate(train):
            out = [i] if groups is None else train[groups[train] == groups[i]]
            rest = np.setdiff1d(train, out)
            np.testing.assert_allclose(
                found[0][k, place], refit(K, Q, lam, rest, [i])[0], atol=1e-9
            )


def test_expansion_gives_the_scores_of_the_fit(problem):
    K, Q = problem
    ((A, b),) = KernelInverse(K, [0.5]).expansion(Q)
    everything = np.arange(30)
    np.testing.assert_allclose(K @ A + b, refit(K, Q, 0.5, everything, everything), atol=1e-9)


def test_single_precision_is_close(problem, monkeypatch):
    K, Q = problem
    exact = KernelInverse(K, [0.5, 5.0]).fit(Q)[0]
    monkeypatch.setattr("schirn.linalg.leave_one_out._SINGLE_ROWS", 10)
    near = KernelInverse(K, [0.5, 5.0]).fit(Q)[0]
    assert 0 < np.abs(near - exact).max() < 1e-4


def test_a_tiny_ridge_stays_in_double_precision(problem, monkeypatch):
    K, Q = problem
    monkeypatch.setattr("schirn.linalg.leave_one_out._SINGLE_ROWS", 10)
    S = KernelInverse(K, [1e-6]).fit(Q)[0][0]
    np.testing.assert_allclose(S[0], refit(K, Q, 1e-6, np.arange(1, 30), [0])[0], rtol=1e-5)


def test_equal_rows_and_one_row(problem):
    assert np.isfinite(KernelInverse(np.ones((5, 5)), [0.1]).fit(np.eye(5))[0]).all()
    assert np.isfinite(KernelInverse(np.ones((1, 1)), [0.1]).fit(np.ones((1, 2)))[0]).all()


def test_many_weights_from_one_eigendecomposition(problem):
    K, Q = problem
    lams = [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0]
    for lam, S in zip(lams, left_out_scores(K, Q, lams), strict=True):
        np.testing.assert_allclose(S, KernelInverse(K, [lam]).fit(Q)[0][0], atol=1e-8)


def test_a_constant_added_to_the_kernel_changes_nothing(problem):
    """The intercept is free, so it takes up the constant, however large."""
    K, Q = problem
    plain, shifted = KernelInverse(K, [0.3]), KernelInverse(K + 1e6, [0.3])
    np.testing.assert_allclose(shifted.fit(Q)[0], plain.fit(Q)[0], atol=1e-6)
    (A, b), (A_shifted, b_shifted) = plain.expansion(Q)[0], shifted.expansion(Q)[0]
    scores = (K + 1e6) @ A_shifted + b_shifted
    np.testing.assert_allclose(scores, K @ A + b, atol=1e-6)


@pytest.mark.parametrize("lam", [1e-300, 1e-12])
def test_rows_that_are_all_alike_score_the_mean_of_the_others(lam):
    K, Q = np.ones((8, 8)), np.arange(16.0).reshape(8, 2)
    S = KernelInverse(K, [lam]).fit(Q)[0][0]
    np.testing.assert_allclose(S, (Q.sum(axis=0) - Q) / 7, atol=1e-8)
    np.testing.assert_allclose(next(left_out_scores(K, Q, [1e-12])), S, atol=1e-8)
