import json

import pytest
from lab.bench.bench_helpers import lines, write_workplace

from schirn.app.cli import main


@pytest.fixture
def place(tmp_path, monkeypatch):
    write_workplace(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bench(*args):
    return main(["bench", "--jobs", "0", "--folds", "2", "--output", "out", *args])


def test_prints_a_table(place, capsys):
    names = "CandidateRidge,schirn,mymethods.Mean"
    assert bench("--datasets", "tiny.npz:1,tiny.npz:own", "--methods", names) == 0
    captured = capsys.readouterr()
    table = captured.out.splitlines()
    assert "tuned on candidates; raw features." in table
    heads = next(line for line in table if line.startswith("data set")).split()
    assert heads == ["data", "set", "CandidateRidge", "Schirn", "Mean"]
    assert any(line.startswith("tiny r=1 ") for line in table)
    assert table[-1] == "12 done; results in out"
    results = lines(place / "out")
    assert {(result["dataset"], result["r"]) for result in results} == {("tiny", 1), ("tiny", None)}


def test_json(place, capsys):
    assert bench("--datasets", "tiny.npz:1", "--methods", "NLR", "--tuning", "none", "--json") == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["counts"] == {"done": 2}
    assert document["results"] == lines(place / "out")


def test_report_is_written_next_to_the_results(place, capsys):
    names = "Schirn,CandidateRidge,OracleRidge"
    args = ("--datasets", "tiny.npz:1", "--methods", names, "--tuning", "none")
    assert bench(*args, "--report") == 0
    assert "report.html" in capsys.readouterr().err
    page = (place / "out" / "report.html").read_text("utf-8")
    assert "CandidateRidge" in page
    assert (place / "out" / "tables" / "results_average_precision.tex").exists()


def test_the_reference_can_be_any_method(place):
    names = "mymethods:Mean,CandidateRidge"
    args = ("--datasets", "tiny.npz:1", "--methods", names, "--tuning", "none", "--quiet")
    assert bench(*args, "--reference", "mean", "--test", "corrected") == 0
    table = place / "out" / "tables" / "results_average_precision.md"
    head = table.read_text("utf-8").splitlines()
    assert "Mean is significantly better" in head[0]
    assert "corrected resampled t-test" in head[0]
    assert head[2] == "| data | r | Mean | CandidateRidge |"
    assert bench(*args, "--reference", "none") == 0
    assert "significant" not in table.read_text("utf-8")


def test_an_unknown_reference_is_refused_before_the_work(place, capsys):
    args = ("--datasets", "tiny.npz:1", "--methods", "Schirn,NLR", "--reference", "Shirn")
    assert bench(*args) == 2
    assert "did you mean 'Schirn'?" in capsys.readouterr().err
    assert not (place / "out").exists()


def test_failed_runs_are_counted_and_give_exit_code_1(place, capsys):
    names = "mymethods:Failing,CandidateRidge"
    assert bench("--datasets", "tiny.npz:1", "--methods", names, "--quiet") == 1
    error = capsys.readouterr().err.splitlines()
    assert error == [
        "schirn: 2 failed: RuntimeError: no luck today",
        "schirn: 2 of 4 runs failed or timed out",
    ]


def test_skipped_data_sets_are_listed_with_their_reason(place, capsys):
    names = ("--methods", "CandidateRidge")
    assert bench("--datasets", "absent.npz:1,tiny.npz:1", *names) == 0
    captured = capsys.readouterr()
    assert captured.err == "schirn: 2 skipped: absent.npz: there is no such file.\n"
    assert "2 done, 2 skipped" in captured.out
    assert bench("--datasets", "absent.npz:1", *names) == 1
    assert "nothing was run" in capsys.readouterr().err


def test_the_five_most_frequent_reasons_are_listed(place, capsys):
    absent = ",".join(f"absent{k}.npz:1" for k in range(6))
    names = "mymethods:Failing,CandidateRidge"
    assert bench("--datasets", f"{absent},tiny.npz:1", "--methods", names, "--quiet") == 1
    error = capsys.readouterr().err.splitlines()
    assert error[0].endswith("4 skipped: absent0.npz: there is no such file.")
    assert len(error) == 7
    assert error[-2:] == [
        "schirn: and 2 more reasons; see the results",
        "schirn: 2 of 28 runs failed or timed out",
    ]


def test_oracle_is_written_in_the_output(place, capsys):
    args = ("--datasets", "tiny.npz:1", "--methods", "CandidateRidge", "--tuning", "oracle")
    assert bench(*args) == 0
    captured = capsys.readouterr()
    assert "ORACLE: tuned on the true labels of the test rows" in captured.out
    assert "CandidateRidge (oracle)" in captured.out
    assert all(result["oracle"] for result in lines(place / "out"))


def test_variants_parameters_and_grids(place):
    args = ("--methods", "flat=Schirn,CandidateRidge", "--param", "flat.beta=0", "--r", "1,2")
    grid = ("--grid", "CandidateRidge.lam=[1, 10]", "--grid", "flat.lam=[1]", "--quiet")
    assert bench("--datasets", "tiny.npz", *args, *grid) == 0
    results = lines(place / "out")
    assert [result["r"] for result in results] == [1] * 4 + [2] * 4
    assert results[0]["params"] == {"beta": 0, "lam": 1}
    assert results[2]["grid"] == {"lam": [1, 10]}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--methods", "Schirm"], "there is no method 'Schirm'; did you mean 'Schirn'?"),
        (["--param", "lam=1"], "--param must look like METHOD.NAME=VALUE, not 'lam=1'"),
        (["--grid", "Schirn.lam=1"], "needs a list of values such as [0.1, 1], not 1"),
        (["--seeds", "0,x"], "--seeds: must be a whole number of at least 0, not 'x'"),
        (["--r", "two"], "a noise level is a number or 'own', not 'two'"),
        (["--time-limit", "-1"], "must be a duration such as 90s, 9m or 1.5h, not '-1'"),
        (["--time-limit", "5"], "a time limit needs a separate process"),
        (["--tuning", "truth"], "invalid choice: 'truth'"),
    ],
)
def test_bad_requests(place, capsys, args, message):
    assert bench("--datasets", "tiny.npz:1" if "--r" not in args else "tiny.npz", *args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_the_output_must_be_a_folder(place, capsys):
    args = ("--datasets", "tiny.npz:1", "--methods", "NLR", "--output", "tiny.npz")
    assert main(["bench", "--jobs", "0", *args]) == 2
    assert "tiny.npz" in capsys.readouterr().err
    # Given twice, an option with one value is an error.
    assert bench(*args) == 2
    assert "--output" in capsys.readouterr().err
