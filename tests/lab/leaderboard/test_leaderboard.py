"""Pages of the leaderboard: numbers, missing cells and hostile names."""

import json
import math
from pathlib import Path

import pytest
from lab.bench.test_report import Page

from schirn.app.cli import main
from schirn.exceptions import InputError
from schirn.lab.bench.results import FIELDS, content_key
from schirn.lab.bench.stats import gap_closed
from schirn.lab.leaderboard import build_leaderboard
from schirn.lab.leaderboard._pages import make_board, read_results

COMMITTED = Path(__file__).parents[3] / "benchmarks" / "leaderboard"
VERSIONS = dict.fromkeys(("schirn", "python", "numpy", "scipy", "scikit-learn"), "1")
HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"


def make(dataset, method, fold, value=None, **fields):
    """A result with two folds; without a value it failed."""
    result = {
        **dict.fromkeys(FIELDS),
        "format": 1,
        "dataset": dataset,
        "r": 1,
        "noise": "exact",
        "noise_seed": 0,
        "method": method,
        "sees_truth": method == "OracleRidge",
        "tuning": "candidates",
        "oracle": False,
        "features": "raw",
        "split": "kfold",
        "seed": 0,
        "folds": 2,
        "fold": fold,
        "status": "failed" if value is None else "done",
        "reason": "no luck" if value is None else None,
        "metrics": {} if value is None else {"average_precision": value, "noise_auc": 0.7},
        "params": {},
        "versions": VERSIONS,
        "finished": 1.0,
        **fields,
    }
    if value is not None:
        result |= {"tune_seconds": 1.0, "fit_seconds": 0.5, "predict_seconds": 0.25}
    return {**result, "key": content_key({k: str(v) for k, v in result.items() if k != "metrics"})}


def study():
    """Three settings; Schirn failed in one of them, and NLR was not run there."""
    values = {
        ("a", "CandidateRidge"): 0.5,
        ("a", "OracleRidge"): 0.7,
        ("a", "Sieve"): 0.6,
        ("a", "Schirn"): 0.65,
        ("a", "PAKS"): 0.4,
        ("b", "CandidateRidge"): 0.6,
        ("b", "OracleRidge"): 0.8,
        ("b", "Sieve"): 0.75,
        ("b", "Schirn"): None,
        ("c", "CandidateRidge"): 0.900,
        ("c", "OracleRidge"): 0.905,
        ("c", "Sieve"): 0.901,
        ("c", "Schirn"): 0.902,
    }
    results = [
        make(dataset, method, fold, None if value is None else value + 0.01 * (2 * fold - 1))
        for (dataset, method), value in values.items()
        for fold in (0, 1)
    ]
    oracle = {"tuning": "oracle", "oracle": True, "grid": {"lam": [1]}}
    return results + [make("a", "Sieve", fold, 0.68, **oracle) for fold in (0, 1)]


