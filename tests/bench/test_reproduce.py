import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from bench.bench_helpers import environment, lines, stable, wait_for
from scipy.io import savemat

from schirn.bench import read_rows
from schirn.cli import main
from schirn.datasets import Dataset, make_partial_multilabel
from schirn.exceptions import DataError, InputError
from schirn.rank.exact import exact_rank
from schirn.reproduction import ablations, studies
from schirn.reproduction.extent import (
    FULL,
    METHODS,
    QUICK,
    cell_seconds,
    choose_grid,
    choose_methods,
    expected_seconds,
    fit_seconds,
)
from schirn.reproduction.page import _versions
from schirn.reproduction.plan import plan_batches
from schirn.reproduction.run import make_plan, reproduce, run_fits
from schirn.reproduction.study import distances, printed

MEASURED = {"average_precision", "ranking_loss", "coverage", "hamming_loss", "one_error"}


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=60, n_features=5, n_labels=4, r=1, random_state=0)


@pytest.fixture
def place(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    np.savez(tmp_path / "tiny.npz", X=data.X, Y=data.y_true, C=data.candidates)
    return tmp_path


def test_label_ranks_of_a_set_whose_ranks_are_known():
    truth = np.array([[1, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=np.uint8)
    candidates = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=np.uint8)
    study = studies.label_ranks([Dataset("yeastmf", np.eye(3), truth, candidates)])
    row = study.rows[0]
    assert (row["rank_true"], row["rank_candidates"]) == (2, 3)
    assert (row["published_rank_true"], row["published_rank_candidates"]) == (36, 39)
    assert row["ratio_percent"] == pytest.approx(100 * 2 / 9)
    assert "0.22" in str(study.table)


def test_prediction_ranks(data):
    row = studies.prediction_ranks([(data, data.candidates)], lam=1.0).rows[0]
    assert row["rank_true"] == exact_rank(data.y_true)
    ranks = [value for name, value in row.items() if name.startswith("rank_")]
    assert len(ranks) == 8
    assert all(0 <= rank <= 4 for rank in ranks)


def test_theorem_is_tight_on_the_identity_and_empty_for_the_noise(data):
    rows = studies.theorem([("tiny", data.candidates, data.y_true)], draws=2).rows
    assert all(row["holds"] for row in rows)
    identity = [row for row in rows if row["matrix"] == "identity"]
    assert identity
    assert all(row["lowest"] == row["bound"] == row["highest"] for row in identity)
    noise = rows[-1]
    wrong = int(data.candidates.sum()) - int(data.y_true.sum())
    assert (noise["noise"], noise["removed"]) == ("all wrong labels", wrong)
    assert noise["bound"] < 0
    assert noise["lowest"] == exact_rank(data.y_true)


def test_a_smaller_column_costs_one_rank():
    labels = np.eye(5, dtype=np.uint8)
    rows = studies.theorem([("five", labels, None)], draws=1).rows
    assert [row["lowest"] for row in rows if row["noise"] == "smallest column"][-1] == 4


def test_convergence_has_a_row_per_round(data):
    study = studies.convergence([("tiny", data.X, data.candidates)], max_iter=7)
    assert [row["round"] for row in study.rows] == list(range(1, 8))
    assert study.rows[-1]["n_noise"] <= data.candidates.sum()
    rounds, *_, removed, half = (cell.text for cell in study.table.body[0][1:])
    assert (rounds, removed) == ("7", str(study.rows[-1]["n_noise"]))
    counts = [row["n_noise"] for row in study.rows]
    assert all(2 * count >= counts[-1] for count in counts[int(half) - 1 :])


def test_ablation_runs_every_variant_once(data, tmp_path):
    study = ablations.ablation([data], tmp_path, folds=2)
    assert len(study.rows) == 2 * len(ablations.VARIANTS)
    assert all(row["status"] == "done" for row in study.rows)
    params = {row["method"]: row["params"] for row in study.rows}
    assert params["low rank"]["rank_term"] == "low"
    assert params["no sparsity, printed rule"]["noise_rule"] == "printed"
    before = sorted(tmp_path.glob("*.jsonl")), len(read_rows(tmp_path, every=True))
    ablations.ablation([data], tmp_path, folds=2)
    assert (sorted(tmp_path.glob("*.jsonl")), len(read_rows(tmp_path, every=True))) == before


def test_cooccurrence_ties_labels(data, tmp_path):
    tied, level = ablations.tie(data)
    columns = np.asarray(tied.y_true).T
    assert len(np.unique(columns, axis=0)) == 3
    assert (tied.candidates.sum(axis=1) - tied.y_true.sum(axis=1) <= level).all()
    study = ablations.cooccurrence([data], tmp_path, folds=2)
    assert {row["method"] for row in study.rows} >= {"high rank", "low rank", "NLR"}
    assert any("after tying" in note for note in study.table.notes)


def test_sensitivity_varies_one_parameter_at_a_time(data, tmp_path):
    rows = ablations.sensitivity([data], tmp_path, every=3, folds=2).rows
    for row in rows:
        changed = [k for k, v in ablations.CENTRE.items() if row["params"][k] != v]
        assert len(changed) == (row["method"] != "centre")
    assert {row["params"]["lam"] for row in rows} == {0.01, 10.0, 10_000.0}


def test_authors_folds_compares_ridge_and_the_best_of_the_grid(data, tmp_path):
    rows = np.arange(60)
    folds = [(rows[rows % 2 == k], rows[rows % 2 != k]) for k in (0, 1)]
    split = Dataset("mine", data.X, data.y_true, data.candidates, folds=folds)
    study = ablations.authors_folds(split, tmp_path)
    assert {row["split"] for row in study.rows} == {"stored"}
    assert {row["method"] for row in study.rows if row["oracle"]} == {"Schirn", "no high rank"}
    first = study.rows[0]["metrics"]
    # Every row has a true label here, so the two rules agree.
    assert first["coverage_all_rows"] == pytest.approx(first["coverage"])
    assert study.table.body[1][1].text == "53.9 ± 4.9"


def test_coverage_with_empty_rows_counted():
    assert ablations._all_rows(0.3, 0.5, 10) == pytest.approx((0.5 * 4 - 1) / 10)


def test_distance_from_the_printed_number():
    rows = [
        {"dataset": "birds", "method": "Schirn", "metrics": {"average_precision": value}}
        for value in (0.5, 0.6)
    ]
    record = distances("ablation", rows, {"birds": ("birds", 3)})[0]
    assert record["distance"] == pytest.approx(55 - 61.8)
    assert printed("ablation", "birds", 4, "Schirn", "average_precision") is None


def test_grids_shrink_with_the_size():
    small, large = (500, 200, 10), (50_000, 5000, 500)
    assert len(choose_grid("Schirn", small, FULL)) == 3
    assert len(choose_grid("Schirn", small, QUICK)) == 2
    assert choose_grid("Schirn", large, FULL) is None
    assert "PAKS" not in choose_methods(METHODS, (2000, 300, 6), QUICK)
    assert choose_methods(METHODS, large, FULL) == list(METHODS)
    grid = {"lam": [1.0, 2.0]}
    assert cell_seconds("NLR", small, grid) > 3 * fit_seconds("NLR", small)
    medium = (3000, 800, 230)
    points = [
        np.prod([len(v) for v in choose_grid("Schirn", s, FULL).values()])
        for s in (small, (1100, 1000, 50), medium)
    ]
    assert points == [60, 16, 4]


def test_every_method_is_searched_on_every_set_of_the_paper_where_others_are():
    largest = (3035, 6139, 217)
    for name in ("Schirn", "NLR", "FPML", "PMLNI", "GLC", "CandidateRidge", "OracleRidge"):
        assert choose_grid(name, largest, FULL) is not None, name


def test_plan_skips_with_reasons(place):
    plan = make_plan(FULL)
    assert not plan.shapes
    assert plan.skipped["music_style"].startswith("put the authors' music_style.mat into")
    assert "SCHIRN_DATA" in plan.skipped["yeastmf"]
    with pytest.raises(DataError, match="none of the data sets is here"):
        reproduce(place / "out", plan)
    found = make_plan(QUICK, sets=["tiny.npz:1", "absent:2"], methods=["Schirn"])
    assert found.shapes == {"tiny:1": (60, 5, 4)}
    assert list(found.skipped) == ["absent:2"]
    assert "skipped absent:2" in found.to_text(2)


def test_music_runs_when_its_file_is_there(place, monkeypatch, data):
    truth, candidates = data.y_true.T.astype(float), data.candidates.T.astype(float)
    parts = {"data": data.X, "target": truth, "candidate_labels": candidates}
    savemat(place / "music_emotion.mat", parts)
    monkeypatch.setenv("SCHIRN_DATA", str(place))
    plan = make_plan(FULL, methods=["Schirn"])
    assert plan.shapes == {"music_emotion": (60, 5, 4)}
    assert "music_style" in plan.skipped


def test_unknown_study(place):
    plan = make_plan(QUICK, sets=["tiny.npz:1"])
    with pytest.raises(InputError, match="there is no study 'ranks'"):
        reproduce(place / "out", plan, chosen=["ranks"])


def test_command_from_end_to_end(place, capsys):
    command = ["reproduce", "--quick", "--datasets", "tiny.npz:1,tiny.npz:own,absent:2"]
    command += ["--methods", "Schirn,NLR,CandidateRidge,OracleRidge", "--folds", "2", "--jobs", "0"]
    command += ["--date", "2026-11-15", "--output", "out"]
    studied = ["--studies", "theorem,convergence,ablation,sensitivity"]
    assert main([*command, *studied, "--page", "docs/page.md"]) == 0
    captured = capsys.readouterr()
    assert "schirn: skipped absent:2" in captured.err
    assert "start with out" in captured.out
    text = (place / "out" / "reproduction.md").read_text("utf-8")
    assert "on 2026-11-15" in text
    assert "**This is the quick part**" in text
    assert "(figures/sensitivity.svg)" in text
    assert "The bound of the theorem holds" in text
    copy = (place / "docs" / "page.md").read_text("utf-8")
    assert copy.replace("](images/reproduction/", "](figures/") == text
    assert (place / "docs" / "images" / "reproduction" / "sensitivity.svg").stat().st_size > 1000
    names = {path.name for path in (place / "out").iterdir()}
    assert {"rows", "report.html", "theorem.jsonl", "ablation.jsonl", "sensitivity"} <= names
    for name in ("sensitivity", "convergence_objective", "gap_closed"):
        assert (place / "out" / "figures" / f"{name}.svg").stat().st_size > 1000
    made = {path.suffix for path in (place / "out" / "tables").glob("ablation.*")}
    assert made == {".txt", ".md", ".tex", ".csv"}
    rows = read_rows(place / "out" / "rows", every=True)
    assert len(rows) == 16
    assert set(rows[0]["metrics"]) >= MEASURED
    assert main([*command, "--studies", "none", "--quiet"]) == 0
    assert len(read_rows(place / "out" / "rows", every=True)) == 16


SLOW = """
import time

class Slow:
    seconds = 0.4

    def fit(self, X, y):
        time.sleep(self.seconds)
        self.mean_ = y.mean(axis=0)
        return self

    def decision_function(self, X):
        return self.mean_ + 0.01 * X[:, :1]


class Endless(Slow):
    seconds = 600
"""


def test_stopped_by_the_clock_and_run_again(place, capsys):
    """Rows of a run in pieces, copied to another folder in between, are those of one run."""
    (place / "slow.py").write_text(SLOW)
    command = ["reproduce", "--quick", "--datasets", "tiny.npz:1", "--folds", "5", "--quiet"]
    command += ["--methods", "slow:Slow,CandidateRidge", "--studies", "none", "--rows-only"]
    command += ["--jobs", "0"]
    assert main([*command, "--output", "one", "--stop-after", "1.2s"]) == 3
    assert "fits to go; run the same command again" in capsys.readouterr().err
    assert 0 < len(read_rows(place / "one" / "rows")) < 10
    shutil.copytree(place / "one", place / "two")
    assert main([*command, "--output", "two"]) == 0
    assert main([*command, "--output", "whole"]) == 0
    rows = read_rows(place / "two" / "rows", every=True)
    assert len(rows) == 10
    assert stable(rows) == stable(read_rows(place / "whole" / "rows"))
    assert not (place / "two" / "reproduction.md").exists()


def test_a_fit_that_is_stopped_by_the_clock_leaves_no_trace(place, capsys):
    (place / "slow.py").write_text(SLOW)
    command = ["reproduce", "--quick", "--datasets", "tiny.npz:1", "--folds", "2", "--quiet"]
    command += ["--methods", "slow:Endless", "--studies", "none", "--jobs", "1"]
    assert main([*command, "--stop-after", "2s"]) == 3
    assert "stopped with 2 fits to go" in capsys.readouterr().err
    assert not read_rows(place / "reproduction" / "rows", every=True)
    assert not (place / "reproduction" / "rows" / "claims").exists()


def test_killed_and_resumed_gives_the_same_rows(place):
    (place / "slow.py").write_text(SLOW)
    arguments = ["--quick", "--datasets", "tiny.npz:1", "--folds", "3", "--quiet", "--rows-only"]
    arguments += ["--methods", "slow:Slow,NLR,CandidateRidge", "--studies", "ablation"]
    command = [sys.executable, "-m", "schirn", "reproduce", *arguments, "--jobs", "1"]
    rows = place / "out" / "rows"
    process = subprocess.Popen([*command, "--output", "out"], cwd=place, env=environment())
    wait_for(lambda: len(lines(rows)) >= 1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(lines(rows)) < 9
    for output in ("out", "whole"):
        assert main(["reproduce", *arguments, "--jobs", "0", "--output", output]) == 0
    for name, count in (("rows", 9), ("ablation", 15)):
        found = lines(place / "out" / name)
        assert len(found) == count
        assert stable(found) == stable(lines(place / "whole" / name))


def test_no_fit_is_begun_that_would_end_too_late(place, capsys):
    command = ["reproduce", "--quick", "--datasets", "tiny.npz:1", "--folds", "2", "--quiet"]
    command += ["--methods", "PAKS", "--studies", "none", "--rows-only", "--jobs", "0"]
    assert main([*command, "--stop-after", "0.001"]) == 3
    assert "stopped with 2 fits to go" in capsys.readouterr().err
    assert not read_rows(place / "reproduction" / "rows")


@pytest.mark.parametrize("stop_after", [None, 3600.0])
def test_longest_fits_come_first_unless_the_time_is_limited(place, stop_after):
    plan = make_plan(QUICK, sets=["tiny.npz:1"], methods=["CandidateRidge", "PARD", "NLR"], folds=2)
    cells = {cell.key: cell for cell in plan_batches(plan, place, [])[0].cells}
    told = []
    run_fits(
        place / "out",
        plan,
        chosen=[],
        stop_after=stop_after,
        report=lambda report: told.append(report.row["key"]),
    )
    costs = [expected_seconds(cells[key]) for key in told]
    assert costs == sorted(costs, reverse=stop_after is None)
    assert costs[0] != costs[-1]


def test_keys_know_neither_versions_nor_folders(place, monkeypatch):
    """Rows of another machine count, whatever its libraries and wherever its data are."""
    other = place / "elsewhere"
    other.mkdir()
    shutil.copy(place / "tiny.npz", other / "tiny.npz")
    keys = []
    for folder, version in ((place, "2.0.0"), (other, "2.5.0")):
        monkeypatch.setattr(np, "__version__", version)
        monkeypatch.setenv("SCHIRN_DATA", str(folder))
        plan = make_plan(QUICK, sets=["tiny:1"], methods=["Schirn", "NLR"], folds=2)
        batches = plan_batches(plan, folder / "out", ["ablation", "cooccurrence"])
        keys.append([cell.key for batch in batches for cell in batch.cells])
        assert [path.name for path in plan.files] == ["tiny.npz"]
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == len(keys[0]) == 2 * (2 + 5 + 5)


def test_page_names_all_versions():
    rows = [
        {"versions": {"schirn": "1", "numpy": version}, "key": str(k)}
        for k, version in enumerate(["2.0", "2.5", "2.5"])
    ]
    said = _versions(rows)
    assert said[:2] == [
        "Versions of 2 fits: schirn 1, numpy 2.5.",
        "Versions of 1 fits: schirn 1, numpy 2.0.",
    ]
    assert "shared by machines" in said[2]
    assert _versions(rows[1:]) == ["Versions: schirn 1, numpy 2.5."]


def test_plan_as_json(place, capsys):
    assert main(["reproduce", "--quick", "--datasets", "tiny.npz:1", "--plan", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["settings"] == ["tiny:1"]
    assert plan["seconds_on_one_core"] > 0
    assert not (place / "reproduction").exists()


def test_a_failing_method_of_the_user_is_told(place, capsys):
    (place / "mine.py").write_text(
        "class Failing:\n"
        "    def fit(self, X, y):\n"
        "        raise RuntimeError('no luck')\n"
        "    def decision_function(self, X):\n"
        "        return X\n"
    )
    command = ["reproduce", "--quick", "--datasets", "tiny.npz:1", "--folds", "2", "--jobs", "0"]
    command += ["--methods", "mine:Failing,candidateridge,OracleRidge", "--studies", "none"]
    assert main([*command, "--quiet"]) == 1
    error = capsys.readouterr().err
    assert "2 of 6 cells failed or timed out; the first: RuntimeError: no luck" in error
    assert (place / "reproduction" / "reproduction.md").exists()
