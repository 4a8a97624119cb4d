"""What a suite says about methods, and that it rests on whole seeds."""

import copy

import numpy as np
import pytest
from reference.bench_results import make_result

from schirn.exceptions import InputError
from schirn.lab.bench.stats import bayesian_signed_rank, corrected_t, friedman
from schirn.lab.bench.suite import read_suite
from schirn.lab.leaderboard import Standing
from schirn.lab.leaderboard import _standing as standing
from schirn.lab.leaderboard._standing_tables import RankTable, better_track

METHODS = ("CandidateRidge", "OracleRidge", "Sieve", "NLR")
# Points above the candidate ridge.
AHEAD = {"CandidateRidge": 0.0, "OracleRidge": 0.2, "Sieve": 0.05, "NLR": -0.03}


@pytest.fixture
def suite(monkeypatch):
    """Eight sets of three seeds, two of them used in the design, with four methods."""
    monkeypatch.setattr(standing, "methods", lambda: dict.fromkeys(METHODS))
    suite = copy.deepcopy(read_suite("pml-2"))
    entry = {"part": "large", "r": 2}
    suite["datasets"] = {f"s{k}": entry | ({"design": True} if k > 5 else {}) for k in range(8)}
    suite["noise"] = {"exact": "exact", "label": "label"}
    return suite


def result(dataset, method, seed, noise, features, value):
    made = make_result(dataset, 2, method, 0, seed=seed, noise=noise, features=features)
    losses = ("ranking_loss", "coverage", "hamming_loss", "one_error")
    # Good in one metric, bad in the others.
    made["metrics"] = {"average_precision": value, **dict.fromkeys(losses, value)}
    costs = {"tune_seconds": 1.0, "fit_seconds": 0.5, "predict_seconds": 0.25}
    # The ridges choose their weight in `fit`.
    grid = None if "Ridge" in method else {"lam": [1.0, 10.0]}
    return {**made, "status": "done", "tuning": "candidates", "folds": 1, "grid": grid, **costs}


@pytest.fixture
def results(suite):
    rng = np.random.default_rng(0)
    return [
        result(name, method, seed, noise, track, 0.5 + AHEAD[method] + 0.002 * rng.normal())
        for name in suite["datasets"]
        for noise in ("exact", "label")
        for track in ("raw", "kernel")
        for method in METHODS
        for seed in range(3)
    ]


def late(results, *, dataset, method):
    """The results, with those of a method on a data set stopped by the time limit."""
    return [
        {**r, "status": "timeout", "reason": "stopped", "metrics": {}}
        if (r["dataset"], r["method"]) == (dataset, method)
        else r
        for r in results
    ]


def test_progress_counts_runs_and_sets(results, suite):
    progress = Standing(results, suite).progress
    assert progress.is_complete
    assert (progress.n_runs, progress.n_planned) == (384, 384)
    partial = [
        r for r in results if (r["dataset"], r["seed"]) != ("s1", 2) and r["dataset"] != "s3"
    ]
    progress = Standing(partial, suite).progress
    assert not progress.is_complete
    assert progress.n_runs == 384 - 16 - 48
    assert progress.n_sets == {"complete": 6, "partial": 1, "none": 1}
    assert progress.seeds == ()
    assert Standing(results, suite).progress.seeds == (0, 1, 2)


def without(results, **fields):
    """The results without the first one that has these values."""
    first = next(r for r in results if all(r[key] == value for key, value in fields.items()))
    return [r for r in results if r is not first]


@pytest.mark.parametrize("name", ["headline", "state", "summary", "ranks", "sets"])
def test_nothing_is_said_about_methods_without_a_whole_seed(name, results, suite):
    for seed in range(3):
        results = without(results, seed=seed, dataset="s7")
    text = getattr(Standing(results, suite), name)()
    assert not any(method in text for method in METHODS)


def test_tables_rest_on_whole_seeds(results, suite):
    partial = without(results, seed=1, dataset="s7")
    standing = Standing(partial, suite)
    assert standing.progress.seeds == (0, 2)
    whole = [r for r in results if r["seed"] != 1]
    # What seed 1 says on the data sets that have it changes nothing.
    assert standing.ranks() == Standing(whole, suite).ranks()
    assert standing.sets() == Standing(whole, suite).sets()
    assert standing.headline().startswith("With 2 of 3 seeds (256 of 384 runs), on 6 data sets")
    text = standing.state()
    assert "383 of 384 runs" in text
    assert "rest on 2 of 3 seeds (256 of 384 runs)" in text
    assert "leaderboard/index.html" not in text
    assert "leaderboard/index.html" in Standing(results, suite).state()
    assert "rest on" not in Standing(results, suite).state()


def test_one_seed_tests_no_difference_within_a_setting(results, suite):
    standing = Standing([r for r in results if r["seed"] == 0], suite)
    assert "no difference within a setting can be significant" in standing.state()
    row = "| raw | 1.0 | {} | 0.00 / 0.00 / 1.00 | p = 0.094, not significant | none | - |"
    assert row.format("1 of 2 others, `CandidateRidge` among them") in standing.summary()
    assert "uncorrected" not in standing.summary()
    assert " | 0.00 / 0.00 / 1.00 | - | 0 | " in standing.ranks()
    assert "significant" not in standing.sets()
    assert "| CandidateRidge ¶ |" in standing.ranks()
    assert "| Sieve ¶ |" not in standing.ranks()


