import math
import re

import pytest
from reference.bench_results import lost, make_result, study

from schirn.estimators import methods
from schirn.exceptions import InputError
from schirn.lab.bench import stats, tables
from schirn.lab.bench._published import published_counts
from schirn.lab.bench._rendering import SUFFIXES, Cell, Table, latex_escape
from schirn.metrics import METRICS


@pytest.fixture(scope="module")
def hand():
    """Two settings, three folds; means and deviations that can be worked out by hand."""
    values = {
        ("scene", 1, "Schirn"): (0.80, 0.82, 0.84),
        ("scene", 1, "NLR"): (0.70, 0.72, 0.75),
        ("my_set", None, "Schirn"): (0.50, 0.52, 0.54),
        ("my_set", None, "OracleRidge"): (0.60, 0.62, 0.64),
    }
    results = [
        make_result(*key, fold, average_precision=v, tuning="candidates", oracle=key[2] == "NLR")
        for key, scores in values.items()
        for fold, v in enumerate(scores)
    ]
    results += [lost("my_set", None, "NLR", fold) for fold in range(3)]
    return results


def test_published_value_and_distance_follow_ours(hand):
    table = tables.results(hand, "average_precision", published=True)
    lines = table.render("markdown").splitlines()
    assert lines[4] == (
        "| scene | 1 | **82.0 ± 2.0** [86.2, −4.2] | **72.3 ± 2.5** • [84.9, −12.6] | "
        "–<sup>a</sup> |"
    )
    assert lines[5].startswith("| my\\_set |  | **52.0 ± 2.0** |")
    assert "- In brackets: the published value and ours − published, in points." in lines


def test_latex_is_whole_and_escaped(hand):
    text = tables.results(hand, "average_precision", published=True).render("latex")
    assert text.count("\\begin{") == text.count("\\end{") == 3
    assert [text.count(rule) for rule in ("\\toprule", "\\midrule", "\\bottomrule")] == [1, 1, 1]
    assert "my\\_set" in text
    assert "\\textbf{82.0 $\\pm$ 2.0} {[}86.2, $-$4.2{]}" in text
    assert "NLR$^{\\dagger}$" in text
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text).group(1)
    body = text[text.index("\\midrule") : text.index("\\bottomrule")].splitlines()[1:]
    assert all(line.count(" & ") + 1 == len(columns) for line in body)
    assert all(line.endswith(" \\\\") for line in body)
    assert text.count("$") % 2 == 0
    assert text.isascii()


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("50% & $5_#{}", r"50\% \& \$5\_\#\{\}"),
        ("a\\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("two\nlines", "two lines"),
    ],
)
def test_latex_escape(text, escaped):
    assert latex_escape(text) == escaped


def test_markdown_keeps_its_columns_whatever_the_names():
    results = [make_result("a|b", 1, "my|method", k, one_error=0.1 * k) for k in range(3)]
    lines = tables.results(results, "one_error").render("markdown").splitlines()
    assert "my\\|method" in lines[2]
    assert "a\\|b" in lines[4]


def test_losses_mark_the_smallest():
    results = [
        make_result("d", 1, method, k, one_error=v + k / 100)
        for method, v in (("Schirn", 0.2), ("NLR", 0.1))
        for k in range(3)
    ]
    line = tables.results(results, "one_error").body[0]
    assert [cell.best for cell in line[2:]] == [False, True]
    assert [cell.mark for cell in line[2:]] == ["", "◦"]


def test_partial_cells_say_how_many_folds_they_have():
    results = [make_result("d", 1, "NLR", k, one_error=0.1) for k in range(3)] + [
        lost("d", 1, "NLR", 3)
    ]
    cell = tables.results(results, "one_error").body[0][2]
    assert cell.note == "3 of 4 folds (timeout: took longer than 60 seconds)"


def test_variants_are_distinguished():
    results = [
        make_result("d", 1, "Schirn", 0, one_error=0.1),
        make_result("d", 1, "Schirn", 0, one_error=0.2, tuning="none"),
        make_result("d", 1, "Schirn", 0, one_error=0.3, tuning="oracle", oracle=True),
        make_result("d", 1, "Schirn", 0, one_error=0.4, features="auto"),
    ]
    assert set(tables.results(results, "one_error").head[2:]) == {
        "Schirn [raw]",
        "Schirn (untuned) [raw]",
        "Schirn† [raw]",
        "Schirn [auto]",
    }


def test_asked_for_oracle_but_nothing_to_tune_is_not_marked():
    results = [make_result("d", 1, "Schirn", 0, one_error=0.1, tuning="oracle", oracle=False)]
    assert tables.results(results, "one_error").head[2] == "Schirn"


