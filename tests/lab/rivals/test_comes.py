"""COMES: rates of the labels are undone, true priors are an oracle, and a frozen small result."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from schirn import CandidateRidge, lab
from schirn.datasets import make_partial_multilabel
from schirn.estimators import sees_truth
from schirn.exceptions import InputError
from schirn.lab.bench import run
from schirn.metrics import average_precision


@pytest.fixture(scope="module")
def uneven():
    """Rows, truth and candidates whose false labels are listed at rates from 0.1 to 0.6."""
    data = make_partial_multilabel(n_samples=900, n_labels=8, r=0, random_state=3)
    rng = np.random.default_rng(0)
    rates = np.linspace(0.1, 0.6, 8)[rng.permutation(8)]
    truth = data.y_true
    return data.X, truth, np.maximum(truth, rng.random(truth.shape) < rates).astype(int), rates


def held_out_precision(model, data, **fit):
    X, truth, candidates, _ = data
    extra = {"y_clean": truth[:600]} if fit.get("truth") else {}
    scores = model.fit(X[:600], candidates[:600], **extra).decision_function(X[600:])
    return average_precision(truth[600:], scores)


def test_different_rates_are_undone(uneven):
    """The true priors give back most of what the ridge on candidates loses."""
    ridge = held_out_precision(CandidateRidge(lam=1.0, fit_intercept=True), uneven)
    oracle = held_out_precision(lab.OracleCOMES(lam=1.0), uneven, truth=True)
    estimated = held_out_precision(lab.COMES(lam=1.0), uneven)
    assert oracle > ridge + 0.05
    assert ridge + 0.03 < estimated <= oracle + 0.01


def test_fifty_answers_help(uneven):
    _, truth, candidates, _ = uneven
    cells = np.argwhere(candidates[:600])
    cells = cells[np.random.default_rng(1).choice(len(cells), 50, replace=False)]
    right = truth[cells[:, 0], cells[:, 1]] == 1
    priors = lab.priors_from_answers(candidates[:600], cells[:, 1], right)
    ridge = held_out_precision(CandidateRidge(lam=1.0, fit_intercept=True), uneven)
    assert held_out_precision(lab.COMES(lam=1.0, priors=priors), uneven) > ridge + 0.03


def test_the_rates_of_true_priors_are_the_rates_of_the_noise(uneven):
    X, truth, candidates, rates = uneven
    model = lab.OracleCOMES(lam=1.0).fit(X, candidates, y_clean=truth)
    np.testing.assert_allclose(model.noise_rate_, rates, atol=0.06)
    np.testing.assert_array_equal(model.priors_, truth.mean(axis=0))
    wrong = (candidates == 1) & (truth == 0)
    right = truth == 1
    confidence = model.label_confidence_
    assert confidence[right].mean() > confidence[wrong].mean() + 0.4


def test_equal_rates_change_no_ranking_of_a_label(small):
    """Within a label the scores are an increasing function of the ridge."""
    ridge = CandidateRidge(lam=1.0, fit_intercept=True).fit(small.X, small.candidates)
    model = lab.COMES(lam=1.0).fit(small.X, small.candidates)
    expected = np.argsort(ridge.decision_function(small.X), axis=0)
    np.testing.assert_array_equal(np.argsort(model.decision_function(small.X), axis=0), expected)


def test_priors_of_clean_labels_give_the_ridge(small):
    """If the priors are the shares of the candidates, nothing is wrong and nothing is undone."""
    shares = small.candidates.mean(axis=0)
    model = lab.COMES(lam=2.0, priors=shares).fit(small.X, small.candidates)
    ridge = CandidateRidge(lam=2.0, fit_intercept=True).fit(small.X, small.candidates)
    np.testing.assert_allclose(model.decision_function(small.X), ridge.decision_function(small.X))
    np.testing.assert_allclose(model.noise_rate_, 0, atol=1e-12)
    assert not model.noise_.any()


@pytest.mark.parametrize("cls", [lab.COMES, lab.OracleCOMES])
def test_sparse_rows_give_the_same_model(cls, small):
    X = np.where(small.X > 0.3, small.X, 0)
    dense = cls(lam=1.0).fit(X, small.candidates)
    sparse = cls(lam=1.0).fit(sp.csr_array(X), small.candidates)
    expected = dense.decision_function(X)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), expected, atol=1e-8)


def test_only_the_oracle_sees_the_truth(small):
    assert sees_truth(lab.OracleCOMES)
    assert not sees_truth(lab.COMES)
    model = lab.OracleCOMES().fit(small.X, small.candidates, y_clean=small.y_true)
    other = lab.COMES(lam=model.lam_, priors=small.y_true.mean(axis=0))
    scores = other.fit(small.X, small.candidates).decision_function(small.X)
    np.testing.assert_allclose(model.decision_function(small.X), scores)
    assert not hasattr(model, "_true_priors")


def test_both_rows_of_a_benchmark_and_the_oracle_is_marked(tmp_path):
    data = make_partial_multilabel(n_samples=120, n_labels=5, r=1, random_state=0)
    results = run([data], methods=["COMES", "OracleCOMES"], folds=2, output=tmp_path, jobs=0)
    assert {r["method"] for r in results} == {"COMES", "OracleCOMES"}
    assert all(r["status"] == "done" for r in results)
    assert {r["method"] for r in results if r["sees_truth"]} == {"OracleCOMES"}


def test_a_label_that_every_row_lists_scores_its_prior(small):
    candidates = small.candidates.copy()
    candidates[:, 0] = 1
    priors = np.array([0.4, 0.2, 0.2, 0.2, 0.2, 0.2])
    scores = lab.COMES(lam=1.0, priors=priors).fit(small.X, candidates).decision_function(small.X)
    np.testing.assert_allclose(scores[:, 0], 0.4)
    estimated = lab.COMES(lam=1.0).fit(small.X, candidates)
    assert np.isfinite(estimated.decision_function(small.X)).all()


def test_single_precision_is_kept(small):
    model = lab.COMES(lam=1.0).fit(small.X.astype(np.float32), small.candidates)
    assert model.coef_.dtype == np.float32
    assert model.decision_function(small.X.astype(np.float32)).dtype == np.float32
    assert model.label_confidence_.dtype == np.float32


def test_frozen_result(small):
    model = lab.COMES().fit(small.X, small.candidates)
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], FROZEN, atol=1e-6)
    np.testing.assert_allclose(model.priors_, FROZEN_PRIORS, atol=1e-6)
    assert model.lam_ == 1.0
    assert model.noise_.sum() == 106


FROZEN = [[0.936793132, 0.6158637694, 0.7327542485], [0.8978934615, 0.4149646815, 0.7424819026]]
FROZEN_PRIORS = [0.3786206897, 0.2705063291, 0.393164557, 0.2920895522, 0.2682608696, 0.4018518519]


@pytest.mark.parametrize("bad", [0.3, [0.1, 0.2], [0.1] * 5 + [1.5], [0.1] * 5 + [np.nan], "high"])
def test_bad_priors_are_quoted(bad, small):
    with pytest.raises(InputError, match="priors must be None or 6 numbers between 0 and 1"):
        lab.COMES(lam=1.0, priors=bad).fit(small.X, small.candidates)


def test_priors_survive_a_clone(small):
    model = lab.COMES(priors=[0.2] * 6)
    assert clone(model).get_params()["priors"] == [0.2] * 6


@pytest.mark.parametrize(
    ("column", "right", "words"),
    [
        ([], [], "no answers"),
        ([0, 1], [True], "column has 2 labels and right has 1 answers"),
        ([0, 7], [True, False], "label 7, but there are 2 labels"),
        ([-1, 0], [True, False], "label -1"),
    ],
)
def test_bad_answers_get_one_sentence(column, right, words):
    with pytest.raises(InputError, match=words):
        lab.priors_from_answers([[1, 1], [1, 0]], column, right)
