"""What is odd about a table before its tags are judged."""

import json
import random
import re
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from schirn.cleaning import look_at_table
from schirn.exceptions import InputError


def look(tags, **options):
    return {finding.kind: finding for finding in look_at_table(tags, **options)}


def sentences(n, seed=0, words=20):
    """Texts of random words, which share next to nothing."""
    rng = random.Random(seed)
    return [" ".join(f"w{rng.randrange(5000)}" for _ in range(words)) for _ in range(n)]


def test_a_table_without_oddities():
    tags = [["dog", "sand"], ["dog"], ["sand"], ["sun", "dog"], ["sun"]]
    assert look_at_table(tags, texts=sentences(5), X=np.arange(5)[:, None]) == []
    assert look_at_table([["dog"]], texts=["A dog"]) == []


def test_a_separator_that_some_cells_have():
    found = look(["beach;dog", "beach,dog", "dog", "beach", "sun, dog", "1,000;1,000"])
    assert found["separator"].tags == ["beach,dog"]
    assert found["separator"].rows == [1]
    assert "',' between names that are tags too: 'beach,dog'" in found["separator"].sentence


def test_a_separator_that_all_cells_have():
    tags = ["beach, dog", "dog, sun", "sun, beach"] * 4
    assert look(tags)["separator"].count == 3
    assert "separator" not in look(tags, separator=", ")


@pytest.mark.parametrize(
    "tags",
    [
        ["Doe, Jane;Roe, Jo", "Roe, Jim", "Loe, Al"],
        ["animals/dog", "animals/cat", "plants/rose"] * 3,
        ["1,5", "2,5", "3,25"],
        [f"{one}, {two}" for one in ("Doe", "Roe", "Loe") for two in ("Al", "Jo", "Kim")],
    ],
)
def test_a_sign_inside_of_names_is_no_separator(tags):
    assert "separator" not in look(tags)


def test_copies_and_the_tags_they_have():
    texts = sentences(4)
    texts += [f"  {texts[0]}\n", texts[1]]
    found = look([["a"], ["b"], ["a"], ["b"], ["a"], ["a", "b"]], texts=texts)
    copies = found["copies"]
    assert (copies.count, copies.rows) == (2, [4, 5])
    # The pair with other tags is the example.
    assert copies.sentence.endswith("2 rows are copies of earlier ones, 1 of them with other tags, "
                                    "such as rows 2 and 6")  # fmt: skip
    assert texts[1][:30] in copies.examples[0]
    assert "near_copies" not in found


def test_near_copies_are_those_that_share_most_pairs_of_words():
    texts = sentences(300, words=40)
    words = texts[7].split()
    changed = " ".join([*words[:5], "other", *words[6:]])
    half = " ".join(w if k % 4 else "other" for k, w in enumerate(texts[8].split()))
    shouted = texts[9].upper().replace(" ", ", ") + "!"
    found = look([["a"], ["b"]] * 152, texts=[*texts, changed, half, shouted, "w1"])
    assert found["near_copies"].rows == [300, 302]
    pairs = [re.match(r"rows (\d+) and (\d+)", e).groups() for e in found["near_copies"].examples]
    assert sorted(pairs) == [("10", "303"), ("8", "301")]
    assert "copies" not in found


def test_near_copies_are_found_as_comparing_all_pairs_finds_them():
    rng = random.Random(1)
    texts = []
    for text in sentences(60, seed=2, words=24):
        texts.append(text)
        for _ in range(rng.randrange(3)):
            words = text.split()
            for _ in range(rng.randrange(1, 4)):
                words[rng.randrange(len(words))] = f"v{rng.randrange(10_000)}"
            texts.append(" ".join(words))

    def pairs(text):
        words = ["", *text.split()]
        return set(pairwise(words))

    sure = set()
    for i, one in enumerate(map(pairs, texts)):
        shares = [len(one & two) / len(one | two) for two in map(pairs, texts[:i])]
        if max(shares, default=0) >= 0.8:
            sure.add(i)
    found = look([["a"], ["b"]] * (len(texts) // 2) + [["a"]] * (len(texts) % 2), texts=texts)
    rows = set(found["near_copies"].rows)
    assert rows <= sure
    assert len(rows) > 0.9 * len(sure) > 5


def test_texts_are_read_block_by_block(monkeypatch):
    texts = sentences(50, words=40)
    texts += [f"{text} more" for text in texts[::2]]
    tags = [["a"], ["b"], ["a"]] * 25
    whole = look_at_table(tags, texts=texts)
    assert {finding.kind: finding.count for finding in whole} == {"near_copies": 25}
    monkeypatch.setattr("schirn.tables.checks._WORDS_AT_ONCE", 100)
    assert look_at_table(tags, texts=texts) == whole


def test_many_rows_with_almost_one_text():
    """A large bucket costs one comparison per row."""
    base = " ".join(f"w{k}" for k in range(40))
    texts = [f"{base} {i}" for i in range(2000)]
    found = look([["a"], ["b"]] * 1000, texts=texts)
    assert found["near_copies"].count == 1999


def test_texts_of_one_word_and_of_signs():
    found = look([["a"], ["b"]] * 3, texts=["dog", "Dog", "???", "!!!", "cat", None])
    assert found["near_copies"].rows == [1]
    assert found["empty_texts"].rows == [5]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_copies_of_features(kind):
    X = np.random.default_rng(0).random((6, 3))
    X[4] = X[1]
    found = look([["a"], ["b"], ["a"], ["b"], ["a"], ["b"]], X=kind(X))
    assert found["copies"].rows == [4]
    assert found["copies"].sentence == (
        "1 row is a copy of an earlier one, with other tags: rows 2 and 5"
    )
    categories = np.array([[0.0], [1.0]] * 3)
    assert "copies" not in look([["a"], ["b"]] * 3, X=kind(categories))


def test_empty_texts_and_frequencies():
    texts = [*sentences(3), "", "  ", float("nan")]
    tags = [["all", "dog"], ["all", "dog"], ["all", "cat"], ["all"], ["all"], ["all"]]
    found = look(tags, texts=texts)
    assert found["empty_texts"].rows == [3, 4, 5]
    assert (found["tags_in_all_rows"].tags, found["tags_in_one_row"].tags) == (["all"], ["cat"])
    assert found["tags_in_one_row"].rows == [2]


def test_a_matrix_with_names():
    matrix = np.array([[1, 1], [1, 0], [1, 1]])
    assert look(matrix, label_names=["sun", "dog"])["tags_in_all_rows"].tags == ["sun"]


def test_a_finding_is_plain_data():
    finding = look(["Dog", "dog", "dog", "cat", "cat"])["spelling"]
    record = json.loads(json.dumps(finding.to_dict()))
    assert record["merges"] == [
        {"before": "Dog", "after": "dog", "why": "case", "n_before": 1, "n_after": 2}
    ]
    assert (record["kind"], record["count"], record["rows"]) == ("spelling", 1, [0])
    assert str(finding) == finding.sentence


def test_texts_of_another_table():
    with pytest.raises(InputError, match="2 rows but the candidates have 1"):
        look_at_table(["dog"], texts=["one", "two"])
