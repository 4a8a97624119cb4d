"""The leave-one-out formula against refits, in all shapes and precisions."""

import numpy as np
import pytest

from schirn.linalg.leave_one_out import below_one, leave_one_out


def hat_matrix(X, t):
    return X @ np.linalg.solve(X.T @ X + t * np.eye(X.shape[1]), X.T)


def test_scores_equal_refits_without_the_row():
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(9, 4)), rng.normal(size=(9, 2))
    H = hat_matrix(X, 0.5)
    scores = leave_one_out(Q, H @ Q, np.diag(H))
    for i in range(9):
        rest = np.arange(9) != i
        W = np.linalg.solve(X[rest].T @ X[rest] + 0.5 * np.eye(4), X[rest].T @ Q[rest])
        np.testing.assert_allclose(scores[i], X[i] @ W, atol=1e-12)


def test_several_fits_and_a_leverage_per_cell():
    rng = np.random.default_rng(1)
    X, Q = rng.normal(size=(9, 4)), rng.normal(size=(9, 2))
    hats = [hat_matrix(X, t) for t in (0.1, 10.0)]
    fitted, h = np.stack([H @ Q for H in hats]), np.stack([np.diag(H) for H in hats])
    expected = [leave_one_out(Q, H @ Q, np.diag(H)) for H in hats]
    np.testing.assert_allclose(leave_one_out(Q, fitted, h), expected)
    per_cell = leave_one_out(Q, np.stack([fitted[0, :, 0], fitted[1, :, 1]], axis=1), h.T)
    np.testing.assert_allclose(per_cell[:, 0], expected[0][:, 0])
    np.testing.assert_allclose(per_cell[:, 1], expected[1][:, 1])


def test_rows_that_predict_themselves_stay_finite_in_their_precision():
    Q = np.eye(3, dtype=np.float32)
    scores = leave_one_out(Q, 0.5 * Q, np.ones(3, np.float32))
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(leave_one_out(Q, 0.5 * Q, np.ones(3), 0.25), -Q)


def test_leverages_are_kept_away_from_one():
    limit = 1 - np.sqrt(np.finfo(float).eps)
    assert below_one(np.array([0.3, 1.0, 1.5])).tolist() == [0.3, limit, limit]
    single = below_one(np.array([0.25, 1.0], dtype=np.float32))
    assert single.dtype == np.float32
    assert single.tolist() == [0.25, np.float32(1 - np.sqrt(np.finfo(np.float32).eps))]


def test_tensors_give_the_same():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(2)
    Q, fitted, h = rng.random((5, 2)), rng.random((5, 2)), np.array([0.1, 0.5, 0.9, 0.99, 1.0])
    tensors = leave_one_out(*map(torch.asarray, (Q, fitted, h)), 0.05)
    np.testing.assert_allclose(tensors.numpy(), leave_one_out(Q, fitted, h, 0.05))
