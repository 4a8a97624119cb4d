import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from schirn.datasets import add_noise
from schirn.datasets.noise import KINDS, feature_keys, ridge_weights
from schirn.exceptions import InputError


def random_truth(n=60, n_labels=12, p=0.2, seed=0):
    return (np.random.RandomState(seed).random_sample((n, n_labels)) < p).astype(np.uint8)


def legacy_by_hand(y, r, seed):
    stream = np.random.RandomState(seed)
    out = y.copy()
    for row in out:
        negatives = np.flatnonzero(row != 1)
        row[negatives[np.argsort(stream.random_sample(len(negatives)))[:r]]] = 1
    return out


def arguments(kind, X):
    return {"rate": 0.3} if kind == "rate" else {"r": 3, "X": X}


TRUE_LABELS_MISSING = ("two-sided", "annotators")


@pytest.mark.parametrize("kind", KINDS)
def test_truth_is_kept_and_container_too(kind):
    y = random_truth()
    X = np.random.RandomState(1).standard_normal((60, 5))
    dense = add_noise(y, kind=kind, random_state=4, **arguments(kind, X))
    thin = add_noise(sparse.csr_array(y), kind=kind, random_state=4, **arguments(kind, X))
    assert dense.dtype == np.uint8
    assert isinstance(thin, sparse.csr_array)
    assert thin.dtype == np.uint8
    assert (thin.toarray() == dense).all()
    assert (dense >= y).all() or kind in TRUE_LABELS_MISSING
    assert set(np.unique(dense)) == {0, 1}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "legacy"])
def test_random_state_decides(kind):
    y = random_truth()
    X = np.random.RandomState(1).standard_normal((60, 5))
    first, second, other = (
        add_noise(y, kind=kind, random_state=s, **arguments(kind, X)) for s in (0, 0, 1)
    )
    assert (first == second).all()
    assert (first != other).any()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n_labels=st.integers(1, 30),
    r=st.integers(0, 35),
    p=st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]),
)
def test_exact_adds_r_or_all_negatives(seed, n_labels, r, p):
    y = random_truth(20, n_labels, p, seed)
    added = (add_noise(y, r, random_state=seed) - y).sum(axis=1)
    assert (added == np.minimum(r, n_labels - y.sum(axis=1))).all()


@pytest.mark.parametrize("r", [2, 7])
def test_exact_is_uniform_over_the_negatives(r):
    y = np.zeros((20_000, 10), dtype=np.uint8)
    y[:, 3] = 1
    share = (add_noise(y, r, random_state=0) - y).mean(axis=0)
    assert share[3] == 0
    others = np.delete(share, 3)
    # Five standard deviations of a mean of 20,000 draws.
    assert np.abs(others - r / 9).max() < 5 * 0.5 / np.sqrt(20_000)


def test_rate_hits_each_negative_with_that_probability():
    y = np.zeros((20_000, 6), dtype=np.uint8)
    y[:, 0] = 1
    share = (add_noise(y, kind="rate", rate=0.3, random_state=0) - y).mean(axis=0)
    assert share[0] == 0
    assert np.abs(share[1:] - 0.3).max() < 0.02


def test_label_noise_prefers_labels_that_occur_together():
    y = np.zeros((4000, 6), dtype=np.uint8)
    y[:, 0] = 1
    y[:2000, 1] = 1  # label 1 often comes with label 0
    y[3999, 2:] = 1
    extra = (add_noise(y, 1, kind="label", random_state=0) - y)[2000:3999].sum(axis=0)
    assert extra[1] > 10 * extra[2:].max()


def test_feature_noise_prefers_labels_the_features_point_to():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((2000, 2))
    y = np.zeros((2000, 6), dtype=np.uint8)
    y[:, 0] = 1
    y[:, 1] = (X[:, 0] > 0) & (rng.random_sample(2000) < 0.5)
    extra = add_noise(y, 1, kind="feature", X=X, random_state=0) - y
    open_rows = y[:, 1] == 0
    right = extra[open_rows & (X[:, 0] > 0), 1].mean()
    left = extra[open_rows & (X[:, 0] <= 0), 1].mean()
    assert right > 0.5
    assert right > 2 * left


