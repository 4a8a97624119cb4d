import json

import numpy as np
import pytest
from bench.bench_helpers import tiny

from schirn import bench
from schirn.bench.rows import FIELDS, RowReader, RowWriter, content_key, newest, plain
from schirn.exceptions import DataError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    rows = bench.run([tiny()], ["CandidateRidge"], output=folder, folds=2, tuning="none", jobs=0)
    return folder, rows


def row_like(row, **changes):
    return {**row, **changes}


def test_a_row_has_the_documented_fields_in_order(run):
    _, rows = run
    assert list(rows[0]) == list(FIELDS)
    documented = bench.read_rows.__globals__["__doc__"]
    assert [name for name in FIELDS if f"``{name}``" not in documented] == []


def test_a_torn_last_line_is_ignored(run):
    folder, rows = run
    path = next(folder.glob("*.jsonl"))
    text = path.read_bytes()
    path.write_bytes(text + b'{"format": 1, "key": "abc')
    assert bench.read_rows(folder) == rows
    path.write_bytes(text)


def test_a_spoilt_line_is_named(tmp_path):
    (tmp_path / "rows-x.jsonl").write_text('{"format": 1\n')
    with pytest.raises(DataError, match="line 1: not a benchmark row"):
        bench.read_rows(tmp_path)
    (tmp_path / "rows-x.jsonl").write_text('{"format": 99}\n')
    with pytest.raises(DataError, match="format 99"):
        bench.read_rows(tmp_path)


def test_the_newest_row_of_a_cell_counts_and_skipped_ones_count_last(run):
    _, (row, other) = run
    edited = row_like(row, key="1", finished=row["finished"] + 1)
    skipped = row_like(row, key="2", finished=row["finished"] + 2, status="skipped")
    assert newest([row, other, edited, skipped]) == [edited, other]
    assert newest([skipped, row]) == [row]


def test_a_reader_sees_each_line_once(run, tmp_path):
    _, (row, other) = run
    writer, reader = RowWriter(tmp_path, "x"), RowReader(tmp_path)
    writer.append(row)
    assert reader.refresh() == [row]
    assert reader.refresh() == []
    writer.append(other)
    assert reader.refresh() == [other]


def test_a_row_is_plain_json(tmp_path):
    values = {"a": np.float64("nan"), "b": np.arange(2), "c": (1, np.True_), "d": float("inf")}
    assert plain(values) == {"a": None, "b": [0, 1], "c": [1, True], "d": None}
    RowWriter(tmp_path, "x").append(values)
    text = (tmp_path / "rows-x.jsonl").read_text()
    assert json.loads(text) == plain(values)


def test_the_key_changes_with_its_parts_and_not_with_their_order():
    assert content_key({"a": 1, "b": 2}) == content_key({"b": 2, "a": 1})
    assert content_key({"a": 1}) != content_key({"a": 2})


def test_blank_lines_are_counted_and_skipped(run, tmp_path):
    _, (row, other) = run
    text = f"{json.dumps(row)}\n\n{json.dumps(other)}\n"
    (tmp_path / "rows-x.jsonl").write_text(text)
    assert RowReader(tmp_path).refresh() == [row, other]
    (tmp_path / "rows-x.jsonl").write_text(f"{text}{{}}\n")
    with pytest.raises(DataError, match="line 4: not a benchmark row"):
        bench.read_rows(tmp_path)


def test_a_file_is_no_folder_of_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("")
    with pytest.raises(DataError, match="not a folder of benchmark rows"):
        bench.read_rows(path)
