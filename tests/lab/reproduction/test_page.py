"""The pages of a reproduction, from results made by hand."""

import pytest
from reference.bench_results import lost, make_result, study

from schirn.lab.bench._rendering import Cell, Table
from schirn.lab.reproduction._experiments import FULL, QUICK
from schirn.lab.reproduction._page import pages
from schirn.lab.reproduction._studies import Study


def page(results, studies=(), part=FULL, figures=(), **others):
    """The summary and the tables, one after the other."""
    tables = {"rows": results, **others}
    texts = pages(tables, dict(studies), dict(figures), part=part, skipped={})
    assert list(texts) == ["reproduction.md", "results/reproduction.md"]
    return "".join(texts.values())


def lines(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def table(text, title):
    """Cells of a Markdown table by its title, without head and rule."""
    results = text.split(title, 1)[1].split("\n\n", 2)[1].splitlines()
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in results[2:]]


@pytest.fixture(scope="module")
def whole():
    return page(study(), figures={"gap_closed": "gap_closed.svg"})


def test_distances_are_means_over_the_settings_with_a_result():
    results = [
        make_result("scene", 1, "Schirn", 0, average_precision=0.872, one_error=0.9),
        make_result("scene", 2, "Schirn", 0, average_precision=0.848),
        make_result("scene", 1, "NLR", 0, average_precision=0.1),
        lost("scene", 3, "Schirn", 0),
        lost("scene", 3, "GLC", 0),
    ]
    text = page(results)
    found = {line[0]: line[1:] for line in table(text, "Ours − published, in points")}
    assert found["Schirn"][:1] == ["0.0"]
    assert found["Schirn"][3:] == ["1", "1", "3"]
    assert found["GLC‡"] == ["–", "–", "–", "0", "0", "0"]
    assert found["NLR"][1] == "–"
    assert found["NLR"][3:] == ["0", "0", "1"]


def test_distances_above_and_below_do_not_cancel():
    """Printed: 67.7 and 67.4."""
    results = [
        make_result("scene", 1, "FPML", 0, average_precision=0.777),
        make_result("scene", 2, "FPML", 0, average_precision=0.574),
    ]
    text = page(results)
    found = {line[0]: line[1:] for line in table(text, "Ours − published, in points")}
    assert found["FPML‡"] == ["0.0", "10.0", "1", "0", "2"]
    assert "For a reconstruction (‡), exceeding the printed values is not a success" in text


def test_the_page_of_other_sets_has_no_distance_and_no_comparison():
    results = [make_result("mine", 1, "Schirn", 0, average_precision=0.5)]
    text = page(results)
    assert "## Distance from the paper" not in text
    assert "Win/tie/loss" not in text
    assert "Gap closed" not in text
    assert "Noise AUC" not in text
    assert "## Studies" not in text
    assert "50.0" in text


def test_the_page_compares_what_the_results_allow(whole):
    assert "## Distance from the paper" in whole
    for name in ("Schirn", "Sieve"):
        assert f"**Win/tie/loss of {name} against each method: paired t-test" in whole
    assert "In brackets: the counts of the paper, over its 23 settings." in whole
    assert "Gap closed in average precision" in whole
    assert "Noise AUC" in whole
    assert "![Gap closed](figures/gap_closed.svg)" in whole


def test_only_the_quick_part_is_called_so(whole):
    assert "Written by `schirn reproduce`: " in whole
    assert "quick part" not in whole
    results = [make_result("mine", 1, "Schirn", 0, average_precision=0.5)]
    quick = page(results, part=QUICK)
    assert "Written by `schirn reproduce --quick`: 1 fits" in quick
    assert "**This is the quick part**" in quick


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"rows": "3 of 3", "mine": "2 of 2"}, "All planned fits are finished."),
        (
            {"rows": "3 of 4", "mine": "2 of 2"},
            "Finished fits, out of those planned: tables with the features of the paper: 3 of 4; "
            "mine: 2 of 2.",
        ),
    ],
)
def test_the_page_says_how_much_is_finished(counts, words):
    results = [make_result("mine", 1, "Schirn", 0, average_precision=0.5)]
    texts = pages({"rows": results}, {}, {}, part=FULL, skipped={}, finished=counts)
    line = "**Code**: schirn 0.1 (1 fits). Only fits of the current code are shown. "
    assert f"\n\n{line}{words}\n\n- All methods" in texts["reproduction.md"]


