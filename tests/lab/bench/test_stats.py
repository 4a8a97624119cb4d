import math
from dataclasses import replace

import numpy as np
import pytest
import scikit_posthocs
from reference.bench_results import lost, make_result, study
from scipy import stats as reference

from schirn.estimators import methods
from schirn.exceptions import InputError
from schirn.lab.bench import stats, tables
from schirn.lab.bench._published import published, published_values
from schirn.metrics import METRICS

A = [0.81, 0.84, 0.79, 0.88, 0.83]
B = [0.79, 0.80, 0.78, 0.83, 0.82]


def folds(dataset, r, method, values, metric="average_precision", **fields):
    return [
        make_result(dataset, r, method, k, **{metric: v}, **fields) for k, v in enumerate(values)
    ]


def flat(means, metric="average_precision"):
    """One result per data set and method."""
    return [
        make_result(f"d{i}", 1, method, 0, **{metric: value})
        for method, values in means.items()
        for i, value in enumerate(values)
    ]


def test_paired_t_is_that_of_scipy():
    ours, theirs = stats.paired_t(A, B), reference.ttest_rel(A, B)
    assert ours == pytest.approx((theirs.statistic, theirs.pvalue))


def test_corrected_t_by_hand():
    d = np.subtract(A, B)
    t = d.mean() / math.sqrt((1 / 5 + 1 / 4) * d.var(ddof=1))
    p = 2 * reference.t.sf(abs(t), 4)
    assert stats.corrected_t(A, B, ratio=1 / 4) == pytest.approx((t, p))
    assert p > stats.paired_t(A, B).pvalue


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        ([0.1, 0.2], [0.1, 0.2], 1.0),
        ([0.3, 0.4, 0.5], [0.1, 0.2, 0.3], 0.0),
        ([0.1], [0.2], math.nan),
        ([], [], math.nan),
    ],
)
def test_t_without_variance_or_folds(a, b, p):
    assert stats.paired_t(a, b).pvalue == pytest.approx(p, nan_ok=True)


def test_win_tie_loss_counts_by_hand():
    results = (
        folds("d1", 1, "Schirn", [0.9, 0.91, 0.92, 0.9, 0.91])
        + folds("d1", 1, "NLR", [0.8, 0.82, 0.81, 0.8, 0.8])
        + folds("d2", 1, "Schirn", [0.5, 0.6, 0.5, 0.6, 0.5])
        + folds("d2", 1, "NLR", [0.6, 0.5, 0.6, 0.5, 0.5])
        + folds("d3", 1, "Schirn", [0.1, 0.11, 0.12, 0.1, 0.1])
        + folds("d3", 1, "NLR", [0.3, 0.32, 0.31, 0.3, 0.33])
        + folds("d4", 1, "Schirn", [0.1, 0.2])
        + [lost("d4", 1, "NLR", k) for k in range(2)]
    )
    assert stats.win_tie_loss(results, "Schirn", "average_precision") == {"NLR": (1, 1, 1, 1)}
    # Of a loss, less is better: the same numbers read the other way round.
    turned = [
        r | {"metrics": dict.fromkeys(["one_error"] * len(r["metrics"]), *r["metrics"].values())}
        for r in results
    ]
    assert stats.win_tie_loss(turned, "Schirn", "one_error") == {"NLR": (1, 1, 1, 1)}
    marked = [line[3].mark for line in tables.results(turned, "one_error", reference="Schirn").body]
    assert marked == ["◦", "", "•", ""]


def test_win_tie_loss_pairs_by_fold_and_seed_not_by_order():
    ours = folds("d", 1, "Schirn", A)
    others = folds("d", 1, "NLR", B)[::-1]
    moved = stats.win_tie_loss(ours + others, "Schirn", "average_precision")
    assert moved == stats.win_tie_loss(ours + others[::-1], "Schirn", "average_precision")


def test_corrected_test_is_more_careful():
    results = folds("d", 1, "Schirn", A) + folds("d", 1, "NLR", B)
    plain = stats.win_tie_loss(results, "Schirn", "average_precision", test="paired")
    careful = stats.win_tie_loss(results, "Schirn", "average_precision")
    assert (plain["NLR"].win, careful["NLR"].win) == (1, 0)


def test_oracle_tuned_results_are_contenders_of_their_own():
    results = folds("d", 1, "Schirn", A) + folds("d", 1, "Schirn", B, tuning="oracle", oracle=True)
    assert list(stats.win_tie_loss(results, "Schirn", "average_precision")) == ["Schirn†"]


