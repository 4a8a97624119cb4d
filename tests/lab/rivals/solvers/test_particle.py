"""The steps of PARTICLE against plain loops, and what the method promises."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.particle import plain_confidences, plain_credible, plain_odds, plain_votes

from schirn.datasets import make_partial_multilabel
from schirn.lab.rivals.solvers._pairwise import SVMOptions, cast_votes
from schirn.lab.rivals.solvers._particle import (
    credible_labels,
    look_up,
    train_voters,
    unit_range,
    vote_log_odds,
    vote_margin,
)


@pytest.fixture(params=[(120, 6), (60, 150)], ids=["n>d", "d>n"])
def data(request):
    n, d = request.param
    made = make_partial_multilabel(
        n_samples=n, n_features=d, n_labels=5, cardinality=1.5, r=1, random_state=3
    )
    Y = made.candidates.copy()
    Y[4], Y[9] = 0, 1
    return np.where(np.abs(made.X) > 0.3, made.X, 0), Y


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("options", [{}, {"k": 4, "alpha": 0.5}, {"include_self": True}])
def test_credible_labels_equal_plain_loops(data, container, options):
    X, Y = data
    settings = {"k": 10, "alpha": 0.95, **options}
    found = credible_labels(container(X), Y, thr=0.8, **settings)
    F, steps = plain_confidences(X, Y, **settings)
    np.testing.assert_allclose(found.F, F, atol=1e-6)
    assert len(found.changes) == steps
    expected = plain_credible(X, Y, F, settings["k"], thr=0.8)
    np.testing.assert_array_equal(found.credible, expected)


def test_nothing_is_propagated_from_a_row_to_itself(data):
    X, Y = data
    # With fewer neighbours than features the weights are unique.
    found = credible_labels(X, Y, k=4, alpha=0.95, thr=0.9, include_self=True)
    assert len(found.changes) == 2
    P = Y / np.maximum(Y.sum(axis=1, keepdims=True), 1)
    P = P * (Y.sum(axis=0) / P.sum(axis=0))
    best = P.max(axis=1, keepdims=True)
    partial = Y.min(axis=1) == 0
    expected = (P / np.maximum(best, 1e-300))[partial]
    np.testing.assert_allclose(found.F[partial], expected, atol=1e-6)


def test_credible_labels_are_candidates_or_the_neighbours_labels(data):
    X, Y = data
    found = credible_labels(X, Y, k=10, alpha=0.95, thr=0.9)
    outside = (found.credible & (Y == 0)).any(axis=1)
    assert outside.any()
    assert not (found.credible & (Y == 1)).any(axis=1)[outside].any()


@pytest.mark.parametrize("weighted", [True, False])
def test_scores_equal_plain_loops(data, weighted):
    X, Y = data
    new = np.random.default_rng(0).normal(size=(20, X.shape[1]))
    credible = credible_labels(X, Y, k=10, alpha=0.95, thr=0.9).credible
    options = SVMOptions(tol=1e-6)
    models, own = train_voters(X, Y, credible, options=options, weighted=weighted)
    votes = cast_votes(models, new, weighted=weighted)
    plain_own = plain_votes(X, Y, credible, X, weighted, tol=1e-6)
    plain = plain_votes(X, Y, credible, new, weighted, tol=1e-6)
    np.testing.assert_allclose(own, plain_own, atol=1e-9)
    if weighted:
        expected = np.ceil(plain.round(9))
        np.testing.assert_allclose(vote_margin(votes, True), expected[:, :-1] - expected[:, -1:])
        np.testing.assert_allclose(vote_margin(votes, False), plain[:, :-1] - plain[:, -1:])
    else:
        negative = ~credible & (Y == 0)
        table = vote_log_odds(own[:, :-1], credible, negative, smoothing=0.7)
        expected = np.log(plain_odds(plain_own, credible, Y, plain[:, :-1], s=0.7))
        np.testing.assert_allclose(look_up(table, votes[:, :-1]), expected)


def test_votes_out_of_folds_come_from_machines_without_the_fold(data):
    X, Y = data
    credible = credible_labels(X, Y, k=10, alpha=0.95, thr=0.9).credible
    options = SVMOptions(tol=1e-6)
    _, votes = train_voters(X, Y, credible, options=options, weighted=True, folds=3)
    inside = np.arange(len(X)) % 3 != 1
    expected = plain_votes(X[inside], Y[inside], credible[inside], X[~inside], True, tol=1e-6)
    np.testing.assert_allclose(votes[~inside], expected, atol=1e-9)


def test_unit_range():
    X = np.array([[0.0, 2.0, -1.0], [4.0, 2.0, 3.0]])
    scaling = unit_range(X)
    np.testing.assert_allclose(scaling.apply(X), [[0, 0, 0], [1, 0, 1]])


def test_unit_range_keeps_the_zeros_of_sparse_rows():
    X = sp.csr_array([[0.0, 2.0, -1.0, 0.0], [4.0, 2.0, 0.5, 0.0], [1.0, 1.0, 0.0, 0.0]])
    scaled = unit_range(X).apply(X)
    np.testing.assert_allclose(scaled.toarray(), [[0, 1, -1, 0], [1, 1, 0.5, 0], [0.25, 0.5, 0, 0]])
    assert scaled.nnz == X.nnz
    nonnegative = X[:, [0, 3]]
    np.testing.assert_allclose(
        unit_range(nonnegative).apply(nonnegative).toarray(),
        unit_range(nonnegative.toarray()).apply(nonnegative.toarray()),
    )
