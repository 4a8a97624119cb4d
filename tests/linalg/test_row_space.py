"""The factorisation of the features, against least squares and refits."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from schirn.linalg.row_space import (
    DensifyWarning,
    coarsest_gram_ridge,
    gram_is_accurate,
    gram_matrix,
    row_space,
)

# The package has a function of the same name.
MODULE = inspect.getmodule(row_space)
RNG = np.random.default_rng(5)
WIDE, TALL = RNG.normal(size=(12, 30)), RNG.normal(size=(40, 9))
SHAPES = {
    "d > n": WIDE,
    "n > d": TALL,
    "square": RNG.normal(size=(10, 10)),
    "d > n, rank 3": RNG.normal(size=(12, 3)) @ RNG.normal(size=(3, 30)),
    "n > d, rank 3": RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 9)),
    "d > n, zero columns": np.where(np.arange(30) % 3 == 0, WIDE, 0),
    "n > d, zero columns": np.where(np.arange(9) % 3 == 0, TALL, 0),
    "mostly zero": RNG.normal(size=(25, 15)) * (RNG.random((25, 15)) < 0.2),
    "all zero, n > d": np.zeros((6, 4)),
    "all zero, d > n": np.zeros((4, 6)),
    "one row": RNG.normal(size=(1, 5)),
    "one column": RNG.normal(size=(7, 1)),
    "one cell": np.array([[2.0]]),
    "constant column": np.column_stack([TALL[:, :4], np.ones(40)]),
    "offset": TALL + 3.0,
    "d > n, offset": WIDE + 3.0,
}


def ridge_by_lstsq(X, B, t, intercept):
    """The ridge as one least squares problem; an intercept is centring."""
    X, B = np.asarray(X, dtype=np.float64), np.asarray(B, dtype=np.float64)
    d, l = X.shape[1], B.shape[1]
    x, b = (X.mean(axis=0), B.mean(axis=0)) if intercept else (np.zeros(d), np.zeros(l))
    left = np.vstack([X - x, np.sqrt(t) * np.eye(d)])
    W = np.linalg.lstsq(left, np.vstack([B - b, np.zeros((d, l))]), rcond=None)[0]
    return W, b - x @ W


def dense_F(space):
    return space.expand(np.eye(space.shape[1], dtype=space.dtype))


def factored(X, storage, ridge=1.0, intercept=False):
    return row_space(storage(X), ridge=ridge, fit_intercept=intercept)


storages = pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
intercepts = pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
types = pytest.mark.parametrize(
    ("dtype", "rtol"), [(np.float64, 1e-10), (np.float32, 2e-3)], ids=["double", "single"]
)


@types
@intercepts
@storages
@pytest.mark.parametrize("name", SHAPES)
class TestIdentities:
    def test_factor(self, name, storage, intercept, dtype, rtol):
        X = SHAPES[name].astype(dtype)
        space = factored(X, storage, intercept=intercept, ridge=10.0)
        F, size = dense_F(space), max(1.0, float(np.abs(space.eigenvalues).max(initial=0)))
        assert F.dtype == space.dtype == dtype
        assert F.shape == space.shape
        centred = X.astype(float) - (X.mean(axis=0, dtype=float) if intercept else 0)
        rank = np.linalg.matrix_rank(centred, tol=1e-3)
        assert space.shape[1] == rank + intercept
        assert (space.mean is not None) == intercept
        assert space.penalty.tolist() == [1] * rank + [0] * intercept
        np.testing.assert_allclose(
            F.astype(float).T @ F, np.diag(space.eigenvalues), rtol=0, atol=size * rtol
        )
        K = centred @ centred.T + (1 if intercept else 0)
        np.testing.assert_allclose(F @ F.T, K, rtol=0, atol=size * rtol)

    def test_coefficients_give_the_scores(self, name, storage, intercept, dtype, rtol):
        X = SHAPES[name].astype(dtype)
        space = factored(X, storage, intercept=intercept, ridge=10.0)
        w = np.random.default_rng(1).normal(size=(space.shape[1], 3)).astype(dtype)
        W, b = space.coefficients(w)
        assert W.shape == (X.shape[1], 3)
        assert b.shape == (3,)
        assert W.dtype == b.dtype == dtype
        assert intercept or not b.any()
        scores = space.expand(w)
        size = max(1.0, float(np.abs(scores).max()))
        np.testing.assert_allclose(X @ W + b, scores, rtol=0, atol=size * rtol)

    def test_transform_new_rows(self, name, storage, intercept, dtype, rtol):
        X = SHAPES[name].astype(dtype)
        space = factored(X, storage, intercept=intercept, ridge=10.0)
        size = max(1.0, float(np.abs(X).max()))
        F = space.transform(storage(X))
        assert F.dtype == dtype
        np.testing.assert_allclose(F, dense_F(space), rtol=0, atol=10 * size * rtol)
        new = np.random.default_rng(4).normal(size=(5, X.shape[1])).astype(dtype)
        w = np.random.default_rng(5).normal(size=(space.shape[1], 2)).astype(dtype)
        W, b = space.coefficients(w)
        scores = new @ W + b
        size = max(1.0, float(np.abs(scores).max()))
        np.testing.assert_allclose(
            space.transform(storage(new)) @ w, scores, rtol=0, atol=5 * size * rtol
        )

    def test_project(self, name, storage, intercept, dtype, rtol):
        X = SHAPES[name].astype(dtype)
        space = factored(X, storage, intercept=intercept, ridge=10.0)
        B = (np.random.default_rng(2).random((len(X), 4)) < 0.5).astype(dtype)
        expected = dense_F(space).T @ B
        size = max(1.0, float(np.abs(expected).max(initial=0)))
        for form in (B, sp.csr_array(B), np.asfortranarray(B)):
            got = space.project(form)
            assert isinstance(got, np.ndarray)
            assert got.dtype == dtype
            np.testing.assert_allclose(got, expected, rtol=0, atol=size * rtol)

    def test_ridge_against_least_squares(self, name, storage, intercept, dtype, rtol):
        X = SHAPES[name].astype(dtype)
        B = np.random.default_rng(3).normal(size=(len(X), 3)).astype(dtype)
        space = factored(X, storage, intercept=intercept, ridge=0.5)
        FtB = space.project(B)
        for t in (0.5, 40.0):
            W, b = space.coefficients(space.ridge(FtB, t))
            expected_W, expected_b = ridge_by_lstsq(X, B, t, intercept)
            np.testing.assert_allclose(W, expected_W, rtol=0, atol=rtol)
            np.testing.assert_allclose(b, expected_b, rtol=0, atol=3 * rtol)


@intercepts
@storages
@pytest.mark.parametrize("name", ["d > n", "n > d", "mostly zero", "n > d, rank 3", "offset"])
def test_leave_one_out_is_refitting_without_each_row(name, storage, intercept):
    X, t = SHAPES[name], 0.7
    B = np.random.default_rng(4).normal(size=(len(X), 2))
    space = factored(X, storage, ridge=t, intercept=intercept)
    fitted = space.expand(space.ridge(space.project(B), t))
    expected = np.empty_like(B)
    for i in range(len(X)):
        W, b = ridge_by_lstsq(np.delete(X, i, 0), np.delete(B, i, 0), t, intercept)
        expected[i] = X[i] @ W + b
    np.testing.assert_allclose(space.leave_one_out(B, fitted, t), expected, atol=1e-9)


@intercepts
@storages
@pytest.mark.parametrize("name", SHAPES)
def test_leverage_is_the_diagonal_of_the_hat_matrix(name, storage, intercept, monkeypatch):
    X, t = SHAPES[name], 0.3
    space = factored(X, storage, ridge=t, intercept=intercept)
    hat = space.expand(space.ridge(space.project(np.eye(len(X))), t))
    np.testing.assert_allclose(space.leverage(t), np.diag(hat), atol=1e-12)
    monkeypatch.setattr("schirn.linalg.arrays.BLOCK_CELLS", 3 * space.shape[1])
    np.testing.assert_allclose(space.leverage(t), np.diag(hat), atol=1e-12)


def test_leave_one_out_of_rows_that_fit_themselves_stays_finite():
    X = np.eye(4)
    space = row_space(X, ridge=1e-14)
    scores = space.leave_one_out(X, space.expand(space.ridge(space.project(X), 1e-14)), 1e-14)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    ("name", "how"), [("d > n", "gram-rows"), ("n > d", "gram-columns"), ("square", "gram-columns")]
)
@intercepts
@storages
def test_well_scaled_features_take_the_gram_route(name, how, storage, intercept):
    assert factored(SHAPES[name], storage, intercept=intercept).how == how


SCALES = 10.0 ** np.linspace(-3, 5, 20)


@intercepts
@storages
@pytest.mark.parametrize("n", [60, 12], ids=["n > d", "d > n"])
def test_badly_scaled_features_stay_accurate(n, storage, intercept):
    rng = np.random.default_rng(6)
    X, B, t = rng.normal(size=(n, 20)) * SCALES, rng.normal(size=(n, 3)), 0.1
    sparse = storage is sp.csr_array
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        space = factored(X, storage, ridge=t, intercept=intercept)
    assert [w.category for w in caught] == [DensifyWarning] * sparse
    assert space.how == "svd"
    w = space.ridge(space.project(B), t)
    W, b = space.coefficients(w)
    expected_W, expected_b = ridge_by_lstsq(X, B, t, intercept)
    assert np.abs(W - expected_W).max() < 1e-8 * np.abs(expected_W).max()
    expected = X @ expected_W + expected_b
    assert np.abs(space.expand(w) - expected).max() < 1e-8 * np.abs(expected).max()
    assert np.abs(X @ W + b - expected).max() < 1e-8 * np.abs(expected).max()


def test_the_gram_route_would_have_failed_there():
    # Without this the test above could pass by luck.
    rng = np.random.default_rng(6)
    X, B = rng.normal(size=(60, 20)) * SCALES, rng.normal(size=(60, 3))
    K = X.T @ X + 0.1 * np.eye(20)
    values, V = np.linalg.eigh(K)
    by_gram = V @ ((V.T @ (X.T @ B)) / values[:, None])
    expected = ridge_by_lstsq(X, B, 0.1, False)[0]
    assert np.abs(by_gram - expected).max() > 1e-8 * np.abs(expected).max()


@pytest.mark.parametrize("shape", [(60, 5), (12, 30)], ids=["n > d", "d > n"])
@storages
def test_a_large_offset_does_not_spoil_the_intercept(shape, storage):
    rng = np.random.default_rng(7)
    X, B = rng.normal(size=shape) + 1e5, rng.normal(size=(shape[0], 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensifyWarning)
        space = factored(X, storage, ridge=1.0, intercept=True)
    assert (space.how == "svd") == (storage is sp.csr_array)
    W, _ = space.coefficients(space.ridge(space.project(B), 1.0))
    expected = ridge_by_lstsq(X, B, 1.0, True)[0]
    assert np.abs(W - expected).max() < 1e-8 * np.abs(expected).max()


@intercepts
@storages
@pytest.mark.parametrize("shape", [(300, 40), (40, 300)], ids=["n > d", "d > n"])
def test_single_precision_keeps_small_directions(shape, storage, intercept, monkeypatch):
    # Squared singular values from 1e4 to 0.01: a Gram matrix in single precision loses the last.
    rng = np.random.default_rng(10)
    U, V = (np.linalg.qr(rng.normal(size=(k, 30)))[0] for k in shape)
    X = ((U * np.geomspace(100, 0.1, 30)) @ V.T).astype(np.float32)
    B = rng.normal(size=(shape[0], 3)).astype(np.float32)
    monkeypatch.setattr("schirn.linalg.arrays.BLOCK_CELLS", 1000)
    space = factored(X, storage, ridge=0.1, intercept=intercept)
    assert space.how != "svd"
    assert space.shape[1] == 30 + intercept
    W, _ = space.coefficients(space.ridge(space.project(B), 0.1))
    expected = ridge_by_lstsq(X, B, 0.1, intercept)[0]
    assert np.abs(W - expected).max() < 1e-4 * np.abs(expected).max()


@storages
def test_the_mean_of_a_long_single_precision_column(storage):
    X = np.full((200_000, 1), 0.1, dtype=np.float32)
    space = factored(X, storage, ridge=1e4, intercept=True)
    assert space.mean.dtype == np.float32
    assert space.mean[0] == np.float32(0.1)


def test_the_densify_warning_says_how_large_and_what_to_do():
    X = sp.csr_array(np.array([[1e8, 0.0], [0.0, 1e-3], [1.0, 1.0]]))
    with pytest.warns(DensifyWarning, match=r"dense SVD \(4.8e-08 GB\).*MaxAbsScaler"):
        row_space(X, ridge=1e-3)


class Undensifiable(sp.csr_array):
    def toarray(self, *args, **options):
        assert self.shape != self.forbidden, "X was made dense"
        return super().toarray(*args, **options)

    def todense(self, *args, **options):
        raise AssertionError("X was made dense")

    __array__ = todense


@intercepts
@pytest.mark.parametrize("shape", [(40, 15), (15, 40)], ids=["n > d", "d > n"])
def test_sparse_features_are_never_made_dense(shape, intercept, monkeypatch):
    monkeypatch.setattr(Undensifiable, "forbidden", shape, raising=False)
    rng = np.random.default_rng(8)
    X = Undensifiable(rng.normal(size=shape) * (rng.random(shape) < 0.2))
    with pytest.raises(AssertionError, match="made dense"):
        X.toarray()
    space = row_space(X, ridge=1.0, fit_intercept=intercept)
    B = rng.normal(size=(shape[0], 3))
    w = space.ridge(space.project(B), 1.0)
    space.leave_one_out(B, space.expand(w), 1.0)
    space.coefficients(w)
    assert sp.issparse(space.X)
    assert space.F is None or space.how == "gram-rows"


def test_no_ridge_gives_the_shortest_least_squares_solution():
    X, B = SHAPES["n > d, rank 3"], np.random.default_rng(9).normal(size=(40, 2))
    space = row_space(X, ridge=0.0)
    assert space.how == "svd"
    W, _ = space.coefficients(space.ridge(space.project(B), 0.0))
    np.testing.assert_allclose(W, np.linalg.lstsq(X, B, rcond=None)[0], atol=1e-12)


def test_the_input_is_left_alone():
    for X in (WIDE, TALL):
        for intercept in (False, True):
            before = X.copy()
            row_space(X, ridge=1.0, fit_intercept=intercept)
            row_space(X, ridge=0.0, fit_intercept=intercept)
            np.testing.assert_array_equal(X, before)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
        lambda shape: arrays(float, shape, elements=st.integers(-3, 3).map(float))
    ),
    st.booleans(),
    st.booleans(),
    st.floats(0.01, 100),
)
def test_small_integer_features(X, sparse, intercept, t):
    space = row_space(sp.csr_array(X) if sparse else X, ridge=t, fit_intercept=intercept)
    B = np.arange(len(X) * 2.0).reshape(-1, 2) % 3
    W, b = space.coefficients(space.ridge(space.project(B), t))
    residual = B - X @ W - b
    # Stationary: X'(B - XW - b) = t W, and residuals that sum to zero with an intercept.
    np.testing.assert_allclose(X.T @ residual, t * W, atol=1e-8)
    if intercept:
        np.testing.assert_allclose(residual.sum(axis=0), 0, atol=1e-9)
    h = space.leverage(t)
    assert (h >= -1e-12).all()
    assert (h <= 1 + 1e-9).all()


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(30, 8), (12, 40)])
def test_transform_gives_the_scores_of_new_rows(shape, sparse, fit_intercept):
    rng = np.random.default_rng(0)
    X = np.where(rng.random(shape) < 0.5, rng.normal(size=shape) + 1, 0)
    new = rng.normal(size=(7, shape[1]))
    B = rng.normal(size=(shape[0], 3))
    space = row_space(sp.csr_array(X) if sparse else X, ridge=0.5, fit_intercept=fit_intercept)
    w = space.ridge(space.project(B), 0.5)
    W, b = space.coefficients(w)
    for rows in (new, sp.csr_array(new)):
        np.testing.assert_allclose(space.transform(rows) @ w, new @ W + b, atol=1e-10)


SPARSE = RNG.random(TALL.shape) < 0.4, RNG.random(WIDE.shape) < 0.4
MATRICES = {
    "tall": TALL,
    "wide": WIDE,
    "sparse tall": sp.csr_array(TALL * SPARSE[0]),
    "sparse wide": sp.csr_array(WIDE * SPARSE[1]),
}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_sparse_targets_project_like_dense_ones(name, intercept):
    X = MATRICES[name]
    B = (RNG.random((X.shape[0], 3)) < 0.5).astype(float)
    space = row_space(X, ridge=0.1, fit_intercept=intercept)
    dense, thin = space.project(B), space.project(sp.csr_array(B))
    assert isinstance(thin, np.ndarray)
    assert dense.shape == thin.shape == (len(space.eigenvalues), 3)
    np.testing.assert_allclose(thin, dense, atol=1e-12)
    if intercept:
        np.testing.assert_allclose(dense[-1], B.sum(axis=0))


@pytest.mark.filterwarnings("ignore::schirn.linalg.row_space.DensifyWarning")
@pytest.mark.parametrize("ridge", [1e-9, 0.1])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_single_precision_stays_single(name, intercept, ridge):
    X = MATRICES[name].astype(np.float32)
    space = row_space(X, ridge=ridge, fit_intercept=intercept)
    B = np.ones((X.shape[0], 2), dtype=np.float32)
    w = space.ridge(space.project(B), 0.5)
    found = [space.eigenvalues, space.basis, w, space.expand(w), space.transform(X)]
    found += [*space.coefficients(w), space.leverage(0.5)]
    assert {part.dtype for part in found} == {np.dtype(np.float32)}


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
def test_a_gram_matrix_is_accurate_from_the_stated_ridge_on(shape, storage):
    X = np.random.default_rng(0).normal(size=shape) * np.logspace(0, 5, shape[1])
    lowest = coarsest_gram_ridge(storage(X))
    for rows in (X, X[:5]):
        assert gram_is_accurate(gram_matrix(rows), lowest)
        assert gram_is_accurate(gram_matrix(rows.T), lowest)
    assert not gram_is_accurate(gram_matrix(X), lowest / 1e3)


@storages
@intercepts
@pytest.mark.parametrize("name", ["d > n", "n > d", "mostly zero"])
def test_sparse_targets_have_the_coordinates_of_dense_ones(name, storage, intercept):
    space = factored(SHAPES[name], storage, intercept=intercept)
    B = (RNG.random((space.shape[0], 3)) < 0.4).astype(float)
    found = space.project(sp.csr_array(B))
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, space.project(B), atol=1e-12)


@storages
@pytest.mark.filterwarnings("ignore::schirn.linalg.row_space.DensifyWarning")
def test_the_svd_drops_directions_of_rounding_noise(storage):
    X = np.outer(RNG.normal(size=40), RNG.normal(size=9))
    space = factored(X, storage, ridge=1e-15)
    assert space.how == "svd"
    np.testing.assert_allclose(space.eigenvalues, [np.linalg.norm(X) ** 2])


@storages
@pytest.mark.filterwarnings("ignore::schirn.linalg.row_space.DensifyWarning")
def test_the_svd_drops_directions_whose_squares_vanish(storage):
    """Nothing may be divided by the square of 1e-21, which single precision does not have."""
    X = (np.eye(6, 3) * [1e-17, 1e-18, 1e-21]).astype(np.float32)
    space = factored(X, storage, ridge=1e-45)
    assert space.how == "svd"
    np.testing.assert_allclose(np.sort(space.eigenvalues), [1e-36, 1e-34], rtol=1e-4)


@storages
@intercepts
@pytest.mark.parametrize("unit", [1e-9, 1e6])
def test_the_unit_of_the_features_does_not_matter(storage, intercept, unit):
    plain, scaled = (
        factored(TALL * factor, storage, ridge=factor**2, intercept=intercept)
        for factor in (1.0, unit)
    )
    assert plain.how == scaled.how == "gram-columns"
    B = RNG.normal(size=(40, 3))
    scores = [
        space.expand(space.ridge(space.project(B), ridge))
        for space, ridge in ((plain, 1.0), (scaled, unit**2))
    ]
    np.testing.assert_allclose(*scores, atol=1e-9)


@pytest.mark.parametrize(("dtype", "rank"), [(np.float64, 2), (np.float32, 1)])
def test_a_gram_matrix_resolves_what_its_precision_allows(dtype, rank):
    X = np.eye(6, 2) * [1.0, 1e-6]
    space = row_space(X.astype(dtype), ridge=1.0)
    assert space.how == "gram-columns"
    assert len(space.eigenvalues) == rank


@intercepts
@pytest.mark.parametrize("name", ["d > n", "n > d", "offset"])
@pytest.mark.parametrize("ridge", [1.0, 1e-15], ids=["gram", "svd"])
def test_tensors_have_the_scores_of_arrays(name, ridge, intercept):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, B = SHAPES[name], RNG.normal(size=(len(SHAPES[name]), 3))
    for dtype, atol in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
        ours = row_space(torch.asarray(X, dtype=dtype), ridge=ridge, fit_intercept=intercept)
        plain = row_space(X.astype(str(dtype)[6:]), ridge=ridge, fit_intercept=intercept)
        assert ours.how == plain.how
        scores = ours.expand(ours.ridge(ours.project(torch.asarray(B, dtype=dtype)), 1.0))
        assert scores.dtype == dtype
        expected = plain.expand(plain.ridge(plain.project(B.astype(plain.dtype)), 1.0))
        np.testing.assert_allclose(scores, expected, atol=atol)
