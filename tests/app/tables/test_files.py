import gzip
import json

import numpy as np
import pytest

from schirn._text import to_numbers
from schirn.app.tables._files import open_table, write_copy
from schirn.datasets import load, read_table
from schirn.exceptions import DataError, MissingExtraError

pandas = pytest.importorskip("pandas")


def frame():
    return pandas.DataFrame(
        {
            "title": ["one", "two", "three"],
            "red": [1.0, 2.0, 3.0],
            "blue": [0, 1, 0],
            "tags": ["beach; dog", "", "dog;cat"],
            "checked": ["beach", "", "dog"],
        }
    )


@pytest.fixture(params=[".csv", ".tsv", ".parquet", ".jsonl"])
def path(request, tmp_path):
    target = tmp_path / f"photos{request.param}"
    if request.param == ".parquet":
        pytest.importorskip("pyarrow")
        frame().to_parquet(target)
    elif request.param == ".jsonl":
        frame().to_json(target, orient="records", lines=True)
    else:
        frame().to_csv(target, index=False, sep="\t" if request.param == ".tsv" else ",")
    return target


def test_tag_column(path):
    data = load(path, truth="checked")
    assert data.label_names == ["beach", "cat", "dog"]
    assert data.candidates.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 1]]
    assert data.y_true.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert data.X.tolist() == [[1, 0], [2, 1], [3, 0]]
    assert data.feature_names == ["red", "blue"]
    assert "title" in data.description


def test_truth_is_not_taken_for_candidates(path):
    assert read_table(path).y_true is None


def test_chosen_features_and_names(path):
    data = read_table(path, features=["blue"], label_names=["dog", "cat", "beach", "sea"])
    assert data.X.tolist() == [[0], [1], [0]]
    assert data.candidates.tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0]]


def test_several_columns(tmp_path):
    target = tmp_path / "t.csv"
    target.write_text("x,dog,cat,dog2,cat2\n0.5,1,0,1,1\n0.1,0,1,0,1\n")
    data = load(target, labels=["dog2", "cat2"])
    assert data.candidates.tolist() == [[1, 1], [0, 1]]
    assert data.label_names == ["dog2", "cat2"]
    both = read_table(target, labels=["dog2", "cat2"], truth=["dog", "cat"])
    assert both.y_true.tolist() == [[1, 0], [0, 1]]
    assert both.feature_names == ["x"]


def test_lists_in_json_lines(tmp_path):
    target = tmp_path / "t.jsonl"
    target.write_text('{"x": 1, "labels": ["a", "b"]}\n{"x": 2, "labels": []}\n')
    data = load(target)
    assert data.candidates.tolist() == [[1, 1], [0, 0]]


def test_missing_number_names_row_and_column(tmp_path):
    target = tmp_path / "t.csv"
    target.write_text("x,y,tags\n1,2,a\n3,,b\n")
    with pytest.raises(DataError, match="row 2, column 'y': nan is not a number"):
        read_table(target)
    target.write_text("x,tags\n1,a\ninf,b\n")
    with pytest.raises(DataError, match="row 2, column 'x': inf is not a number"):
        read_table(target)


def test_wrong_arguments(path):
    with pytest.raises(DataError, match="there is no column 'tag'; choose from title, red"):
        read_table(path, labels="tag")
    with pytest.raises(DataError, match="the column 'title' is not numeric"):
        read_table(path, features=["title"])
    with pytest.raises(DataError, match="the tag 'cat' is not among label_names"):
        read_table(path, label_names=["beach", "dog"])
    with pytest.raises(DataError, match="more than max_bytes=5"):
        read_table(path, max_bytes=5)
    with pytest.raises(DataError, match="given by column name, not 2"):
        load(path, labels=2)


def test_which_column(tmp_path):
    target = tmp_path / "t.csv"
    target.write_text("x,words\n1,a\n")
    with pytest.raises(DataError, match="which column holds the labels"):
        read_table(target)
    target.write_text("name,tags\nq,a\n")
    with pytest.raises(DataError, match="no numeric column is left"):
        read_table(target)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_foreign_files(tmp_path, suffix):
    target = tmp_path / f"bad{suffix}"
    target.write_bytes(b'"a,b\n{1,\x00\xff\n"')
    with pytest.raises(DataError, match=f"bad{suffix}"):
        read_table(target)
    target.write_bytes(b"")
    with pytest.raises(DataError, match="the file is empty"):
        read_table(target)


