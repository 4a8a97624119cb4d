"""What a reproduction says, in one sentence each."""

import math
import statistics
from collections.abc import Mapping, Sequence

from schirn.bench import stats
from schirn.bench._grid import Row, grid
from schirn.bench._table_parts import signed
from schirn.bench.published import Published, published_values
from schirn.reproduction.study import Study


def findings(rows: Sequence[Row], studies: Mapping[str, Study]) -> list[str]:
    """What the studies say, in one sentence each."""
    said = _gap_finding(rows)
    if "label_ranks" in studies:
        found = studies["label_ranks"].rows
        known = [row for row in found if row["published_rank_true"] is not None]
        same = sum(_same_ranks(row) for row in known)
        if known:
            said.append(f"Of Table 1 both ranks are reproduced in {same} of {len(known)} sets.")
    if "theorem" in studies:
        found = studies["theorem"].rows
        empty = sum(row["bound"] < 0 for row in found if row["noise"] == "all wrong labels")
        all_wrong = sum(row["noise"] == "all wrong labels" for row in found)
        tight = all(row["lowest"] == row["bound"] for row in found if row["matrix"] == "identity")
        said.append(
            f"The bound of the theorem holds in {sum(row['holds'] for row in found)} of "
            f"{len(found)} cases{' and is reached by the identity' if tight else ''}; for the "
            f"actual noise it is negative, and so empty, in {empty} of {all_wrong} sets."
        )
    if "ablation" in studies:
        said += _ablation_finding(studies["ablation"])
    if "convergence" in studies:
        said += _convergence_finding(studies["convergence"])
    if "authors_folds" in studies:
        said += _authors_finding(studies["authors_folds"].rows)
    if "prediction_ranks" in studies:
        said += _rank_finding(studies["prediction_ranks"].rows)
    return said + _printed_spread(rows)


def _gap_finding(rows: Sequence[Row], metric: str = "average_precision") -> list[str]:
    """How unequal the shares of the gap are that Sieve closes."""
    if not {"CandidateRidge", "OracleRidge", "Sieve"} <= {row["method"] for row in rows}:
        return []
    found = stats.gap_closed(rows, metric).get("Sieve", {})
    shares = {setting: 100 * v for setting, v in found.items() if not math.isnan(v)}
    if len(shares) < 3:
        return []
    cells = grid(rows, metric)
    mean = {c.method: c for c in cells.contenders}
    most = max(shares, key=shares.__getitem__)
    gap = cells.mean(most, mean["OracleRidge"]) - cells.mean(most, mean["CandidateRidge"])
    return [
        f"By setting Sieve closes from {_whole(min(shares.values()))} to {_whole(shares[most])} % "
        f"of the gap, {_whole(statistics.median(shares.values()))} % in the median; the largest "
        f"share is that of {most.label}, where the gap is {100 * gap:.1f} points."
    ]


def _whole(value: float) -> str:
    return str(round(value)).replace("-", "−")


def _same_ranks(row: Row) -> bool:
    pairs = (("rank_true", "published_rank_true"), ("rank_candidates", "published_rank_candidates"))
    return all(row[ours] == row[theirs] for ours, theirs in pairs)


def _ablation_finding(study: Study) -> list[str]:
    """Mean gains of the rank term and of sparsity, ours and printed."""
    rank = _gains(study, "no high rank")
    sparse = _gains(study, "no sparsity")
    printed_rule = _gains(study, "no sparsity, printed rule", paper=False)
    if not (rank and sparse and printed_rule):
        return []
    return [
        "The rank term, Schirn against Schirn without it, gains "
        f"{_between(rank, 0)} points of average precision here and {_between(rank, 1)} in the "
        "paper.",
        f"Sparsity, α > 0 against α = 0, gains {_between(sparse, 0)} points under the exact noise "
        f"rule, {_between(printed_rule, 0)} under the printed one, and {_between(sparse, 1)} in "
        "the paper.",
    ]


def _gains(study: Study, variant: str, paper: bool = True) -> list[tuple[float, float]]:
    """Average precision of Schirn less that of a variant, ours and printed, by data set."""
    found = {
        (record["dataset"], record["variant"]): record
        for record in study.table.records
        if record["metric"] == "average_precision"
    }
    gains = []
    for name in dict.fromkeys(name for name, _ in found):
        whole, less = found.get((name, "Schirn")), found.get((name, variant))
        if whole is None or less is None or whole["published"] is None:
            continue
        if not paper:
            gains.append((whole["ours"] - less["ours"], math.nan))
        elif less["published"] is not None:
            theirs = whole["published"] - less["published"]
            gains.append((whole["ours"] - less["ours"], theirs))
    return gains


