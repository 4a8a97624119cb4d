"""The findings of a reproduction, from results made by hand."""

import pytest
from reference.bench_results import make_result, study

from schirn.lab.bench._rendering import Cell, Table
from schirn.lab.reproduction._findings import findings
from schirn.lab.reproduction._studies import Study
from schirn.lab.reproduction._sweeps import CENTRE


def found(results=None, **studies):
    """Findings of studies, on results without findings of their own."""
    results = (
        [make_result("mine", 1, "Schirn", 0, average_precision=0.5)] if results is None else results
    )
    return findings(results, studies)


def made(results, table=None):
    return Study("", results, table or Table("", "", [], []))


def bound(matrix, noise, value, lowest, holds=True):
    return {"matrix": matrix, "noise": noise, "bound": value, "lowest": lowest, "holds": holds}


@pytest.mark.parametrize(("lowest", "words"), [(39, " and is attained by the identity"), (40, "")])
def test_the_theorem_is_called_tight_only_where_it_is(lowest, words):
    results = [
        bound("identity", "random", 39, lowest),
        bound("birds", "all wrong labels", -500, 12),
        bound("scene", "all wrong labels", 2, 1, holds=False),
    ]
    assert found(theorem=made(results)) == [
        f"The bound of the theorem holds in 2 of 3 cases{words}; for the actual noise it is "
        "negative, and so says nothing, on 1 of 2 data sets."
    ]


def ablated(**values):
    """An ablation with these average precisions, from a name of a variant to those by set."""
    names = {"rank": "no high rank", "sparse": "no sparsity"}
    levels = {"birds": 3, "scene": 1, "mine": 1}
    return made(
        [
            make_result(dataset, levels[dataset], names.get(name, name), 0, average_precision=v)
            for name, by_set in values.items()
            for dataset, v in by_set.items()
        ]
    )


def test_gains_of_the_ablation_are_compared_with_the_printed_ones():
    rows, rank, sparse = found(
        ablation=ablated(
            Schirn={"birds": 0.60, "scene": 0.80, "mine": 0.9},
            rank={"birds": 0.59, "scene": 0.81, "mine": 0.1},
            sparse={"birds": 0.55, "scene": 0.75},
        )
    )
    assert rows == (
        "Ours − published in the ablation, points of average precision: without the rank term "
        "+1.8 (of 2 sets); with it −4.0 (of 2 sets)."
    )
    assert rank == (
        "The rank term of Schirn gains 0.0 (from −1.0 to +1.0) points of "
        "average precision here and +5.8 (from +3.1 to +8.5) in the paper."
    )
    assert "+5.0 (from +5.0 to +5.0) points here" in sparse
    assert "+22.8 (from +17.6 to +28.0) in the paper" in sparse


def test_an_ablation_that_the_paper_lacks_has_no_gains():
    everywhere = {"mine": 0.5}
    assert found(ablation=ablated(Schirn=everywhere, rank=everywhere, sparse=everywhere)) == []


def test_schirn_is_compared_with_the_ridge_in_every_setting():
    ridge, *_ = findings(study(), {})
    assert "it is better in 10 of 10 settings" in ridge


def test_the_singular_values_say_what_perturbation_theory_keeps():
    base = {"noise": "all wrong labels", "safe": False, "wedin": None, "rank": 5, "rank_after": 4}
    records = [
        base,
        {**base, "safe": True, "wedin": 0.5, "rank_after": 5},
        {**base, "noise": "random"},
    ]
    assert found(singular_values=made(records)) == [
        "The norm of the actual noise exceeds the smallest singular value of the candidates on 1 "
        "of 2 data sets, so perturbation theory does not guarantee the rank, and Wedin's bound is "
        "vacuous on 1; the rank falls on 1."
    ]


def sweep(name, value, *precisions, dataset="a"):
    params = {**CENTRE, name: value}
    return [
        make_result(dataset, 1, f"{name}={value}", k, average_precision=v, params=params)
        for k, v in enumerate(precisions)
    ]


def test_the_sensitivity_is_the_span_of_the_means():
    results = sweep("alpha", 0.5, 0.40, 0.44) + sweep("alpha", 0.8, 0.5, 0.5)
    results += sweep("alpha", 0.5, 0.5, dataset="b") + sweep("alpha", 0.8, 0.6, dataset="b")
    (sentence,) = found(sensitivity=made(results))
    assert "α from 0.5 to 0.8: 9.0 (10.0)" in sentence


