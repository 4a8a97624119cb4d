"""How columns hold tags: separators, quotes, lists, and lists written as text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schirn import Sieve
from schirn.exceptions import InputError
from schirn.labels.cells import TagCells, change_tags, split_tags
from schirn.labels.matrix import as_labels


@pytest.mark.parametrize(
    ("cell", "separator", "tags"),
    [
        ("a | b | ", " | ", ["a", "b"]),
        ("a | b |", " | ", ["a", "b"]),
        ("| a | b", " | ", ["a", "b"]),
        ("AC|DC | rock", " | ", ["AC|DC", "rock"]),
        ('"red; blue";dog', ";", ["red; blue", "dog"]),
        ('"say ""hi""; bye"', ";", ['say "hi"; bye']),
        ('5" pipe;6" pipe', ";", ['5" pipe', '6" pipe']),
        ('"dog"', ";", ['"dog"']),
        ("a b", " ", ["a", "b"]),
    ],
)
def test_separators_with_spaces_and_quotes(cell, separator, tags):
    assert split_tags(cell, separator) == tags
    assert change_tags(cell, {}, [], separator) == cell
    assert split_tags(change_tags(cell, {tags[0]: []}, [], separator), separator) == tags[1:]
    more = split_tags(change_tags(cell, {}, ["new"], separator), separator)
    assert more == [*tags, "new"]


def test_what_is_at_the_ends_of_a_cell_stays():
    assert change_tags("a | b | ", {"a": []}, [], " | ") == "b | "
    assert change_tags("a | b |", {"b": []}, ["c"], " | ") == "a | c | "
    assert change_tags(" a ; b ;", {"a": []}, [], ";") == " b ;"


words = st.text(st.sampled_from("ab \";|,'="), max_size=5)


@settings(max_examples=300, deadline=None)
@given(
    cell=words, new=words, separator=st.sampled_from([";", " | ", ", ", "|"]), k=st.integers(0, 3)
)
def test_changed_cells_are_read_as_the_intended_tags(cell, new, separator, k):
    tags, new = split_tags(cell, separator), new.strip()
    replaced = {tags[k]: []} if k < len(tags) else {}
    left = [tag for tag in tags if tag not in replaced]
    wanted = left + [new] * (bool(new) and new not in left)
    try:
        changed = change_tags(cell, replaced, [new] if new else [], separator)
    except InputError:
        return
    assert split_tags(changed, separator) == wanted


@pytest.mark.parametrize(
    ("cells", "notation"),
    [
        (['["a", "b"]', "[]", ""], "json"),
        (["['a', 'b']", "[]", None], "python"),
        (["('a', 'b')", "{'c'}"], "python"),
        (["a;b", "[x];[y]"], ""),
        (["[x];[y]"], ""),
        ([], ""),
    ],
)
def test_lists_that_are_written_as_text(cells, notation):
    tags = TagCells.of(cells)
    assert tags.notation == notation
    if notation and "a" in cells[0]:
        assert tags.split(cells[0]) == ["a", "b"]
        assert tags.split(tags.change(cells[0], {"a": []}, ["c;d"])) == ["b", "c;d"]
        assert tags.split(tags.change("", {}, ["x"])) == ["x"]
        assert tags.split(tags.join(["x", "y"])) == ["x", "y"]


def test_the_style_of_json_stays():
    tags = TagCells.of(['["a","b"]'])
    assert (
        tags.change(
            '["a","b","c"]',
            {"a": []},
            [],
        )
        == '["b","c"]'
    )
    assert tags.change('["a", "\\u00e9"]', {"a": []}, []) == '["\\u00e9"]'


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (['["a"]', '["b"]', "c;d"], "most cells are lists such as .*, but row 3 holds 'c;d'"),
        (["['a' 'b']", "['c' 'd']"], "row 1 holds .* no list in the notation of JSON or Python"),
        (["[a, b]", "[c, d]"], "row 1 holds '.a, b.', which is no list in the notation of"),
    ],
)
def test_a_suspicious_split_is_a_question(cells, words):
    with pytest.raises(InputError, match=words):
        TagCells.of(cells, " " if "' '" in cells[0] else ",")


@pytest.mark.parametrize(
    ("cells", "tags"),
    [
        (["[+שלום]]"], ["[+שלום]]"]),
        (["[a, b]", "c", "d, e", "[f]"], ["[a", "b]"]),
        (["[a]], b]", "[c]"], ["[a]]", "b]"]),
    ],
)
def test_an_odd_cell_is_plain_text(cells, tags):
    assert TagCells.of(cells, ",").split(cells[0]) == tags


def test_apostrophes_of_csv_are_no_part_of_a_tag():
    tags = TagCells.of(["@dog;cat", "'@dog"], spreadsheet=True)
    assert tags.split("'@dog") == tags.split("@dog") == ["@dog"]
    assert tags.change("cat;@dog", {"cat": []}, []) == "'@dog"
    assert tags.join(["=1", "b"]) == "'=1;b"
    plain = TagCells.of(["@dog"])
    assert plain.change("cat;@dog", {"cat": []}, []) == "@dog"
    assert plain.split("'@dog") == ["'@dog"]


def test_texts_of_tags_are_labels():
    X = np.random.default_rng(0).normal(size=(30, 2))
    texts = ["a;b" if x > 0 else "b" for x in X[:, 0]]
    lists = [text.split(";") for text in texts]
    by_text, by_list = Sieve().fit(X, texts), Sieve().fit(X, lists)
    assert by_text.label_names_ == ["a", "b"]
    assert (by_text.label_confidence_ == by_list.label_confidence_).all()
    assert as_labels(np.array(["1", "0"])).matrix.tolist() == [[1], [0]]
    assert as_labels(["a;b", None]).matrix.tolist() == [[1, 1], [0, 0]]


def test_a_quoted_tag_before_a_separator_that_begins_with_a_space():
    cell = 'sun | "red | blue" | dog'
    assert split_tags(cell, " | ") == ["sun", "red | blue", "dog"]
    assert change_tags(cell, {"sun": []}, ["cat"], " | ") == '"red | blue" | dog | cat'
