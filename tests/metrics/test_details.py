"""Ties, weights across blocks, and the whole sentences of errors."""

from unittest import mock

import numpy as np
import pytest

from schirn import metrics
from schirn.exceptions import InputError
from schirn.metrics import _input

TRUTH = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1]])
SCORES = np.array([[0.9, 0.2, 0.1], [0.1, 0.8, 0.2], [0.3, 0.2, 0.9]])
CANDIDATES = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]])
NOISE = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])


@pytest.fixture
def one_row_blocks():
    with mock.patch.object(_input, "BLOCK_CELLS", 1):
        yield


def sentence(function, *args, **options):
    with pytest.raises(InputError) as caught:
        function(*args, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("scores", "field", "strict"),
    [
        ([0.9, 0.1, 0.2], 0, 0),
        ([0.1, 0.9, 0.2], 1, 1),
        ([0.9, 0.9, 0.2], 0, 1),
        ([0.1, 0.9, 0.9], 1, 1),
        ([0.5, 0.5, 0.5], 0, 1),
    ],
)
def test_one_error_of_one_row_with_ties(scores, field, strict):
    assert metrics.one_error([[1, 0, 0]], [scores]) == field
    assert metrics.one_error([[1, 0, 0]], [scores], convention="sklearn") == strict


def test_strict_one_error_looks_at_every_row_alone():
    truth = [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    scores = [[3, 1, 2], [1, 3, 2], [1, 3, 3], [1, 2, 3]]
    assert metrics.one_error(truth, scores, convention="sklearn") == 0.5
    assert metrics.one_error(truth, scores) == 0.25


def test_one_error_of_labels_that_are_all_tied_true():
    assert metrics.one_error([[1, 1, 0]], [[0.9, 0.9, 0.1]], convention="sklearn") == 0


def test_weights_count_in_precision_at_k():
    truth, scores = [[1, 0], [1, 0]], [[0.9, 0.1], [0.1, 0.9]]
    assert metrics.precision_at_k(truth, scores) == 0.5
    assert metrics.precision_at_k(truth, scores, sample_weight=[3, 1]) == 0.75


def test_counts_of_noise_add_up_over_blocks(one_row_blocks):
    noise = np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0]])
    report = metrics.noise_report(TRUTH, CANDIDATES, noise=noise)
    assert (report["n_candidates"], report["n_wrong"], report["n_flagged"]) == (6, 2, 3)
    assert report["precision"] == pytest.approx(2 / 3)
    assert report["recall"] == 1


@pytest.mark.parametrize(
    ("function", "third"), [(metrics.noise_precision, "noise"), (metrics.noise_auc, "confidence")]
)
def test_noise_measures_name_what_does_not_fit(function, third, one_row_blocks):
    value = NOISE if third == "noise" else SCORES
    assert sentence(function, TRUTH[:2], CANDIDATES, value) == (
        "candidates has shape (3, 3) but y_true has shape (2, 3); "
        "give the same rows and labels for both."
    )
    assert sentence(function, TRUTH, CANDIDATES, value[:, :2]) == (
        f"candidates has shape (3, 3) but {third} has shape (3, 2); "
        "give the same rows and labels for both."
    )
    bad = CANDIDATES.copy()
    bad[2, 0] = 7
    assert sentence(function, TRUTH, bad, value) == (
        "candidates must be 0 or 1, but row 2, label 0 holds 7"
    )
    bad = TRUTH.copy()
    bad[1, 2] = 5
    assert sentence(function, bad, CANDIDATES, value) == (
        "y_true must be 0 or 1, but row 1, label 2 holds 5"
    )


def test_noise_outside_the_candidates_is_located(one_row_blocks):
    noise = NOISE.copy()
    noise[2, 0] = 1
    assert sentence(metrics.noise_recall, TRUTH, CANDIDATES, noise) == (
        "noise is 1 at row 2, column 0, which is not a candidate; "
        "only candidate labels can be noise."
    )


def test_missing_confidence_is_located(one_row_blocks):
    confidence = SCORES.copy()
    confidence[0, 2] = np.nan
    assert np.isfinite(metrics.noise_auc(TRUTH, CANDIDATES, confidence))
    confidence[2, 1] = np.nan
    assert sentence(metrics.noise_auc, TRUTH, CANDIDATES, confidence) == (
        "confidence is NaN at row 2, column 1, a candidate; replace missing values first."
    )


@pytest.mark.parametrize(("name", "value"), [("convention", "fied"), ("empty_rows", "dorp")])
def test_evaluate_names_the_option(name, value):
    assert sentence(metrics.evaluate, TRUTH, SCORES, **{name: value}).startswith(
        f"{name} is {value!r}; use one of "
    )