def test_kinds_of_noise_are_distinguished():
    results = [
        make_result("scene", r, "Schirn", 0, average_precision=0.5, noise=noise)
        for r, noise in ((1, "legacy"), (1, "label"))
    ]
    table = tables.results(results, "average_precision", published=True)
    assert {line[1].text: bool(line[2].detail) for line in table.body} == {
        "1 legacy": True,
        "1 label": False,
    }


def test_distances_from_the_paper_by_hand():
    results = [
        make_result("scene", 1, "Schirn", 0, average_precision=0.87),
        make_result("scene", 2, "Schirn", 0, average_precision=0.85),
        make_result("scene", 3, "Schirn", 0, average_precision=0.50),
        make_result("elsewhere", 3, "Schirn", 0, average_precision=0.50),
    ]
    records = tables.published_records(results, ["average_precision"])
    assert [(r["setting"], r["reached"]) for r in records] == [
        ("scene r=1", "yes"),
        ("scene r=2", "nearly"),
        ("scene r=3", "no"),
    ]
    assert records[0]["distance"] == pytest.approx(0.008)
    worse = [make_result("scene", 1, "Schirn", 0, ranking_loss=0.9)]
    assert tables.published_records(worse, ["ranking_loss"])[0]["reached"] == "no"


def test_ranks_by_hand():
    results = [
        make_result(f"d{i}", 1, method, 0, average_precision=v, one_error=v)
        for method, values in {"Schirn": (0.9, 0.9), "NLR": (0.8, 0.9), "GLC": (0.7, 0.1)}.items()
        for i, v in enumerate(values)
    ]
    table = tables.ranks(results)
    assert [[cell.text for cell in line] for line in table.body] == [
        ["Schirn", "1.25", "2.75"],
        ["NLR", "1.75", "2.25"],
        ["GLC‡", "3.00", "1.00"],
    ]
    assert [cell.best for cell in table.body[0]] == [False, True, False]


def test_win_tie_loss_totals_leave_the_ceiling_out():
    table = tables.win_tie_loss(study(), "Sieve", ["average_precision", "one_error"])
    assert table.head[-2:] == ["OracleRidge", "total"]
    assert [line[0].text for line in table.body] == ["average precision ↑", "one-error ↓", "total"]
    for line in table.body:
        counts = [[int(n) for n in cell.text.split("/")] for cell in line[1:]]
        assert counts[-1] == [sum(column) for column in zip(*counts[:-2], strict=True)]
    glc = table.head.index("GLC‡")
    assert sum(int(n) for n in table.body[0][glc].text.split("/")) == 9


def with_fewer_folds():
    """Schirn wins wherever it has five folds; with two folds, the test finds nothing."""
    return [
        make_result(
            dataset,
            1,
            method,
            fold,
            average_precision=value + fold / 100 + wobble * fold % 2 / 50,
            hamming_loss=value / 2 + fold / 100,
        )
        for dataset, n_folds in (("a", 5), ("b", 5), ("large", 2))
        for method, value, wobble in (("Schirn", 0.5, 0), ("NLR", 0.4, 1))
        for fold in range(n_folds)
    ]


def test_settings_with_fewer_folds_are_counted_apart():
    metrics = ["average_precision", "hamming_loss"]
    table = tables.win_tie_loss(with_fewer_folds(), "Schirn", metrics, published=True)
    assert {line[0].text: line[1].body() for line in table.body} == {
        "average precision ↑": "2/0/0 [23/0/0]",
        "Hamming loss ↓": "0/0/2 [17/6/0]",
        "total": "2/0/2 [103/8/4]",
        "total without Hamming loss": "2/0/0 [86/2/4]",
        "total of 1 setting with 2 folds": "0/1/1",
        "total of 1 setting with 2 folds without Hamming loss": "0/1/0",
    }
    assert table.foot == 4
    (note,) = (note for note in table.notes if note.startswith("Counted: "))
    assert note.startswith("Counted: 2 settings with 5 folds.")
    assert "have totals of their own: large r=1. A test over 2 folds has one degree of" in note
    assert any("depends on the threshold of predict" in note for note in table.notes)


def test_a_failed_fold_does_not_set_its_setting_apart():
    results = [r for r in with_fewer_folds() if r["dataset"] != "large"]
    failed = lost("a", 1, "NLR", 4)
    kept = [r for r in results if (r["dataset"], r["method"], r["fold"]) != ("a", "NLR", 4)]
    table = tables.win_tie_loss([*kept, failed], "Schirn", ["average_precision"])
    assert [line[0].text for line in table.body] == ["average precision ↑", "total"]
    assert table.body[0][1].text == "2/0/0"


