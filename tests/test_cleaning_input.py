"""Containers, missing cells and bad arguments of `find_noisy_labels`."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from schirn import CandidateRidge, OracleRidge, Sieve, find_noisy_labels
from schirn.cleaning import votes_to_candidates
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError


def test_sparse_tags_are_checked(small):
    with pytest.raises(InputError, match="row 0, label 1 holds 2"):
        find_noisy_labels(small.X, sp.csr_array(np.array([[0, 2]] * 200)))
    with pytest.raises(InputError, match="6 label columns, but 2 are expected"):
        find_noisy_labels(small.X, sp.csr_array(small.candidates), label_names=["a", "b"])
    with pytest.raises(InputError, match="names the label 'dog', which is not among the known"):
        find_noisy_labels(small.X, [["dog"]] * 200, label_names=["a", "b"])
    with pytest.raises(InputError, match="row 1 of the tags is 3, not a list"):
        find_noisy_labels(small.X[:2], [["dog"], 3])


def test_texts_and_joined_tags():
    rng = np.random.default_rng(0)
    words = {"dog": "bark tail paw", "sea": "wave sand salt", "car": "wheel road fuel"}
    texts, tags, truth = [], [], []
    for i in range(150):
        true = list(words)[i % 3]
        texts.append(" ".join(rng.permutation(words[true].split())) + f" item {i % 7}")
        other = rng.choice([w for w in words if w != true]) if i % 4 == 0 else None
        truth.append(true)
        tags.append(true if other is None else f"{other} | {true}")
    found = find_noisy_labels(texts, tags, separator="|")
    assert found.label_names == ["car", "dog", "sea"]
    assert found.clean_lists() == [[t] for t in truth]
    series = find_noisy_labels(pd.Series(texts), pd.Series(tags), separator="|")
    np.testing.assert_array_equal(series.confidence, found.confidence)


@pytest.mark.parametrize("row", [0, 5])
def test_missing_texts_and_tags_are_empty(row):
    texts, tags = ["bark tail", "wave sand"] * 15, ["dog", "sea"] * 10 + ["dog;sea"] * 10
    texts[row], tags[row] = "", ""

    def confidence(texts, tags):
        return find_noisy_labels(texts, tags, method="CandidateRidge", cv=3).confidence

    expected = confidence(texts, tags)
    lists = [tag.split(";") if tag else [] for tag in tags]
    for nothing in (None, np.nan, pd.NA):
        gaps = [[*rows[:row], nothing, *rows[row + 1 :]] for rows in (texts, tags, lists)]
        np.testing.assert_array_equal(confidence(gaps[0], gaps[1]), expected)
        np.testing.assert_array_equal(confidence(gaps[0], gaps[2]), expected)
        series = [pd.Series(rows, dtype="string") for rows in gaps[:2]]
        np.testing.assert_array_equal(confidence(*series), expected)


def test_containers_agree(small):
    dense = find_noisy_labels(small.X, small.candidates, method=Sieve(features="none"))
    for X, C in (
        (pd.DataFrame(small.X), pd.DataFrame(small.candidates)),
        (sp.csr_array(small.X), sp.csr_array(small.candidates)),
    ):
        other = find_noisy_labels(X, C, method=Sieve(features="none"))
        np.testing.assert_allclose(other.confidence, dense.confidence, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "Siev"}, "there is no method 'Siev'"),
        ({"method": LogisticRegression()}, "must be a method of this library"),
        ({"method": OracleRidge()}, "OracleRidge needs the true labels"),
        ({"cv": 1}, "200 rows can be split into 2 to 200 folds, not 1"),
        ({"cv": 201}, "2 to 200 folds, not 201"),
        ({"cv": [(np.arange(100), np.arange(100, 200))]}, "row 0 is in 0"),
        ({"cv": 5.0}, "cv must be a number of folds, a splitter or .* not 5.0"),
        ({"cv": None}, "cv must be a number of folds, a splitter or .* not None"),
        ({"cv": "five"}, "cv must be a number of folds, a splitter or .* not 'five'"),
        ({"threshold": 1.5}, "threshold must be a number of at least 0 and at most 1, got 1.5"),
        ({"threshold": "a"}, "threshold must be .* got 'a'"),
        ({"max_remove_per_row": -1}, "max_remove_per_row must be .* or None, got -1"),
        ({"max_remove_per_row": "a"}, "max_remove_per_row must be .* got 'a'"),
        ({"min_count": 0}, "min_count must be a number of at least 1, got 0"),
        ({"min_count": "a"}, "min_count must be .* got 'a'"),
        ({"separator": ""}, "separator must be a text of at least one character, not ''"),
        ({"max_memory": "a"}, "max_memory must be .* not 'a'"),
        ({"prior": np.ones((3, 3))}, "prior has shape"),
        ({"prior": np.full((200, 6), 1.5)}, "row 0, label"),
        ({"known_clean": [1, 2]}, "known_clean must hold"),
        ({"known": [1, 2]}, "known must hold one value per row and label"),
        ({"max_memory": 0}, "not 0"),
        ({"groups": [1]}, "groups has 1 values for 200 rows"),
        ({"groups": [[1]] * 200}, "groups must hold one text or number per row"),
    ],
)
def test_bad_arguments_get_one_sentence(small, change, words):
    with pytest.raises(InputError, match=words):
        find_noisy_labels(small.X, small.candidates, **change)


def test_bad_data_get_one_sentence(small):
    with pytest.raises(InputError, match="no row has a tag"):
        find_noisy_labels(small.X, np.zeros_like(small.candidates))
    with pytest.raises(InputError, match="tags for 3 rows"):
        find_noisy_labels(small.X, small.candidates[:3])
    with pytest.raises(InputError, match="no words"):
        find_noisy_labels(["", "!"] * 10, ["a", "b"] * 10)


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
def test_a_missing_tag_is_no_tag(small, nothing):
    votes = votes_to_candidates("ppq", [1, 2, 1], ["dog", nothing, "cat"])
    assert votes.label_names == ["cat", "dog"]
    np.testing.assert_allclose(votes.prior, [[0, 2 / 4], [2 / 3, 0]])
    lists = [["dog", nothing], ["cat"]] * 100
    assert find_noisy_labels(small.X, lists, method="CandidateRidge").label_names == ["cat", "dog"]


def test_cells_of_tags_may_be_missing_or_lists(small):
    names = [[f"t{j}" for j in np.flatnonzero(row)] for row in small.candidates]
    names[3] = []
    lists = find_noisy_labels(small.X, names, method=CandidateRidge())
    mixed = [";".join(row) if i % 2 else row for i, row in enumerate(names)]
    for missing in (None, float("nan"), ""):
        mixed[3] = missing
        found = find_noisy_labels(small.X, mixed, method=CandidateRidge())
        assert found.label_names == lists.label_names
        np.testing.assert_array_equal(found.confidence, lists.confidence)


def test_repeated_cells_of_a_sparse_matrix_are_added():
    data = make_partial_multilabel(n_samples=80, n_features=6, n_labels=4, r=1, random_state=0)
    X = sp.csr_array(np.where(data.X > 0, data.X, 0))
    halves = sp.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )
    size = halves.nnz
    found = find_noisy_labels(halves, data.candidates)
    expected = find_noisy_labels(X, data.candidates)
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-9)
    assert halves.nnz == size
