"""The frozen suite: what it fixes, and that nothing else passes for it."""

import copy
import json
import math
import re

import numpy as np
import pytest
from reference.bench_results import make_result

from benchmarks.sieve import DEVELOPMENT, HELD_BACK, SETTINGS
from schirn.app.cli import main
from schirn.datasets import Dataset
from schirn.estimators import methods
from schirn.exceptions import InputError
from schirn.lab.bench import default_grid
from schirn.lab.bench import suite as suites
from schirn.lab.bench.running._execute import load_data
from schirn.lab.bench.running._methods import own_methods
from schirn.lab.bench.suite import (
    checksums,
    count_runs,
    design_sets,
    plan_suite,
    read_suite,
    run_suite,
    summary,
)
from schirn.lab.cli import _bench as bench_command

METHODS = ["CandidateRidge", "OracleRidge"]


@pytest.fixture
def suite():
    return read_suite("pml-2")


@pytest.fixture
def short(suite, monkeypatch):
    """The generated set with two seeds and two noises, with checksums of its own."""
    short = copy.deepcopy(suite)
    short["seeds"]["small"], short["search_rows"] = 2, 60
    short["noise"] = {"exact": "exact", "two-sided": "two-sided"}
    short["datasets"] = {"generated": short["datasets"]["generated"]}
    short["datasets"]["generated"]["checksums"] = checksums(short, "generated")
    monkeypatch.setattr(suites, "read_suite", lambda name: short)
    # The command has a name for it, too, and may have been imported by another test.
    monkeypatch.setattr(bench_command, "read_suite", lambda name: short)
    return short


def test_covers_what_it_promises(suite):
    assert list(suite["noise"]) == ["exact", "label", "feature", "two-sided"]
    assert list(suite["tracks"]) == ["raw", "kernel"]
    assert suite["seeds"] == {"small": 10, "large": 3, "wide": 3}
    own = {name for name, entry in suite["datasets"].items() if entry.get("own")}
    assert {"brighter_ron", "brighter_ukr", "crowd_relations", "cmc"} <= own
    assert any("generated" in entry for entry in suite["datasets"].values())
    parts = {entry["part"] for entry in suite["datasets"].values()}
    assert parts == set(suite["seeds"]) == set(suite["rows"])
    for entry in suite["datasets"].values():
        noises = {"own"} if entry.get("own") else set(suite["noise"])
        assert set(entry["checksums"]) == {"folds", *noises}
        assert all(len(value) == 16 for value in entry["checksums"].values())


def test_sets_of_the_design_are_marked(suite):
    in_design = {name for name, _ in (*SETTINGS, *DEVELOPMENT)}
    copies = {f"{name}_full" for name in in_design}
    # Ideas were rejected because of these two, once each (docs/results/notes.md).
    looked_at = {"flags", "digits_attributes"}
    assert design_sets(suite) == (in_design | copies) & set(suite["datasets"]) | looked_at
    assert not {name for name, _ in HELD_BACK} & design_sets(suite) - looked_at


def test_no_fit_has_more_rows_or_labels_than_the_suite_says():
    truth = (np.random.RandomState(0).random_sample((120, 8)) < np.arange(8) / 12).astype(np.uint8)
    data = Dataset("many", np.arange(120.0)[:, None], truth, label_names=tuple("abcdefgh"))
    sample = suites._sample(data, 50, 3)
    assert (sample.n_samples, sample.n_labels) == (50, 3)
    rows = sample.X[:, 0].astype(int)
    np.testing.assert_array_equal(sample.y_true, truth[rows][:, 5:])
    assert list(sample.label_names) == ["f", "g", "h"]
    assert sample.y_true.any(axis=1).all()
    whole = suites._sample(data, 500, 30)
    np.testing.assert_array_equal(whole.X, data.X)
    np.testing.assert_array_equal(whole.y_true, truth)


def test_one_run_in_five_rows_tests(short):
    (run, *_) = plan_suite(short, METHODS)
    ((train, test),) = load_data(run).splits
    assert (len(train), len(test)) == (160, 40)


def test_a_search_includes_the_parameters_that_a_method_has_without_one(suite):
    small = {**suite, "datasets": {"generated": suite["datasets"]["generated"]}}
    for run in plan_suite(small, list(methods()), tracks=["raw"]):
        usual = {**methods()[run.method.name]().get_params(), **run.method.params}
        for name, values in (run.known["grid"] or {}).items():
            assert usual[name] in values, (run.method.name, name)


def test_grids_keep_to_the_search_budget(suite):
    """docs/bench.md: at most six points, unless the method searches in `fit`."""
    runs = plan_suite(suite, list(own_methods()), ["small"], ["raw"])
    grids = {run.method.name: run.known["grid"] for run in runs}
    sizes = {name: math.prod(map(len, grid.values())) for name, grid in grids.items() if grid}
    assert max(sizes.values()) == suite["search_points"] == 6
    assert len(sizes) > 10
    assert all(
        set(values) <= set(default_grid(n)[k]) for n in sizes for k, values in grids[n].items()
    )