def test_the_sensitivity_within_the_ranges_of_the_paper_stands_beside_that_of_the_sweep():
    results = sweep("alpha", 0.0, 0.1) + sweep("alpha", 0.2, 0.5) + sweep("alpha", 2.0, 0.6)
    results += sweep("lam", 10_000.0, 0.3)
    (sentence,) = found(sensitivity=made(results))
    narrow, wide = sentence.split("over the whole sweep, with α = 0, the ablation")
    assert "α from 0.2 to 2: 10.0 (10.0)" in narrow
    assert "λ" not in narrow, "the paper searches no such value"
    assert "α from 0 to 2: 50.0 (50.0)" in wide
    assert "λ from 10,000 to 10,000" in wide


def split(mean, best, printed):
    names = ("mean", "best_mean", "published_mean", "std", "best_std", "published_std")
    values = (mean, best, printed, 3.0, 1.0, None if printed is None else 0.5)
    return dict(zip(names, values, strict=True))


def test_printed_figures_are_compared_with_all_splits_and_the_best():
    records = [split(50.0, 60.0, 59.5), split(70.0, 74.0, 74.75), split(1.0, 2.0, None)]
    (sentence,) = found(split_choice=made(records))
    assert "over 2 settings" in sentence
    assert "is +7.12 points on average over all random splits, and +0.12 on the best" in sentence
    assert "over all splits is 3.0, over the best five 1.0, and printed 0.5." in sentence
    assert sentence.endswith("this does not show that splits were selected.")
    assert found(split_choice=made([split(1.0, 2.0, None)])) == []


def test_printed_deviations_stand_beside_those_of_the_folds():
    """Facts of the printed tables; the correlation needs three settings with a deviation."""
    results = [
        make_result("birds", r, "Schirn", fold, average_precision=value + spread * fold)
        for r, value, spread in ((3, 0.5, 0.02), (7, 0.4, 0.03), (11, 0.38, 0.01))
        for fold in range(3)
    ]
    printed, gaps = findings(results, {})
    assert "is the smallest of 10 methods in 17 of 23 settings (mean 0.80; the others" in printed
    assert gaps.startswith("The distance of Schirn from the paper correlates 0.")
    assert gaps.endswith("times that deviation on average, over the 3 settings with 3 folds.")
    # Settings with fewer folds say nothing about deviations over three.
    fewer = [r for r in results if (r["r"], r["fold"]) != (11, 2)]
    assert len(findings(fewer, {})) == 1
    assert len(findings(results[:6], {})) == 1


def test_rounds_and_ranks_stand_beside_the_printed_ones():
    line = [Cell("birds"), Cell("100", 100.0), Cell("50", 50.0), Cell("1", 1.0), Cell("9", 9.0)]
    table = Table("", "", [], [[*line, Cell("80", 80.0)], [*line, Cell("83", 83.0)]])
    (sentence,) = found(convergence=made([], table))
    assert "it takes 80 to 83 of them" in sentence
    assert "μ ends at 1.25, so μ_max = 10 never binds." in sentence
    ranks = {
        "dataset": "yeastmf",
        "rank_prediction": 39,
        "rank_prediction_beta0": 38,
        "published prediction": 36,
        "published prediction, beta=0": 24,
    }
    (sentence,) = found(prediction_ranks=made([ranks]))
    assert sentence == (
        "Ranks of the prediction on yeastmf: with the rank term 39 here and 36 in the paper; "
        "without it 38 here and 24 in the paper."
    )


RIDGE = {
    "average_precision": 0.539,
    "ranking_loss": 0.228,
    "one_error": 0.52,
    "coverage_all_rows": 0.157,
}


def authors(best, flat=0.568, **ridge):
    values = {
        "ridge(1)": RIDGE | ridge,
        "Schirn": {"average_precision": best},
        "no high rank": {"average_precision": flat},
    }
    return made([make_result("birds", 3, name, 0) | {"metrics": values[name]} for name in values])


def test_on_the_authors_folds_ridge_is_compared_digit_by_digit():
    ridge, best = found(authors_folds=authors(0.571))
    assert "reproduces 4 of the 4 printed means of GLC on Birds" in ridge
    assert "has an average precision of 57.1, or 56.8 without the rank term" in best
    assert best.endswith("the paper prints 61.8 ± 0.6.")
    ridge, _ = found(authors_folds=authors(0.571, one_error=0.5211, coverage_all_rows=0.158))
    assert "reproduces 2 of the 4 printed means" in ridge


def test_fits_on_the_authors_folds_that_failed_are_not_compared():
    assert len(found(authors_folds=authors(None))) == 1
    assert len(found(authors_folds=authors(0.571, flat=None))) == 1
    assert found(authors_folds=authors(0.571, average_precision=None)) == []