def test_every_set_has_a_table(results, suite):
    text = Standing(results, suite).sets()
    assert "### s0\n" in text
    assert "### s6 (used in the design of Sieve)" in text


def test_the_headline_rests_on_sets_that_were_not_used_in_the_design(results, suite):
    standing = Standing(results, suite)
    raw = [r for r in results if r["features"] == "raw" and r["dataset"] < "s6"]
    test = friedman(raw, "average_precision")
    assert test.ranks["Sieve"] == 1.0
    assert standing.headline() == (
        "On 6 data sets not used in its design, Sieve has a mean rank of 1.0 among 3 methods "
        f"(critical difference {test.critical_difference:.1f}), not significantly ahead of 1 of 2 "
        "others, `CandidateRidge` among them. Features are the better of two by test figures. "
        "Methods that tune in `fit` (CandidateRidge) use all training rows, the others search 6 "
        "points on 200 rows."
    )
    text = standing.summary()
    assert (
        f"Sieve among 3 methods (critical difference {test.critical_difference:.1f}) and against "
        "`CandidateRidge`, on 6 data sets not used in its design:"
    ) in text
    row = (
        "| 1.0 | 1 of 2 others, `CandidateRidge` among them | 0.00 / 0.00 / 1.00 | p = 0.094, not "
        "significant | none | 12 / 0 / 0 |"
    )
    assert all(f"| {track} {row}" in text for track in ("raw", "kernel", "better†"))
    assert "† features chosen by the test figures" in text
    # Whatever the sets of the design say changes nothing.
    for r in results:
        if r["dataset"] >= "s6":
            r["metrics"]["average_precision"] = 0.1
    assert Standing(results, suite).headline() == standing.headline()
    assert Standing(results, suite).summary() == text


def test_holm_corrects_wilcoxons_tests_and_false_positives_are_counted(results, suite):
    standing = Standing(results, suite)
    raw = [r for r in results if r["features"] == "raw" and r["dataset"] < "s6"]
    pvalue = RankTable(raw).pvalue("Sieve")
    assert f"p = {3 * pvalue:.2g}, not significant" in standing.summary()
    assert "Holm's correction for the 3 rows" in standing.summary()
    sentence = (
        "Won and lost: uncorrected tests at 5%; among {} per row, about {} false positives are "
        "expected."
    )
    assert sentence.format(12, 0.6) in standing.summary()
    assert sentence.format(12, 0.6) in standing.ranks()
    assert sentence.format(16, 0.8) in standing.ranks()


def test_sieve_has_ranks_on_the_sets_that_no_earlier_version_had_seen(results, suite, monkeypatch):
    assert "no earlier version" not in Standing(results, suite).summary()
    monkeypatch.setattr(standing, "UNTOUCHED", ("s1", "s2"))
    for r in results:
        if r["dataset"] == "s2" and (r["method"], r["features"]) == ("Sieve", "raw"):
            r["metrics"]["average_precision"] = 0.1
    assert (
        "On `s1`, `s2`, where no earlier version of Sieve had been evaluated, its mean rank is "
        "2.0 (raw), 1.0 (kernel), 1.0 (better†)."
    ) in Standing(results, suite).summary()


def test_the_untouched_sets_are_in_the_suite_and_not_in_the_design():
    datasets = read_suite("pml-2")["datasets"]
    assert not any(datasets[name].get("design") for name in standing.UNTOUCHED)


def test_probabilities_and_counts_are_those_of_the_tests(results, suite):
    raw = [r for r in results if r["features"] == "raw"]
    table = RankTable(raw)

    def values(name, **fields):
        chosen = [r for r in raw if r["method"] == name]
        chosen = [r for r in chosen if all(r[key] == value for key, value in fields.items())]
        return [r["metrics"]["average_precision"] for r in chosen]

    ahead = [
        np.mean(values("NLR", dataset=name)) - np.mean(values("CandidateRidge", dataset=name))
        for name in suite["datasets"]
    ]
    assert table.probabilities("NLR") == pytest.approx(bayesian_signed_rank(ahead))
    signs = []
    for name in suite["datasets"]:
        for noise in ("exact", "label"):
            pair = [
                values(method, dataset=name, noise=noise) for method in ("NLR", "CandidateRidge")
            ]
            # A fifth of the rows tests.
            test = corrected_t(*pair, ratio=1 / 4)
            signs.append(np.sign(test.statistic) * (test.pvalue < 0.05))
    assert table.counts("NLR") == (signs.count(1), signs.count(0), signs.count(-1))


