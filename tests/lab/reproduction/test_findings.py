"""The findings of a reproduction, from results made by hand."""

import pytest
from reference.bench_results import make_result, study

from schirn.lab.bench._rendering import Table
from schirn.lab.reproduction._findings import findings
from schirn.lab.reproduction._studies import Study


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
        "negative, and so void, on 1 of 2 data sets."
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
    rank, sparse = found(
        ablation=ablated(
            Schirn={"birds": 0.60, "scene": 0.80, "mine": 0.9},
            rank={"birds": 0.59, "scene": 0.81, "mine": 0.1},
            sparse={"birds": 0.55, "scene": 0.75},
        )
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
    (ridge,) = findings(study(), {})
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
        "of 2 data sets, so that perturbation theory does not keep the rank, and Wedin's bound is "
        "void on 1; the rank falls on 1."
    ]