def test_two_folds_everywhere_are_pointed_out():
    results = [r for r in with_fewer_folds() if r["fold"] < 2]
    table = tables.win_tie_loss(results, "Schirn", ["average_precision"])
    assert any(note.startswith("All settings have 2 folds.") for note in table.notes)
    table = tables.results(results, "average_precision", folds=True)
    assert any("one degree of freedom" in note for note in table.notes)


def test_the_folds_of_every_setting_are_shown_on_request():
    table = tables.results(with_fewer_folds(), "average_precision", folds=True)
    assert table.head[-1] == "folds"
    assert [line[-1].text for line in table.body] == ["5", "5", "2"]
    assert "folds" not in tables.results(with_fewer_folds(), "average_precision").head


def test_costs_by_hand():
    results = [
        make_result(
            "d",
            1,
            "NLR",
            k,
            one_error=0.1,
            fit_seconds=s,
            fit_cpu_seconds=s / 2,
            peak_memory_mb=m,
            tune_seconds=None,
        )
        for k, (s, m) in enumerate(((1.0, 100.0), (3.0, 300.0)))
    ]
    table = tables.costs([*results, lost("d", 1, "NLR", 2)])
    texts = [cell.text for cell in table.body[0]]
    assert texts == ["NLR", "in fit", "2", "3", "1", "–", "0.01", "300", "2", "1"]


@pytest.mark.parametrize(
    ("method", "grid", "search"),
    [
        ("Sieve", None, "in fit"),
        ("Schirn", None, "in fit"),
        ("Schirn", {"lam": [1.0, 2.0]}, "separate"),
        ("PMLNI", {"lam": [1.0]}, "separate"),
        ("PMLNI", None, "none"),
        ("mine:Mine", None, "none"),
    ],
)
def test_costs_state_whether_times_include_a_search(method, grid, search):
    table = tables.costs([make_result("d", 1, method, 0, one_error=0.1) | {"grid": grid}])
    assert table.body[0][1].text == search
    assert any("times of fit include" in note for note in table.notes)


def test_published_counts_stand_beside_those_of_schirn():
    results = [
        make_result(f"d{i}", 1, m, k, average_precision=v + k / 100 + i / 50)
        for i in range(2)
        for m, v in (("Schirn", 0.5), ("NLR", 0.4), ("Sieve", 0.6))
        for k in range(3)
    ]
    table = tables.win_tie_loss(results, "Schirn", ["average_precision"], published=True)
    assert table.head[1:] == ["NLR", "Sieve", "total"]
    first, total = ([cell.body() for cell in line[1:]] for line in table.body)
    assert first == ["2/0/0 [23/0/0]", "0/0/2", "2/0/2 [207/0/0]"]
    assert total == ["2/0/0 [103/8/4]", "0/0/2", "2/0/2 [962/39/34]"]
    assert "In brackets: the counts of the paper, over its 23 settings." in table.notes
    sieve = tables.win_tie_loss(results, "Sieve", ["average_precision"], published=True)
    assert not any(cell.detail for line in sieve.body for cell in line)


def test_printed_counts_add_up():
    names = [name for name in METRICS]
    methods = {method for _, method in published_counts()} - {"total"}
    for metric in names:
        counts = [published_counts()[metric, method].split("/") for method in methods]
        sums = [sum(map(int, column)) for column in zip(*counts, strict=True)]
        assert "/".join(map(str, sums)) == published_counts()[metric, "total"]
        assert all(sum(map(int, count)) == 23 for count in counts)


def test_gaps_by_hand():
    results = [
        make_result("d", r, method, 0, average_precision=v)
        for r, values in ((1, (0.4, 0.7, 0.8)), (2, (0.5, 0.4, 0.7)))
        for method, v in zip(("CandidateRidge", "Schirn", "OracleRidge"), values, strict=True)
    ]
    table = tables.gaps(results)
    assert [[cell.text for cell in line] for line in table.body] == [
        ["d r=1", "75"],
        ["d r=2", "−50"],
        ["pooled", "33"],
    ]


def test_tests_over_data_sets_show_a_dash_and_the_reason():
    results = [make_result("d", 1, m, 0, one_error=v) for m, v in (("Schirn", 0.1), ("NLR", 0.2))]
    line = tables.friedman_tests(results).body[0]
    assert (line[3].text, "three methods" in line[3].note) == ("–", True)
    line = tables.wilcoxon_tests(results).body[0]
    assert (line[1].text, line[1].note) == ("–", "fewer than two common values")


