"""The cut per row that is a linear function of the scores."""

import numpy as np
import pytest

import schirn
from schirn.exceptions import InputError
from schirn.noise.thresholds import best_row_cuts, label_threshold


def plain_row_cut(scores, candidates):
    """Every cut tried, one row at a time."""
    s = np.sort(scores)
    cuts = [s[0] - 0.1, *((s[:-1] + s[1:]) / 2), s[-1] + 0.1]
    errors = [np.sum((scores >= cut) != candidates) for cut in cuts]
    return cuts[int(np.argmin(errors))]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 7))
    candidates = (scores + rng.normal(size=scores.shape) > 0.5).astype(np.uint8)
    return scores, candidates


def test_row_cuts_try_every_cut(rows):
    scores, candidates = rows
    expected = [plain_row_cut(s, y) for s, y in zip(scores, candidates, strict=True)]
    np.testing.assert_allclose(best_row_cuts(scores, candidates), expected, rtol=1e-14)


def test_row_cuts_by_hand():
    scores = np.array([[0.2, 0.6, 0.4], [0.2, 0.6, 0.4], [0.2, 0.6, 0.4], [0.2, 0.6, 0.4]])
    candidates = np.array([[0, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0, 0]])
    # The last row makes one error with the cut 0.7 and two with all others.
    np.testing.assert_allclose(best_row_cuts(scores, candidates), [0.5, 0.1, 0.7, 0.7])
    assert best_row_cuts(scores[:1], np.array([[1, 0, 1]])) == pytest.approx(0.1)


def test_linear_threshold_is_the_least_squares_fit(rows):
    scores, candidates = rows
    rule = label_threshold("linear", 7, scores=scores, candidates=candidates)
    cuts = best_row_cuts(scores, candidates)
    residual = cuts - scores @ rule.slopes - rule.cut
    # Normal equations: the residual is orthogonal to every score column and to the constant.
    np.testing.assert_allclose(scores.T @ residual, 0, atol=1e-10)
    assert abs(residual.sum()) < 1e-10
    expected = scores >= (scores @ rule.slopes + rule.cut)[:, None]
    np.testing.assert_array_equal(rule.apply(scores), expected)
    assert 0 < expected.mean() < 1


def test_linear_threshold_of_repeated_labels_has_least_norm(rows):
    scores, candidates = rows
    once = label_threshold("linear", 7, scores=scores, candidates=candidates)
    pairs, listed = np.repeat(scores, 2, axis=1), np.repeat(candidates, 2, axis=1)
    twice = label_threshold("linear", 14, scores=pairs, candidates=listed)
    # Equal scores share one slope, and the cut of a row does not change with repetition.
    np.testing.assert_allclose(twice.slopes[::2], twice.slopes[1::2], atol=1e-12)
    np.testing.assert_allclose(twice.slopes[::2] * 2, once.slopes, atol=1e-10)


@pytest.mark.parametrize("cls", [schirn.Schirn, schirn.CandidateRidge, schirn.OracleRidge])
def test_every_method_may_learn_it(cls, small):
    model = cls(threshold="linear").fit(small.X, small.candidates)
    predicted = model.predict(small.X)
    np.testing.assert_array_equal(predicted, model.predict(small.X, threshold="linear"))
    errors = np.mean(predicted != small.candidates)
    assert errors < np.mean(small.candidates != np.round(small.candidates.mean(axis=0)))


def test_linear_threshold_is_learned_in_fit_only(small):
    model = schirn.CandidateRidge().fit(small.X, small.candidates)
    with pytest.raises(InputError, match='set threshold="linear" on the model before fit'):
        model.predict(small.X, threshold="linear")


def test_linear_threshold_in_a_model_file(small, tmp_path):
    model = schirn.CandidateRidge(threshold="linear").fit(small.X, small.candidates)
    schirn.save(model, tmp_path / "model.schirn")
    same = schirn.load(tmp_path / "model.schirn")
    np.testing.assert_array_equal(same.predict(small.X), model.predict(small.X))
    np.testing.assert_array_equal(same.predict(small.X, threshold="linear"), model.predict(small.X))
