"""The machines equal LIBSVM's, and the votes those of a plain loop."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.particle import plain_pair, plain_votes
from sklearn.svm import SVC

from schirn.lab.rivals.solvers import _pairwise as pairwise
from schirn.lab.rivals.solvers._pairwise import (
    SVMOptions,
    cast_votes,
    kernel_matrix,
    pairwise_svms,
    rescale,
)
from schirn.lab.rivals.solvers._scaling import Scaling


@pytest.fixture(params=["folded", "dual"])
def problem(request):
    """Few features (weights are folded), or many features and pairs (dual weights stay)."""
    d, l = (5, 5) if request.param == "folded" else (400, 16)
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(80, d)), rng.random((80, l)) < 0.5
    credible = Y & (rng.random(Y.shape) < 0.5)
    # Rows whose credible labels are no candidates, also two of them at once.
    credible[:6] = rng.random((6, l)) < 0.5
    return X, credible, Y


def decisions(models, X):
    features = X if models.basis is None else X @ models.basis.T
    features = features.toarray() if sp.issparse(features) else features
    return features @ models.coef + models.intercept


@pytest.mark.parametrize("kernel", ["shared", "own"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_machines_equal_libsvm(problem, container, kernel):
    X, credible, Y = problem
    K = kernel_matrix(container(X)) if kernel == "shared" else None
    options = SVMOptions(C=0.7, tol=1e-6)
    models = pairwise_svms(container(X), credible, Y, options=options, virtual=True, K=K)
    found = decisions(models, X)
    assert (models.basis is None) == (X.shape[1] == 5)
    assert len(models.pairs) == Y.shape[1] * (Y.shape[1] + 1) // 2
    for p, (j, k) in enumerate(models.pairs):
        positive, negative = plain_pair(credible, Y, j, k)
        rows = positive + negative
        target = np.repeat([1, 0], [len(positive), len(negative)])
        machine = SVC(kernel="linear", C=0.7, tol=1e-6).fit(X[rows], target)
        expected = machine.decision_function(X)
        np.testing.assert_allclose(found[:, p], expected, atol=1e-4 * np.abs(expected).max())
        assert models.accuracy[p] == pytest.approx(machine.score(X[rows], target))


@pytest.mark.parametrize("weighted", [True, False])
def test_votes_equal_a_plain_loop(problem, weighted):
    X, credible, Y = problem
    # Label 4 has rows against label 1, which has none against it.
    Y = Y.copy()
    Y[:, 4] |= credible[:, 1]
    models = pairwise_svms(
        X, credible, Y, options=SVMOptions(tol=1e-6), virtual=weighted, K=kernel_matrix(X)
    )
    new = np.random.default_rng(2).normal(size=(30, X.shape[1]))
    expected = plain_votes(X, Y, credible, new, weighted, tol=1e-6)
    np.testing.assert_allclose(cast_votes(models, new, weighted=weighted), expected, atol=1e-12)
    sparse = cast_votes(models, sp.csr_array(new), weighted=weighted)
    np.testing.assert_allclose(sparse, expected, atol=1e-12)


def test_every_pair_casts_one_vote(problem):
    X, credible, Y = problem
    models = pairwise_svms(X, credible, Y, options=SVMOptions(), virtual=False, K=kernel_matrix(X))
    votes = cast_votes(models, X, weighted=False)
    np.testing.assert_array_equal(votes.sum(axis=1), Y.shape[1] * (Y.shape[1] - 1) // 2)
    np.testing.assert_array_equal(votes[:, -1], 0)


def test_blocks_do_not_change_the_votes(problem, monkeypatch):
    X, credible, Y = problem
    models = pairwise_svms(X, credible, Y, options=SVMOptions(), virtual=True, K=kernel_matrix(X))
    whole = cast_votes(models, X, weighted=True)
    monkeypatch.setattr(pairwise, "_BLOCK_CELLS", 4096 * 7)
    monkeypatch.setattr(pairwise, "_BLOCK_PAIRS", 4)
    np.testing.assert_allclose(cast_votes(models, X, weighted=True), whole, atol=1e-12)


def test_threads_do_not_change_the_machines(problem):
    X, credible, Y = problem
    one, two = (
        pairwise_svms(
            X, credible, Y, options=SVMOptions(n_jobs=jobs), virtual=True, K=kernel_matrix(X)
        )
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(decisions(one, X), decisions(two, X))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_rescaled_machines_take_raw_features(problem, container):
    X, credible, Y = problem
    X = container(np.abs(X))
    factor = np.linspace(0.5, 2, X.shape[1])
    shift = np.zeros(X.shape[1]) if sp.issparse(X) else np.linspace(-1, 1, X.shape[1])
    scaling = Scaling(factor, shift)
    scaled = scaling.apply(X)
    models = pairwise_svms(
        scaled, credible, Y, options=SVMOptions(), virtual=True, K=kernel_matrix(scaled)
    )
    np.testing.assert_allclose(
        decisions(rescale(models, scaling), X), decisions(models, scaled), atol=1e-9
    )


def test_no_rows_no_machines():
    X, Y = np.eye(4), np.ones((4, 3), dtype=bool)
    models = pairwise_svms(X, Y, Y, options=SVMOptions(), virtual=True, K=kernel_matrix(X))
    assert len(models.pairs) == 0
    np.testing.assert_array_equal(cast_votes(models, X, weighted=False), np.zeros((4, 4)))


def test_the_limit_of_iterations_is_reported(problem):
    X, credible, Y = problem
    capped = pairwise_svms(
        X, credible, Y, options=SVMOptions(max_iter=1), virtual=True, K=kernel_matrix(X)
    )
    free = pairwise_svms(X, credible, Y, options=SVMOptions(), virtual=True, K=kernel_matrix(X))
    assert capped.n_capped > 0
    assert free.n_capped == 0


def test_no_kernel_matrix_where_it_would_not_fit(monkeypatch):
    X = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    monkeypatch.setattr("schirn.lab.rivals.solvers._pairwise._KERNEL_ROWS", 8)
    assert kernel_matrix(X) is None
    K = kernel_matrix(sp.csr_array(X[:8]))
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, X[:8].astype(float) @ X[:8].T.astype(float))