@pytest.mark.parametrize("format", SUFFIXES)
def test_every_table_in_every_format_marks_the_oracle(format):
    results = study()
    made = [
        tables.results(results, "average_precision"),
        tables.ranks(results),
        tables.win_tie_loss(results),
        tables.costs(results),
        tables.gaps(results),
        tables.wilcoxon_tests(results),
    ]
    mark = {"latex": "NLR$^{\\dagger}$"}.get(format, "NLR†")
    for table in made:
        text = table.render(format)
        assert mark in text
        if format == "latex":
            assert text.isascii()


def test_many_footnotes_get_letters_beyond_z():
    cells = [[Cell("–", note=f"reason {i}")] for i in range(28)]
    letters = list(Table("t", "t", ["a"], cells).footnotes().values())
    assert letters[:2] + letters[25:] == ["a", "b", "z", "aa", "ab"]


def test_bad_format_and_reference(hand):
    with pytest.raises(InputError, match="'html'; one of: markdown, latex, csv"):
        tables.results(hand, "average_precision").render("html")
    with pytest.raises(InputError, match="reference method"):
        tables.win_tie_loss([make_result("d", 1, "NLR", 0, one_error=0.1)])


def test_a_table_without_notes_has_no_empty_lines_below_it():
    table = Table("t", "Title", ["data", "value"], [[Cell("a"), Cell("1")]])
    text = table.render("latex")
    assert "footnotesize" not in text
    assert text.endswith("\\end{tabular}\n\\end{adjustbox}\n\\end{table}\n")
    noted = Table("t", "Title", ["data", "value"], [[Cell("a"), Cell("1")]], ["A note."])
    assert "\\footnotesize\nA note.\n\\end{table}" in noted.render("latex")


def over_data_sets(n=8):
    """MyMethod is a little better than NLR on every data set, three folds each."""
    return [
        make_result(f"d{i}", 1, method, k, average_precision=v + i / 50 + k / 100, one_error=1 - v)
        for i in range(n)
        for method, v in (("NLR", 0.4), ("pkg:MyMethod", 0.41), ("OracleRidge", 0.6))
        for k in range(3)
    ]


def test_methods_stand_in_the_order_given_under_their_class_name():
    results = over_data_sets(2)
    assert tables.results(results, "one_error").head[2:] == ["NLR", "MyMethod", "OracleRidge"]
    assert tables.results(results[::-1], "one_error").head[2] == "OracleRidge"
    twice = [*results, make_result("d0", 1, "other:MyMethod", 0, one_error=0.1)]
    assert tables.results(twice, "one_error").head[3:] == [
        "pkg:MyMethod",
        "OracleRidge",
        "other:MyMethod",
    ]


@pytest.mark.parametrize("name", ["pkg:MyMethod", "MyMethod", "mymethod"])
def test_any_method_can_be_the_reference(name):
    table = tables.win_tie_loss(over_data_sets(), name, ["average_precision"])
    assert table.title.startswith("Win/tie/loss of MyMethod against each method: corrected")
    assert table.head[1:] == ["NLR", "OracleRidge", "total"]
    assert table.body[0][1].text == "8/0/0"


def test_without_a_reference_nothing_is_tested():
    table = tables.results(over_data_sets(), "average_precision", reference=None)
    assert "significant" not in table.render()
    assert not any(cell.mark for line in table.body for cell in line)


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("paired", "paired t-test over the folds of each setting, level 0.01"),
        ("corrected", "corrected resampled t-test over the folds of each setting, level 0.01"),
    ],
)
def test_the_caption_names_the_test(test, words):
    options = {"reference": "MyMethod", "alpha": 0.01, "test": test}
    text = tables.results(over_data_sets(), "one_error", **options).render("latex")
    caption = next(line for line in text.splitlines() if line.startswith("\\caption"))
    assert f"MyMethod is significantly better, $\\circ$ significantly worse: {words}" in caption
    assert words in tables.win_tie_loss(over_data_sets(), metrics=["one_error"], **options).title


def test_reconstructed_methods_are_marked():
    results = [make_result("d", 1, method, 0, one_error=0.1) for method in methods()]
    table = tables.results(results, "one_error")
    marked = {name.rstrip("‡") for name in table.head if name.endswith("‡")}
    assert marked == {name for name, cls in methods().items() if cls._info.reconstructed}
    assert "‡ reconstructed: neither code nor full text was available." in table.notes
    plain = [make_result("d", 1, "NLR", 0, one_error=0.1)]
    assert not any("‡" in note for note in tables.results(plain, "one_error").notes)


