"""Tags that are spellings of one another: what is proposed, what is not, and the file of merges."""

import numpy as np
import pytest

from schirn.app.tables import Merge, merge_tags, propose_merges, read_merges, write_merges
from schirn.exceptions import DataError, InputError


def proposed(counts, texts=None):
    """From -> (to, why) for tags of which each stands alone in so many rows."""
    rows = [[name] for name, n in counts.items() for _ in range(n)]
    return {m.before: (m.after, m.why) for m in propose_merges(rows, texts=texts)}


@pytest.mark.parametrize(
    ("counts", "merges"),
    [
        (
            {"kids": 9, "Kids": 4, "kid": 2, "KIDS": 1},
            {"Kids": "case", "kid": "plural", "KIDS": "case"},
        ),
        (
            {"e-mail": 9, "email": 2, "E mail": 1, "e_mail": 1},
            {name: "spaces and hyphens" for name in ("email", "E mail", "e_mail")},
        ),
        ({"cities": 4, "city": 2}, {"city": "plural"}),
        ({"movie": 4, "movies": 2}, {"movies": "plural"}),
        ({"knife": 4, "knives": 2}, {"knives": "plural"}),
        ({"dress": 4, "dresses": 2}, {"dresses": "plural"}),
        ({"child": 4, "children": 2}, {"children": "plural"}),
        ({"dog": 4, "dog\u200b": 1}, {"dog\u200b": "spaces and hyphens"}),
        ({"lighting": 10, "ligthing": 1}, {"ligthing": "typing error"}),
        ({"sunset": 10, "sunsett": 1, "sunste": 1}, {}),
        ({"accommodation": 10, "acommodation": 1}, {"acommodation": "typing error"}),
        ({"restaurant": 10, "restuarant": 1}, {"restuarant": "typing error"}),
        ({"photography": 10, "fotography": 1, "photografy": 1}, {}),
        ({"photography": 10, "phtography": 1}, {"phtography": "typing error"}),
        ({"use::lighting": 10, "use::ligthing": 1}, {"use::ligthing": "typing error"}),
    ],
)
def test_spellings(counts, merges):
    target = max(counts, key=lambda name: counts[name])
    assert proposed(counts) == {name: (target, why) for name, why in merges.items()}


@pytest.mark.parametrize(
    "pair",
    [
        *("c c++", "C c", "US us", "2019 2020", "1980 1980s", "-1 1", "3-5 35", "men women"),
        *("inside outside", "legal illegal", "house horse", "plant planet", "employer employee"),
        *("desert dessert", "angel angle", "news new", "glass glasses", "bus bu", "physics physic"),
        *("photographer photography", "use::paint use::point"),
        *("мой мои", "новый новыи", "か が", "version1 version2"),
    ],
)
def test_names_that_look_alike_are_not_merged(pair):
    one, two = pair.split()
    assert proposed({one: 50, two: 1}) == {}
    assert proposed({one: 1, two: 50}) == {}


def test_words_inside_a_tag_are_compared_one_by_one():
    assert proposed({"red house": 50, "red horse": 1}) == {}


def test_a_frequent_tag_is_not_a_typing_error():
    assert proposed({"lighting": 10, "ligthing": 1}) != {}
    assert proposed({"lighting": 19, "ligthing": 2}) == {}


def test_a_word_of_the_texts_or_of_other_tags_is_not_a_typing_error():
    counts = {"statement": 30, "stalement": 1}
    assert proposed(counts) == {"stalement": ("statement", "typing error")}
    texts = ["Stalement, they said"] * 4 + [""] * 27
    assert proposed(counts, texts) == {}
    assert proposed(counts, np.array(texts)) == {}
    assert proposed({**counts, "stalement island": 3}) == {}


def test_tags_of_one_row_are_not_typing_errors_of_each_other():
    rows = [["statement"]] * 30 + [["statement", "stalement"]]
    assert propose_merges(rows) == []


def test_all_spellings_of_a_tag_point_to_the_most_frequent_one():
    found = proposed({"lighting": 40, "Lighting": 2, "lightings": 1, "ligthing": 1})
    assert {target for target, _ in found.values()} == {"lighting"}
    assert len(found) == 3


def test_nothing_to_compare():
    assert propose_merges([["a"], []]) == []
    assert propose_merges([["-"], ["--"], ["x" * 5000], ["x" * 4999]]) == []


def test_merging_keeps_each_tag_once():
    merges = [Merge("Dog", "dog", "case", 1, 2), Merge("cat", "dog", "plural", 1, 2)]
    merged = merge_tags([["Dog", "dog", "a"], ["cat"], ["dog"]], merges)
    assert [sorted(tags) for tags in merged] == [["a", "dog"], ["dog"], ["dog"]]


def test_the_file_is_read_as_it_was_written(tmp_path):
    merges = [Merge("=1+1", "a,b", "case", 1, 2), Merge('say "x"', "c;d", "plural", 1, 3)]
    write_merges(merges, tmp_path / "m.csv")
    assert read_merges(tmp_path / "m.csv") == {"=1+1": "a,b", 'say "x"': "c;d"}
    assert "\n'=1+1," in (tmp_path / "m.csv").read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", "from,to,why\nDog,dog,case\n\n Kid , kids ,plural\n"),
        ("m.csv", "\ufefffrom;to\r\nDog;dog\r\nKid;kids\r\n"),
        ("m.txt", "Dog,dog\nKid,kids\nDog,dog\n"),
        ("m.tsv", "Dog\tdog\nKid\tkids\n"),
    ],
)
def test_forms_of_the_file(tmp_path, name, text):
    (tmp_path / name).write_text(text, "utf-8")
    assert read_merges(tmp_path / name) == {"Dog": "dog", "Kid": "kids"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "m.csv",
            "a,b\nb,c\n",
            "'a' is merged into 'b', which is merged into 'c'",
        ),
        ("m.csv", "a,b\nb,a\n", "'a' is merged into 'b', which is merged into 'a'"),
        ("m.csv", "from,to\na,a\n", "'a' is merged into itself"),
        ("m.csv", "a,b\na,c\n", "merge 2: 'a' is merged into 'b' as well as into 'c'"),
        ("m.csv", "a,b\nc\n", "line 2 has 1 cells, but the header has 2"),
        ("m.csv", "a,\n", "merge 1: a merge needs two tags"),
        ("m.csv", "a\nb\n", "merge 1: a merge needs two tags"),
        ("m.csv", "", "the file is empty"),
        ("m.csv", "a\xff,b", "not utf-8 text"),
    ],
)
def test_bad_files(tmp_path, name, text, words):
    (tmp_path / name).write_bytes(text.encode("latin-1" if "\xff" in text else "utf-8"))
    with pytest.raises(DataError) as caught:
        read_merges(tmp_path / name)
    assert words in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_unknown_tags_are_errors():
    with pytest.raises(InputError, match="no row has the tag 'dgo'; did you mean 'dog'"):
        merge_tags(["dog;cat"], {"dgo": "dog"})
    with pytest.raises(InputError, match="no row has the tag 'dgo' to merge into"):
        merge_tags(["dog;cat"], {"cat": "dgo"})
    with pytest.raises(InputError, match="keep one of these merges"):
        merge_tags(["dog;cat"], {"cat": "dog", "dog": "cat"})