def test_truncated_parquet_and_bomb(tmp_path):
    pytest.importorskip("pyarrow")
    target = tmp_path / "t.parquet"
    pandas.DataFrame({"x": np.arange(100_000) % 7, "tags": "a"}).to_parquet(target)
    assert target.stat().st_size < 150_000
    with pytest.raises(DataError, match="more than max_bytes"):
        read_table(target, max_bytes=target.stat().st_size)
    target.write_bytes(target.read_bytes()[:-100])
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_table(target)


def test_missing_extra(tmp_path, monkeypatch):
    target = tmp_path / "t.parquet"
    target.write_bytes(b"PAR1")

    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr("schirn._optional.import_module", refuse)
    with pytest.raises(MissingExtraError, match=r"extra 'table'.*pip install .*pyarrow>="):
        read_table(target)


def test_as_many_true_as_listed_columns(tmp_path):
    target = tmp_path / "t.csv"
    target.write_text("x,a,b,true_a\n1,1,0,1\n2,1,1,0\n")
    with pytest.raises(DataError, match="2 label columns but 1 true"):
        read_table(target, labels=["a", "b"], truth=["true_a"])
    data = read_table(target, labels=["a"], truth=["true_a"])
    assert data.y_true.tolist() == [[1], [0]]


def test_other_formats_are_named(tmp_path):
    (tmp_path / "t.ods").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"t\.ods: a table must be \.csv, \.tsv, \.jsonl"):
        read_table(tmp_path / "t.ods")


def test_two_columns_of_one_name(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = [arrow.array([1.0, 2.0]), arrow.array([3.0, 4.0]), arrow.array(["a", "b"])]
    table = arrow.Table.from_arrays(columns, names=["x", "x", "tags"])
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match="2 columns are called 'x'; rename them"):
        read_table(tmp_path / "t.parquet")


def test_a_packed_table_near_the_limit(tmp_path):
    """A file that could unpack to more than the limit is counted, and read where it does not."""
    target = tmp_path / "t.csv.gz"
    content = b"x,tags\n" + b"1,a\n" * 5000
    with gzip.open(target, "wb") as stream:
        stream.write(content)
    assert read_table(target, max_bytes=len(content)).n_samples == 5000
    with pytest.raises(DataError, match="unpacks to at least 20,007 bytes"):
        read_table(target, max_bytes=len(content) - 1)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"gone\.csv: there is no such file"):
        read_table(tmp_path / "gone.csv")


@pytest.mark.parametrize("packed", [False, True])
def test_tags_that_look_like_missing_cells_are_tags(tmp_path, packed):
    text = "x,tags,checked\n1,NA,NA\n2,None;null,null\n3,,\n"
    target = tmp_path / ("t.csv.gz" if packed else "t.csv")
    target.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    data = read_table(target, truth="checked")
    assert data.label_names == ["NA", "None", "null"]
    assert data.candidates.tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert data.y_true.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_missing_numbers_are_still_named(tmp_path):
    target = tmp_path / "t.csv"
    target.write_text("x,tags\n1,a\nNA,b\n")
    with pytest.raises(DataError, match="row 2, column 'x': nan is not a number"):
        read_table(target)
    target.write_text("x,a\n1,1\n2,NA\n")
    with pytest.raises(DataError, match="row 2, column 'a': nan is not a number"):
        read_table(target, labels="a")


def test_tags_that_are_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("x,tags,label\n1,8,5\n2,007,6\n")
    data = read_table(tmp_path / "t.csv")
    assert data.label_names == ["007", "8"]
    assert data.feature_names == ["x", "label"]
    (tmp_path / "t.jsonl").write_text('{"x": "1", "tags": "8"}\n{"x": "2", "tags": "007"}\n')
    data = read_table(tmp_path / "t.jsonl")
    assert data.label_names == ["007", "8"]
    assert data.feature_names == ["x"]


@pytest.mark.parametrize("cells", [("1", "0"), ("True", "False"), ("1.0", "-1")])
def test_one_column_of_truth_values(tmp_path, cells):
    (tmp_path / "t.csv").write_text("x,dog\n1,{}\n2,{}\n".format(*cells))
    data = read_table(tmp_path / "t.csv", labels="dog")
    assert data.label_names == ["dog"]
    assert data.candidates.tolist() == [[1], [0]]