def test_few_data_sets_are_pointed_out():
    notes = tables.friedman_tests(study(), ["one_error"]).notes
    assert "Only 4 data sets: with fewer than 10, Friedman's test is approximate." in notes


def test_tied_scores_are_not_marked_as_best():
    def result(method, fold, error, tied, fair):
        metrics = {"one_error": error, "tied_rows": tied, "one_error_random_ties": fair}
        return {"dataset": "d", "r": 1, "method": method, "fold": fold, "metrics": metrics}

    rows = [result("Schirn", f, 0.2, 0.0, 0.2) for f in range(3)]
    rows += [result("Constant", f, 0.0, 1.0, 0.8) for f in range(3)]
    table = tables.results(rows, "one_error")
    assert [cell.best for cell in table.body[0][2:]] == [True, False]
    assert any("Tied scores" in note and "Constant" in note for note in table.notes)
    fair = tables.results(rows, "one_error_random_ties")
    assert [cell.best for cell in fair.body[0][2:]] == [True, False]
    assert not any("Tied" in note for note in fair.notes)


def test_a_gap_below_a_point_is_none():
    values = {"Sieve": 0.51, "CandidateRidge": 0.5, "OracleRidge": 0.509}
    rows = [
        {"dataset": "d", "method": m, "fold": 0, "metrics": {"average_precision": v}}
        for m, v in values.items()
    ]
    (share,) = stats.gap_closed(rows)["Sieve"].values()
    assert math.isnan(share)


def test_settings_in_which_a_method_exceeds_the_oracle_have_no_gap():
    values = {
        "a": {"Sieve": 0.65, "CandidateRidge": 0.5, "OracleRidge": 0.6},
        "b": {"Sieve": 0.605, "CandidateRidge": 0.5, "OracleRidge": 0.6},
    }
    rows = [
        make_result(dataset, 1, name, 0, average_precision=value)
        for dataset, line in values.items()
        for name, value in line.items()
    ]
    table = tables.gaps(rows)
    cells = {line[0].text: line[1] for line in table.body}
    assert math.isnan(next(iter(stats.gap_closed(rows)["Sieve"].values())))
    assert cells["a r=1"].note == "no upper bound: a method is over 1 point better than OracleRidge"
    assert cells["b r=1"].text == "105"
    assert (
        "Left out: 1 of 2 settings, in which a method is over 1 point better than OracleRidge, "
        "which has no intercept on raw features."
    ) in table.notes


def test_the_best_method_has_all_folds():
    """A mean over one fold is not compared with a mean over three."""
    results = [
        make_result("d", 1, name, fold, noise_precision=value)
        for name, value in (("Schirn", 0.8), ("NLR", 0.7))
        for fold in range(3)
    ]
    results += [
        make_result("d", 1, "PMLNI", fold, noise_precision=None if fold else 1.0)
        for fold in range(3)
    ]
    line = tables.results(results, "noise_precision", reference=None).body[0]
    assert [cell.text for cell in line if cell.best] == ["80.0 ± 0.0"]
    assert line[4].note.startswith("1 of 3 folds")


def test_a_missing_result_and_a_missing_gap_have_footnotes_of_their_own():
    values = {"CandidateRidge": 0.5, "OracleRidge": 0.505, "NLR": 0.4}
    results = [make_result("flat", 1, name, 0, average_precision=v) for name, v in values.items()]
    values["OracleRidge"] = 0.9
    results += [make_result("d", 1, name, 0, average_precision=v) for name, v in values.items()]
    results += [make_result("d", 1, "GLC", 0, average_precision=0.6), lost("d", 1, "Schirn", 0)]
    notes = {line[0].text: [cell.note for cell in line[1:]] for line in tables.gaps(results).body}
    assert set(notes["flat r=1"]) == {"no gap to close: OracleRidge is less than 1 point better"}
    assert notes["d r=1"][-1] == "no result of the method or of a reference"


def test_hamming_loss_says_what_predicting_nothing_scores():
    result = make_result("d", 1, "NLR", 0, hamming_loss=0.3, hamming_loss_of_nothing=0.25)
    notes = tables.results([result], "hamming_loss", reference=None).notes
    assert "Predicting no label at all scores: d 25.0." in notes
    assert "Hamming loss measures the threshold of predict as much as the scores." in notes


def test_notes_name_parameters_that_are_not_the_defaults():
    params = {"kernel": "linear", "features": "none"}
    result = make_result("d", 1, "Sieve", 0, average_precision=0.3, params=params)
    notes = tables.results([result], "average_precision", reference=None).notes
    assert "Set differently from the default: Sieve (features=none, kernel=linear)." in notes
