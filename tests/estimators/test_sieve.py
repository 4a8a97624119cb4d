"""The Sieve estimator."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

import schirn
from schirn.datasets import add_noise, make_partial_multilabel
from schirn.exceptions import InputError
from schirn.metrics import average_precision, hamming_loss, noise_auc
from schirn.testing import check_attributes, check_learns


@pytest.fixture(scope="module")
def medium():
    return make_partial_multilabel(
        n_samples=600, n_features=10, n_labels=8, cardinality=2.0, r=2, random_state=1
    )


def split(data, k=450):
    return (data.X[:k], data.candidates[:k], data.y_true[:k]), (data.X[k:], data.y_true[k:])


def test_frozen_result(small):
    model = schirn.Sieve().fit(small.X, small.candidates)
    assert int(model.noise_.sum()) == FROZEN["noise"]
    np.testing.assert_allclose(model.decision_function(small.X[:1])[0], FROZEN["scores"], rtol=1e-5)


def test_closes_part_of_the_gap_between_candidates_and_truth(medium):
    (X, C, T), (X_new, T_new) = split(medium)
    ours = schirn.Sieve().fit(X, C)
    trusting = schirn.Sieve(estimate_noise=False).fit(X, C)
    oracle = schirn.Sieve(estimate_noise=False).fit(X, T)
    scores = [
        average_precision(T_new, m.decision_function(X_new)) for m in (trusting, ours, oracle)
    ]
    assert scores[1] > scores[0] + 0.3 * (scores[2] - scores[0])
    assert noise_auc(T, C, ours.label_confidence_) > noise_auc(
        T, C, schirn.CandidateRidge(lam=1.0, fit_intercept=True).fit(X, C).label_confidence_
    )


def test_probabilities_are_calibrated_without_truth(medium):
    (X, C, _), (X_new, T_new) = split(medium)
    P = schirn.Sieve().fit(X, C).predict_proba(X_new)
    edges = [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    for low, high in pairwise(edges):
        inside = (P > low) & (P <= high)
        if inside.sum() > 40:
            assert abs(P[inside].mean() - T_new[inside].mean()) < 0.2


def test_hamming_loss_is_better_than_trusting_every_candidate(medium):
    (X, C, _), (X_new, T_new) = split(medium)
    ours = hamming_loss(T_new, schirn.Sieve().fit(X, C).predict(X_new))
    trusting = schirn.CandidateRidge(threshold=0.5, fit_intercept=True).fit(X, C)
    assert ours < hamming_loss(T_new, trusting.predict(X_new))


def test_no_noise_is_no_loss(medium):
    (X, _, T), (X_new, T_new) = split(medium)
    ours = average_precision(T_new, schirn.Sieve().fit(X, T).decision_function(X_new))
    ridge = schirn.Sieve(estimate_noise=False).fit(X, T).decision_function(X_new)
    assert ours > average_precision(T_new, ridge) - 0.01


@pytest.mark.parametrize("bad", [2, 0.5, [1.0, 2.0], float("nan"), "many"])
def test_noise_is_estimated_or_not(small, bad):
    with pytest.raises(InputError, match="estimate_noise must be"):
        schirn.Sieve(estimate_noise=bad).fit(small.X, small.candidates)


def test_trusting_keeps_every_candidate(small):
    model = schirn.Sieve(estimate_noise=False).fit(small.X, small.candidates)
    assert not model.noise_.any()
    np.testing.assert_array_equal(model.label_confidence_, small.candidates)
    np.testing.assert_array_equal(model.disambiguate(small.X, small.candidates), small.candidates)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "linear"},
        {"features": "none"},
        {"features": StandardScaler()},
        {"lam": 0.5},
        {"max_kernel_rows": 100, "n_landmarks": 40},
        {"max_kernel_rows": 100, "kernel": "linear"},
    ],
)
def test_options_keep_the_contract_and_learn(options):
    check_attributes(schirn.Sieve, **options)
    check_learns(schirn.Sieve, **options)


def test_landmarks_come_close_to_the_full_kernel(medium):
    (X, C, _), (X_new, T_new) = split(medium)
    full = schirn.Sieve().fit(X, C).decision_function(X_new)
    short = schirn.Sieve(max_kernel_rows=0, n_landmarks=200).fit(X, C).decision_function(X_new)
    assert abs(average_precision(T_new, full) - average_precision(T_new, short)) < 0.03


@pytest.mark.parametrize("kind", ["rate", "label", "feature"])
def test_other_kinds_of_noise(medium, kind):
    options = {"rate": 0.3} if kind == "rate" else {"r": 2}
    C = add_noise(medium.y_true, kind=kind, X=medium.X, random_state=0, **options)
    model = schirn.Sieve().fit(medium.X, C)
    assert noise_auc(medium.y_true, C, model.label_confidence_) > 0.7


def test_ninety_percent_noise(medium):
    C = add_noise(medium.y_true, kind="rate", rate=0.9, random_state=0)
    model = schirn.Sieve().fit(medium.X, C)
    assert np.isfinite(model.decision_function(medium.X)).all()
    assert noise_auc(medium.y_true, C, model.label_confidence_) > 0.6


def test_text_stays_sparse(monkeypatch):
    data = make_partial_multilabel(
        n_samples=120, n_features=300, n_labels=5, r=1, sparse=True, density=0.05, random_state=0
    )
    X = sp.csr_array(np.abs(data.X))
    monkeypatch.setattr(sp.csr_array, "todense", None)
    model = schirn.Sieve().fit(X, data.candidates)
    assert model.scale_.kind == "text"
    assert sp.issparse(model.expansion_.support)
    assert model.decision_function(X).shape == (120, 5)


def test_saved_model_predicts_the_same(small, tmp_path):
    model = schirn.Sieve().fit(small.X, small.candidates)
    schirn.save(model, tmp_path / "m.schirn")
    again = schirn.load(tmp_path / "m.schirn")
    np.testing.assert_array_equal(
        again.decision_function(small.X), model.decision_function(small.X)
    )
    np.testing.assert_array_equal(
        again.disambiguate(small.X, small.candidates), model.disambiguate(small.X, small.candidates)
    )


def test_better_than_trusting_the_candidates_on_real_data(real):
    data = real("medical")
    C = add_noise(data.y_true, 7, kind="legacy")
    gains = []
    for train, test in list(KFold(5, shuffle=True, random_state=0).split(C))[:2]:
        ours = schirn.Sieve().fit(data.X[train], C[train])
        trusting = schirn.Sieve(estimate_noise=False).fit(data.X[train], C[train])
        truth = data.y_true[test]
        gains.append(
            average_precision(truth, ours.decision_function(data.X[test]))
            - average_precision(truth, trusting.decision_function(data.X[test]))
        )
    assert np.mean(gains) > 0.03


FROZEN = {"noise": 197, "scores": [2.965742, 1.809053, 5.215814, 5.88511, 10.24239, -4.063066]}


def test_no_matrix_of_all_pairs_of_labels_is_made():
    """With more labels than rows, time and memory grow linearly with the labels."""
    rng = np.random.default_rng(0)
    n, l = 20, 3000
    X, Y = rng.standard_normal((n, 4)), rng.random((n, l)) < 0.002
    Y[np.arange(n), rng.integers(l, size=n)] = True
    tracemalloc.start()
    model = schirn.Sieve(max_iter=2).fit(X, Y)
    model.predict_proba(X)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.pool_.stack is not None
    assert most < 8 * l**2 / 2


@pytest.mark.parametrize("rows", [5000, 500], ids=["kernel matrix", "landmarks"])
def test_weak_features_end_the_rounds_before_they_harm(rows):
    """Six pixels in a linear model: later rounds would call nearly every candidate wrong."""
    digits = load_digits()
    truth = np.eye(10, dtype=int)[digits.target]
    X, C = digits.data[:, 20:26], add_noise(truth, 3, random_state=0)
    options = {"kernel": "linear", "max_kernel_rows": rows}
    model = schirn.Sieve(**options).fit(X, C)
    assert model.n_iter_ < model.max_iter
    assert noise_auc(truth, C, model.label_confidence_) > 0.8
    trusting = schirn.Sieve(**options, estimate_noise=False).fit(X, C)
    found, plain = (average_precision(truth, m.decision_function(X)) for m in (model, trusting))
    # One round on six pixels loses a little, and a fourth one a third of the precision.
    assert found > plain - 0.03
    # Predictions and confidences of unseen rows come from the round that was taken.
    unseen = model.disambiguate(X, C)[C == 1]
    assert np.corrcoef(unseen, model.label_confidence_[C == 1])[0, 1] > 0.95


def test_a_round_that_lowers_the_evidence_is_not_taken():
    """On weak features the evidence falls early; the model is that of the round before."""
    data = make_partial_multilabel(n_samples=150, n_features=4, n_labels=6, r=2, random_state=2)
    X, C = data.X, data.candidates
    model = schirn.Sieve().fit(X, C)
    taken = model.n_iter_ - 1
    assert 1 <= taken < model.max_iter - 1
    assert (np.diff(model.evidence_)[:-1] >= 0).all()
    assert model.evidence_[-1] < model.evidence_[-2]
    assert len(model.evidence_) == len(model.objective_) == model.n_iter_
    shorter = schirn.Sieve(max_iter=taken).fit(X, C)
    np.testing.assert_allclose(shorter.evidence_, model.evidence_[:-1])
    np.testing.assert_allclose(shorter.decision_function(X), model.decision_function(X))
    np.testing.assert_allclose(shorter.label_confidence_, model.label_confidence_)
    np.testing.assert_allclose(shorter.training_log_odds_, model.training_log_odds_)


def test_weights_of_few_rows_with_many_words_are_stored_per_row(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 900), density=0.02, format="csr", rng=rng, dtype=np.float32)
    Y = (rng.random((60, 40)) < 0.1).astype(int)
    Y[np.arange(60), rng.integers(40, size=60)] = 1
    unseen = sp.random_array((25, 900), density=0.02, format="csr", rng=rng, dtype=np.float32)
    files = []
    scores = []
    for limit in (2**24, 1000):
        monkeypatch.setattr("schirn.solvers.kernel_ridges._MANY_WEIGHTS", limit)
        model = schirn.Sieve(kernel="linear").fit(X, Y)
        files.append(tmp_path / f"{limit}.schirn")
        schirn.save(model, files[-1])
        loaded = schirn.load(files[-1])
        np.testing.assert_array_equal(
            loaded.decision_function(unseen), model.decision_function(unseen)
        )
        scores.append(model.decision_function(unseen))
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-4, atol=1e-4)
    assert files[1].stat().st_size < 0.3 * files[0].stat().st_size
