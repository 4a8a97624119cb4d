"""Schirn as a user meets it."""

import numpy as np
import pytest
from reference.schirn import plain_schirn

import schirn
from schirn.metrics import noise_report

NUMBERS = {"alpha": 0.2, "beta": 0.05, "lam": 10.0}


def test_frozen_result(small):
    model = schirn.Schirn(alpha=0.2, beta=0.05, lam=1.0).fit(small.X, small.candidates)
    assert int(model.n_noise_[-1]) == FROZEN["noise"]
    np.testing.assert_allclose(model.decision_function(small.X[:1])[0], FROZEN["scores"], rtol=1e-6)
    assert model.objective_[-1] == pytest.approx(FROZEN["objective"])


def test_is_the_plain_transcription(small):
    model = schirn.Schirn(alpha=0.3, beta=0.07, lam=2.0).fit(small.X, small.candidates)
    W, N, *_ = plain_schirn(small.X, small.candidates.astype(float), 0.3, 0.07, 2.0)
    expected = small.X @ W
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        model.decision_function(small.X) / scale, expected / scale, atol=1e-6
    )
    np.testing.assert_array_equal(model.noise_, N)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_cells_take_another_solver_with_the_same_result(small, monkeypatch, dtype):
    X = small.X.astype(dtype)
    loop = schirn.Schirn(**NUMBERS).fit(X, small.candidates)

    def fail(*args, **options):
        raise AssertionError("the loop is for small matrices")

    monkeypatch.setattr("schirn.estimators.schirn._LOOP_CELLS", small.candidates.size - 1)
    monkeypatch.setattr("schirn.estimators.schirn.schirn", fail)
    blocks = schirn.Schirn(**NUMBERS).fit(X, small.candidates)
    tolerance = 1e-9 if dtype is np.float64 else 1e-3
    largest = np.abs(loop.coef_).max()
    np.testing.assert_allclose(blocks.coef_, loop.coef_, rtol=0, atol=tolerance * largest)
    np.testing.assert_array_equal(blocks.noise_, loop.noise_)
    assert blocks.coef_.dtype == loop.coef_.dtype == dtype


def test_traces_have_one_entry_per_round(small):
    model = schirn.Schirn(**NUMBERS, max_iter=7).fit(small.X, small.candidates)
    assert model.n_iter_ == 7
    for trace in (model.objective_, model.residual_, model.n_noise_):
        assert trace.shape == (7,)


def test_ablations_are_reachable(small):
    def scores(**options):
        return schirn.Schirn(alpha=0.2, beta=0.5, lam=1.0, **options).fit(small.X, small.candidates)

    full, low, none = scores(), scores(rank_term="low"), scores(rank_term="none")
    free = scores(sparsity=False)
    assert free.n_noise_[-1] > full.n_noise_[-1]
    spectra = [
        np.linalg.svd(m.decision_function(small.X), compute_uv=False)[-1] for m in (low, none, full)
    ]
    assert spectra[0] < spectra[1] < spectra[2]


def test_printed_rule_is_the_exact_one_with_alpha_shifted_by_one(small):
    exact = schirn.Schirn(alpha=0.3, beta=0.05, lam=10.0).fit(small.X, small.candidates)
    printed = schirn.Schirn(alpha=1.3, beta=0.05, lam=10.0, noise_rule="printed").fit(
        small.X, small.candidates
    )
    np.testing.assert_allclose(printed.coef_, exact.coef_)


def test_tolerance_stops_early(small):
    model = schirn.Schirn(**NUMBERS, tol=0.5, max_iter=200).fit(small.X, small.candidates)
    assert model.n_iter_ < 200


def test_intercept_makes_scores_independent_of_a_shift_of_the_features(small):
    plain = schirn.Schirn(**NUMBERS, fit_intercept=True).fit(small.X, small.candidates)
    shifted = schirn.Schirn(**NUMBERS, fit_intercept=True).fit(small.X + 5, small.candidates)
    np.testing.assert_allclose(
        shifted.decision_function(small.X + 5), plain.decision_function(small.X), atol=1e-7
    )


def test_finds_wrong_candidates_better_than_chance(small):
    model = schirn.Schirn(alpha=0.2, beta=0.05, lam=1.0, fit_intercept=True).fit(
        small.X, small.candidates
    )
    found = noise_report(small.y_true, small.candidates, model.noise_, model.label_confidence_)
    base = found["n_wrong"] / found["n_candidates"]
    assert found["precision"] > base + 0.2
    assert found["auc"] > 0.7


def test_probabilities_are_calibrated_on_new_rows():
    data = schirn.datasets.make_partial_multilabel(
        n_samples=1500, n_features=10, n_labels=8, r=2, random_state=3
    )
    model = schirn.Schirn(lam=1.0, fit_intercept=True).fit(data.X[:1000], data.candidates[:1000])
    P, T = model.predict_proba(data.X[1000:]), data.y_true[1000:]
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (P >= low) & (P < low + 0.25)
        assert abs(P[inside].mean() - T[inside].mean()) < 0.15
    assert model.cardinality_ == pytest.approx(T.sum() / len(T), abs=0.5)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"alpha": -1}, "alpha must be a number of at least 0 or None, got -1"),
        ({"lam": 0}, "lam must be a number of more than 0 or None, got 0"),
        ({"noise_rule": "other"}, "noise_rule must be one of 'exact', 'printed', got 'other'"),
        ({"max_iter": 1.5}, "max_iter must be an integer of at least 1, got 1.5"),
    ],
)
def test_bad_parameters_are_quoted(small, params, words):
    with pytest.raises(ValueError, match=words):
        schirn.Schirn(**params).fit(small.X, small.candidates)


@pytest.mark.parametrize("rho", [1.1, 2])
def test_ten_thousand_rounds_do_not_overflow_the_penalty(small, rho):
    """The penalty grows up to `mu_max` only, whatever rho ** max_iter is."""
    X, Y = small.X[:40], small.candidates[:40]
    found = schirn.Schirn(max_iter=10_000, rho=rho, tol=1e-4).fit(X, Y)
    same = schirn.Schirn(max_iter=300, rho=rho, tol=1e-4).fit(X, Y)
    assert found.n_iter_ < 300
    np.testing.assert_array_equal(found.coef_, same.coef_)


FROZEN = {
    "noise": 481,
    "scores": [0.064816316, -0.01418421, 0.11542214, 0.37938934, 0.55367699, 0.071716052],
    "objective": 155.4105819846313,
}