def test_feature_noise_is_computed_in_double_precision():
    """In single precision the candidates of enron depended on the number of threads."""
    y = random_truth(200, 8)
    X = np.random.RandomState(1).random_sample((200, 50)).astype(np.float32)
    rows, negative = np.arange(200), y == 0
    single, double = (
        feature_keys(sparse.csr_array(y), features, np.random.RandomState(0))(rows, negative)
        for features in (X, X.astype(np.float64))
    )
    np.testing.assert_array_equal(single, double)


def test_feature_noise_of_a_row_does_not_depend_on_its_own_truth():
    """A regression that was fitted to a row would give away the truth of that row."""
    y = random_truth(80, 6)
    X = np.random.RandomState(1).standard_normal((80, 5))
    other = y.copy()
    other[7] = 1 - other[7]
    before, after = (
        feature_keys(sparse.csr_array(truth), X, np.random.RandomState(0)) for truth in (y, other)
    )
    everywhere = np.ones((1, 6), dtype=bool)
    np.testing.assert_array_equal(
        before(np.array([7]), everywhere), after(np.array([7]), everywhere)
    )


@pytest.mark.parametrize("n", [1, 2])
def test_feature_noise_on_hardly_any_rows(n):
    y = np.zeros((n, 4), dtype=np.uint8)
    candidates = add_noise(y, 2, kind="feature", X=np.ones((n, 3)), random_state=0)
    assert candidates.sum(axis=1).tolist() == [2] * n


def test_feature_noise_on_wide_and_sparse_features():
    y = random_truth(30, 8)
    X = np.random.RandomState(1).random_sample((30, 50)) * (random_truth(30, 50) > 0)
    dense = add_noise(y, 2, kind="feature", X=X, random_state=0)
    thin = add_noise(y, 2, kind="feature", X=sparse.csr_array(X), random_state=0)
    assert (dense == thin).all()


@pytest.mark.parametrize("n_labels", [1, 5])
@pytest.mark.parametrize("shape", [(60, 7), (12, 40)])
def test_many_rows_and_features_are_solved_step_by_step(monkeypatch, n_labels, shape):
    """Where no Gram matrix fits, the weights are those of the closed form."""
    truth = sparse.csr_array(random_truth(shape[0], n_labels))
    X = sparse.csr_array(np.random.RandomState(3).random_sample(shape))
    closed = ridge_weights(X, truth)
    monkeypatch.setattr("schirn.datasets.noise.MAX_GRAM", 5)
    steps = ridge_weights(X, truth)
    assert steps.shape == (shape[1], n_labels)
    np.testing.assert_allclose(steps, closed, atol=0.02 * np.abs(closed).max())


def test_legacy_equals_the_row_by_row_recipe():
    y = random_truth(200, 15, 0.4)
    y[0] = 1
    y[1] = 1
    y[1, 4] = 0
    assert (add_noise(y, 3, kind="legacy") == legacy_by_hand(y, 3, 3)).all()
    assert (add_noise(y, 3.0, kind="legacy") == legacy_by_hand(y, 3, 3)).all()
    assert (add_noise(y, kind="legacy", random_state=100, r=3) == legacy_by_hand(y, 3, 100)).all()
    assert (add_noise(y, 3, kind="legacy", random_state=8) == legacy_by_hand(y, 3, 8)).all()


def test_legacy_does_not_depend_on_the_block_size(monkeypatch):
    y = random_truth(50, 9)
    whole = add_noise(y, 2, kind="legacy", random_state=5)
    monkeypatch.setattr("schirn.datasets.noise.BLOCK_CELLS", 20)
    assert (add_noise(y, 2, kind="legacy", random_state=5) == whole).all()


