"""The inverse square root of a slowly changing matrix."""

import numpy as np
import pytest

from schirn.linalg.inverse_root import InverseRoot


def slow_root(A, floor):
    squared, V = np.linalg.eigh(A)
    keep = squared > floor
    return (V[:, keep] / np.sqrt(squared[keep])) @ V[:, keep].T, np.sqrt(squared[keep]).sum()


def sequence(l=30, n=200, count=8, step=0.02, seed=0):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, l)) * np.logspace(0, 2.5, l)
    for _ in range(count):
        yield G.T @ G
        G = G + step * rng.normal(size=G.shape)


def test_equals_the_eigendecomposition_along_a_sequence():
    roots = InverseRoot()
    for A in sequence():
        root = roots(A, 1e-9)
        expected, trace = slow_root(A, 1e-9)
        # Relative to the size of each direction: A^(1/2) times the error.
        squared, V = np.linalg.eigh(A)
        error = (V * np.sqrt(squared)) @ V.T @ (root.inverse - expected)
        assert np.abs(error).max() < 5e-3
        assert root.trace == pytest.approx(trace, rel=1e-4)
        assert root.n_directions == len(A)
    assert roots.n_eigh == 1
    assert roots.n_steps > 0


def test_a_jump_asks_for_new_eigenvectors():
    roots = InverseRoot()
    A = next(sequence())
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=A.shape))[0]
    B = rotation @ A @ rotation.T
    roots(A, 1e-9)
    np.testing.assert_allclose(roots(B, 1e-9).inverse, slow_root(B, 1e-9)[0], atol=1e-12)
    assert roots.n_eigh == 2


def test_zero_directions_are_left_out_until_they_grow():
    roots = InverseRoot()
    A = next(sequence())
    A[:, 3] = A[3] = 0
    assert roots(A, 1e-9).n_directions == len(A) - 1
    np.testing.assert_allclose(
        roots(A * 1.001, 1e-9).inverse, slow_root(A * 1.001, 1e-9)[0], atol=1e-9
    )
    assert roots.n_eigh == 1
    A[3, 3] = 1.0
    root = roots(A, 1e-9)
    assert root.n_directions == len(A)
    assert roots.n_eigh == 2
    assert root.inverse[3, 3] == pytest.approx(1.0)


def test_a_direction_that_vanishes_asks_for_new_eigenvectors():
    roots = InverseRoot()
    A = np.diag([1.0, 2.0, 3.0])
    roots(A, 1e-9)
    A[0, 0] = 0
    assert roots(A, 1e-9).n_directions == 2
    assert roots.n_eigh == 2


def test_the_tolerance_is_kept():
    for tolerance in (1e-2, 1e-5):
        roots = InverseRoot(tolerance)
        for A in sequence(count=3):
            Z = roots(A, 1e-9).inverse
            assert np.abs(np.linalg.eigvalsh(Z @ A @ Z) - 1).max() < len(A) * tolerance


def test_nan_does_not_loop():
    roots = InverseRoot()
    A = next(sequence())
    roots(A, 1e-9)
    B = A.copy()
    B[1, 2] = B[2, 1] = np.nan
    roots(B, 1e-9)
    assert roots.n_eigh == 2


def test_too_many_steps_ask_for_new_eigenvectors(monkeypatch):
    monkeypatch.setattr("schirn.linalg.inverse_root._STEPS", 1)
    roots = InverseRoot()
    for A in sequence(count=3):
        np.testing.assert_allclose(roots(A, 1e-9).inverse, slow_root(A, 1e-9)[0], atol=1e-12)
    assert roots.n_eigh == 3


@pytest.mark.parametrize("l", [30, 32])
@pytest.mark.parametrize("empty", [0, 3])
def test_half_precision_as_on_a_gpu(monkeypatch, l, empty):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    for name in ("on_gpu", "multiplies_halves"):
        monkeypatch.setattr(f"schirn.linalg.inverse_root.{name}", lambda A: True)
    roots = InverseRoot()
    for A in sequence(l):
        A[:empty] = A[:, :empty] = 0
        root = roots(torch.asarray(A), 1e-9)
        expected, trace = slow_root(A, 1e-9)
        squared, V = np.linalg.eigh(A)
        error = (V * np.sqrt(np.maximum(squared, 0))) @ V.T @ (root.inverse.numpy() - expected)
        assert np.abs(error).max() < 5e-3
        assert root.trace == pytest.approx(trace, rel=1e-4)
        assert root.n_directions == l - empty
    assert roots.n_eigh == 1
    assert roots.n_steps > 0