def test_two_results_of_one_run_are_refused():
    results = folds("d", 1, "Schirn", [0.1]) + folds("d", 1, "Schirn", [0.2])
    with pytest.raises(InputError, match=r"Two results for Schirn on d r=1.*0\.1 and 0\.2"):
        stats.win_tie_loss(results, "Schirn", "average_precision")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda given: stats.win_tie_loss(given, "GLC", "one_error"),
            "'GLC'; there are results of: Schirn",
        ),
        (lambda given: stats.win_tie_loss(given, "Schirn", "f1"), "Unknown metric 'f1'"),
        (lambda given: stats.win_tie_loss([], "Schirn", "one_error"), "no benchmark results"),
        (
            lambda given: stats.win_tie_loss([{}], "Schirn", "one_error"),
            "result 0 has no 'dataset'",
        ),
        (
            lambda given: stats.win_tie_loss(given, "Schirn", "one_error", test="z"),
            "unknown test 'z'; use one of corrected, paired",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call(folds("d", 1, "Schirn", [0.1], "one_error"))


def test_holm_by_hand_and_with_gaps():
    assert stats.holm([0.04, math.nan, 0.01, 0.03]) == pytest.approx(
        [0.06, math.nan, 0.03, 0.06], nan_ok=True
    )
    assert stats.holm([0.9, 0.8]) == [1.0, 1.0]
    assert stats.holm([]) == []


def test_wilcoxon_is_that_of_scipy_then_holm():
    random = np.random.default_rng(0)
    means = {name: random.random(9) for name in ("Schirn", "NLR", "PMLNI", "CandidateRidge")}
    found = {
        pair.contender: pair
        for pair in stats.wilcoxon_holm(flat(means), "Schirn", "average_precision")
    }
    plain = {
        name: reference.wilcoxon(means["Schirn"] - means[name]).pvalue
        for name in ("NLR", "PMLNI", "CandidateRidge")
    }
    assert {name: pair.pvalue for name, pair in found.items()} == pytest.approx(plain)
    adjusted = dict(zip(plain, stats.holm(list(plain.values())), strict=True))
    assert {name: pair.holm for name, pair in found.items()} == pytest.approx(adjusted)
    assert found["NLR"].median == pytest.approx(np.median(means["Schirn"] - means["NLR"]))
    losses = stats.wilcoxon_holm(flat(means, "one_error"), "Schirn", "one_error")
    assert {p.contender: p.median for p in losses}["NLR"] == pytest.approx(-found["NLR"].median)


def test_wilcoxon_of_equal_scores_and_of_one_data_set():
    equal = stats.wilcoxon_holm(
        flat({"Schirn": [0.1, 0.2], "NLR": [0.1, 0.2]}), "Schirn", "average_precision"
    )
    assert (equal[0].pvalue, equal[0].significant) == (1.0, False)
    single = stats.wilcoxon_holm(
        flat({"Schirn": [0.1], "NLR": [0.2]}), "Schirn", "average_precision"
    )
    assert math.isnan(single[0].holm)
    assert not single[0].significant


def test_friedman_and_nemenyi_are_those_of_scipy_and_posthocs():
    random = np.random.default_rng(1)
    means = {name: random.random(8) for name in ("Sieve", "Schirn", "NLR", "A", "B")}
    result = stats.friedman(flat(means), "average_precision")
    theirs = reference.friedmanchisquare(*means.values())
    assert (result.statistic, result.pvalue) == pytest.approx((theirs.statistic, theirs.pvalue))
    order = list(result.ranks)
    values = np.column_stack([means[name] for name in order])
    assert result.nemenyi == pytest.approx(
        scikit_posthocs.posthoc_nemenyi_friedman(values).to_numpy(), abs=1e-12
    )
    ranks = reference.rankdata(-values, axis=1).mean(axis=0)
    assert list(result.ranks.values()) == pytest.approx(ranks.tolist())


def apart(results):
    """The same results with every setting as a data set of its own."""
    return [{**r, "dataset": f"{r['dataset']} {r['r']}"} for r in results]


def test_frozen_results():
    result = stats.friedman(apart(study()), "one_error")
    assert (result.statistic, result.pvalue) == pytest.approx(
        (54.0, 7.377150604915915e-10), rel=1e-12
    )
    assert result.nemenyi[0] == pytest.approx(
        [
            1.0,
            0.9580056285289044,
            0.43786544160078833,
            7.998651485596753e-08,
            0.0016616833298340739,
            0.05034341834936307,
            1.882675820419344e-05,
        ],
        rel=1e-12,
    )
    assert result.critical_difference == pytest.approx(3.0024221451740583, rel=1e-12)
    pairs = stats.wilcoxon_holm(apart(study()), "Schirn", "one_error")
    values = [(pair.pvalue, pair.holm) for pair in pairs]
    expected = [
        (0.001953125, 0.01171875),
        (0.001953125, 0.01171875),
        (0.001953125, 0.01171875),
        (0.001953125, 0.01171875),
        (0.00390625, 0.01171875),
        (0.001953125, 0.01171875),
    ]
    assert np.array(values) == pytest.approx(np.array(expected), rel=1e-12)


def test_nemenyi_by_hand():
    means = {name: np.random.default_rng(i).random(8) for i, name in enumerate("ABCDE")}
    result = stats.friedman(flat(means), "average_precision")
    ranks = np.array(list(result.ranks.values()))
    width = math.sqrt(5 * 6 / (6 * 8))
    distances = abs(ranks[:, None] - ranks) / width * math.sqrt(2)
    expected = reference.studentized_range.sf(distances, 5, np.inf)
    assert result.nemenyi == pytest.approx(expected, abs=1e-12)


def test_critical_difference_of_the_textbook():
    """Demšar's example: q = 2.569 for four methods, 14 data sets, CD = 1.25 at 0.05."""
    means = {name: np.arange(14) / 20 + i / 100 for i, name in enumerate("ABCD")}
    assert stats.friedman(flat(means), "average_precision").critical_difference == pytest.approx(
        2.569 * math.sqrt(4 * 5 / (6 * 14)), abs=2e-3
    )


def test_data_sets_needed_to_distinguish_two_methods():
    """q = 2.569 for four methods: 2.569² · 4 · 5 / (6 · 3²) = 2.44, so that 2 are too few."""
    enough = flat({name: [0.1 * i, 0.2 * i, 0.3 * i] for i, name in enumerate("ABCD")})
    result = stats.friedman(enough, "average_precision")
    assert result.needed == 3
    assert result.critical_difference < 3
    assert stats.few_blocks(result).startswith("Only 3 data sets")
    two = stats.friedman([r for r in enough if r["dataset"] != "d2"], "average_precision")
    assert two.critical_difference > 3
    assert "4 methods need at least 3, there are 2" in stats.few_blocks(two)
    many = flat({name: np.arange(10) / 20 + i / 100 for i, name in enumerate("ABCD")})
    assert stats.few_blocks(stats.friedman(many, "average_precision")) == ""


def test_friedman_edges():
    equal = stats.friedman(flat({name: [0.1, 0.2, 0.3] for name in "ABC"}), "average_precision")
    assert (equal.statistic, equal.pvalue) == (0.0, 1.0)
    assert set(equal.ranks.values()) == {2.0}
    one = stats.friedman(flat({name: [0.1] for name in "ABC"}), "average_precision")
    assert math.isnan(one.pvalue)
    assert "two data sets" in one.note
    two = stats.friedman(flat({name: [0.1, 0.2] for name in "AB"}), "average_precision")
    assert "three methods" in two.note


def test_friedman_drops_settings_with_gaps_and_says_so():
    results = apart(study())
    result = stats.friedman(results, "average_precision")
    assert result.blocks.dropped_settings == ("birds 11 r=11",)
    assert len(result.blocks.names) == 9
    assert "OracleRidge" not in result.ranks
    rare = [*results, make_result("scene", 1, "PARD", 0, average_precision=0.1)]
    kept = stats.friedman(rare, "average_precision")
    assert kept.blocks.dropped_contenders == ("PARD‡",)
    assert kept.ranks == result.ranks


def test_tests_take_iterators():
    results = study()
    assert (
        stats.friedman(iter(results), "one_error").ranks
        == stats.friedman(results, "one_error").ranks
    )


def test_data_sets_average_their_noise_levels():
    results = [
        make_result("d", r, "Schirn", 0, average_precision=v) for r, v in ((1, 0.2), (2, 0.4))
    ]
    results += [make_result("d", r, "NLR", 0, average_precision=v) for r, v in ((1, 0.1), (2, 0.2))]
    found = stats.blocks(results, "average_precision")
    assert found.names == ("d",)
    assert found.values == pytest.approx(np.array([[0.3, 0.15]]))


def test_gap_closed_by_hand():
    results = [
        make_result("d", r, method, k, average_precision=v + k / 100, one_error=1 - v)
        for r, values in ((1, (0.4, 0.7, 0.8)), (2, (0.5, 0.4, 0.7)))
        for method, v in zip(("CandidateRidge", "Schirn", "OracleRidge"), values, strict=True)
        for k in range(2)
    ]
    for metric in ("average_precision", "one_error"):
        found = stats.gap_closed(results, metric)
        assert list(found) == ["Schirn"]
        assert list(found["Schirn"].values()) == pytest.approx([0.75, -0.5])


def test_gap_closed_without_a_gap_is_unknown():
    results = flat({"CandidateRidge": [0.5], "Schirn": [0.505], "OracleRidge": [0.5]})
    assert math.isnan(next(iter(stats.gap_closed(results)["Schirn"].values())))


def test_published_numbers_use_our_names():
    values = published_values()
    assert len(values) == 1150
    assert {key[0] for key in values} == set(METRICS)
    newer = {
        "COMES",
        "MUSER",
        "OracleCOMES",
        "PLAIN",
        "PMLFP",
        "PMLLC",
        "PMLLENFN",
        "PMLMA",
        "PMLPLR",
        "Sieve",
        "CandidateRidge",
        "OracleRidge",
    }
    assert {key[3] for key in values} == set(methods()) - newer
    assert all(0 <= value.mean <= 1 and 0 <= value.std < 0.2 for value in values.values())
    assert published("yeastmf", None, "Schirn", "average_precision") == (0.544, 0.011)
    assert published("birds", 11, "ParticleVLS", "one_error") is not None
    assert published("birds", None, "Schirn", "one_error") is None


def test_ties_on_paper_are_ties():
    better = [0.71, 0.62, 0.53, 0.44, 0.38, 0.29, 0.95, 0.17]
    worse = [0.70, 0.61, 0.54, 0.43, 0.36, 0.30, 0.93, 0.16]
    results = [
        {"dataset": f"d{i}", "r": None, "method": m, "fold": 0, "metrics": {"average_precision": v}}
        for m, values in (("A", better), ("B", worse))
        for i, v in enumerate(values)
    ]
    (found,) = stats.wilcoxon_holm(results, "A", "average_precision")
    exact = [1, 1, -1, 1, 2, -1, 2, 1]
    expected = reference.wilcoxon(exact)
    assert (found.statistic, found.pvalue) == (expected.statistic, expected.pvalue)
    third = [{**one, "method": "C"} for one in results if one["method"] == "A"]
    for one in third:
        one["metrics"] = {"average_precision": one["metrics"]["average_precision"] + 1e-16}
    ranks = stats.friedman(results + third, "average_precision").ranks
    assert ranks["A"] == ranks["C"]


def test_one_method_under_two_tunings_is_two_contenders():
    results = [
        {
            "dataset": f"d{i}",
            "r": None,
            "method": m,
            "tuning": t,
            "fold": 0,
            "oracle": m == "B" and t == "oracle",
            "metrics": {"average_precision": 0.5 + i / 10},
        }
        for m in ("Sieve", "B")
        for t in ("oracle", "candidates")
        for i in range(3)
    ]
    ranks = stats.friedman(results, "average_precision").ranks
    assert list(ranks) == ["Sieve (oracle)", "Sieve (candidates)", "B", "B†"]


def test_iman_and_davenport_follow_from_the_chi_square():
    """Demšar (2006), Table 6: n = 14, k = 4, chi-square 9.28 give F = 3.69."""
    blocks = stats.Blocks(tuple("abcdefghijklmn"), tuple("wxyz"), np.zeros((14, 4)), (), ())
    result = stats.Friedman(9.28, 0.026, {}, 1.25, 0.05, blocks, "")
    assert result.iman_davenport.statistic == pytest.approx(3.69, abs=0.005)
    assert result.iman_davenport.pvalue == pytest.approx(0.0197, abs=5e-4)
    without = replace(result, statistic=float("nan"))
    assert np.isnan(without.iman_davenport.pvalue)


def plain_signed_rank(differences, rope, draws, seed):
    """Bayesian signed rank test by loops over pairs."""
    z = [0.0, *differences]
    weights = np.random.default_rng(seed).dirichlet([1.0] * len(z), size=draws)
    wins = [0, 0, 0]
    for w in weights:
        shares = [0.0, 0.0, 0.0]
        for i, a in enumerate(z):
            for j, b in enumerate(z):
                middle = (a + b) / 2
                shares[0 if middle < -rope else 2 if middle > rope else 1] += w[i] * w[j]
        wins[shares.index(max(shares))] += 1
    return [count / draws for count in wins]


def test_bayesian_signed_rank_equals_the_sum_over_pairs():
    differences = [0.03, -0.02, 0.05, 0.002, 0.04]
    expected = plain_signed_rank(differences, 0.01, 300, 4)
    assert stats.bayesian_signed_rank(differences, draws=300, seed=4) == pytest.approx(expected)
    worse, equal, better = stats.bayesian_signed_rank(differences)
    assert better > 0.6 > equal + worse
    mirrored = stats.bayesian_signed_rank([-d for d in differences])
    assert mirrored == pytest.approx((better, equal, worse), abs=0.02)
    assert stats.bayesian_signed_rank([0.001] * 8)[1] == 1.0


def test_the_sentence_about_the_best_has_the_p_of_the_chi_square():
    """The F of Iman and Davenport is infinite if all data sets agree."""
    means = {"NLR": [0.9, 0.8], "Schirn": [0.7, 0.6], "Sieve": [0.5, 0.4]}
    result = stats.friedman(flat(means), "average_precision")
    assert result.iman_davenport.pvalue == 0
    text = stats.leading(result, "average precision")
    assert text.endswith(f"(Friedman's chi-square test over 2 data sets, p = {result.pvalue:.2g}).")