def test_wide_sparse_labels_stay_sparse():
    columns = np.arange(4000) * 7919 % 50_000
    y = sparse.csr_array((np.ones(4000), columns, np.arange(0, 4001, 2)), shape=(2000, 50_000))
    noisy = add_noise(y, 5, random_state=0)
    assert noisy.nnz == y.nnz + 5 * 2000


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "r, the number of wrong labels per row"),
        ({"r": -1}, "must be 0 or more, not -1"),
        ({"r": 1, "kind": "other"}, "kind must be one of .* got 'other'"),
        ({"kind": "rate"}, "needs a rate between 0 and 1, not None"),
        ({"kind": "rate", "rate": 2}, "not 2"),
        ({"kind": "rate", "rate": 0.5, "r": 1}, "takes rate, not r"),
        ({"r": 1, "rate": 0.5}, 'rate belongs to kind="rate"'),
        ({"r": 1, "kind": "feature"}, "needs the features"),
        ({"r": 1, "kind": "feature", "X": np.eye(3)}, "X has 3 rows and y has 60"),
    ],
)
def test_wrong_arguments_get_one_sentence(keywords, message):
    with pytest.raises(InputError, match=message):
        add_noise(random_truth(), **keywords)


def test_labels_must_be_zero_and_one():
    with pytest.raises(InputError, match="row 0, label 1 holds -1; replace -1 by 0"):
        add_noise(np.array([[1, -1]]), 1)
    with pytest.raises(InputError, match="holds 2"):
        add_noise(np.array([[1, 2]]), 1)


@pytest.mark.parametrize("form", ["lil", "dok", "coo", "csc"])
def test_every_sparse_form_gives_the_same(form):
    y = random_truth()
    thin = add_noise(sparse.csr_array(y).asformat(form), 2, random_state=0)
    np.testing.assert_array_equal(thin.toarray(), add_noise(y, 2, random_state=0))
    with pytest.raises(InputError, match="holds -1; replace -1 by 0"):
        add_noise(sparse.csr_array(2 * y.astype(int) - 1).asformat(form), 2)


def test_features_may_be_a_list():
    y, X = random_truth(), np.random.RandomState(1).random_sample((60, 4))
    listed = add_noise(y, 2, kind="feature", X=X.tolist(), random_state=0)
    np.testing.assert_array_equal(listed, add_noise(y, 2, kind="feature", X=X, random_state=0))


def test_two_sided_noise_adds_and_leaves_out():
    y = (np.random.RandomState(0).random_sample((4000, 12)) < 0.25).astype(np.uint8)
    found = add_noise(y, 2, kind="two-sided", random_state=0)
    assert (((found == 1) & (y == 0)).sum(axis=1) == 2).all()
    assert 0.23 < 1 - found[y == 1].mean() < 0.27


def test_more_annotators_find_more_and_add_more():
    y = (np.random.RandomState(0).random_sample((4000, 12)) < 0.25).astype(np.uint8)
    one, three = (add_noise(y, r, kind="annotators", random_state=0) for r in (1, 3))
    assert 0.7 < one[y == 1].mean() < 0.9
    assert three[y == 1].mean() > 0.97
    wrong = [int(found[y == 0].sum()) for found in (one, three)]
    assert 0.4 * 4000 < wrong[0] < 0.8 * 4000
    assert 2 * wrong[0] < wrong[1] < 3.5 * wrong[0]
    # More annotators than there are people look twice; none see nothing.
    assert add_noise(y[:5], 40, kind="annotators", random_state=0).shape == (5, 12)
    assert not add_noise(y, 0, kind="annotators", random_state=0).any()


def test_annotators_confuse_labels_that_go_together():
    y = np.zeros((3000, 6), dtype=np.uint8)
    y[:1000, 0] = y[:500, 1] = y[1000:, 2:4] = 1
    y[1000:1500, 4] = 1
    found = add_noise(y, 3, kind="annotators", random_state=0)
    wrong = ((found == 1) & (y == 0))[500:1000].sum(axis=0)
    # Labels 1 and 4 are equally frequent; only label 1 goes with label 0.
    assert wrong[1] > 2 * wrong[4]