def test_gaps_in_lists_are_no_tags(tmp_path):
    target = tmp_path / "t.jsonl"
    target.write_text('{"x": 1, "tags": ["dog", " cat", "", null, NaN]}\n{"x": 2, "tags": null}\n')
    data = read_table(target)
    assert data.label_names == ["cat", "dog"]
    assert data.candidates.tolist() == [[1, 1], [0, 0]]


def test_missing_texts_in_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    tags = pandas.array(["dog", pandas.NA], dtype="string")
    pandas.DataFrame({"x": [1.0, 2.0], "tags": tags}).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").candidates.tolist() == [[1], [0]]


def test_rows_of_another_length_and_columns_of_one_name(tmp_path):
    (tmp_path / "t.csv").write_text("x,tags\n1,NA\n3\n")
    with pytest.raises(DataError, match="line 3 has 1 cells, but the header has 2"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("x,x,tags\n1,2,NA\n")
    with pytest.raises(DataError, match="2 columns are called 'x'; rename them"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("Our shop,,\nx,y,tags\n1,2,NA\n")
    told = "2 columns have no name; name them, or, if the header is in another row, remove the rows"
    with pytest.raises(DataError, match=told):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("packed", [False, True])
def test_text_in_another_encoding(tmp_path, packed):
    target = tmp_path / ("t.csv.gz" if packed else "t.csv")
    raw = "x|tags\n1|café\n".encode("latin-1")
    target.write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.raises(DataError, match=r"line 2 is not utf-8 text \(byte 0xe9\)") as caught:
        read_table(target)
    assert caught.value.parameter == "encoding"
    data = read_table(target, encoding="latin-1", delimiter="|")
    assert data.label_names == ["café"]
    with pytest.raises(DataError, match="no encoding 'hex'"):
        read_table(target, encoding="hex")


def test_features_in_every_block_of_rows(tmp_path):
    """Numbers are collected block by block; one text makes the whole column text."""
    n = 3000
    rows = [f"{i},{i / 7},{'1_0' if i == 2500 else i},{i % 2 == 0},a" for i in range(n)]
    (tmp_path / "t.csv").write_text("\n".join(["row,x,text,even,tags", *rows]))
    data = read_table(tmp_path / "t.csv")
    assert data.feature_names == ["row", "x", "even"]
    expected = np.column_stack([np.arange(n), np.arange(n) / 7, np.arange(n) % 2 == 0])
    np.testing.assert_array_equal(data.X, expected)


def test_the_index_of_a_parquet_file_is_no_feature(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    frame().set_index("blue").to_parquet(tmp_path / "named.parquet")
    frame().iloc[[2, 0, 1]].to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "named.parquet").feature_names == ["red"]
    assert read_table(tmp_path / "t.parquet").feature_names == ["red", "blue"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_numbers_are_no_tags(tmp_path, suffix):
    table = pandas.DataFrame({"x": [1, 2], "tags": [1, 8]})
    target = tmp_path / f"t{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
        table.to_parquet(target)
    else:
        table.to_json(target, orient="records", lines=True)
    with pytest.raises(DataError, match=r"must be 0 or 1 .* row 1, label 0 holds 8"):
        read_table(target)


def test_a_column_without_any_tag(tmp_path):
    (tmp_path / "t.csv").write_text("x,tags\n1,\n2,\n")
    with pytest.raises(DataError, match="the column 'tags' holds no tags"):
        read_table(tmp_path / "t.csv")


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    target = tmp_path / "t.csv"
    frame().iloc[[2, 0, 1]].to_csv(target)
    data = read_table(target)
    assert data.feature_names == ["red", "blue"]
    assert "Unnamed: 0" in data.description
    assert read_table(target, features=["Unnamed: 0"]).X.tolist() == [[2], [0], [1]]


def test_an_empty_separator(path):
    with pytest.raises(DataError, match="separator='' is empty; pass the text between"):
        read_table(path, separator="")


def test_labels_that_are_named_twice(tmp_path):
    (tmp_path / "t.csv").write_text("x,a,tags\n1,1,p\n2,0,q\n")
    with pytest.raises(DataError, match=r"t\.csv: two labels are called 'a'; rename one"):
        read_table(tmp_path / "t.csv", labels=["a", "a"])
    with pytest.raises(DataError, match="two labels are called 'p'"):
        read_table(tmp_path / "t.csv", label_names=["p", "q", "p"])


def test_a_cell_that_holds_neither_tags_nor_a_list(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"x": 1, "tags": ["a"]}\n{"x": 2, "tags": {"a": 1}}\n')
    with pytest.raises(DataError, match=r"t\.jsonl: row 2, column 'tags': .* neither a text"):
        read_table(tmp_path / "t.jsonl")


def test_empty_and_truncated_texts(tmp_path):
    (tmp_path / "t.jsonl").write_text("\n \n")
    with pytest.raises(DataError, match="the table has no rows"):
        read_table(tmp_path / "t.jsonl")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"x,tags\n1,a\n" * 100)[:-9])
    with pytest.raises(DataError, match="not a readable gzip file, or truncated"):
        read_table(tmp_path / "t.csv.gz")
    (tmp_path / "t.csv").write_bytes("x,tags\n1,a\n".encode("utf-16")[:-1])
    with pytest.raises(DataError, match="not utf-16 text") as caught:
        read_table(tmp_path / "t.csv", encoding="utf-16")
    assert caught.value.parameter == "encoding"


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1.5", " 2 ", "-1e3"], [1.5, 2, -1000]),
        (["1", "NA", ""], [1, np.nan, np.nan]),
        (["True", "false"], [1, 0]),
        ([True, None, 3, "4"], [1, np.nan, 3, 4]),
        (["1_000", "2"], None),
        (["1", "dog"], None),
        ([1, [2]], None),
        ([1, 10**400], None),
    ],
)
def test_what_counts_as_a_number(cells, numbers):
    found = to_numbers(cells)
    if numbers is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, numbers)


