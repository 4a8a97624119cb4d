"""Parquet files and folders, and saved data sets: read, written back, and damaged."""

import numpy as np
import pytest

from schirn.app.tables._files import open_table, write_copy
from schirn.cleaning import Change, ChangeList
from schirn.datasets import read_table
from schirn.exceptions import DataError, InputError
from schirn.labels.cells import TagCells

pa = pytest.importorskip("pyarrow", reason="Arrow tables need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = {
    "title": ["red pan", "oak chair", "steel pan", "lamp"],
    "price": [3.5, 80.0, 12.0, 20.0],
    "tags": [["pan", "oven"], ["chair"], ["pan"], []],
}


def table():
    kinds = {"title": pa.string(), "price": pa.float64(), "tags": pa.list_(pa.string())}
    return pa.table(ROWS, schema=pa.schema(list(kinds.items())))


def test_files_of_polars_are_read_and_written_back(tmp_path):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    frame, copy = pl.DataFrame(ROWS), tmp_path / "copy.parquet"
    frame.write_parquet(tmp_path / "t.parquet")
    opened = open_table(tmp_path / "t.parquet")
    assert opened.column("tags") == ROWS["tags"]
    opened.write(str(copy), {"tags": [[], ["chair"], [], []]}, {})
    after = pl.read_parquet(copy)
    assert after.schema == frame.schema
    assert after["tags"].to_list() == [[], ["chair"], [], []]
    assert after["title"].to_list() == ROWS["title"]


def folder_of(path):
    """A folder as Spark writes it, with the year in the names of its folders."""
    for year, rows in (("2024", slice(0, 1)), ("2025", slice(1, 4))):
        folder = path / f"year={year}"
        folder.mkdir(parents=True)
        parquet.write_table(table()[rows.start : rows.stop], folder / "part-0.parquet")
    (path / "_SUCCESS").touch()
    return path


def test_a_parquet_folder_is_one_table(tmp_path):
    opened = open_table(folder_of(tmp_path / "items"))
    assert opened.columns == [*ROWS, "year"]
    assert opened.column("year") == ["2024", "2025", "2025", "2025"]
    assert opened.column("title") == ROWS["title"]
    copy = tmp_path / "copy.parquet"
    write_copy(str(copy), opened, {"tags": [["pan"], [], [], []]}, {"new": ["a"] * 4})
    # The copy of a folder is one file, with the year as a column.
    assert parquet.ParquetFile(copy).schema_arrow.names == [*ROWS, "year", "new"]
    assert open_table(copy).column("year") == ["2024", "2025", "2025", "2025"]
    assert open_table(copy).column("tags") == [["pan"], [], [], []]
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"none: the folder holds no \.parquet file"):
        open_table(tmp_path / "none")


def test_numbers_that_stay_in_the_files_of_a_folder(tmp_path):
    folder = folder_of(tmp_path / "items")
    opened = open_table(folder, unread=["price"])
    assert opened.columns == ["title", "tags", "year"]
    copy = tmp_path / "copy.parquet"
    write_copy(str(copy), opened, {"tags": [["pan"], [], [], []]}, {"new": ["a"] * 4})
    rows = parquet.read_table(copy)
    assert rows.column_names == [*ROWS, "year", "new"]
    assert rows["price"].to_pylist() == ROWS["price"]
    assert rows["tags"].to_pylist() == [["pan"], [], [], []]
    with pytest.raises(DataError, match="price are too large to be written in another format"):
        write_copy(str(tmp_path / "copy.csv"), opened, {}, {})


def test_files_of_a_folder_may_lack_columns(tmp_path):
    folder = tmp_path / "items"
    folder.mkdir()
    parquet.write_table(table(), folder / "a.parquet")
    parquet.write_table(table().drop_columns(["price"]), folder / "b.parquet")
    values = open_table(folder).numbers("price")
    assert np.isnan(values[4:]).all()
    assert values[:4].tolist() == ROWS["price"]
    parquet.write_table(pa.table({"price": ["dear"]}), folder / "c.parquet")
    with pytest.raises(DataError, match=r"items: not a readable folder: its files do not make"):
        open_table(folder)


