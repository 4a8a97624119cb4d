import gzip

import numpy as np
import pytest

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
    with pytest.raises(DataError, match="there is no column 'tag'; there are title, red"):
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
    with pytest.raises(DataError, match="not a readable table"):
        read_table(target)


def test_missing_extra(tmp_path, monkeypatch):
    target = tmp_path / "t.csv"
    target.write_text("x,tags\n1,a\n")

    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr("schirn._optional.import_module", refuse)
    with pytest.raises(MissingExtraError, match=r"schirn\[table\]"):
        read_table(target)


def test_as_many_true_as_listed_columns(tmp_path):
    target = tmp_path / "t.csv"
    target.write_text("x,a,b,true_a\n1,1,0,1\n2,1,1,0\n")
    with pytest.raises(DataError, match="2 label columns but 1 true"):
        read_table(target, labels=["a", "b"], truth=["true_a"])
    data = read_table(target, labels=["a"], truth=["true_a"])
    assert data.y_true.tolist() == [[1], [0]]


def test_other_formats_are_named(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"t\.xlsx: a table must be \.csv, \.tsv, \.parquet or"):
        read_table(tmp_path / "t.xlsx")


def test_two_columns_of_one_name(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = [arrow.array([1.0, 2.0]), arrow.array([3.0, 4.0]), arrow.array(["a", "b"])]
    table = arrow.Table.from_arrays(columns, names=["x", "x", "tags"])
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match="two columns are called 'x'; rename one of them"):
        read_table(tmp_path / "t.parquet")


def test_a_packed_table_near_the_limit(tmp_path):
    """A file that could unpack to more than the limit is counted, and read where it does not."""
    target = tmp_path / "t.csv.gz"
    content = b"x,tags\n" + b"1,a\n" * 5000
    with gzip.open(target, "wb") as stream:
        stream.write(content)
    assert read_table(target, max_bytes=len(content)).n_samples == 5000
    with pytest.raises(DataError, match="unpacks to over 20,006 bytes"):
        read_table(target, max_bytes=len(content) - 1)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"gone\.csv: there is no such file"):
        read_table(tmp_path / "gone.csv")
