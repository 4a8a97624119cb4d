"""Evident mistakes in the tags that a user passes."""

import numpy as np
import pandas as pd
import pytest

from schirn import find_noisy_labels
from schirn.cleaning import find_duplicates, propose_vocabulary
from schirn.exceptions import InputError

TEXTS = ["red pan", "oak chair", "steel pan", "old chair"] * 6
TAGS = ["pan;red", "chair;oak", "pan;steel", "chair;old"] * 6


@pytest.fixture
def frame():
    index = [f"item {k}" for k in range(len(TEXTS))]
    return pd.DataFrame({"text": TEXTS, "tags": TAGS}, index=index)


@pytest.fixture
def shuffled(frame):
    return frame.sample(frac=1, random_state=0)


def test_tags_of_the_same_rows_in_another_order_are_refused(frame, shuffled):
    told = r"candidates has the index of X in another order, .* pass candidates\.loc\[X\.index\]"
    with pytest.raises(InputError, match=told) as caught:
        find_noisy_labels(frame.text, shuffled.tags)
    assert caught.value.parameter == "candidates"
    assert find_noisy_labels(frame.text, shuffled.tags.to_numpy()).n_rows == len(frame)
    realigned = shuffled.tags.loc[frame.index]
    ranking = find_noisy_labels(frame.text, realigned)
    np.testing.assert_array_equal(
        ranking.confidence, find_noisy_labels(frame.text, frame.tags).confidence
    )


def test_the_advice_about_another_order_does_not_misalign_rows(frame):
    # Shuffled features with tags in a new Series: the positions are right, the index is not.
    X = frame.text.reset_index(drop=True).sample(frac=1, random_state=0)
    tags = pd.Series(TAGS)
    for first, other in ((X, tags), (tags, X)):
        with pytest.raises(InputError, match=r"pass candidates\.to_numpy\(\) if .*, or candidates"):
            find_noisy_labels(first, other)
    X = frame.text.set_axis([f"item {k // 2}" for k in range(len(frame))])
    with pytest.raises(InputError, match=r"pass candidates\.to_numpy\(\) if") as caught:
        find_noisy_labels(X, frame.tags.set_axis(X.index[::-1]))
    assert ".loc" not in str(caught.value)


@pytest.mark.parametrize("argument", ["known", "known_clean", "prior", "groups"])
@pytest.mark.parametrize("plain_X", [False, True])
def test_what_is_known_in_another_order_is_refused(frame, shuffled, argument, plain_X):
    X = list(frame.text) if plain_X else frame.text
    order = rf"{argument} has the index of {'candidates' if plain_X else 'X'} in another order"
    with pytest.raises(InputError, match=order):
        find_noisy_labels(X, frame.tags, **{argument: shuffled.text == "red pan"})


def test_other_indexes_are_matched_by_position(frame):
    expected = find_noisy_labels(frame.text, frame.tags).confidence
    for index in (range(len(frame)), [*frame.index[1:], "another"], frame.index.rename("name")):
        tags = frame.tags.set_axis(index)
        np.testing.assert_array_equal(find_noisy_labels(frame.text, tags).confidence, expected)


def test_rows_in_another_order_are_refused_wherever_they_meet(frame, shuffled):
    ranking = find_noisy_labels(frame.text, frame.tags).remove(2)
    with pytest.raises(InputError, match=r"pass tags\.loc\[ranking\.index\]"):
        ranking.apply(shuffled.tags)
    with pytest.raises(InputError, match=r"pass cells\.loc\[ranking\.index\]"):
        ranking.changes(shuffled.tags)
    with pytest.raises(InputError, match=r"pass X\.loc\[ranking\.index\]"):
        ranking.reasons(shuffled.text)
    with pytest.raises(InputError, match=r"pass tags\.loc\[texts\.index\]"):
        find_duplicates(frame.text, shuffled.tags)
    with pytest.raises(InputError, match=r"pass X\.loc\[tags\.index\]"):
        propose_vocabulary(frame.tags, shuffled.text)


@pytest.mark.parametrize(
    "use",
    [
        lambda tags: find_noisy_labels(TEXTS, tags),
        lambda tags: find_duplicates(TEXTS, tags),
        lambda tags: propose_vocabulary(tags, TEXTS),
    ],
)
def test_strings_with_another_separator_are_refused(frame, use):
    tags = frame.tags.str.replace(";", ",")
    with pytest.raises(InputError, match="contain ',' and none ';'; pass separator=','") as caught:
        use(tags)
    assert caught.value.parameter == "separator"
    with pytest.raises(InputError, match=r"contain ';' and none '\|'; pass separator=';'"):
        find_noisy_labels(TEXTS, frame.tags, separator="|")
    frame.loc[frame.index[0], "tags"] = "pan|red"
    with pytest.raises(InputError, match=r"contain ';' and only 1 '\|'; pass separator=';'"):
        find_noisy_labels(TEXTS, frame.tags, separator="|")
    with pytest.raises(InputError, match=r"contain ';' and only 1 '\|'; pass separator=';'"):
        propose_vocabulary(frame.tags, TEXTS, separator="|")


def test_a_separator_that_is_passed_is_believed_and_lists_are_taken_as_they_are():
    tags = [text.replace(";", ",") for text in TAGS]
    ranking = find_noisy_labels(TEXTS, tags, separator=",")
    assert ranking.label_names == find_noisy_labels(TEXTS, TAGS).label_names
    places = [["Washington, DC"], ["Paris, TX"]] * 12
    assert find_noisy_labels(TEXTS, places).label_names == ["Paris, TX", "Washington, DC"]


@pytest.mark.parametrize("kind", [list, tuple, set, lambda row: np.array(row, dtype=object)])
def test_blank_tags_in_lists_do_not_count(kind):
    rows = [kind(text.split(";") if k else ["", " "]) for k, text in enumerate(TAGS)]
    ranking = find_noisy_labels(TEXTS, rows)
    assert ranking.label_names == ["chair", "oak", "old", "pan", "red", "steel"]
    assert 0 not in ranking.row
    assert ranking.apply(rows)[1:] == rows[1:] or kind is not list
    tags = [["a", ""], ["a"], ["b", ""], ["b"]] * 5
    assert {line.tag for line in propose_vocabulary(tags)} <= {"a", "b"}


@pytest.mark.parametrize("name", ["", "  "])
def test_columns_without_a_name_are_no_tags(frame, name):
    one_hot = frame.tags.str.get_dummies(";")
    one_hot.insert(2, name, 1)
    ranking = find_noisy_labels(frame.text, one_hot)
    expected = find_noisy_labels(frame.text, one_hot.drop(columns=name))
    assert ranking.label_names == expected.label_names
    np.testing.assert_array_equal(ranking.confidence, expected.confidence)
    assert list(ranking.remove(3).apply(one_hot)[name]) == [1] * len(frame)


def test_one_text_instead_of_a_column_is_named():
    with pytest.raises(InputError, match="X must hold the features of every row, not the text 'a"):
        find_noisy_labels("abc", TAGS)
