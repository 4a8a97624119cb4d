import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from schirn.lab.rivals.solvers._conjugate_gradients import NormalSolution, conjugate_gradients


def system(dtype=np.float64):
    rng = np.random.default_rng(0)
    X, B = rng.normal(size=(60, 20)).astype(dtype), rng.normal(size=(20, 3)).astype(dtype)
    return X.T @ X, B


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-10), (np.float32, 1e-4)])
def test_all_columns_are_solved(dtype, atol):
    N, B = system(dtype)
    W, product = conjugate_gradients(lambda W: N @ W, B, mu=0.5, ridge=2.0, diagonal=np.diag(N))
    assert W.dtype == dtype
    np.testing.assert_allclose(W, np.linalg.solve(0.5 * N + 2 * np.eye(20), B), atol=atol)
    np.testing.assert_allclose(product, N @ W, atol=100 * atol)


def test_a_similar_solution_saves_steps():
    N, B = system()
    calls = []

    def normal(W):
        calls.append(1)
        return N @ W

    options = {"mu": 1.0, "ridge": 1.0, "diagonal": np.diag(N)}
    first = conjugate_gradients(normal, B, **options)
    from_zero = len(calls)
    before = first.W.copy()
    conjugate_gradients(normal, B * 1.0001, start=first, **options)
    assert 0 < len(calls) - from_zero < from_zero
    np.testing.assert_array_equal(first.W, before)
    calls.clear()
    conjugate_gradients(normal, B, start=first, **options)
    assert not calls


def test_a_zero_column_gives_zero():
    N, B = system()
    B[:, 1] = 0
    W, _ = conjugate_gradients(lambda W: N @ W, B, mu=1.0, ridge=1.0, diagonal=np.diag(N))
    np.testing.assert_array_equal(W[:, 1], 0)


def test_slow_convergence_warns():
    N = np.diag(np.logspace(0, 16, 600))
    with pytest.warns(ConvergenceWarning, match="stopped after 500 steps"):
        conjugate_gradients(
            lambda W: N @ W, np.ones((600, 1)), mu=1.0, ridge=1e-9, diagonal=np.ones(600)
        )


def test_a_column_that_is_nearly_zero_is_solved_too():
    """Its start is far away, and the others take many steps after it is solved."""
    N = np.diag(np.logspace(0, 2, 60)).astype(np.float32)
    B = np.ones((60, 2), dtype=np.float32)
    B[:, 1] = 1e-12
    start = NormalSolution(np.ones_like(B), N @ np.ones_like(B))
    options = {"mu": 1.0, "ridge": 1.0, "diagonal": np.ones(60, dtype=np.float32)}
    W, _ = conjugate_gradients(lambda W: N @ W, B, start=start, **options)
    exact = 1 / (np.diag(N) + 1)
    np.testing.assert_allclose(W[:, 0], exact, atol=1e-4)
    np.testing.assert_allclose(W[:, 1] * 1e12, exact, atol=1e-4)