def test_timeouts_rank_last_and_are_shown(results, suite):
    results = late(results, dataset="s0", method="Sieve")
    raw = [r for r in results if r["features"] == "raw"]
    table = RankTable(raw)
    assert table.friedman.ranks["Sieve"] == pytest.approx((3 + 7 * 1) / 8)
    (line, _) = [line for line in table.markdown().splitlines() if line.startswith("| Sieve")]
    assert " | 6 | 1.8 | " in line
    (line, *_) = [
        line for line in Standing(results, suite).sets().splitlines() if line.startswith("| Sieve")
    ]
    assert line == "| Sieve | timeout | timeout | timeout | timeout |"


def test_ranks_by_each_of_the_five_metrics(results, suite):
    raw = [r for r in late(results, dataset="s0", method="Sieve") if r["features"] == "raw"]
    lines = RankTable(raw).markdown().split("| mean rank by |")[1].splitlines()
    assert lines[0] == " average precision | ranking loss | coverage | Hamming loss | one-error |"
    assert lines[2:] == [
        "| Sieve | 1.2 | 3.0 | 3.0 | 3.0 | 3.0 |",
        "| CandidateRidge | 1.9 | 2.0 | 2.0 | 2.0 | 2.0 |",
        "| NLR | 2.9 | 1.0 | 1.0 | 1.0 | 1.0 |",
    ]


def test_differences_that_are_not_significant_have_no_mark(results, suite):
    rng = np.random.default_rng(1)
    for r in results:
        if r["method"] == "NLR":
            r["metrics"]["average_precision"] = 0.5 + 0.05 * rng.normal()
    table = Standing(results, suite).sets().split("### s1")[0]
    lines = {line.split(" | ")[0]: line for line in table.splitlines() if line.startswith("| ")}
    assert lines["| Sieve"].count(" +") == 4
    assert " +" not in lines["| NLR"]
    assert " −" not in lines["| NLR"]
    assert "other differences are not significant" in table


def test_blocks_of_a_page_are_written(results, suite):
    page = "# A\n\n<!-- leaderboard:state -->\nold\n<!-- /leaderboard -->\n\nend\n"
    text = Standing(results, suite).fill(page, "page.md")
    assert "old" not in text
    assert "384 of 384 runs" in text
    assert text.startswith("# A\n\n<!-- leaderboard:state -->\n")
    assert text.endswith("<!-- /leaderboard -->\n\nend\n")
    assert Standing(results, suite).fill(text, "page.md") == text
    indented = "- item\n  <!-- leaderboard:state -->\n  <!-- /leaderboard -->\n- next\n"
    lines = Standing(results, suite).fill(indented, "page.md").splitlines()
    assert all(line.startswith("  ") or not line for line in lines[1:-1])
    assert len(lines) > 4
    with pytest.raises(InputError, match=r"page\.md: the page has no block"):
        Standing(results, suite).fill("# A\n", "page.md")
    with pytest.raises(InputError, match="no block 'other'; one of headline, state"):
        Standing(results, suite).fill(page.replace("state", "other"), "page.md")


def test_methods_compete_with_the_features_that_suit_them(results, suite):
    """Kernel features break NLR, raw ones Sieve; on one data set it is the other way round."""

    def broken(result):
        is_swapped = result["dataset"] == "s0"
        bad = {"NLR": "kernel", "Sieve": "raw"}.get(result["method"])
        return (result["features"] == bad) != is_swapped if bad else False

    for r in results:
        if broken(r):
            r["metrics"]["average_precision"] = 0.1
    better = better_track(results)
    assert len(better) == len(results) / 2
    assert {r["features"] for r in better} == {"better"}
    assert min(r["metrics"]["average_precision"] for r in better) > 0.4
    standing = Standing(results, suite)
    assert "| better† | 1.0 |" in standing.summary()
    assert "### Better† features, data sets not used in the design of Sieve" in standing.ranks()
    assert "mean rank of 1.0 among 3" in standing.headline()


def test_the_largest_loss_and_the_test_against_the_ridge_are_stated(results, suite):
    for r in results:
        if r["dataset"] in ("s2", "s3", "s4") and r["method"] == "Sieve":
            r["metrics"]["average_precision"] = 0.4 if r["dataset"] == "s3" else 0.45
    ridge = [
        r["metrics"]["average_precision"]
        for r in results
        if (r["dataset"], r["method"], r["features"]) == ("s3", "CandidateRidge", "raw")
    ]
    (line,) = [x for x in Standing(results, suite).summary().splitlines() if x.startswith("| raw")]
    assert f"| {100 * (np.mean(ridge) - 0.4):.1f} points on `s3` |" in line
    assert ", not significant |" in line


def test_runs_without_a_result_count_as_the_worst_everywhere(results, suite):
    raw = [r for r in late(results, dataset="s0", method="Sieve") if r["features"] == "raw"]
    table = RankTable(raw)
    assert table.advantages("Sieve")["s0"] < -0.4
    assert table.counts("Sieve") == (14, 0, 2)


def test_timeouts_are_counted_with_those_that_were_not_repeated(results, suite):
    text = Standing(late(results, dataset="s0", method="Sieve"), suite).state()
    assert "12 timed out, or not repeated after a timeout with another seed" in text
