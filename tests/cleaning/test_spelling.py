"""Names that are spelled alike, in any language."""

import pytest

from schirn.cleaning._spelling import alike_pairs, is_one_name, name_key, spelling_of


@pytest.mark.parametrize(
    ("name", "other", "spelling"),
    [
        ("Dog", "dog", "case"),
        ("node-js", "nodejs", "spaces and hyphens"),
        ("node.js", "Node_JS", "spaces and hyphens"),
        ("café", "cafe", "accents"),
        ("date format", "format-date", "order of words"),
        ("pan", "pans", "plural"),
        ("activity", "activities", "plural"),
        ("City", "cities", "plural"),
        ("match", "matches", "plural"),
        ("data-structure", "DataStructures", "plural"),
        ("state", "status", "ending"),
        ("project", "projection", "ending"),
        ("Straße", "Straßen", "ending"),
        ("стол", "столы", "ending"),
        ("lighting", "ligthing", "typing error"),
        ("weather", "wether", "typing error"),
        ("japanese", "japansee", "typing error"),
    ],
)
def test_names_that_are_spelled_alike(name, other, spelling):
    assert spelling_of(name, other) == spelling
    assert spelling_of(other, name) == spelling
    assert alike_pairs([name, "quite different", other]) == {(0, 2): spelling}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("us", "US."),
        ("3.5", "35"),
        ("pdf::jpg", "pdf::png"),
        ("horse", "house"),
        ("pan", "sofa"),
        ("sha256", "sha512"),
        ("c", "c++"),
        ("axis", "ax"),
    ],
)
def test_names_that_only_look_alike(name, other):
    assert spelling_of(name, other) == ""
    assert alike_pairs([name, other]) == {}


def test_words_that_end_in_s_are_not_plurals_of_anything():
    assert spelling_of("clas", "class") == "ending"
    assert spelling_of("iot", "io-ts") == "ending"


def test_short_names_keep_their_case():
    assert name_key("US") != name_key("us")


def test_many_names_with_one_stem_are_not_compared_pair_by_pair():
    names = [f"step{chr(97 + j // 26)}{chr(97 + j % 26)}" for j in range(600)]
    assert len(alike_pairs(names)) < 20 * len(names)


def test_degenerate_names():
    assert alike_pairs([]) == {}
    assert alike_pairs(["", "-", "--", "x" * 5000, "x" * 4999]) == {}


@pytest.mark.parametrize(
    ("name", "other", "is_one"),
    [
        ("ES6", "es6", True),
        ("node-js", "nodejs", True),
        ("cars", "car’s", False),
        ("café", "cafe", False),
        ("pan", "pans", False),
        ("IT", "it", True),
    ],
)
def test_names_that_differ_in_case_spaces_and_hyphens_are_one(name, other, is_one):
    assert is_one_name(name, other) == is_one
    # Two letters are too few to tell, so that such names are never paired.
    assert bool(alike_pairs([name, other])) == (name != "IT")
