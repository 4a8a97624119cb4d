"""The comparison of rankings: its measures, its results file and its summary."""

import json
from pathlib import Path

import numpy as np
import pytest

from schirn.exceptions import DataError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def ranking(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return pytest.importorskip("benchmarks.ranking", reason="benchmarks/ is not here")


@pytest.fixture
def table(ranking):
    rng = np.random.default_rng(0)
    truth, listed = (rng.random((40, 5)) < 0.5).astype(np.uint8), None
    listed = np.where(rng.random(truth.shape) < 0.2, 1 - truth, truth)
    return ranking.Table(rng.random((40, 3)), listed, truth)


def pairs_in_order(scores, high, low):
    """Share of the pairs of cells in which the first has the higher score; ties count half."""
    differences = [
        scores[a] - scores[b] for a in zip(*high, strict=True) for b in zip(*low, strict=True)
    ]
    return np.mean([(d > 0) + (d == 0) / 2 for d in differences])


def test_measures(ranking, table):
    scores = np.random.default_rng(1).integers(0, 10, table.truth.shape) / 10
    result = ranking.measure(scores, table)
    listed, true = table.listed == 1, table.truth == 1
    right, wrong = np.nonzero(listed & true), np.nonzero(listed & ~true)
    missing, absent = np.nonzero(~listed & true), np.nonzero(~listed & ~true)
    assert result["auc"] == pytest.approx(pairs_in_order(scores, right, wrong))
    assert result["auc_missing"] == pytest.approx(pairs_in_order(scores, missing, absent))
    assert result["wrong"] == pytest.approx(len(wrong[0]) / listed.sum())
    assert result["missing"] == len(missing[0])
    perfect = ranking.measure(table.truth.astype(float), table)
    assert perfect["auc"] == perfect["auc_missing"] == 1
    assert perfect["precision"][:2] == [1, 1]


def test_measures_without_noise(ranking, table):
    clean = ranking.Table(table.X, table.truth, table.truth)
    result = ranking.measure(np.zeros(table.truth.shape), clean)
    assert result["auc"] is None
    assert result["auc_missing"] is None
    assert result["precision"] == [0, 0, 0]


@pytest.mark.parametrize("ranker", ["schirn", "sieve", "lr", "ridge", "sgd", "frequency", "0.2"])
def test_rankers_score_all_cells(ranking, ranker):
    table = ranking.titles(300, n_tags=12, unstated=0.0)
    try:
        scores = ranking.RANKERS[ranker](table, 0)
    except DataError as error:
        pytest.skip(str(error))
    assert scores.shape == table.truth.shape
    assert np.isfinite(scores).all()
    result = ranking.measure(scores, table)
    assert result["auc"] > (0.4 if ranker == "frequency" else 0.95)


def test_listed_tags_are_scored_as_the_library_does(ranking):
    from schirn import find_noisy_labels

    table = ranking.titles(200, n_tags=12)
    expected = find_noisy_labels(table.X, table.listed)
    scores = ranking.RANKERS["schirn"](table, 0)
    np.testing.assert_allclose(scores[expected.row, expected.column], expected.confidence)


def test_share_of_suspects_in_common(ranking, monkeypatch):
    monkeypatch.setattr(ranking, "N_SUSPECTS", 2)
    listed = np.array([[1, 1, 0], [0, 1, 1]])
    first = np.array([[0.1, 0.2, 0], [0, 0.8, 0.9]])
    second = np.array([[0.1, 0.9, 0], [0, 0.2, 0.8]])
    assert ranking.common_share(first, first, listed) == 1
    assert ranking.common_share(first, second, listed) == 0.5


def test_results_are_kept_and_resumed(ranking, tmp_path, capsys):
    out = tmp_path / "results.jsonl"
    options = ["--quick", "--out", str(out), "--rankers", "frequency", "--tables"]
    ranking.main([*options, "titles"])
    first = out.read_text()
    printed = capsys.readouterr()
    assert "| titles | frequency | 600 | 30 |" in printed.out
    assert "1/1 titles frequency" in printed.err
    # A run that was killed while it wrote the second result.
    out.write_text(first + '\n{"is_stability": fal')
    ranking.main([*options, "titles,titles_typos"])
    again = capsys.readouterr()
    assert "1/1 titles_typos frequency" in again.err
    assert printed.out.splitlines()[2] in again.out
    ranking.main([*options, "titles,titles_typos"])
    assert not capsys.readouterr().err
    ranking.main([*options, "titles", "--redo", "frequency"])
    assert "1/1 titles frequency" in capsys.readouterr().err
    assert len(ranking.read_results(out)) == 2


def test_summary_names_the_best_other_ranker(ranking, tmp_path, capsys):
    out = tmp_path / "results.jsonl"
    scores = {"schirn": 0.9, "sieve": 0.99, "lr": 0.91, "ridge": 0.8}
    for name, auc in scores.items():
        result = {"is_stability": False, "is_quick": True, "table": "titles", "ranker": name}
        result |= {"rows": 9, "labels": 2, "wrong": 0.1, "precision": [1, 1, 0.5], "seconds": 1.0}
        with out.open("a") as stream:
            stream.write("\n" + json.dumps({**result, "auc": auc, "auc_missing": None}))
    ranking.main(
        ["--quick", "--tables", "titles", "--rankers", ",".join(scores), "--out", str(out)]
    )
    printed = capsys.readouterr().out
    assert "| titles | lr | 90.0 | 91.0 | -1.0 |" in printed
    assert "- FAILS: wrong tags: worst difference -1.0 points, on titles" in printed
    assert "missing tags:" not in printed


def test_tables_that_are_not_here_are_skipped(ranking, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    out = tmp_path / "results.jsonl"
    ranking.main(["--tables", "cmc", "--rankers", "frequency", "--out", str(out)])
    assert "Without cmc: cmc.npz is not in the folder that SCHIRN_DATA names." in (
        capsys.readouterr().out
    )
    assert not out.exists()
    with pytest.raises(SystemExit):
        ranking.main(["--tables", "cmd"])
    assert "'cmd' is not one of cmc," in capsys.readouterr().err


def test_stability(ranking, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(ranking.SIZES, True, (150, 180, 200))
    options = [
        "--stability",
        "--quick",
        "--tables",
        "titles_unstated",
        "--rankers",
        "schirn,frequency",
    ]
    ranking.main([*options, "--out", str(tmp_path / "results.jsonl")])
    lines = capsys.readouterr().out.splitlines()
    assert "180 and 200 rows" in lines[2]
    cells = lines[5].split(" | ")
    assert cells[1] == "frequency"
    # Frequencies do not depend on a seed.
    assert cells[4:6] == ["100.0", "100.0"]
    assert lines[-1].startswith(("- holds: schirn", "- FAILS: schirn"))


def test_swaps(ranking, capsys, monkeypatch):
    monkeypatch.setattr(ranking, "SWAPS", {"swaps": ranking.SWAPS["swaps"], "none": {}})
    monkeypatch.setattr(ranking, "SWAP_SEEDS", (3,))
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    ranking.main(["--swaps", "--quick"])
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[4:]]
    assert [line[0] for line in lines] == ["| swaps, seed 3", "| none, seed 3", ""]
    total, counted, uncounted = (float(lines[0][k]) for k in (1, 2, 5))
    assert 100 < total < 200
    assert counted > 90
    assert counted > uncounted
    assert lines[1][1] == "0"
    assert lines[1][7] == "0 |"