def write(folder, results, name="results.jsonl"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("".join(json.dumps(result) + "\n" for result in results))
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("board")
    page = build_leaderboard([write(folder / "in", study())], folder / "site")
    return Page(page.read_text("utf-8"))


def board_of(results, folder):
    return make_board(read_results([write(folder, results)]))


def test_gaps_are_those_of_the_statistics_where_the_references_differ(tmp_path):
    results = [result for result in study() if result["tuning"] == "candidates"]
    board = board_of(results, tmp_path)
    expected = gap_closed(results)
    for (place, method), values in board.values.items():
        if place.dataset == "c":
            assert "gap" not in values
        elif method in expected and "average_precision" in values:
            (share,) = [v for s, v in expected[method].items() if s.dataset == place.dataset]
            assert values["gap"] == pytest.approx(share)


def test_settings_in_which_a_method_exceeds_the_oracle_have_no_gap(tmp_path):
    results = [r for r in study() if r["tuning"] == "candidates"]
    for r in results:
        if (r["dataset"], r["method"]) == ("a", "PAKS"):
            r["metrics"]["average_precision"] = 0.8
    board = board_of(results, tmp_path)
    assert not any("gap" in line for (p, _), line in board.values.items() if p.dataset == "a")
    assert any("gap" in line for (p, _), line in board.values.items() if p.dataset == "b")
    page = Page(build_leaderboard([tmp_path], tmp_path / "site").read_text("utf-8"))
    assert (
        "Gap closed: 1 of 3 settings are left out, in which a method is over a point better than "
        "OracleRidge, which has no intercept on raw features."
    ) in page.text


def test_a_setting_with_a_missing_fold_has_no_mean(tmp_path):
    results = [r for r in study() if not (r["method"] == "Sieve" and r["fold"] == 1)]
    board = board_of(results, tmp_path)
    by_name = {(p.dataset, m): values for (p, m), values in board.values.items()}
    assert by_name["b", "Sieve"] == {}
    assert by_name["b", "Schirn"] == {}, "it failed"
    assert by_name["b", "PAKS"] == {}, "it was not run"


def test_the_page_is_complete_and_loads_nothing(page):
    assert set(page.links) <= {"data:,"}
    text = page.text
    assert "Leaderboard of partial multi-label methods" in text
    assert "‡ reconstructed" in text
    assert "Left out, because no result has it: noise AUPRC, memory." in text
    assert "PAKS\\u2021" in text


def test_results_tuned_on_true_labels_are_left_out(tmp_path):
    board = board_of(study(), tmp_path)
    assert all(board.values[p, "Sieve"]["average_precision"] != 0.68 for p in board.places)
    assert {result["tuning"] for result in board.results} == {"candidates"}
    with pytest.raises(InputError, match="no results tuned on candidates"):
        board_of([result for result in study() if result["oracle"]], tmp_path)


def test_hostile_names_stay_text(tmp_path):
    names = [HOSTILE, "../../up", "-o", "x" * 300, "Sieve", "sieve", "\u2028$(reboot)`;"]
    results = [make(name, name, fold, 0.5) for name in names for fold in (0, 1)]
    text = build_leaderboard([write(tmp_path / "in", results)], tmp_path / "site").read_text(
        "utf-8"
    )
    assert "<img" not in text
    assert text.count("</script>") == 2


def test_results_that_do_not_belong_together_are_refused(tmp_path):
    sums = [{"folds_sha256": digit * 64} for digit in "12"]
    results = [make("a", m, f, 0.5, **s) for m, s in zip("xy", sums, strict=True) for f in (0, 1)]
    with pytest.raises(InputError, match=r"another folds_sha256 than .* for the same setting"):
        read_results([write(tmp_path, results)])
    bad = [make("a", "x", f, 7.0) for f in (0, 1)]
    with pytest.raises(InputError, match=r"must be from 0 to 1.*schirn leaderboard check"):
        read_results([write(tmp_path, bad)])


def test_equal_results_give_equal_pages(tmp_path):
    path = write(tmp_path / "in", study())
    one, two = (build_leaderboard([path], tmp_path / name) for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_undefined_numbers_are_left_out(tmp_path):
    results = [make("a", "Sieve", fold, 0.5) for fold in (0, 1)]
    results[0]["metrics"]["noise_auc"] = None
    board = board_of(results, tmp_path)
    (values,) = board.values.values()
    assert "noise_auc" not in values
    assert values["seconds"] == 1.75
    assert math.isclose(values["average_precision"], 0.5)


def test_the_program_builds_the_pages(tmp_path, capsys):
    path = write(tmp_path / "in", study())
    assert main(["leaderboard", "build", str(path), "-o", str(tmp_path / "site")]) == 0
    assert f"open {tmp_path / 'site' / 'index.html'}" in capsys.readouterr().out
    assert main(["leaderboard", "build", str(tmp_path), "-o", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["page"] == str(tmp_path / "index.html")
    assert main(["leaderboard", "build", str(tmp_path / "no"), "-o", str(tmp_path)]) == 2