def test_evaluate_names_the_table_that_is_wrong():
    scores = SCORES.copy()
    scores[1, 1] = np.nan
    assert sentence(metrics.evaluate, TRUTH, scores).startswith("scores is NaN at row 1, column 1")
    predicted = TRUTH.astype(float)
    predicted[0, 2] = np.nan
    assert sentence(metrics.evaluate, TRUTH, SCORES, y_pred=predicted).startswith("y_pred ")


@pytest.mark.parametrize("option", ["y_true", "scores", "sample_weight", "konvention"])
def test_a_scorer_takes_no_data_as_options(option):
    assert (
        sentence(metrics.scorer, "ranking_loss", against="candidates", **{option: 1})
        == f"ranking_loss has no option {option!r}; use convention."
    )


def test_a_scorer_says_how_to_switch_routing_on():
    assert sentence(metrics.scorer, "coverage") == (
        "scorer('coverage') with against='clean' needs metadata routing; call "
        "sklearn.set_config(enable_metadata_routing=True) first, or use against='candidates'."
    )


def test_a_scorer_says_how_to_hand_over_the_truth():
    import sklearn
    from sklearn.dummy import DummyClassifier

    with sklearn.config_context(enable_metadata_routing=True):
        made = metrics.scorer("hamming_loss")
        model = DummyClassifier().fit(SCORES, TRUTH)
        assert sentence(made, model, SCORES, TRUTH) == (
            "the scorer 'hamming_loss' compares with the true labels but got none; pass y_clean, "
            "as in cross_validate(..., params={'y_clean': Y}) or search.fit(X, candidates, "
            "y_clean=Y), or use scorer(..., against='candidates')."
        )


@pytest.mark.parametrize("name", list(metrics.METRICS))
def test_every_measure_names_its_options(name):
    function = metrics.METRICS[name].function
    assert sentence(function, TRUTH, SCORES, convention="fied") == (
        "convention is 'fied'; use one of 'field', 'sklearn'."
    )
    if name in ("coverage", "hamming_loss"):
        assert sentence(function, TRUTH, SCORES, empty_rows="dorp") == (
            "empty_rows is 'dorp'; use one of 'drop', 'keep'."
        )


def test_without_a_row_that_counts_the_whole_sentence_says_why():
    assert sentence(metrics.one_error, [[1, 1]], [[0.1, 0.2]]) == (
        "no row is left to score for one_error: rows without a true label, and for rankings rows "
        "with only true labels, do not count, nor does a row of weight 0; hand in rows with both."
    )


def test_weights_of_another_number_are_refused_with_both_numbers():
    assert sentence(metrics.coverage, TRUTH, SCORES, sample_weight=[1, 2]) == (
        "sample_weight has shape (2,) but there are 3 rows; give one weight per row."
    )


def test_rows_scaled_with_infinite_scores_are_refused():
    scores = SCORES.copy()
    scores[0, 0] = np.inf
    assert sentence(metrics.hamming_loss, TRUTH, scores, scale="row") == (
        "scale='row' needs finite scores; replace infinite ones or scale='none'."
    )


@pytest.mark.parametrize(
    ("scores", "loss"),
    [
        ([[True, False, False]], 0),
        ([[1, 0, 0]], 0),
        # Integers beyond 0 and 1 are scores, cut at the threshold 1.5.
        ([[2, 0, 1]], 0),
        ([[1, -1, 2]], 2 / 3),
        ([[0, -1, 1]], 1 / 3),
        # So are floats, whatever they are.
        ([[1.0, 0.0, 0.0]], 1 / 3),
        ([[2.0, 0.0, 1.0]], 0),
    ],
)
def test_what_counts_as_predictions(scores, loss):
    found = metrics.hamming_loss([[1, 0, 0]], scores, threshold=1.5)
    assert found == pytest.approx(loss)


def test_scores_that_are_no_table_are_called_scores():
    assert sentence(metrics.hamming_loss, TRUTH, [["a", "b"], ["c"]]).startswith(
        "scores must be numbers with one row per sample"
    )


def test_tables_without_rows_or_labels_have_no_row_to_score():
    for shape in ((0, 3), (3, 0)):
        empty = np.zeros(shape, dtype=int)
        assert "no row is left" in sentence(metrics.hamming_loss, empty, empty)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_rows_of_small_integers_are_scaled_like_floats(dtype):
    scores = np.array([[100, 0, 40], [0, 127, 90]], dtype=dtype)
    if dtype != np.uint8:
        scores[:, 1] -= 100
    truth = np.array([[1, 0, 1], [0, 1, 1]])
    loss = metrics.hamming_loss(truth, scores, scale="row", threshold=0.5)
    assert loss == metrics.hamming_loss(truth, scores.astype(float), scale="row", threshold=0.5)