@pytest.mark.parametrize("name", ["generated", "digits_attributes"])
def test_frozen_checksums_are_met(suite, name):
    assert checksums(suite, name) == suite["datasets"][name]["checksums"]


@pytest.mark.parametrize("what", ["folds", "label"])
def test_other_folds_or_candidates_are_refused(suite, what):
    suite["datasets"]["generated"]["checksums"][what] = "0" * 16
    words = "folds" if what == "folds" else "candidates with label noise"
    with pytest.raises(InputError, match=f"the {words} of generated differ.*instead of 0000"):
        list(plan_suite(suite, METHODS, ["small"]))


def test_a_missing_data_set_is_skipped_and_named(suite, tmp_path, monkeypatch):
    monkeypatch.setenv("SCHIRN_DATA", str(tmp_path / "nothing"))
    runs = list(plan_suite(suite, METHODS, ["small"], ["raw"]))
    reasons = {run.source.name: run.known["reason"] for run in runs}
    assert reasons["generated"] is None
    assert "flags" in reasons["flags"]
    assert len(runs) == 4 * 4 * 10 * len(METHODS)


def test_runs_resume_and_are_summed_up(short, tmp_path):
    results = run_suite("pml-2", METHODS, output=tmp_path, tracks=["raw", "kernel"], jobs=0)
    # Two noises, two tracks, two seeds, two methods.
    assert len(results) == 16
    assert {result["status"] for result in results} == {"done"}
    drawn = {(r["noise"], r["seed"], r["candidates_sha256"], r["folds_sha256"]) for r in results}
    assert len(drawn) == 4
    assert [result["seed"] for result in results] == [0] * 8 + [1] * 8
    assert [result["features"] for result in results[:8]] == ["raw"] * 4 + ["kernel"] * 4
    assert count_runs(short) * len(METHODS) == len(results)
    reports = []
    run_suite(
        "pml-2", METHODS, output=tmp_path, tracks=["raw", "kernel"], jobs=0, report=reports.append
    )
    assert reports == []
    head, *lines = summary(results)
    assert head == ["method", "raw", "kernel", "rank", "P(better)"]
    by_method = {line[0]: line[1:] for line in lines}
    values = [
        r["metrics"]["average_precision"]
        for r in results
        if r["features"] == "raw" and r["method"] == "OracleRidge"
    ]
    assert by_method["OracleRidge"][0] == f"{100 * np.mean(values):.1f}"
    assert by_method["CandidateRidge"][-1] == "-"
    assert float(by_method["OracleRidge"][-1]) > 0.502


def test_results_from_elsewhere_are_not_computed_again(short, tmp_path):
    results = run_suite("pml-2", METHODS, output=tmp_path / "one", tracks=["raw"], jobs=0)
    reports = []
    again = run_suite(
        "pml-2",
        METHODS,
        output=tmp_path / "two",
        tracks=["raw"],
        jobs=0,
        earlier=results[:3],
        report=reports.append,
    )
    assert [result["key"] for result in reports] == [result["key"] for result in results[3:]]
    assert [result["key"] for result in again] == [result["key"] for result in results]
    assert again[:3] == results[:3]
    edited = [{**result, "key": "0" * 40} for result in results]
    reports.clear()
    run_suite(
        "pml-2",
        METHODS,
        output=tmp_path / "three",
        tracks=["raw"],
        jobs=0,
        earlier=edited,
        report=reports.append,
    )
    assert len(reports) == len(results)


def test_a_method_that_timed_out_is_not_run_with_other_seeds(short, tmp_path):
    results = run_suite("pml-2", METHODS, output=tmp_path / "one", tracks=["raw"], jobs=0)
    late = {**results[0], "status": "timeout", "metrics": {}}
    again = run_suite(
        "pml-2", METHODS, output=tmp_path / "two", tracks=["raw"], jobs=0, earlier=[late]
    )
    twins = [r for r in again if (r["method"], r["noise"]) == (late["method"], late["noise"])]
    assert [result["status"] for result in twins] == ["timeout", "timeout"]
    assert twins[1]["reason"] == "not run: it timed out with another seed"
    assert sum(result["status"] == "done" for result in again) == len(again) - 2


def test_intervals_are_over_seeds():
    results = [
        {
            "dataset": d,
            "r": 1,
            "noise": "exact",
            "method": m,
            "features": "raw",
            "seed": seed,
            "fold": fold,
            "metrics": {
                "average_precision": 0.502 + 0.1 * (m == "Sieve") + 0.01 * seed + 0.001 * fold
            },
        }
        for d in ("a", "b", "c")
        for m in ("Sieve", "CandidateRidge", "NLR")
        for seed in range(4)
        for fold in range(2)
    ]
    _, *lines = summary(results)
    # Seeds of a data set have means of 60.25, 61.25, 62.25 and 63.25: 61.75 with standard error
    # 0.645 and t = 3.182; three data sets have an interval smaller by the root of three.
    assert lines[0][:3] == ["Sieve", "61.8 ± 1.2", "1.0"]


