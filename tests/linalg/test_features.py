"""Scaling by what X looks like."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from schirn.linalg import features
from schirn.linalg.features import Kernel, KernelExpansion, has_unit_rows, learn_scale


def counts(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.1, size=(60, 30)).astype(float)
    X[:, 4] = 0
    X[7] = 0
    return X


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_counts_are_treated_as_text(container):
    X = container(counts())
    scale = learn_scale(X)
    assert scale.kind == "text"
    Z = scale.transform(X)
    assert sp.issparse(Z)
    expected = TfidfTransformer(sublinear_tf=False).fit(sp.csr_matrix(counts()))
    logs = sp.csr_matrix(np.log1p(counts()))
    np.testing.assert_allclose(Z.toarray(), expected.transform(logs).toarray(), atol=1e-12)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_other_data_are_divided_by_their_spread(container):
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(50, 6)) * np.logspace(-3, 5, 6) + 3
    raw[:, 2] = 7
    scale = learn_scale(container(raw))
    assert scale.kind == "spread"
    Z = scale.transform(container(raw))
    Z = Z.toarray() if sp.issparse(Z) else Z
    np.testing.assert_allclose(Z.std(axis=0) ** 2, [0.2, 0.2, 0, 0.2, 0.2, 0.2], atol=1e-9)


def test_sparse_and_dense_rows_may_be_mixed():
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(50, 6))
    scale = learn_scale(sp.csr_array(raw))
    np.testing.assert_allclose(scale.transform(raw), scale.transform(sp.csr_array(raw)).toarray())


def test_kinds_can_be_chosen_and_types_are_kept():
    X = counts().astype(np.float32)
    assert learn_scale(X, "none").transform(X) is X
    assert learn_scale(X, "spread").transform(X).dtype == np.float32
    assert learn_scale(X, "text").transform(X).dtype == np.float32


def test_weighted_text_is_not_weighted_twice():
    rows = sp.csr_array(np.array([[0.6, 0.8, 0], [0, 0, 0], [0, 0, 1.0]]))
    assert has_unit_rows(rows)
    assert not has_unit_rows(2 * rows)
    assert not has_unit_rows(rows.toarray())
    with_empty_row = sp.csr_array(sp.vstack([rows, sp.csr_array((1, rows.shape[1]))]))
    assert has_unit_rows(with_empty_row)
    assert not has_unit_rows(sp.csr_array(rows.shape))


def expansion_of(rng, n_support=1500, d=16, n_labels=5, size=1.0):
    weights = size * rng.standard_normal((3, n_support, n_labels))
    support = rng.standard_normal((n_support, d))
    return KernelExpansion(Kernel("rbf", 2.0 * d), support, weights, rng.random((3, n_labels)))


def double_scores(expansion, Z):
    K = expansion.kernel(Z, expansion.support)
    return [K @ W + b for W, b in zip(expansion.weights, expansion.offsets, strict=True)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_landmarks_are_compared_in_single_precision(dtype):
    rng = np.random.default_rng(0)
    expansion = expansion_of(rng, size=0.1)
    Z = rng.standard_normal((1200, 16)).astype(dtype)
    exact = double_scores(expansion, Z.astype(np.float64))
    scores = expansion.scores(Z)
    assert {S.dtype for S in scores} == {np.dtype(dtype)}
    for S, want in zip(scores, exact, strict=True):
        assert 0 < np.abs(S - want).max() < features.SCORE_ERROR / 10
    # Neither the batch nor its size matters.
    for rows in (slice(0, 1), slice(500, 530)):
        for S, part in zip(scores, expansion.scores(Z[rows]), strict=True):
            np.testing.assert_allclose(part, S[rows], atol=1e-5)
    assert [S.shape for S in expansion.scores(Z[:0])] == [(0, 5)] * 3


def test_double_precision_stays_where_single_is_not_enough():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((40, 16))
    large = expansion_of(rng, size=100.0)
    few = expansion_of(rng, n_support=200)
    for expansion, rows in ((large, Z), (few, Z), (expansion_of(rng, size=0.1), 1e30 * Z)):
        for S, want in zip(expansion.scores(rows), double_scores(expansion, rows), strict=True):
            np.testing.assert_array_equal(S, want)
