"""NLR: published figures on real data, and a frozen small result."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from schirn import lab
from schirn.exceptions import InputError
from schirn.metrics import average_precision, coverage, hamming_loss, one_error, ranking_loss


def test_birds_on_the_authors_folds(real):
    data = real("birds_nlr_r3")
    figures, counts = [], []
    for train, test in data.folds:
        model = lab.NLR(beta=100, gamma=10, lam=2.1)
        model.fit(data.X[train], data.candidates[train])
        truth, scores = data.y_true[test], model.decision_function(data.X[test])
        # The authors keep test rows without a true label in the last two.
        figures.append(
            [
                average_precision(truth, scores),
                ranking_loss(truth, scores),
                one_error(truth, scores),
                coverage(truth, scores, empty_rows="keep"),
                hamming_loss(truth, model.predict(data.X[test]), empty_rows="keep"),
            ]
        )
        wrong = (data.candidates[train] == 1) & (data.y_true[train] == 0)
        found = model.noise_ & wrong
        removed = model.noise_.sum()
        counts.append([removed, found.sum() / removed, found.sum() / wrong.sum()])
    np.testing.assert_allclose(
        np.mean(figures, axis=0), [0.566, 0.219, 0.460, 0.156, 0.094], atol=2e-3
    )
    assert abs(np.std(figures, axis=0, ddof=1)[0] - 0.034) < 2e-3
    np.testing.assert_allclose(np.mean(counts, axis=0), [1474, 0.87, 0.83], rtol=0.01)


def test_yeastmf(real):
    data = real("yeastmf")
    figures = []
    for train, test in KFold(5, shuffle=True, random_state=0).split(data.X):
        model = lab.NLR(beta=0.01, gamma=1000, lam=2.5)
        model.fit(data.X[train], data.candidates[train])
        figures.append(average_precision(data.y_true[test], model.decision_function(data.X[test])))
    assert abs(np.mean(figures) - 0.504) < 0.01


def test_frozen_result(small):
    model = lab.NLR(beta=100.0, gamma=10.0, lam=2.1).fit(small.X, small.candidates)
    expected = [
        [0.4607931182, 0.3061545629, 0.2486162737],
        [0.5873260774, 0.2344413161, 0.4792997992],
    ]
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], expected, atol=1e-6)
    assert model.noise_.sum() == model.n_noise_[-1] == 137
    assert model.n_iter_ == len(model.objective_) == 100
    np.testing.assert_allclose(model.objective_[-1], 112892.684578, rtol=1e-8)


def test_a_flat_row_predicts_nothing(small):
    model = lab.NLR(beta=100.0, gamma=10.0, lam=2.1).fit(small.X, small.candidates)
    assert not model.predict(np.zeros((1, 12))).any()
    assert model.predict(small.X).any(axis=1).all()


def test_confidence_tells_wrong_candidates(small):
    model = lab.NLR(beta=1.0, gamma=10.0, lam=2.1).fit(small.X, small.candidates)
    listed = small.candidates == 1
    true = small.y_true[listed] == 1
    confidence = model.label_confidence_[listed]
    assert confidence[true].mean() > confidence[~true].mean() + 0.2


@pytest.mark.parametrize("bad", [{"beta": -1}, {"gamma": 0}, {"lam": "2"}, {"max_iter": 0}])
def test_bad_parameters_are_quoted(bad, small):
    ((name, value),) = bad.items()
    with pytest.raises(InputError, match=f"{name} must be .* got {value!r}"):
        lab.NLR(**bad).fit(small.X, small.candidates)
