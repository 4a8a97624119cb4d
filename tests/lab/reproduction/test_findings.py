"""The findings of a reproduction, from results made by hand."""

import pytest
from reference.bench_results import make_result, study

from schirn.lab.bench.rendering import Cell, Table
from schirn.lab.reproduction.findings import findings
from schirn.lab.reproduction.studies import Study, distances

RIDGE = {
    "average_precision": 0.539,
    "ranking_loss": 0.228,
    "one_error": 0.52,
    "coverage_all_rows": 0.157,
}


def found(results=None, **studies):
    """Findings of studies, on results without findings of their own."""
    results = (
        [make_result("mine", 1, "Schirn", 0, average_precision=0.5)] if results is None else results
    )
    return findings(results, {name: made._replace(name=name) for name, made in studies.items()})


def made(results, table=None):
    return Study("", results, table or Table("", "", [], []))


def on_settings(method, values):
    return [
        make_result("scene", r, method, 0, average_precision=v) for r, v in enumerate(values, 1)
    ]


def test_the_gap_that_sieve_closes_comes_with_its_extremes():
    results = [
        *on_settings("CandidateRidge", (0.5, 0.5, 0.5, 0.5)),
        *on_settings("OracleRidge", (0.6, 0.7, 0.51, 0.5)),
        *on_settings("Sieve", (0.55, 0.4992, 0.52, 0.9)),
    ]
    assert found(results) == [
        "Depending on the setting, Sieve closes 0 to 200 % of the gap, 50 % in the median; the "
        "share is largest on scene r=3, where the gap is 1.0 points."
    ]
    worse = [*results[:8], *on_settings("Sieve", (0.55, 0.45, 0.52, 0.9))]
    assert "closes −25 to 200 %" in found(worse)[0]


def test_two_settings_or_no_ridge_give_no_gap():
    results = [
        *on_settings("CandidateRidge", (0.5, 0.5)),
        *on_settings("OracleRidge", (0.6, 0.6)),
        *on_settings("Sieve", (0.55, 0.55)),
    ]
    assert found(results) == []
    assert found(on_settings("Sieve", (0.5, 0.6, 0.7))) == []


def ranks(dataset, true, candidates, printed=(36, 39)):
    return {
        "dataset": dataset,
        "rank_true": true,
        "published_rank_true": printed[0],
        "rank_candidates": candidates,
        "published_rank_candidates": printed[1],
    }


def test_a_set_of_table_1_counts_only_with_both_ranks():
    results = [
        ranks("a", 36, 39),
        ranks("b", 36, 38),
        ranks("c", 35, 39),
        ranks("mine", 5, 5, (None, None)),
    ]
    sentence = "Both ranks of Table 1 are reproduced on 1 of 3 data sets."
    assert found(label_ranks=made(results)) == [sentence]
    assert found(label_ranks=made(results[3:])) == []


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
        "negative, and so void, on 1 of 2 data sets."
    ]


def ablated(**values):
    """An ablation with these average precisions, from a name of a variant to those by set."""
    names = {"rank": "no high rank", "sparse": "no sparsity", "rule": "no sparsity, printed rule"}
    levels = {"birds": ("birds", 3), "scene": ("scene", 1), "mine": ("mine", 1)}
    results = [
        make_result(
            dataset, levels[dataset][1], names.get(name, name), 0, average_precision=v, one_error=v
        )
        for name, by_set in values.items()
        for dataset, v in by_set.items()
    ]
    records = distances("ablation", results, levels)
    return Study("ablation", results, Table("ablation", "", [], [], records=records))


def test_gains_of_the_ablation_are_compared_with_the_printed_ones():
    study = ablated(
        Schirn={"birds": 0.60, "scene": 0.80, "mine": 0.9},
        rank={"birds": 0.59, "scene": 0.81, "mine": 0.1},
        sparse={"birds": 0.55, "scene": 0.75},
        rule={"birds": 0.40, "scene": 0.20},
    )
    rank, sparse = found(ablation=study)
    assert rank == (
        "The rank term of Schirn gains 0.0 (from −1.0 to +1.0) points of "
        "average precision here and +5.8 (from +3.1 to +8.5) in the paper."
    )
    assert "+5.0 (from +5.0 to +5.0) points under the exact noise rule" in sparse
    assert "+40.0 (from +20.0 to +60.0) under the printed one" in sparse
    assert "+22.8 (from +17.6 to +28.0) in the paper" in sparse


def test_an_ablation_that_the_paper_lacks_has_no_gains():
    everywhere = {"mine": 0.5}
    study = ablated(Schirn=everywhere, rank=everywhere, sparse=everywhere, rule=everywhere)
    assert found(ablation=study) == []
    two = {"birds": 0.6, "scene": 0.8}
    study = ablated(Schirn=two, rank=two, sparse=two, rule=two)
    for record in study.table.records:
        if (record["variant"], record["dataset"]) == ("no high rank", "birds"):
            record["published"] = None
    assert "+3.1 (from +3.1 to +3.1) in the paper" in found(ablation=study)[0]


