"""What is odd about a table before its tags are judged."""

import json
import random

import numpy as np
import pytest

from schirn.app.tables import look_at_table
from schirn.exceptions import InputError


def look(tags, **options):
    return {finding.kind: finding for finding in look_at_table(tags, **options)}


def sentences(n, seed=0, words=20):
    """Texts of random words, which share next to nothing."""
    rng = random.Random(seed)
    return [" ".join(f"w{rng.randrange(5000)}" for _ in range(words)) for _ in range(n)]


def test_a_table_without_oddities():
    tags = [["dog", "sand"], ["dog"], ["sand"], ["sun", "dog"], ["sun"]]
    assert look_at_table(tags, texts=sentences(5)) == []
    assert look_at_table([["dog"]], texts=["A dog"]) == []


def test_a_separator_that_some_cells_have():
    found = look(["beach;dog", "beach,dog", "dog", "beach", "sun, dog", "1,000;1,000"])
    assert found["separator"].tags == ["beach,dog"]
    assert found["separator"].rows == [1]
    assert "',' between the names of other tags: 'beach,dog'" in found["separator"].sentence
    assert found["separator"].advice.startswith("Replace ',' with ';'")


def test_a_separator_that_most_tags_have_is_the_one_to_use():
    rows = ["red;pan", "red;blue", "blue;pan", "pan;red", "pan;blue", "red", "pan", "blue"]
    assert look(rows, separator=",")["separator"].advice == (
        "Most tags do: run again with the separator ';'."
    )


def test_all_cells_with_another_separator_are_found():
    rows = ["red,pan", "blue,cup", "red,cup", "blue,pan", "N/A", "N/A"]
    # Parts that no other row has do not matter if most parts are tags.
    rows += ["red; blue; mauve", "pan; cup", "red; pan; rare", "rarer; rarest"]
    rows += ["red|pan|umber", "mugs/pans", "red/blue", "tcp/ip"]
    found = look(rows, separator=",")["separator"]
    assert found.rows == [6, 7, 8, 9, 10]
    # A slash is often part of a name.
    assert found.advice.startswith("Replace ';' or '|' with ','")


def test_placeholders_in_several_rows():
    rows = ["N/A", "N/A", "none", "None", "dog;TBD", "cat;TBD", "dog", "cat", "unknown"]
    found = look(rows)["placeholders"]
    assert (found.tags, found.rows) == (["N/A", "TBD"], [0, 1, 4, 5])
    assert found.sentence == ("2 tags seem to mean that there is none, such as N/A (2 rows)")
    assert "'drop,N/A,yes'" in found.advice
    assert "placeholders" not in look(["na", "dog", "dog"])


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


def test_case_and_punctuation_make_no_other_text():
    texts = sentences(300, words=40)
    changed = " ".join(["other", *texts[7].split()[1:]])
    shouted = texts[9].upper().replace(" ", ", ") + "!"
    found = look([["a"], ["b"]] * 151, texts=[*texts, changed, shouted])
    assert found["copies"].rows == [301]
    assert found["copies"].examples[0].startswith("rows 10 and 302: ")


def test_texts_of_one_word_and_of_signs():
    texts = ["dog", "Dog", "???", "!!!", "???", "cat", None, ""]
    found = look([["a"], ["b"]] * 4, texts=texts)
    assert found["copies"].rows == [1, 4]
    assert found["empty_texts"].rows == [6, 7]


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
    assert record["examples"] == ["Dog (1 row) → dog (2), case"]
    assert (record["kind"], record["count"], record["rows"]) == ("spelling", 1, [0])
    assert str(finding) == finding.sentence


def test_a_name_with_another_separator_is_no_joined_cell():
    rows = [["async", "await"]] * 10 + [["async/await"]] * 9 + [["css,html"], ["css"], ["html"]]
    found = look(rows)["separator"]
    assert found.tags == ["css,html"]
    assert "contains ',' between the names" in found.sentence


def test_cells_with_merged_names_between_separators():
    rows = [["css"], ["markup"], ["css,html"], ["markup|css"]]
    assert look(rows)["separator"].tags == ["markup|css"]
    assert look(rows, former_names={"html": "markup"})["separator"].tags == [
        "css,html",
        "markup|css",
    ]


def test_texts_of_another_table():
    with pytest.raises(InputError, match="2 rows but the candidates have 1"):
        look_at_table(["dog"], texts=["one", "two"])


def test_placeholders_below_a_facet():
    rows = ["made-of::TODO", "made-of::TODO", "made-of::oak", "licence::none", "licence::none"]
    rows += ["TODO list", "TODO list"]
    assert look(rows)["placeholders"].tags == ["made-of::TODO"]