def test_repetitions_that_are_not_finished_are_left_out():
    results = [
        make_result("a", 1, m, fold, seed=seed, noise="exact", features="raw", average_precision=v)
        for seed in range(3)
        for m, v in (("Sieve", 0.8 + seed / 10), ("CandidateRidge", 0.7))
        for fold in range(2)
    ]
    whole = summary(results[:8])
    assert summary(results[:10]) == whole
    assert summary(results) != whole
    assert whole[1][:2] == ["Sieve", "85.0"]


def test_on_the_command_line(short, tmp_path, capsys):
    command = [
        "bench",
        "--suite",
        "pml-2",
        "--part",
        "small",
        "--tracks",
        "raw",
        "--output",
        str(tmp_path),
    ]
    assert main([*command, "--methods", "CandidateRidge", "--jobs", "0"]) == 0
    assert "Suite pml-2: average precision" in capsys.readouterr().out
    assert main([*command, "--methods", "CandidateRidge", "--jobs", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"done": 4}


def test_a_stopped_suite_prints_what_is_whole(short, tmp_path, capsys):
    command = ["bench", "--suite", "pml-2", "--tracks", "raw", "--output", str(tmp_path)]
    command += ["--methods", "CandidateRidge", "--jobs", "0"]
    assert main([*command, "--stop-after", "0.0000001"]) == 1
    captured = capsys.readouterr()
    assert "nothing was run" in captured.err
    assert "0 of 4 runs have a result" in captured.out
    assert "the same command continues where it stopped" in captured.out
    assert main([*command, "--stop-after", "9m"]) == 0
    shown = capsys.readouterr().out
    assert "4 done" in shown
    assert "the same command goes on" not in shown


def test_data_sets_that_are_not_here_are_named_once(suite, short, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SCHIRN_DATA", str(tmp_path / "nothing"))
    short["datasets"] |= {name: suite["datasets"][name] for name in ("flags", "birds")}
    command = ["bench", "--suite", "pml-2", "--tracks", "raw", "--output", str(tmp_path / "out")]
    assert main([*command, "--methods", "CandidateRidge", "--jobs", "0"]) == 0
    captured = capsys.readouterr()
    text = (
        "2 data sets of the suite are missing: flags, birds; docs/data.md says where they come "
        "from, and SCHIRN_DATA names their folder"
    )
    assert text in captured.out
    assert "skipped:" not in captured.err
    (line,) = [line for line in captured.out.splitlines() if line.startswith("CandidateRidge")]
    assert "missing" not in line


def test_a_suite_has_a_folder_and_a_first_part(short, tmp_path, monkeypatch, capsys):
    """A newcomer names methods only."""
    monkeypatch.chdir(tmp_path)
    seconds = []

    def run(*args, **options):
        seconds.append(options["stop_after"])
        return run_suite(*args, **options)

    monkeypatch.setattr("schirn.lab.cli._bench.run_suite", run)
    command = ["bench", "--suite", "pml-2", "--methods", "CandidateRidge", "--jobs", "0"]
    assert main(command) == 0
    assert main([*command, "--stop-after", "2h"]) == 0
    assert seconds == [540, 7200]
    assert list((tmp_path / "pml-2").glob("*.jsonl"))
    assert main(["bench", "--datasets", "digits_attributes:1"]) == 2
    assert "name the folder of the results with --output" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--suite", "pml-2", "--datasets", "birds:3"], "either --datasets or --suite"),
        ([], "either --datasets or --suite"),
        (["--suite", "pml-2", "--folds", "3"], "a suite fixes --folds"),
        (["--suite", "pml-2", "--param", "Sieve.lam=1"], "a suite fixes --param"),
        (["--suite", "pml-2", "--part", "smal"], "no part 'smal'.*small"),
        (["--suite", "pml-2", "--tracks", "cooked"], "no track 'cooked'"),
    ],
)
def test_bad_requests_get_one_sentence(options, words, tmp_path, capsys):
    assert main(["bench", *options, "--methods", "Sieve", "--output", str(tmp_path)]) == 2
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.parametrize("is_design", [True, False])
def test_the_printed_table_names_the_sets_of_the_design(short, tmp_path, capsys, is_design):
    short["datasets"]["generated"]["design"] = is_design
    command = ["bench", "--suite", "pml-2", "--tracks", "raw", "--output", str(tmp_path)]
    assert main([*command, "--methods", "CandidateRidge", "--jobs", "0"]) == 0
    shown = capsys.readouterr().out
    assert ("Data sets: generated*" in shown) == is_design
    assert ("* used when Sieve was designed" in shown) == is_design