def test_a_damaged_file_of_a_folder_is_named(tmp_path):
    folder = folder_of(tmp_path / "items")
    (folder / "year=2025" / "part-1.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(DataError, match=r"part-1\.parquet: not a readable Parquet file"):
        open_table(folder)


def test_two_columns_of_one_name(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    parquet.write_table(twice, tmp_path / "t.parquet")
    with pytest.raises(DataError, match="2 columns are called 'a'"):
        open_table(tmp_path / "t.parquet")


def test_other_containers_of_the_python_interface():
    from schirn import CandidateRidge
    from schirn.cleaning import find_noisy_labels
    from schirn.features import KernelFeatures, TableFeatures, TagPipeline

    rng = np.random.RandomState(0)
    X = rng.randn(60, 3).astype(np.float32)
    Y = (X @ rng.randn(3, 4) > 0.3).astype(int)
    Y[np.arange(60), np.arange(60) % 4] = 1
    tags = [["uvwx"[j] for j in np.flatnonzero(row)] for row in Y]
    columns, labels = dict(zip("abc", X.T, strict=True)), dict(zip("uvwx", Y.T, strict=True))
    frames = [(pa.table(columns), pa.table(labels), pa.array(tags), pa.table)]
    frames.append((*frames[0][:2], pa.chunked_array([tags[:9], tags[9:]]), pa.table))
    pl = pytest.importorskip("polars", reason="polars is not installed")
    frames.append((pl.DataFrame(columns), pl.DataFrame(labels), pl.Series(tags), pl.DataFrame))
    wanted = CandidateRidge(lam=1.0).fit(X, Y)
    plain = find_noisy_labels(X, tags)
    kernel = KernelFeatures(n_landmarks=10).fit(X)
    table = {
        "text": ["red pan", "oak chair", "old oak"] * 20,
        "tags": ["pan", "oak;chair", "old"] * 20,
    }
    tagger = TagPipeline(text="text").fit(table, table["tags"])
    for frame, matrix, lists, make in frames:
        model = CandidateRidge(lam=1.0).fit(frame, matrix)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        assert model.label_names_ == list("uvwx")
        assert model.coef_.dtype == np.float32
        np.testing.assert_array_equal(model.coef_, wanted.coef_)
        np.testing.assert_array_equal(model.predict(frame), wanted.predict(X))
        np.testing.assert_array_equal(CandidateRidge(lam=1.0).fit(X, lists).coef_, wanted.coef_)
        found = find_noisy_labels(frame, lists)
        np.testing.assert_array_equal(found.confidence, plain.confidence)
        features = KernelFeatures(n_landmarks=10).fit(frame).transform(frame)
        assert features.dtype == np.float32
        np.testing.assert_array_equal(features, kernel.transform(X))
        same = TagPipeline(text="text").fit(make(table), make(table)["tags"])
        np.testing.assert_array_equal(same.predict_proba(make(table)), tagger.predict_proba(table))
        vectors = make({"v": [[1.0, 2.0], [3.0, 4.0]], "n": [1, None]})
        assert TableFeatures(vectors="v").fit_transform(vectors).tolist() == [[1, 2], [3, 4]]
        assert TableFeatures(columns=["n"]).fit_transform(vectors).tolist() == [[1, 0], [1, 1]]
        with pytest.raises(InputError, match="there is no column 'w'; choose from v, n"):
            TableFeatures(vectors="w").fit(vectors)
    with pytest.raises(InputError, match=r"lazy frame; call collect\(\) first"):
        CandidateRidge(lam=1.0).fit(frames[-1][0].lazy(), Y)


def test_datasets_of_the_python_interface():
    pytest.importorskip("datasets.arrow_dataset", reason="datasets is not installed")
    import datasets

    from schirn import CandidateRidge
    from schirn.features import TableFeatures, TagPipeline

    table = {
        "text": ["red pan", "oak chair", "old oak"] * 20,
        "tags": [["pan"], ["oak"], ["old"]] * 20,
    }
    rows = datasets.Dataset.from_dict(table)
    tagger = TagPipeline(text="text").fit(rows, rows["tags"])
    assert tagger.predict_labels(rows.select([1, 0])) == [["oak"], ["pan"]]
    numbers = datasets.Dataset.from_dict({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0]})
    model = CandidateRidge(lam=1.0).fit(numbers, [["x"], ["y"], ["x"]])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(InputError, match="choose one of the splits train"):
        TableFeatures(text="text").fit(datasets.DatasetDict({"train": rows}))
    with pytest.raises(InputError, match="come as a stream"):
        TableFeatures(text="text").fit(rows.to_iterable_dataset())


def test_read_table_takes_0_1_columns_of_a_folder(tmp_path):
    folder = tmp_path / "items"
    folder.mkdir()
    parquet.write_table(pa.table({"x": [0.5, 1.5], "a": [0, 1], "b": [1, 1]}), folder / "0.parquet")
    data = read_table(folder, labels=["a", "b"])
    assert data.candidates.tolist() == [[0, 1], [1, 1]]


def test_types_nullability_and_metadata_stay(tmp_path):
    fields = [
        pa.field("id", pa.int16(), nullable=False, metadata={b"unit": b"none"}),
        pa.field("tags", pa.list_(pa.string()), nullable=False),
        pa.field("x", pa.float32()),
        pa.field("when", pa.timestamp("us", "Europe/Zurich")),
    ]
    schema = pa.schema(fields, {b"origin": b"lab"})
    cells = [[1, 2], [["a", "b"], ["a"]], [float("nan"), None], [0, None]]
    parquet.write_table(pa.table(cells, schema=schema), tmp_path / "t.parquet")
    opened = open_table(tmp_path / "t.parquet")
    opened.write(str(tmp_path / "c.parquet"), {"tags": [["a"], ["a"]]}, {"more": ["x", "y"]})
    before, after = (parquet.read_table(tmp_path / name) for name in ("t.parquet", "c.parquet"))
    assert after.column_names == [*before.column_names, "more"]
    for name in before.column_names:
        old, new = before.schema.field(name), after.schema.field(name)
        assert (old.type, old.nullable, old.metadata) == (new.type, new.nullable, new.metadata)
        if name != "tags":
            assert repr(before[name].to_pylist()) == repr(after[name].to_pylist())
    assert after.schema.metadata[b"origin"] == b"lab"


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.string()), pa.null()])
def test_the_first_tag_of_a_column_without_tags(tmp_path, kind):
    source, copy = tmp_path / "t.parquet", tmp_path / "c.parquet"
    parquet.write_table(pa.table({"tags": pa.nulls(2, kind), "x": [1, 2]}), source)
    opened = open_table(source)
    cells, how = opened.column("tags"), opened.cell_options("tags")
    made = ChangeList.from_cells(cells, [Change(1, "addition", "", "dog")], **how)
    after = made.apply(cells, **how)
    opened.write(str(copy), {"tags": after}, {})
    assert open_table(copy).column("tags")[1] in (["dog"], "dog")
    assert open_table(copy).column("tags") == after