def _between(gains: Sequence[tuple[float, float]], which: int) -> str:
    """Mean, lowest and highest of the gains in words."""
    values = [pair[which] / 100 for pair in gains]
    mean = signed(sum(values) / len(values))
    return f"{mean} (from {signed(min(values))} to {signed(max(values))})"


def _convergence_finding(study: Study) -> list[str]:
    """When Schirn finds the noise, and whether it has come to rest."""
    half = [int(line[5].text) for line in study.table.body]
    still = [line[2].value or 0.0 for line in study.table.body]
    fall = _fall(study.rows)
    return [
        f"{fall}{'But h' if fall else 'H'}alf of the labels that Schirn removes in the end are "
        f"removed only by round {min(half)} to {max(half)} of {study.table.body[0][1].text}, and "
        f"in the last ten rounds the objective still changes by {min(still):.0f} to "
        f"{max(still):.0f} %."
    ]


def _fall(rows: Sequence[Row]) -> str:
    """By how much the objective falls, where it stays positive."""
    traces: dict[str, list[float]] = {}
    for row in rows:
        traces.setdefault(row["dataset"], []).append(row["objective"])
    factors = [trace[0] / trace[-1] for trace in traces.values() if trace[-1] > 0]
    if len(factors) < len(traces) or min(factors) <= 1:
        return ""
    return (
        f"From the first round to the last the objective of Schirn falls by a factor of "
        f"{min(factors):,.0f} to {max(factors):,.0f}, because it starts far off, which looks like "
        "fast convergence. "
    )


def _authors_finding(rows: Sequence[Row]) -> list[str]:
    """Whether ridge gives the printed GLC, and how far the best of Schirn's grid gets."""
    ridge = _ridge_finding(rows)
    return [*ridge, *_best_finding(rows)] if ridge else []


def _ridge_finding(rows: Sequence[Row]) -> list[str]:
    named = {"average_precision": "average_precision", "ranking_loss": "ranking_loss"}
    named |= {"one_error": "one_error", "coverage_all_rows": "coverage"}
    away = [
        abs(_mean(rows, "ridge(1)", ours) - _on_birds("GLC", theirs).mean)
        for ours, theirs in named.items()
    ]
    if any(map(math.isnan, away)):
        return []
    return [
        f"On the folds of NLR's authors plain ridge with weight 1 gives "
        f"{sum(distance < 0.00055 for distance in away)} of the "
        f"{len(named)} printed means of GLC on Birds to the last digit."
    ]


def _best_finding(rows: Sequence[Row]) -> list[str]:
    paper = _on_birds("Schirn", "average_precision")
    best = 100 * _mean(rows, "Schirn", "average_precision")
    flat = 100 * _mean(rows, "no high rank", "average_precision")
    if math.isnan(best + flat):
        return []
    if best >= 100 * (paper.mean - paper.std):
        return [f"There the best of Schirn's grid reaches {best:.1f} of average precision."]
    return [
        f"There the best of Schirn's grid, chosen on the test rows of every fold, reaches "
        f"{best:.1f} of average precision, {flat:.1f} without the rank term; the paper prints "
        f"{100 * paper.mean:.1f} ± {100 * paper.std:.1f}. The printed gain does not reproduce."
    ]


def _on_birds(method: str, metric: str) -> Published:
    """What the paper prints for Birds with r = 3."""
    return published_values()[metric, "birds", "3", method]


def _mean(rows: Sequence[Row], method: str, metric: str) -> float:
    values = [row["metrics"].get(metric) for row in rows if row["method"] == method]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan


def _rank_finding(rows: Sequence[Row]) -> list[str]:
    """Whether the rank of the prediction falls without the rank term."""
    known = [row for row in rows if row["published prediction, beta=0"] is not None]
    return [
        f"The rank of the prediction on {row['dataset']} is {row['rank_prediction']} with the rank "
        f"term and {row['rank_prediction_beta0']} without it "
        f"({row['rank_half']} and {row['rank_half_beta0']} if scores are cut at ½); the paper "
        f"prints {row['published prediction']} and {row['published prediction, beta=0']}."
        for row in known
    ]


def _printed_spread(rows: Sequence[Row]) -> list[str]:
    """The spread between folds on Birds beside the printed one."""
    cells = grid(rows, "average_precision")
    paper = _on_birds("Schirn", "average_precision")
    spreads = [
        cells.std(setting, c)
        for setting in cells.settings
        for c in cells.contenders
        if (setting.dataset, setting.r, c.method) == ("birds", 3, "Schirn")
    ]
    return [
        f"On Birds with r = 3 the paper prints ± {100 * paper.std:.1f} for Schirn; "
        f"between our folds the spread is {100 * std:.1f}."
        for std in spreads[:1]
        if not math.isnan(std)
    ]
