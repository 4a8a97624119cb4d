"""The graphs and the propagation of PLAIN against loops, and the network against its formula."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.plain import (
    plain_instance_graph,
    plain_label_graph,
    plain_minimum,
    plain_objective,
    plain_propagate,
)

from schirn.lab.rivals.solvers._plain import (
    Layers,
    instance_graph,
    label_graph,
    propagate,
    standard,
    unit_columns,
)
from schirn.lab.rivals.solvers._scaling import identity

WEIGHTS = {"alpha": 0.7, "beta": 0.3, "eta": 0.5}


def data(n=12, d=4, l=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 2
    Y = (rng.random((n, l)) < 0.5).astype(float)
    P = rng.random((n, l))
    return X, Y, P


def graphs(X, Y, k=3):
    return instance_graph(X, standard(X), k), label_graph(Y)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_the_graph_of_the_rows_equals_loops(k):
    X, _, _ = data(n=25)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = plain_instance_graph(Z, k)
    np.testing.assert_allclose(instance_graph(X, standard(X), k).toarray(), expected, atol=1e-8)
    # Rows with cosines below zero are no neighbours.
    assert expected.min() == 0
    assert (expected == 0).mean() > 0.2


def test_sparse_rows_have_the_same_graph():
    X, _, _ = data(n=25)
    X = np.where(X > 2, X, 0)
    sparse = sp.csr_array(X)
    expected = instance_graph(X, standard(X), 4).toarray()
    S = instance_graph(sparse, standard(sparse), 4)
    np.testing.assert_allclose(S.toarray(), expected, atol=1e-8)


def test_the_graph_of_the_rows_in_blocks(monkeypatch):
    X, _, _ = data(n=25)
    expected = instance_graph(X, identity(X), 3).toarray()
    monkeypatch.setattr("schirn.lab.rivals.solvers._plain.rows_per_block", lambda width: 4)
    np.testing.assert_array_equal(instance_graph(X, identity(X), 3).toarray(), expected)


def test_of_copies_the_first_are_neighbours():
    X = np.array([[1.0, 0.1]] * 5)
    S = instance_graph(X, identity(X), 1).toarray()
    assert S[0, 1] > 0
    assert (S[2:, 1:] == 0).all()


def test_the_graph_of_the_labels_equals_loops():
    _, Y, _ = data(n=30, l=6)
    Y[:, 4] = 0
    np.testing.assert_allclose(label_graph(Y), plain_label_graph(Y), atol=1e-12)
    assert (label_graph(Y)[4] == 0).all()


@pytest.mark.parametrize("n_steps", [1, 2, 7])
def test_propagation_equals_steps_along_the_numerical_gradient(n_steps):
    X, Y, P = data()
    S, L = graphs(X, Y)
    ours = propagate(S, L, Y, P, **WEIGHTS, propagation_rate=0.2, n_propagations=n_steps)
    expected = plain_propagate(S.toarray(), L, Y, P, *WEIGHTS.values(), 0.2, n_steps)
    np.testing.assert_allclose(ours, expected, atol=1e-7)


def test_many_steps_end_at_the_minimum_and_each_lowers_the_objective():
    X, Y, P = data()
    S, L = graphs(X, Y)
    steps = [
        propagate(S, L, Y, P, **WEIGHTS, propagation_rate=0.2, n_propagations=k)
        for k in (1, 2, 4, 8, 200)
    ]
    values = [plain_objective(Z, S.toarray(), L, Y, P, *WEIGHTS.values()) for Z in [Y, *steps]]
    assert (np.diff(values) < 0).all()
    expected = plain_minimum(S.toarray(), L, Y, P, *WEIGHTS.values())
    np.testing.assert_allclose(steps[-1], expected, atol=1e-10)


def test_few_large_steps_stand_for_the_many_small_ones_of_the_release():
    X, Y, P = data(n=60)
    S, L = graphs(X, Y)
    weights = {"alpha": 0.1, "beta": 0.01, "eta": 1.0}
    few = propagate(S, L, Y, P, **weights, propagation_rate=0.1, n_propagations=20)
    many = propagate(S, L, Y, P, **weights, propagation_rate=0.01, n_propagations=200)
    np.testing.assert_allclose(few, many, atol=0.005)
    assert np.abs(few - Y).max() > 0.3


def test_columns_fill_the_unit_interval():
    Z = np.array([[0.2, 0.5, 3.0], [0.6, 0.5, 3.0], [0.3, 0.5, 3.0]])
    expected = [[0, 0.5, 1], [1, 0.5, 1], [0.25, 0.5, 1]]
    np.testing.assert_allclose(unit_columns(Z), expected, atol=1e-12)


def test_layers_of_scaled_rows_become_layers_of_raw_rows():
    X, _, _ = data()
    rng = np.random.default_rng(1)
    sizes = [(4, 5), (5, 3), (3, 2)]
    layers = Layers([rng.normal(size=s) for s in sizes], [rng.normal(size=s[1]) for s in sizes])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    W, b = layers
    hidden = np.maximum(np.maximum(Z @ W[0] + b[0], 0) @ W[1] + b[1], 0)
    expected = hidden @ W[2] + b[2]
    raw = layers.for_raw_features(standard(X))
    np.testing.assert_allclose(raw.outputs(X), expected, atol=1e-10)
    np.testing.assert_allclose(raw.outputs(sp.csr_array(X)), expected, atol=1e-10)
