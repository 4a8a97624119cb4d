"""The baselines: figures published under another name, and plain algebra."""

import numpy as np

import schirn
from schirn.metrics import average_precision, one_error, ranking_loss


def test_birds_gives_the_published_rows_of_glc(real):
    data = real("birds_nlr_r3")
    figures = []
    for train, test in data.folds:
        model = schirn.CandidateRidge(lam=1).fit(data.X[train], data.candidates[train])
        truth, scores = data.y_true[test], model.decision_function(data.X[test])
        figures.append([f(truth, scores) for f in (average_precision, ranking_loss, one_error)])
    np.testing.assert_array_equal(np.mean(figures, axis=0).round(3), [0.539, 0.228, 0.520])
    np.testing.assert_array_equal(np.std(figures, axis=0, ddof=1).round(3), [0.049, 0.044, 0.055])


def test_weights_are_those_of_the_normal_equations(small):
    model = schirn.CandidateRidge(lam=2.0).fit(small.X, small.candidates)
    A = small.X.T @ small.X + 2.0 * np.eye(12)
    expected = np.linalg.solve(A, small.X.T @ small.candidates)
    np.testing.assert_allclose(model.coef_.T, expected, atol=1e-10)
    np.testing.assert_array_equal(model.intercept_, 0)


def test_what_the_oracle_predicts_does_not_depend_on_the_noise(small):
    truth = small.y_true
    noisy = schirn.OracleRidge(lam=1.0).fit(small.X, small.candidates, y_clean=truth)
    clean = schirn.OracleRidge(lam=1.0).fit(small.X, truth)
    assert noisy.cardinality_ == clean.cardinality_ == truth.sum() / len(truth)
    np.testing.assert_array_equal(noisy.predict(small.X), clean.predict(small.X))