def test_whole_numbers_with_missing_cells_are_tags(tmp_path):
    """pandas makes floats of them."""
    source = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"tags": [3.0, None, 4.5]}), source)
    cells = open_table(source).column("tags")
    tags = TagCells.of(cells)
    assert [tags.split(cell) for cell in cells] == [["3"], [], ["4.5"]]
    made = ChangeList.from_cells(
        cells, [Change(0, "rename", "3", "7"), Change(1, "addition", "", "3")]
    )
    assert made.apply(cells) == [7, 3, 4.5]


def test_a_file_that_is_replaced_is_noticed(tmp_path):
    """Also if it has as many rows, and its numbers were not read into memory."""
    source = tmp_path / "t.parquet"
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32()))
    rows = {"tags": ["a", "b"], "v": vectors}
    parquet.write_table(pa.table(rows), source)
    for unread in ((), ("v",)):
        opened = open_table(source, unread=unread)
        opened.write(str(tmp_path / "c.parquet"), {}, {})
        assert parquet.read_table(tmp_path / "c.parquet").equals(parquet.read_table(source))
        opened = open_table(source, unread=unread)
        parquet.write_table(pa.table({**rows, "tags": ["a", "c"]}), source)
        with pytest.raises(DataError, match="the file has changed since it was read"):
            opened.write(str(tmp_path / "d.parquet"), {}, {})
        assert not (tmp_path / "d.parquet").exists()
        parquet.write_table(pa.table(rows), source)
