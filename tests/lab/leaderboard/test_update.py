"""A suite goes on where its packed results end, on any machine, and writes its pages."""

import copy
import gzip
import json

import pytest

from schirn.app.cli import main
from schirn.lab.bench import suite as suites
from schirn.lab.bench.running import _methods as planning
from schirn.lab.bench.suite import checksums, read_suite
from schirn.lab.leaderboard import _standing as standing
from schirn.lab.leaderboard import _submission as submission
from schirn.lab.leaderboard import _update as updates
from schirn.lab.leaderboard import check_results, update_leaderboard
from schirn.lab.leaderboard._pages import read_results

METHODS = ("CandidateRidge", "OracleRidge", "Sieve")
PAGE = "# Title\n\n<!-- leaderboard:state -->\n<!-- /leaderboard -->\n"


@pytest.fixture
def short(monkeypatch):
    """Two generated sets, one noise, one track, two seeds and three methods: twelve runs."""
    short = copy.deepcopy(read_suite("pml-2"))
    short["seeds"]["small"], short["search_rows"] = 2, 60
    short["noise"] = {"exact": "exact"}
    short["tracks"] = {"raw": "raw"}
    entry = short["datasets"]["generated"]
    other = copy.deepcopy(entry)
    other["generated"]["random_state"] = 5
    short["datasets"] = {"generated": entry, "other": other}
    for name in short["datasets"]:
        short["datasets"][name]["checksums"] = checksums(short, name)
    for module in (suites, updates):
        monkeypatch.setattr(module, "read_suite", lambda name: short)
    chosen = dict.fromkeys(METHODS)
    monkeypatch.setattr(standing, "methods", lambda: chosen)
    monkeypatch.setattr(updates, "all_methods", lambda: chosen)
    return short


def update(tmp_path, machine, reports, **options):
    """Update the packed results with the folder of a machine."""
    return update_leaderboard(
        tmp_path / "packed", output=tmp_path / machine, jobs=0, report=reports.append, **options
    )


def test_another_machine_goes_on_with_the_packed_results_alone(short, tmp_path):
    reports = []
    first = update(tmp_path, "one", reports, methods=["CandidateRidge"])
    assert (first.progress.n_runs, first.progress.n_planned, first.n_new) == (4, 12, 4)
    assert [file.name for file in first.files] == ["pml-2.jsonl.gz", "pml-2.scores.npz"]
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    reports.clear()
    second = update(tmp_path, "two", reports, pages=[page])
    assert {result["method"] for result in reports} == {"OracleRidge", "Sieve"}
    assert second.progress.is_complete
    assert (second.n_new, second.n_stale) == (8, 0)
    assert "12 of 12 runs" in page.read_text()
    reports.clear()
    before = [file.read_bytes() for file in second.files]
    third = update(tmp_path, "three", reports, pages=[page])
    assert reports == []
    assert third.n_new == 0
    assert [file.read_bytes() for file in third.files] == before
    check = check_results(tmp_path / "packed", reruns=2)
    assert (check.verdict, check.verified) == ("verified", 12)


def test_results_of_other_code_are_dropped_and_computed_again(short, tmp_path, monkeypatch):
    reports = []
    update(tmp_path, "one", reports)
    monkeypatch.setattr(updates, "is_stale", lambda result: result["method"] == "Sieve")
    reports.clear()
    again = update(tmp_path, "two", reports)
    assert (again.n_stale, again.n_new) == (4, 4)
    assert {result["method"] for result in reports} == {"Sieve"}
    assert again.progress.is_complete
    reports.clear()
    stopped = update(tmp_path, "three", reports, stop_after=0)
    assert reports == []
    assert stopped.progress.n_runs == 8, "nothing stale is kept"
    monkeypatch.setattr(updates, "is_stale", lambda result: True)
    for _ in range(2):
        nothing = update(tmp_path, "three", reports, stop_after=0)
        assert (nothing.files, nothing.progress.n_runs) == ([], 0)
        assert list((tmp_path / "packed").iterdir()) == []


def test_results_that_are_not_of_the_suite_are_dropped(short, tmp_path):
    reports = []
    update(tmp_path, "one", reports)
    short["datasets"]["other"]["r"] = 1
    short["datasets"]["other"]["checksums"] = checksums(short, "other")
    reports.clear()
    update(tmp_path, "two", reports)
    assert len(reports) == 6
    packed = read_results([tmp_path / "packed"])
    assert {r["r"] for r in packed if r["dataset"] == "other"} == {1}


@pytest.fixture
def edited(monkeypatch):
    """Return a function after which the code of all methods has another checksum."""

    def edit():
        monkeypatch.setattr(planning, "code_checksum", lambda cls: cls.__name__.ljust(64, "0"))
        submission._usual_method.cache_clear()

    yield edit
    monkeypatch.undo()
    submission._usual_method.cache_clear()


def test_results_are_kept_if_an_edit_of_the_code_does_not_change_them(short, edited, tmp_path):
    reports = []
    before = update(tmp_path, "one", reports)
    metrics = [r["metrics"] for r in read_results([tmp_path / "packed"])]
    edited()
    reports.clear()
    after = update(tmp_path, "two", reports, renew=2)
    assert reports == []
    assert (after.n_renewed, after.n_stale, after.n_new) == (12, 0, 0)
    assert after.progress.is_complete
    renewed = read_results([tmp_path / "packed"])
    assert [r["metrics"] for r in renewed] == metrics
    assert {r["code_sha256"] for r in renewed} == {name.ljust(64, "0") for name in METHODS}
    check = check_results(tmp_path / "packed", reruns=1)
    assert (check.verdict, check.verified, check.recomputed) == ("verified", 12, 12)
    assert before.n_renewed == 0


def test_results_that_differ_are_computed_again(short, edited, tmp_path):
    reports = []
    update(tmp_path, "one", reports)
    path = tmp_path / "packed" / "pml-2.jsonl.gz"
    results = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    for result in results:
        if result["method"] == "Sieve":
            result["metrics"]["average_precision"] += 2e-5
    lines = "".join(json.dumps(result) + "\n" for result in results)
    path.write_bytes(gzip.compress(lines.encode()))
    edited()
    reports.clear()
    after = update(tmp_path, "two", reports, renew=1)
    assert {result["method"] for result in reports} == {"Sieve"}
    assert (after.n_renewed, after.n_stale, after.n_new) == (8, 4, 4)
    assert "average_precision is" in after.differing["Sieve"]


def test_on_the_command_line(short, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    command = ["leaderboard", "update", str(tmp_path / "packed"), "-o", str(tmp_path / "out")]
    command += ["--methods", "CandidateRidge", "--jobs", "0", "--pages", str(page)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "4 new results" in shown
    assert "4 of 12 runs of pml-2 have a result" in shown
    assert "the same command continues where it stopped" in shown
    assert "4 of 12 runs" in page.read_text()
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["runs"], document["planned"], document["new"]) == (4, 12, 0)
    page.write_text("# No block\n")
    assert main(command) == 2
    assert "the page has no block" in capsys.readouterr().err
