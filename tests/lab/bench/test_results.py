import json

import numpy as np
import pytest
from lab.bench.bench_helpers import tiny

from schirn.exceptions import DataError
from schirn.lab import bench
from schirn.lab.bench import results as results_module
from schirn.lab.bench.results import FIELDS, ResultWriter, content_key, newest, plain


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    results = bench.run([tiny()], ["CandidateRidge"], output=folder, folds=2, tuning="none", jobs=0)
    return folder, results


def test_a_result_has_the_documented_fields_in_order(run):
    _, results = run
    assert list(results[0]) == list(FIELDS)
    assert [name for name in FIELDS if f"``{name}``" not in results_module.__doc__] == []


def test_an_incomplete_last_line_is_ignored(run):
    folder, results = run
    path = next(folder.glob("*.jsonl"))
    text = path.read_bytes()
    path.write_bytes(text + b'{"format": 1, "key": "abc')
    assert bench.read_rows(folder) == results
    path.write_bytes(text)


def test_a_corrupt_line_is_named(tmp_path):
    (tmp_path / "rows-x.jsonl").write_text('{"format": 1\n')
    with pytest.raises(DataError, match="line 1: not a benchmark result"):
        bench.read_rows(tmp_path)
    (tmp_path / "rows-x.jsonl").write_text('{"format": 99}\n')
    with pytest.raises(DataError, match="format 99"):
        bench.read_rows(tmp_path)


def test_the_newest_result_of_a_run_counts_and_a_skipped_one_only_alone(run):
    _, (result, other) = run
    edited = dict(result, key="1", finished=result["finished"] + 1)
    skipped = dict(result, key="2", finished=result["finished"] + 2, status="skipped")
    assert newest([result, other, edited, skipped]) == [edited, other]
    assert newest([skipped, result]) == [result]


def test_a_failure_from_the_future_does_not_hide_a_result(run):
    _, (result, other) = run
    ahead = dict(result, finished=result["finished"] + 1e8, status="failed", metrics={})
    assert newest([result, other, ahead]) == [result, other]
    assert newest([ahead, result]) == [result]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metrics", None),
        ("metrics", [1]),
        ("metrics", {"average_precision": "good"}),
        ("metrics", {"average_precision": True}),
        ("metrics", {"average_precision": 10**400}),
        ("params", "lam=1"),
        ("grid", {"lam": 1}),
        ("versions", ["0.1"]),
        ("fit_seconds", "1"),
        ("reason", 3),
        ("features", 1),
        ("fold", 0.5),
        ("r", "three"),
        ("oracle", "yes"),
        ("status", "perhaps"),
        ("scores", {}),
        ("finished", None),
    ],
)
def test_a_field_of_another_type_is_named(run, tmp_path, name, value):
    _, (result, _) = run
    (tmp_path / "rows-x.jsonl").write_text(json.dumps({**result, name: value}) + "\n")
    with pytest.raises(DataError, match=f"line 1: '{name}' cannot be .*; delete the line"):
        bench.read_rows(tmp_path)


def test_fields_that_an_earlier_version_did_not_write_are_empty(run, tmp_path):
    _, (result, _) = run
    short = {name: value for name, value in result.items() if name != "inner_folds"}
    (tmp_path / "rows-x.jsonl").write_text(json.dumps(short) + "\n")
    assert bench.read_rows(tmp_path) == [result]


def test_a_result_is_plain_json(tmp_path):
    values = {"a": np.float64("nan"), "b": np.arange(2), "c": (1, np.True_), "d": float("inf")}
    assert plain(values) == {"a": None, "b": [0, 1], "c": [1, True], "d": None}
    ResultWriter(tmp_path, "x").append(values)
    text = (tmp_path / "rows-x.jsonl").read_text()
    assert json.loads(text) == plain(values)


def test_the_key_changes_with_its_parts_and_not_with_their_order():
    assert content_key({"a": 1, "b": 2}) == content_key({"b": 2, "a": 1})
    assert content_key({"a": 1}) != content_key({"a": 2})


def test_blank_lines_are_counted_and_skipped(run, tmp_path):
    _, (result, other) = run
    text = f"{json.dumps(result)}\n\n{json.dumps(other)}\n"
    (tmp_path / "rows-x.jsonl").write_text(text)
    assert bench.read_rows(tmp_path) == [result, other]
    (tmp_path / "rows-x.jsonl").write_text(f"{text}{{}}\n")
    with pytest.raises(DataError, match="line 4: not a benchmark result"):
        bench.read_rows(tmp_path)


def test_a_file_is_not_a_results_folder(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text("")
    with pytest.raises(DataError, match="not a folder of benchmark results"):
        bench.read_rows(path)
