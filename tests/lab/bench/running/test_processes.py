"""Benchmarks that are killed, shared and limited in time, in separate processes."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from lab.bench.bench_helpers import (
    bench,
    lines,
    stable,
    start_bench,
    tiny,
    wait_for,
    write_workplace,
)

import schirn.lab.bench

METHODS = "CandidateRidge,mymethods:Slow,NLR"
COMMAND = ("--methods", METHODS, "--folds", "3", "--tuning", "none", "--output", "out")


@pytest.fixture
def place(tmp_path):
    return write_workplace(tmp_path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The results of an undisturbed benchmark."""
    folder = write_workplace(tmp_path_factory.mktemp("undisturbed"))
    ran = bench(folder, *COMMAND)
    assert ran.returncode == 0, ran.stderr
    return stable(schirn.lab.bench.read_rows(folder / "out"))


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.slow
def test_killed_and_resumed_is_as_if_never_killed(place, undisturbed, monkeypatch):
    out = place / "out"
    with monkeypatch.context() as patch:
        patch.setenv("SLOW_SECONDS", "2")
        for n_before in (1, 4):
            process = start_bench(place, *COMMAND)
            wait_for(lambda n=n_before: len(lines(out)) >= n)
            process.send_signal(signal.SIGKILL)
            process.wait()
    killed = lines(out)
    assert len(killed) < len(undisturbed)
    torn = max(out.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    torn.write_bytes(torn.read_bytes() + b'{"format": 1, "key"')
    ran = bench(place, *COMMAND)
    assert ran.returncode == 0, ran.stderr
    results = lines(out)
    assert Counter(result["key"] for result in results) == Counter(list(undisturbed))
    assert stable(results) == undisturbed
    assert not (out / "lock").exists()
    for result in results:
        assert (out / result["scores"]).is_file()


@pytest.mark.slow
def test_two_jobs_share_the_work(place, undisturbed):
    ran = bench(place, *COMMAND, "--jobs", "2")
    assert ran.returncode == 0, ran.stderr
    assert stable(lines(place / "out")) == undisturbed


def test_in_one_process_the_results_are_the_same(place, undisturbed):
    ran = bench(place, *COMMAND, "--jobs", "0")
    assert ran.returncode == 0, ran.stderr
    assert stable(lines(place / "out")) == undisturbed


@pytest.mark.slow
def test_time_limit_and_sudden_death(place):
    names = "mymethods:Endless,mymethods:Dying,CandidateRidge"
    limit = ("--folds", "2", "--time-limit", "12", "--tuning", "none", "--jobs", "2")
    ran = bench(place, "--methods", names, *limit, "--output", "out")
    assert ran.returncode == 1
    results = schirn.lab.bench.read_rows(place / "out")
    by_method = {result["method"]: result for result in results}
    assert by_method["Endless"]["status"] == "timeout"
    assert by_method["Endless"]["reason"] == "stopped after 12 s, the limit for a run"
    assert by_method["Dying"]["status"] == "failed"
    assert "by signal 9, perhaps for lack of memory" in by_method["Dying"]["reason"]
    assert Counter(result["status"] for result in results) == {"timeout": 2, "failed": 2, "done": 2}
    assert "4 of 6 runs failed or timed out" in ran.stderr
    assert not is_running(int((place / "endless.pid").read_text()))


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_no_child_outlives_a_killed_parent(place):
    process = start_bench(place, "--methods", "mymethods:Endless", "--output", "out")
    child = place / "endless.pid"
    wait_for(lambda: child.exists() and child.read_text())
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not is_running(int(child.read_text())))
    assert lines(place / "out") == []


def test_ctrl_c_gives_everything_back(place):
    process = start_bench(place, "--methods", "mymethods:Endless", "--output", "out")
    child = place / "endless.pid"
    wait_for(lambda: child.exists() and child.read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert not is_running(int(child.read_text()))
    assert not (place / "out" / "lock").exists()
    assert lines(place / "out") == []


def test_a_set_in_memory_reaches_the_processes(tmp_path):
    results = schirn.lab.bench.run(
        [tiny()], ["CandidateRidge"], output=tmp_path, folds=3, tuning="none", jobs=1, threads=1
    )
    assert [result["status"] for result in results] == ["done"] * 3
    assert all(10 < result["peak_memory_mb"] < 2000 for result in results)
    assert results[0]["threads"] == 1
