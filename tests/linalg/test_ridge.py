import numpy as np
import pytest
import scipy.sparse as sp

from schirn.linalg.row_space import ridge, row_space


def problem(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), (rng.random((n, 4)) < 0.4).astype(float)


def objective(X, W, b, Y, lam):
    return np.sum((X @ W + b - Y) ** 2) + lam * np.sum(W**2)


cases = pytest.mark.parametrize("shape", [(30, 8), (8, 30)], ids=["n > d", "d > n"])
storages = pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
intercepts = pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])


@cases
@storages
@intercepts
def test_stationary_scores_and_objective(shape, storage, intercept):
    X, Y = problem(*shape)
    lam = 0.8
    space = row_space(storage(X), ridge=lam, fit_intercept=intercept)
    result = ridge(space, Y, lam)
    W, b = space.coefficients(result.w)
    np.testing.assert_allclose(X.T @ (Y - X @ W - b), lam * W, atol=1e-10)
    np.testing.assert_allclose(result.scores, X @ W + b, atol=1e-10)
    assert result.objective == pytest.approx(objective(X, W, b, Y, lam))
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = W + 0.01 * rng.normal(size=W.shape)
        assert objective(X, other, b, Y, lam) > result.objective


@cases
@storages
@intercepts
def test_leave_one_out_scores_do_not_see_their_own_row(shape, storage, intercept):
    X, Y = problem(*shape)
    lam = 0.8
    loo = ridge(row_space(storage(X), ridge=lam, fit_intercept=intercept), Y, lam).loo_scores
    for i in range(0, len(X), 3):
        keep = np.arange(len(X)) != i
        without = row_space(X[keep], ridge=lam, fit_intercept=intercept)
        W, b = without.coefficients(ridge(without, Y[keep], lam).w)
        np.testing.assert_allclose(loo[i], X[i] @ W + b, atol=1e-10)


def test_changing_a_label_does_not_change_its_own_leave_one_out_score():
    X, Y = problem(30, 8)
    space = row_space(X, ridge=0.8)
    before = ridge(space, Y, 0.8).loo_scores
    Y[4] = 1 - Y[4]
    after = ridge(space, Y, 0.8).loo_scores
    np.testing.assert_allclose(after[4], before[4], atol=1e-12)
    assert np.abs(after[5] - before[5]).max() > 1e-4


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
def test_label_types_agree(dtype):
    X, Y = problem(30, 8)
    space = row_space(X, ridge=0.8)
    expected, got = ridge(space, Y, 0.8), ridge(space, Y.astype(dtype), 0.8)
    np.testing.assert_allclose(got.loo_scores, expected.loo_scores, atol=1e-12)
    assert got.objective == pytest.approx(expected.objective)


def test_single_precision():
    X, Y = problem(30, 8)
    expected = ridge(row_space(X, ridge=0.8), Y, 0.8)
    single = ridge(row_space(X.astype(np.float32), ridge=0.8), Y.astype(np.float32), 0.8)
    assert single.w.dtype == single.scores.dtype == single.loo_scores.dtype == np.float32
    np.testing.assert_allclose(single.loo_scores, expected.loo_scores, atol=1e-3)


def test_features_that_are_all_zero_predict_zero_or_the_mean():
    Y = np.array([[1.0], [0.0], [1.0], [1.0]])
    assert not ridge(row_space(np.zeros((4, 2)), ridge=1.0), Y, 1.0).scores.any()
    result = ridge(row_space(np.zeros((4, 2)), ridge=1.0, fit_intercept=True), Y, 1.0)
    np.testing.assert_allclose(result.scores, 0.75)
    np.testing.assert_allclose(result.loo_scores.ravel(), [2 / 3, 1, 2 / 3, 2 / 3])
