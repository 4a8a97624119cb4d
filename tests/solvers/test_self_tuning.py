"""The search on held-out candidates, against one that is written without any sharing."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.self_tuning import plain_search
from threadpoolctl import threadpool_limits

import schirn
from schirn.solvers import self_tuning

GRID = {"alpha": (2.0, 0.6, 0.2, 0.0), "beta": (0.01, 0.3), "lam": (1000.0, 10.0, 1.0, 0.1)}


@pytest.fixture(scope="module")
def data():
    return schirn.datasets.make_partial_multilabel(
        n_samples=150, n_features=10, n_labels=7, r=2, random_state=1
    )


@pytest.fixture
def grid(monkeypatch):
    monkeypatch.setattr(schirn.Schirn, "_grid", GRID)


def searched(X, Y, **options):
    return schirn.Schirn(**options).fit(X, Y)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_scores_are_those_of_a_plain_search(data, grid, storage, fit_intercept):
    X = data.X + 0.5
    table = searched(storage(X), data.candidates, fit_intercept=fit_intercept).search_
    assert len(table["score"]) == 32
    assert set(table["rounds"]) == {1, 3, 4}
    points = list(zip(table["alpha"], table["beta"], table["lam"], strict=True))
    expected = plain_search(
        X, data.candidates, points, table["rounds"], fit_intercept=fit_intercept
    )
    np.testing.assert_allclose(table["score"], expected, atol=1e-9)


def test_the_best_point_of_the_last_round_is_chosen(data, grid):
    model = searched(data.X, data.candidates)
    table = model.search_
    final = table["rounds"] == table["rounds"].max()
    best = table["score"][final].max()
    chosen = np.flatnonzero(
        (table["alpha"] == model.alpha_)
        & (table["beta"] == model.beta_)
        & (table["lam"] == model.lam_)
    )
    assert len(chosen) == 1
    assert final[chosen[0]]
    assert table["score"][chosen[0]] >= best - 1e-4


def test_batches_and_threads_change_nothing(data, grid, monkeypatch):
    model = searched(data.X, data.candidates)
    for cells, threads in ((1, 1), (2**30, 2)):
        monkeypatch.setattr(self_tuning, "_BATCH_CELLS", cells)
        with threadpool_limits(threads):
            again = searched(data.X, data.candidates)
        assert (again.alpha_, again.beta_, again.lam_) == (model.alpha_, model.beta_, model.lam_)
        np.testing.assert_allclose(again.search_["score"], model.search_["score"], atol=1e-12)


def test_tensors_give_the_same_choice(data, grid):
    torch = pytest.importorskip("torch")
    for intercept in (False, True):
        expected = searched(data.X, data.candidates, fit_intercept=intercept)
        found = searched(torch.asarray(data.X), data.candidates, fit_intercept=intercept)
        np.testing.assert_allclose(found.search_["score"], expected.search_["score"], atol=1e-9)
        assert (found.alpha_, found.beta_, found.lam_) == (
            expected.alpha_,
            expected.beta_,
            expected.lam_,
        )


def test_single_precision_is_kept_and_scores_alike(data, grid):
    expected = searched(data.X, data.candidates)
    found = searched(data.X.astype(np.float32), data.candidates)
    assert found.coef_.dtype == np.float32
    np.testing.assert_allclose(found.search_["score"], expected.search_["score"], atol=5e-3)


def test_equal_scores_earn_nothing():
    """Features that say nothing: the listed labels of each row come after all others."""
    Y = np.random.default_rng(0).random((60, 5)) < 0.4
    Y[:, 0], Y[:, 1] = True, False
    scores = searched(np.zeros((60, 3)), Y).search_["score"]
    rows = [np.mean([k / (5 - size + k) for k in range(1, size + 1)]) for size in Y.sum(axis=1)]
    np.testing.assert_allclose(scores, np.mean(rows))


def test_only_one_label_ranks_rows(data, grid):
    Y = data.candidates[:, :1]
    table = searched(data.X, Y).search_
    points = list(zip(table["alpha"], table["beta"], table["lam"], strict=True))
    expected = plain_search(data.X, Y, points, table["rounds"])
    np.testing.assert_allclose(table["score"], expected, atol=1e-9)


def test_a_point_whose_own_fit_falls_short_is_not_chosen(data):
    points = schirn.Schirn()._points({"alpha": (2.0, 0.2), "beta": (0.01,), "lam": (10.0, 1.0)})
    spaces = []

    def fit(space, Y, params):
        spaces.append(params)
        good = space.ridge(space.project(Y.astype(float)), params["lam"])
        return good if params["alpha"] == loyal else -good

    for loyal in (2.0, 0.2):
        found = self_tuning.search_grid(
            data.X, data.candidates, points, schirn.Schirn()._filters, fit=fit
        )
        assert found.best["alpha"] == loyal
    assert {params["alpha"] for params in spaces} == {2.0, 0.2}
