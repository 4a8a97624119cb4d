import numpy as np
import pytest
from scipy import sparse

from schirn.datasets import load, read_arff
from schirn.exceptions import DataError
from schirn.lab.data._arff import split_values

HEADER = """% a comment
@relation 'tiny set'
@attribute 'first one' numeric
@attribute site {10, 20, 30}
@ATTRIBUTE flag {NO,YES}
@attribute "qu\\"oted" {'a, b', c}
@attribute beach {0,1}
@attribute 'big dog' {0,1}
@data
"""
DENSE = HEADER + "0.5,20,YES,'a, b',1,0\n% between\n\n-1e3, 10, NO, c, 0, 1\n"
XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="big dog"></label><label name="beach"/>
</labels>"""


def write(tmp_path, text, name="tiny.arff"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_dense_with_count(tmp_path):
    data = load(write(tmp_path, DENSE), labels=2)
    assert data.X.tolist() == [[0.5, 20, 1, 0], [-1000, 10, 0, 1]]
    assert data.y_true.tolist() == [[1, 0], [0, 1]]
    assert data.feature_names == ["first one", "site", "flag", 'qu"oted']
    assert data.label_names == ["beach", "big dog"]


@pytest.mark.parametrize("stem", ["tiny", "tiny-train"])
def test_labels_from_xml_in_its_order(tmp_path, stem):
    write(tmp_path, XML, "tiny.xml")
    data = read_arff(write(tmp_path, DENSE, f"{stem}.arff"))
    assert data.label_names == ["big dog", "beach"]
    assert data.y_true.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("relation", "expected"), [("r: -C 1", ["first one"]), ("r: -C -2", ["beach", "big dog"])]
)
def test_labels_from_meka_relation(tmp_path, relation, expected):
    text = DENSE.replace("tiny set", relation).replace("-1e3", "0").replace("0.5", "1")
    assert read_arff(write(tmp_path, text)).label_names == expected


def test_labels_by_name(tmp_path):
    assert read_arff(write(tmp_path, DENSE), labels=["big dog"]).X.shape == (2, 5)


def test_sparse_rows(tmp_path):
    text = HEADER + "{0 0.5, 1 20, 4 1}\n{ 2 YES,3 c, 5 1 }\n{}\n"
    data = read_arff(write(tmp_path, text), labels=2)
    assert isinstance(data.X, sparse.csr_array)
    # A value left out is the first one declared: site 10.
    assert data.X.toarray().tolist() == [[0.5, 20, 0, 0], [0, 10, 1, 1], [0, 10, 0, 0]]
    assert data.y_true.tolist() == [[1, 0], [0, 1], [0, 0]]


def test_true_false_labels(tmp_path):
    text = "@relation r\n@attribute x real\n@attribute l {FALSE,TRUE}\n@data\n1,TRUE\n2,FALSE\n"
    assert read_arff(write(tmp_path, text), labels=1).y_true.tolist() == [[1], [0]]


def test_missing_values(tmp_path):
    path = write(tmp_path, DENSE.replace("0.5", "?"))
    with pytest.raises(DataError, match=r"line 10: the value of 'first one' is missing"):
        read_arff(path, labels=2)
    assert read_arff(path, labels=2, missing="zero").X[0, 0] == 0


def test_a_string_attribute_is_refused(tmp_path):
    text = DENSE.replace("'first one' numeric", "'first one' string").replace("0.5", "'id 7'")
    path = write(tmp_path, text)
    with pytest.raises(DataError, match="'first one' of type string is not a number"):
        read_arff(path, labels=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DENSE[: DENSE.index("@data")], "no @data section"),
        (HEADER, "the file has no data rows"),
        (DENSE.rstrip()[:-5], r"line 13: 5 values for 6 attributes"),
        (DENSE.replace("0.5", "abc"), r"line 10: 'abc' is not a value of 'first one'"),
        (DENSE.replace("0.5", "nan"), r"line 10: 'nan' is not a value of 'first one'"),
        (DENSE.replace("20,YES", "20,MAYBE"), r"line 10: 'MAYBE' is not a value of 'flag'"),
        (DENSE.replace("0.5,20", "0.5,25"), r"line 10: '25' is not a value of 'site'"),
        (HEADER + "{0 1, 4 1\n", "line 10: a sparse row must end with"),
        (HEADER + "{9 1}\n", "line 10: no attribute '9'"),
        ("col1,col2\n1,2\n", "line 1: not an ARFF header line: 'col1,col2'"),
        (DENSE.replace("'big dog'", "beach"), "'beach' is declared twice"),
    ],
)
def test_wrong_content_names_the_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read_arff(write(tmp_path, text), labels=2)
    assert "tiny.arff" in str(caught.value)


def test_which_attributes_are_labels(tmp_path):
    path = write(tmp_path, DENSE)
    with pytest.raises(DataError, match="which attributes are labels"):
        read_arff(path)
    with pytest.raises(DataError, match="labels=7, but there are 6 attributes"):
        read_arff(path, labels=7)
    with pytest.raises(DataError, match="'cat' is not an attribute"):
        read_arff(path, labels=["cat"])


def test_xml_with_entities_is_refused(tmp_path):
    bomb = '<!DOCTYPE l [<!ENTITY a "x"><!ENTITY b "&a;&a;">]><labels><label name="&b;"/></labels>'
    write(tmp_path, bomb, "tiny.xml")
    with pytest.raises(DataError, match="entities are not accepted"):
        read_arff(write(tmp_path, DENSE))
    write(tmp_path, "<labels><label", "tiny.xml")
    with pytest.raises(DataError, match=r"tiny\.xml: not a readable XML file"):
        read_arff(write(tmp_path, DENSE))


def test_binary_empty_and_large(tmp_path):
    path = tmp_path / "x.arff"
    path.write_bytes(b"PK\x03\x04\0\0")
    with pytest.raises(DataError, match="binary file, not text"):
        read_arff(path, labels=1)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="the file is empty"):
        read_arff(path, labels=1)
    with pytest.raises(DataError, match="more than max_bytes=10"):
        read_arff(write(tmp_path, DENSE), labels=2, max_bytes=10)


def test_many_rows_survive_a_round_trip(tmp_path):
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((40, 7)), rng.randint(0, 2, (40, 3))
    lines = ["@relation r", *(f"@attribute x{j} numeric" for j in range(7))]
    lines += [*(f"@attribute y{j} {{0,1}}" for j in range(3)), "@data"]
    lines += [
        ",".join([*(repr(float(v)) for v in a), *map(str, b)]) for a, b in zip(X, y, strict=True)
    ]
    data = read_arff(write(tmp_path, "\n".join(lines)), labels=3)
    assert (data.X == X).all()
    assert (data.y_true == y).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": 2, "missing": "mean"}, "missing must be .*, not 'mean'"),
        ({"labels": 7}, "labels=7, but there are 6 attributes"),
    ],
)
def test_wrong_options_are_quoted(tmp_path, options, message):
    with pytest.raises(DataError, match=message):
        read_arff(write(tmp_path, DENSE), **options)


@pytest.mark.parametrize("content", ["", "<label/>", '<label name="beach"/><label/>'])
def test_xml_without_names(tmp_path, content):
    write(tmp_path, f"<labels>{content}</labels>", "tiny.xml")
    with pytest.raises(DataError, match=r"tiny\.xml: no <label name=\.\.\.> entries"):
        read_arff(write(tmp_path, DENSE))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("'a, b',c", ["'a, b'", "c"]),
        ("'a',", ["'a'", ""]),
        ("'a',,\"b\"", ["'a'", "", '"b"']),
        ("a,'open, b", ["a", "'open, b"]),
    ],
)
def test_values_between_commas(text, values):
    assert split_values(text) == values