def test_budgets_folds_and_the_use_of_the_sets_are_stated():
    grid = {"alpha": [1, 2], "eta": [1, 2, 3]}
    searched = {"grid": grid, "search_rows": 600}
    results = [
        make_result("scene", 1, method, fold, average_precision=value) | options
        for fold in range(5)
        for method, value, options in (
            ("Sieve", 0.6, {}),
            ("Schirn", 0.5, {"grid": None}),
            ("GLC", 0.5, searched),
            ("PAKS", 0.5, searched | {"search_rows": 300}),
            ("CandidateRidge", 0.5, {}),
            ("OracleRidge", 0.8, {}),
        )
    ]
    results += [make_result("birds", 3, "Sieve", fold, average_precision=0.5) for fold in (0, 1)]
    text = page(results)
    assert (
        "Search budgets differ. On at most 600 training rows (number of points): GLC‡ (6). "
        "On at most 300 training rows (number of points): PAKS‡ (6). In `fit`, on all training "
        "rows (largest number of points): Sieve, Schirn (98), CandidateRidge (7), OracleRidge (7)."
    ) in text
    assert "- 1 of 2 settings are run in 5 folds, 1 in the first 2 only." in text
    sentence = "- All 2 data sets were used to design Sieve: its results on them prove nothing "
    assert text.count(sentence) == 2, "in the summary and next to the tables"
    gap = lines(text, "- In average precision, Sieve gains")
    assert gap[0].endswith("Sieve was designed on these data sets.")
    other = page([make_result("mine", 1, "Sieve", 0, average_precision=0.5)])
    assert "design" not in other


def test_methods_left_out_are_named():
    results = [make_result("mine", 1, "Schirn", 0, average_precision=0.5)]
    assert lines(page(results, part=QUICK), "- Left out") == [
        "- Left out because it takes too long: PAKS.",
        "- Left out because it takes too long: PARD.",
    ]
    assert not lines(page(results), "- Left out")


def test_kernel_tables_have_their_own_references_and_no_printed_numbers():
    flat = [
        make_result("scene", r, name, fold, average_precision=value + fold / 100)
        for r in (1, 2, 3)
        for name, value in (("CandidateRidge", 0.5), ("Sieve", 0.6), ("OracleRidge", 0.7))
        for fold in (0, 1)
    ]
    curved = [
        result | {"features": "kernel", "metrics": {"average_precision": 0.05 + value}}
        for result in flat
        if (value := result["metrics"]["average_precision"])
    ]
    text = page(flat, kernel=curved)
    raw, kernel = text.split("## Tables: kernel features")
    assert "60.5 ± 0.7" in raw
    assert "65.5 ± 0.7" not in raw.split("## Tables: features as in the paper")[1]
    assert "65.5 ± 0.7" in kernel
    assert "[" not in kernel
    assert "counts of the paper" not in kernel
    assert "Kernel features for all methods: No method can be called better than" in text
    assert "ranks best" not in text, "one data set"
    assert "corrected" not in text, "the test of the paper"


def test_schirn_tuned_on_the_truth_has_a_column_of_its_own():
    rows = [
        make_result("birds", r, "Schirn", fold, average_precision=0.5)
        for r in (3, 7)
        for fold in (0, 1)
    ]
    best = [
        make_result("birds", r, "Schirn", 0, average_precision=0.52)
        | {"tuning": "oracle", "oracle": True}
        for r in (3, 7)
    ]
    text = page(rows, oracle=best)
    assert "Schirn†" in text.split("**Average precision")[1]
    assert "Schirn gains +2.0 points of average precision over the choice on held-out" in text
    assert "| folds |" in text
    large = make_result("chess", 10, "Schirn", 0, average_precision=0.5)
    assert lines(page([*rows, large]), "- Only the first") == [
        "- Only the first 2 of 5 folds, for time: kernel.",
        "- Only the first 2 of 5 folds, for time: sensitivity.",
        "- Only the first 2 of 5 folds, for time: chess.",
    ]


def test_the_fits_of_a_study_are_counted():
    results = [make_result("mine", 1, "Schirn", 0, average_precision=0.5)]
    swept = [results[0] | {"key": "k", "tune_seconds": 7200.0}, {"round": 1}]
    shown = Table("cooccurrence", "A table of the study", ["data"], [[Cell("x")]])
    studies = {"cooccurrence": Study("cooccurrence", swept, shown)}
    text = page(results, studies)
    assert "2 fits and their searches, which took 2.0 hours of wall time in one process" in text
    assert "## Studies\n\n**A table of the study**" in text
