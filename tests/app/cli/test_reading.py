"""Values of options: assignments, durations, and columns of a data set."""

import argparse

import numpy as np
import pytest
from scipy.io import savemat

from schirn.exceptions import InputError
from schirn.program.data import read
from schirn.program.parser import assignment, duration


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


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("90s", 90), ("9m", 540), ("1.5h", 5400)])
def test_durations(text, value):
    assert duration(text) == value


@pytest.mark.parametrize("text", ["", "0", "-1m", "h", "1d", "infh", "nan", "soon"])
def test_what_are_no_durations(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"a duration such as 90s, 9m or 1\.5h"):
        duration(text)


TABLE = 'tags,x,"a,b",3\ndog,1,0,1\ncat,2,1,0\ndog;cat,3,1,1\n'
ARFF = """@relation pets
@attribute x real
@attribute 6 real
@attribute dog {0,1}
@attribute cat {0,1}
@data
1,2,1,0
2,3,0,1
"""


@pytest.fixture
def files(tmp_path):
    """Small data sets in three formats, by suffix."""
    paths = {suffix: tmp_path / f"t{suffix}" for suffix in (".csv", ".arff", ".mat")}
    paths[".csv"].write_text(TABLE)
    paths[".arff"].write_text(ARFF)
    variables = {"one": np.ones((3, 1)), "two": np.ones((3, 2)), "target": np.eye(3)[:, :2]}
    savemat(paths[".mat"], variables)
    return paths


def read_columns(path, labels=None, features=None):
    return read(
        argparse.Namespace(data=str(path), labels=labels, features=features, separator=None)
    )


@pytest.mark.parametrize(
    ("suffix", "options", "labels", "features"),
    [
        (".csv", {"labels": "tags"}, ["cat", "dog"], ["x", "a,b", "3"]),
        (".csv", {"labels": "tags", "features": "x"}, ["cat", "dog"], ["x"]),
        (".csv", {"labels": "tags", "features": "x, 3"}, ["cat", "dog"], ["x", "3"]),
        (".csv", {"labels": '["a,b", 3]', "features": "x"}, ["a,b", "3"], ["x"]),
        (".arff", {"labels": "2"}, ["dog", "cat"], ["x", "6"]),
        (".arff", {"labels": "dog, cat"}, ["dog", "cat"], ["x", "6"]),
        (".arff", {"labels": "cat"}, ["cat"], ["x", "6", "dog"]),
    ],
)
def test_columns(files, suffix, options, labels, features):
    data = read_columns(files[suffix], **options)
    assert data.label_names == labels
    assert data.feature_names == features


def test_a_variable_of_a_mat_file(files):
    assert read_columns(files[".mat"], features="one").n_features == 1
    assert read_columns(files[".mat"], features="two").n_features == 2


def test_a_broken_list_of_columns_is_quoted(files):
    with pytest.raises(InputError, match=r"--labels '\[\"a\"' is not a JSON list"):
        read_columns(files[".csv"], labels='["a"')