def converged(*objectives):
    results = [
        {"dataset": f"d{k}", "objective": value}
        for k, trace in enumerate(objectives)
        for value in trace
    ]
    lines = [("d0", "100", 17.4, "0", "9", "85"), ("d1", "100", 38.0, "0", "9", "89")]
    body = [[Cell(str(v), v if isinstance(v, float) else None) for v in line] for line in lines]
    return made(results, Table("convergence", "", [], body))


def test_convergence_tells_how_far_the_objective_falls():
    (sentence,) = found(convergence=converged((1000.0, 1.0), (40_000.0, 20.0)))
    assert "falls by a factor of 1,000 to 2,000 because it starts far from" in sentence
    assert "But half of the labels" in sentence
    assert "removed only by round 85 to 89 of 100" in sentence
    assert sentence.endswith("still changes by 17 to 38 %.")


@pytest.mark.parametrize("trace", [(40.0, -20.0), (1.0, 2.0)])
def test_an_objective_that_turns_negative_or_grows_has_no_factor(trace):
    (sentence,) = found(convergence=converged((1000.0, 1.0), trace))
    assert "factor" not in sentence
    assert sentence.startswith("Half of the labels")


def authors(best, flat=0.568, **ridge):
    values = {
        "ridge(1)": RIDGE | ridge,
        "Schirn": {"average_precision": best},
        "no high rank": {"average_precision": flat},
    }
    results = [
        make_result("birds", 3, name, 0) | {"metrics": metrics} for name, metrics in values.items()
    ]
    return made(results)


def test_on_the_authors_folds_ridge_is_compared_digit_by_digit():
    ridge, best = found(authors_folds=authors(0.571))
    assert "reproduces 4 of the 4 printed means of GLC on Birds" in ridge
    assert "has an average precision of 57.1, or 56.8 without the rank term" in best
    assert "the paper prints 61.8 ± 0.6. The printed gain does not reproduce." in best
    ridge, _ = found(authors_folds=authors(0.571, one_error=0.5211, coverage_all_rows=0.158))
    assert "reproduces 2 of the 4 printed means" in ridge


def test_a_gain_that_does_reproduce_is_reported():
    assert found(authors_folds=authors(0.613))[1] == (
        "There, the best of Schirn's grid has an average precision of 61.3."
    )


def test_fits_that_failed_are_not_compared():
    assert len(found(authors_folds=authors(None))) == 1
    assert len(found(authors_folds=authors(0.571, flat=None))) == 1
    assert found(authors_folds=authors(0.571, average_precision=None)) == []


def test_ranks_of_the_prediction_beside_the_printed_ones():
    known = {
        "dataset": "yeastmf",
        "rank_prediction": 37,
        "rank_prediction_beta0": 36,
        "rank_half": 35,
        "rank_half_beta0": 34,
        "published prediction": 38,
        "published prediction, beta=0": 24,
    }
    mine = known | {"dataset": "mine", "published prediction, beta=0": None}
    assert found(prediction_ranks=made([known, mine])) == [
        "The rank of the prediction on yeastmf is 37 with the rank term and 36 without it "
        "(35 and 34 for scores above ½); the paper prints 38 and 24."
    ]


def test_spread_on_birds_beside_the_printed_one():
    results = [
        make_result("birds", 3, "Schirn", k, average_precision=v) for k, v in enumerate((0.5, 0.6))
    ]
    assert found(results) == [
        "On Birds with r = 3 the paper prints a standard deviation of 0.6 for Schirn; ours is 7.1."
    ]
    assert found(results[:1]) == []
    assert (
        found([make_result("birds", 7, "Schirn", k, average_precision=0.5) for k in (0, 1)]) == []
    )


def test_a_whole_study_has_the_gap_and_the_spread():
    gap, ridge, spread = findings(study(), {})
    assert "it is better in 10 of 10 settings" in ridge
    assert gap.startswith("Depending on the setting, Sieve closes")
    assert spread.startswith("On Birds")


def test_choices_of_paks_and_pard_are_counted():
    results = [
        make_result("birds", 3, "PAKS", fold, average_precision=0.483)
        | {"params": {"scale": scale}}
        for fold, scale in enumerate(["none", "none", "standard"])
    ]
    assert found_in(results) == [
        "PAKS is +2.0 points away from the paper on average; it chooses features as they are "
        "instead of standardised ones in 2 of 3 fits."
    ]
    unknown = make_result("mine", 1, "PARD", 0, average_precision=0.5) | {"params": {"warm_up": 5}}
    assert found_in([unknown]) == [
        "PARD chooses a warm-up of 30 epochs instead of 5 in 0 of 1 fits."
    ]


def found_in(results):
    return [text for text in findings(results, {}) if text.startswith(("PAKS", "PARD"))]


def test_the_singular_values_say_what_perturbation_theory_keeps():
    base = {"noise": "all wrong labels", "safe": False, "wedin": None, "rank": 5, "rank_after": 4}
    records = [
        base,
        {**base, "safe": True, "wedin": 0.5, "rank_after": 5},
        {**base, "noise": "random"},
    ]
    assert found(singular_values=made(records)) == [
        "The norm of the actual noise exceeds the smallest singular value of the candidates on 1 "
        "of 2 data sets, so that perturbation theory does not keep the rank, and Wedin's bound is "
        "void on 1; the rank falls on 1."
    ]
