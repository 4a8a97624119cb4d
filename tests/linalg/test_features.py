"""Scaling by what X looks like."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from schirn.linalg.features import has_unit_rows, learn_scale


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