def test_json_lines_and_csv_hold_the_same_numbers(tmp_path):
    """Numbers as text, and columns whose names sound like dates."""
    rows = [{"a": "1", "date": 8e8 + k, "modified_at": k, "t": str(k), "tags": "x;y"[: 1 + 2 * k]}
            for k in range(2)]  # fmt: skip
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    cells = [list(rows[0]), *(map(str, row.values()) for row in rows)]
    (tmp_path / "x.csv").write_text("".join(",".join(line) + "\n" for line in cells))
    one, other = (load(tmp_path / name) for name in ("x.jsonl", "x.csv"))
    assert one.feature_names == other.feature_names == ["a", "date", "modified_at", "t"]
    np.testing.assert_array_equal(one.X, other.X)
    # `schirn predict` names the features, and must take the same cells.
    again = read_table(tmp_path / "x.jsonl", features=one.feature_names, labels=[])
    np.testing.assert_array_equal(again.X, one.X)


def test_half_of_a_surrogate_pair_is_repaired(tmp_path):
    rows = [
        {"a": 1, "b\ud83d": 2, "tags": ["x\ud83d", "y \N{DOG}"]},
        {"a": 2, "b\ud83d": 5, "tags": []},
    ]
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.warns(UserWarning, match="line 1 holds half of a character"):
        data = load(tmp_path / "x.jsonl")
    assert data.label_names == ["x\ufffd", "y \N{DOG}"]
    assert data.feature_names == ["a", "b\ufffd"]
    assert data.X.tolist() == [[1, 2], [2, 5]]


def test_whole_surrogate_pairs_are_no_halves(tmp_path):
    row = {"a": 1, "tags": "\N{DOG}"}
    (tmp_path / "x.jsonl").write_text(json.dumps(row) + "\n")
    assert load(tmp_path / "x.jsonl").label_names == ["\N{DOG}"]


def test_a_whole_number_beyond_all_floats(tmp_path):
    (tmp_path / "x.jsonl").write_text(f'{{"a": 1, "b": 1{"0" * 400}, "tags": "x"}}\n')
    assert load(tmp_path / "x.jsonl").feature_names == ["a"]
    with pytest.raises(DataError, match="'b' is not numeric"):
        read_table(tmp_path / "x.jsonl", features=["a", "b"])


def test_a_table_without_rows_in_another_format(tmp_path):
    source, copy = tmp_path / "in.csv", tmp_path / "out.jsonl"
    source.write_text("id,tags\n")
    write_copy(str(copy.with_suffix(".tsv")), open_table(source, empty=True), {}, {"more": []})
    assert copy.with_suffix(".tsv").read_text() == "id\ttags\tmore\n"
