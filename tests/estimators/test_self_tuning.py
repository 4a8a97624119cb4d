"""Methods that choose what they are not told, as a user meets them."""

import numpy as np
import pytest
import scipy.sparse as sp

import schirn
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import EmptyCandidatesWarning
from schirn.lab import NLR
from schirn.metrics import average_precision
from schirn.model_selection import CandidateSearchCV
from schirn.scale.row_file import RowFile

METHOD_CLASSES = {"Schirn": schirn.Schirn, "NLR": NLR, "CandidateRidge": schirn.CandidateRidge}
METHODS = {"Schirn": "alpha beta lam", "NLR": "beta gamma lam", "CandidateRidge": "lam"}
methods = pytest.mark.parametrize("name", METHODS)


def tuned(model):
    return {name: getattr(model, f"{name}_") for name in METHODS[type(model).__name__].split()}


@methods
def test_defaults_are_chosen_and_numbers_are_used_as_they_are(small, name):
    cls = METHOD_CLASSES[name]
    model = cls().fit(small.X, small.candidates)
    chosen = tuned(model)
    assert all(value is None for key, value in model.get_params().items() if key in chosen)
    explicit = cls(**chosen).fit(small.X, small.candidates)
    assert explicit.search_ is None
    assert tuned(explicit) == chosen
    np.testing.assert_array_equal(
        explicit.decision_function(small.X), model.decision_function(small.X)
    )


@methods
def test_half_of_the_numbers(small, name):
    model = METHOD_CLASSES[name](lam=3.0).fit(small.X, small.candidates)
    assert model.lam_ == 3.0
    assert name == "CandidateRidge" or set(model.search_["lam"]) == {3.0}


def test_the_grid_is_as_large_as_it_says(small):
    table = schirn.Schirn().fit(small.X, small.candidates).search_
    assert len(set(table["alpha"])) >= 5
    assert len(set(table["beta"])) >= 2
    assert len(set(table["lam"])) >= 6
    assert len(table["score"]) == 7 * 2 * 7
    assert table["rows"] == len(small.X)


def test_never_calls_every_candidate_noise():
    data = make_partial_multilabel(
        n_samples=400, n_features=20, n_labels=40, cardinality=2, r=8, random_state=0
    )
    old = schirn.Schirn(alpha=0.2, beta=0.05, lam=10.0).fit(data.X, data.candidates)
    assert old.noise_.sum() > 0.95 * data.candidates.sum()
    model = schirn.Schirn().fit(data.X, data.candidates)
    assert model.noise_.sum() < 0.9 * data.candidates.sum()
    ridge = schirn.CandidateRidge().fit(data.X, data.candidates)
    truth = data.y_true
    found, base = (average_precision(truth, m.decision_function(data.X)) for m in (model, ridge))
    assert found > base - 0.005


@methods
def test_is_as_good_on_new_rows_as_a_search_over_all_points(name):
    data = make_partial_multilabel(
        n_samples=360, n_features=15, n_labels=8, r=3, density=0.5, random_state=2
    )
    X, Y, new = data.X[:240], data.candidates[:240], data.X[240:]
    model = METHOD_CLASSES[name]().fit(X, Y)
    grid = {key: sorted(set(model.search_[key])) for key in tuned(model)}
    if name != "CandidateRidge":
        grid = {key: values[::2] for key, values in grid.items()}
    search = CandidateSearchCV(METHOD_CLASSES[name](), grid, cv=3).fit(X, Y)
    own, full = (
        average_precision(data.y_true[240:], m.decision_function(new)) for m in (model, search)
    )
    assert own > full - 0.01


@pytest.mark.parametrize("rule", ["exact", "printed"])
def test_both_noise_rules_choose_the_same_model(small, rule):
    model = schirn.Schirn(noise_rule=rule).fit(small.X, small.candidates)
    exact = schirn.Schirn().fit(small.X, small.candidates)
    assert model.alpha_ == exact.alpha_ + (rule == "printed")
    np.testing.assert_array_equal(model.coef_, exact.coef_)


def test_ablations_search_what_they_use(small):
    free = schirn.Schirn(sparsity=False).fit(small.X, small.candidates)
    assert set(free.search_["alpha"]) == {free.alpha_} == {0.0}
    flat = schirn.Schirn(rank_term="none").fit(small.X, small.candidates)
    assert len(set(flat.search_["beta"])) == 1


def test_the_oracle_is_tuned_on_the_truth(small):
    model = schirn.OracleRidge().fit(small.X, small.candidates, y_clean=small.y_true)
    again = schirn.CandidateRidge().fit(small.X, small.y_true)
    np.testing.assert_array_equal(model.search_["score"], again.search_["score"])


DEGENERATE = {
    "one row": (1, 4, 3, None),
    "two rows": (2, 4, 3, None),
    "three rows": (3, 4, 3, None),
    "one label": (20, 4, 1, None),
    "all candidates": (20, 4, 3, 1),
    "one label, always listed": (20, 4, 1, 1),
}


@methods
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_candidates(name, case):
    n, d, l, value = DEGENERATE[case]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) + 1
    Y = (rng.random((n, l)) < 0.6).astype(int) if value is None else np.full((n, l), value)
    Y[0, 0] = 1
    model = METHOD_CLASSES[name]()
    if l > 1 and not Y.any(axis=1).all():
        with pytest.warns(EmptyCandidatesWarning):
            model.fit(X, Y)
    else:
        model.fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()
    assert all(np.isfinite(value) for value in tuned(model).values())


@methods
def test_a_label_without_candidates_and_constant_features(small, name):
    Y = small.candidates.copy()
    Y[:, 2] = 0
    X = small.X.copy()
    X[:, :3] = 0
    for rows in (X, 0 * X + 1):
        model = METHOD_CLASSES[name]().fit(rows, Y)
        assert np.isfinite(model.decision_function(rows)).all()


@methods
def test_sparse_rows_are_searched_as_they_are(small, name):
    X = np.where(np.abs(small.X) > 0.5, small.X, 0)
    dense = METHOD_CLASSES[name]().fit(X, small.candidates)
    sparse = METHOD_CLASSES[name]().fit(sp.csr_array(X), small.candidates)
    assert tuned(sparse) == tuned(dense)


def test_sparse_rows_of_wide_scale_never_become_dense(small):
    # A dense SVD would warn, and warnings are errors here.
    X = sp.csr_array(small.X * np.logspace(0, 4, small.X.shape[1]))
    model = schirn.Schirn().fit(X, small.candidates)
    assert 0.01 not in model.search_["lam"]


def test_large_data_are_searched_on_some_rows(small, monkeypatch):
    from schirn.solvers import self_tuning

    monkeypatch.setattr(self_tuning, "_MOST_CELLS", 12 * 60)
    model = schirn.Schirn().fit(small.X, small.candidates)
    assert model.search_["rows"] == 60


def test_rows_in_files_give_the_choice_of_memory(small, tmp_path):
    np.save(tmp_path / "X.npy", small.X)
    expected = schirn.Schirn().fit(small.X, small.candidates)
    model = schirn.Schirn().fit(RowFile(tmp_path / "X.npy", block_rows=64), small.candidates)
    assert tuned(model) == tuned(expected)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-8)


@methods
def test_the_search_is_saved_with_the_model(small, name, tmp_path):
    model = METHOD_CLASSES[name]().fit(small.X, small.candidates)
    schirn.save(model, tmp_path / "model.schirn")
    again = schirn.load(tmp_path / "model.schirn")
    assert tuned(again) == tuned(model)
    for key, column in model.search_.items():
        np.testing.assert_array_equal(again.search_[key], column)
