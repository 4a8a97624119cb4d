"""Values of the options that describe how to read a data set."""

import argparse

import pytest

from schirn.cli.parser import assignment
from schirn.cli.reading import _columns
from schirn.exceptions import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=0.5", 0.5),
        ("a=[1, 2]", [1, 2]),
        ("a=true", True),
        ("a=True", True),
        ("a=False", False),
        ("a=None", None),
        ("a=zero", "zero"),
        ("a=", ""),
        ("a=x=y", "x=y"),
    ],
)
def test_assignments(text, value):
    name, found = assignment(text)
    assert name == "a"
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["a", "=1", "two words=1", "1a=2"])
def test_what_is_no_assignment(text):
    with pytest.raises(argparse.ArgumentTypeError, match="must look like NAME=VALUE"):
        assignment(text)


@pytest.mark.parametrize(
    ("text", "name", "suffix", "columns"),
    [
        ("Y", "labels", ".mat", "Y"),
        ("6", "labels", ".arff", 6),
        ("6", "features", ".arff", ["6"]),
        ("a, b", "labels", ".csv", ["a", "b"]),
        ("tags", "labels", ".csv", "tags"),
        ("x", "features", ".csv", ["x"]),
        ('["a,b", 3]', "labels", ".csv", ["a,b", "3"]),
    ],
)
def test_columns(text, name, suffix, columns):
    assert _columns(text, name, suffix) == columns


def test_a_broken_list_of_columns_is_quoted():
    with pytest.raises(InputError, match=r"--labels '\[\"a\"' is not a JSON list"):
        _columns('["a"', "labels", ".csv")
