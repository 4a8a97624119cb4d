"""What the metrics say about input they cannot use."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from schirn import metrics
from schirn.exceptions import InputError

FUNCTIONS = [m.function for m in metrics.METRICS.values()] + [
    metrics.precision_at_k,
    metrics.evaluate,
]
TRUTH = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1]])
SCORES = np.array([[0.9, 0.2, 0.1], [0.1, 0.8, 0.2], [0.3, 0.2, 0.9]])

every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)


@every_function
def test_shapes_are_both_named(function):
    with pytest.raises(InputError, match=r"y_true has shape \(3, 3\) but scores has .*\(3, 2\)"):
        function(TRUTH, SCORES[:, :2])
    with pytest.raises(InputError, match=r"\(2, 3\).*\(3, 3\)"):
        function(TRUTH[:2], SCORES)


@every_function
def test_nan_is_located_across_blocks(function, widen):
    scores = SCORES.copy()
    scores[2, 1] = np.nan
    for truth, values in ((TRUTH, scores), (widen(TRUTH), widen(scores))):
        with pytest.raises(InputError, match="scores is NaN at row 2, column 1"):
            function(truth, values)


@every_function
@pytest.mark.parametrize(("value", "shown"), [(-1, "-1"), (2, "2"), (0.5, "0.5"), (np.nan, "nan")])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_the_value_that_is_not_binary_is_named(function, value, shown, kind):
    truth = TRUTH.astype(float) if isinstance(value, float) else TRUTH.copy()
    truth[1, 2] = value
    with pytest.raises(
        InputError, match=rf"y_true must be 0 or 1, but row 1, label 2 holds {shown}"
    ):
        function(kind(truth), SCORES)


@every_function
def test_no_row_left(function):
    with pytest.raises(InputError, match="no row is left to score"):
        function(np.zeros((3, 3), dtype=int), SCORES)
    with pytest.raises(InputError, match="no row is left to score"):
        function(TRUTH[:0], SCORES[:0])


@pytest.mark.parametrize("name", list(metrics.METRICS))
def test_no_label_left(name):
    with pytest.raises(InputError, match="no row is left to score"):
        metrics.METRICS[name].function(np.zeros((3, 0)), np.zeros((3, 0)))


@every_function
def test_tables_of_names_are_refused(function):
    with pytest.raises(InputError, match="y_true must be numbers with one row per sample"):
        function([["cat"], ["dog", "cat"], []], SCORES)
    with pytest.raises(InputError, match="y_true"):
        function(np.array([["a", "b", "c"]] * 3), SCORES)
    with pytest.raises(InputError, match=r"y_true has shape \(1, 3, 3\)"):
        function(TRUTH[None], SCORES)


def test_columns_in_another_order_are_refused():
    truth = pd.DataFrame(TRUTH, columns=["a", "b", "c"])
    scores = pd.DataFrame(SCORES, columns=["a", "c", "b"])
    sentence = (
        r"column 1 is 'b' in y_true but 'c' in scores; put the labels of both in the same order\.$"
    )
    with pytest.raises(InputError, match=sentence):
        metrics.average_precision(truth, scores)
    assert metrics.average_precision(truth, scores.to_numpy()) > 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "coverage",
            {"convention": "mulan"},
            "convention must be one of 'field', 'random'",
        ),
        ("one_error", {"convention": None}, "convention must be one of .* got None"),
        ("coverage", {"empty_rows": "skip"}, "empty_rows must be one of .* got 'skip'"),
        ("hamming_loss", {"threshold": "high"}, "threshold is 'high'"),
        ("hamming_loss", {"threshold": np.nan}, "threshold is nan"),
    ],
)
def test_options_are_checked(name, options, message):
    with pytest.raises(InputError, match=message):
        metrics.METRICS[name].function(TRUTH, SCORES, **options)


@pytest.mark.parametrize(("name", "value"), [("convention", "fied"), ("empty_rows", "dorp")])
def test_evaluate_names_the_option(sentence, name, value):
    message = sentence(metrics.evaluate, TRUTH, SCORES, **{name: value})
    assert message.startswith(f"{name} must be one of ")
    assert message.endswith(f"got {value!r}")


def test_evaluate_names_the_table_that_is_wrong(sentence):
    scores = SCORES.copy()
    scores[1, 1] = np.nan
    assert sentence(metrics.evaluate, TRUTH, scores).startswith("scores is NaN at row 1, column 1")
    predicted = TRUTH.astype(float)
    predicted[0, 2] = np.nan
    assert sentence(metrics.evaluate, TRUTH, SCORES, y_pred=predicted).startswith("y_pred ")


@pytest.mark.parametrize("name", list(metrics.METRICS))
def test_every_measure_names_its_options(sentence, name):
    function = metrics.METRICS[name].function
    assert sentence(function, TRUTH, SCORES, convention="fied") == (
        "convention must be one of 'field', 'random', got 'fied'"
    )
    if name in ("coverage", "hamming_loss"):
        assert sentence(function, TRUTH, SCORES, empty_rows="dorp") == (
            "empty_rows must be one of 'drop', 'keep', got 'dorp'"
        )


def test_without_a_row_that_counts_the_whole_sentence_says_why(sentence):
    assert sentence(metrics.one_error, [[1, 1]], [[0.1, 0.2]]) == (
        "no row is left to score for one_error: rows without a true label and, for rankings, rows "
        "with only true labels do not count; give rows with both."
    )


def test_scores_that_are_no_table_are_called_scores(sentence):
    assert sentence(metrics.hamming_loss, TRUTH, [["a", "b"], ["c"]]).startswith(
        "scores must be numbers with one row per sample"
    )


def test_tables_without_rows_or_labels_have_no_row_to_score(sentence):
    for shape in ((0, 3), (3, 0)):
        empty = np.zeros(shape, dtype=int)
        assert "no row is left" in sentence(metrics.hamming_loss, empty, empty)
