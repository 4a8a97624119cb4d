"""Tables of ranks and tests."""

import math
from collections.abc import Iterable, Sequence

from schirn.bench import stats
from schirn.bench._grid import CEILING, MEASURES, Contender, Row, grid
from schirn.bench._render import Cell, Table
from schirn.bench._table_parts import (
    AUTO,
    MISSING,
    compared,
    mark_notes,
    note_on_test,
    number,
    reference_of,
)
from schirn.bench.stats import Pairwise, WinTieLoss
from schirn.exceptions import InputError


def ranks(
    rows: Iterable[Row], metrics: Sequence[str] | None = None, *, unit: str = "setting"
) -> Table:
    """Mean rank of every method in every measure over the settings; 1 is best."""
    rows = list(rows)
    names = compared(rows) if metrics is None else list(metrics)
    found = {name: stats.friedman(rows, name, unit=unit) for name in names}
    labels = [c.label for c in grid(rows, names[0]).rivals]
    best = {name: min(found[name].ranks.values(), default=math.nan) for name in names}
    body = [
        [Cell(label)] + [_rank(found[name].ranks.get(label), best[name]) for name in names]
        for label in labels
    ]
    counts = {len(found[name].blocks.names) for name in names}
    dropped = dict.fromkeys(s for name in names for s in found[name].blocks.dropped_settings)
    absent = dict.fromkeys(s for name in names for s in found[name].blocks.dropped_contenders)
    notes = [
        f"Mean over {_range(counts)} {_plural(unit)} on which all ranked methods have results."
    ]
    notes += [f"Left out, with missing results: {', '.join(dropped)}."] if dropped else []
    notes += [f"Not ranked everywhere, too few results: {', '.join(absent)}."] if absent else []
    heads = [MEASURES[name].label for name in names]
    return Table(
        "ranks", "Mean ranks (1 is best)", ["method", *heads], body, [*notes, *mark_notes(rows)]
    )


def win_tie_loss(
    rows: Iterable[Row],
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    test: str = "paired",
) -> Table:
    """Win/tie/loss counts of the reference against every method, as in the papers."""
    rows = list(rows)
    names = compared(rows) if metrics is None else list(metrics)
    ours = reference_of(rows, grid(rows, names[0]), reference)
    if ours is None:
        raise InputError("Win/tie/loss counts need a reference method; name one that has rows.")
    counts = {
        name: stats.win_tie_loss(rows, ours.label, name, alpha=alpha, test=test) for name in names
    }
    others = [c for c in grid(rows, names[0]).contenders if c != ours]
    lines = [[Cell(MEASURES[name].label), *_tally(counts[name], others)] for name in names]
    total = {c.label: _add([counts[name][c.label] for name in names]) for c in others}
    lines.append([Cell("total"), *_tally(total, others)])
    notes = [note_on_test(alpha, test)]
    if any(c.ceiling for c in others):
        notes.append(f"The column total leaves {CEILING} out: it is trained on the true labels.")
    if any(w.missing for w in total.values()):
        notes.append("Settings without results of both methods are not counted.")
    return Table(
        "win_tie_loss",
        f"Win/tie/loss of {ours.label} against each method",
        ["metric", *(c.label for c in others), "total"],
        lines,
        [*notes, *mark_notes(rows)],
        foot=1,
    )


def friedman_tests(
    rows: Iterable[Row],
    metrics: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    unit: str = "dataset",
) -> Table:
    """Friedman's test of every measure, with the critical difference of Nemenyi's test."""
    rows, body = list(rows), []
    for name in compared(rows) if metrics is None else metrics:
        result = stats.friedman(rows, name, alpha=alpha, unit=unit)
        n, k = result.blocks.values.shape
        best = min(result.ranks, key=result.ranks.__getitem__, default=MISSING)
        body.append(
            [
                Cell(MEASURES[name].label),
                Cell(best),
                number(result.statistic, "{:.2f}", note=result.note),
                number(result.pvalue, "{:.3g}", note=result.note),
                number(result.critical_difference, "{:.2f}", note=result.note),
                Cell(str(k), k),
                Cell(str(n), n),
            ]
        )
    return Table(
        "friedman",
        f"Friedman's test over {_plural(unit)}",
        ["metric", "best rank", "chi-square", "p", "critical difference", "methods", _plural(unit)],
        body,
        [f"Two mean ranks further apart than the critical difference differ (Nemenyi, {alpha:g})."],
        stub=2,
    )


def wilcoxon_tests(
    rows: Iterable[Row],
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    unit: str = "dataset",
) -> Table:
    """Holm-corrected p-values of Wilcoxon's test of the reference against every method."""
    rows = list(rows)
    names = compared(rows) if metrics is None else list(metrics)
    ours = reference_of(rows, grid(rows, names[0]), reference)
    if ours is None:
        raise InputError("Wilcoxon's test needs a reference method; name one that has rows.")
    found = {
        name: {
            pair.contender: pair
            for pair in stats.wilcoxon_holm(rows, ours.label, name, alpha=alpha, unit=unit)
        }
        for name in names
    }
    labels = list(dict.fromkeys(label for pairs in found.values() for label in pairs))
    body = [[Cell(label), *(_holm(found[name].get(label)) for name in names)] for label in labels]
    return Table(
        "wilcoxon",
        f"Wilcoxon's test of {ours.label} over {_plural(unit)}, p-values after Holm",
        ["against", *(MEASURES[name].label for name in names)],
        body,
        [
            f"• {ours.label} is better, ◦ worse, at level {alpha:g}. With n {_plural(unit)} no "
            "p-value can be below 2/2^n before the correction.",
            *mark_notes(rows),
        ],
    )


def _rank(rank: float | None, best: float) -> Cell:
    if rank is None or math.isnan(rank):
        return Cell(MISSING)
    return Cell(f"{rank:.2f}", rank, best=rank == best)


def _tally(counts: dict[str, WinTieLoss], others: Sequence[Contender]) -> list[Cell]:
    """Counts per contender, then their sum without the ceiling."""
    total = _add([counts[c.label] for c in others if not c.ceiling])
    return [Cell(str(w), w.win - w.loss) for w in (*(counts[c.label] for c in others), total)]


def _add(counts: Sequence[WinTieLoss]) -> WinTieLoss:
    return WinTieLoss(*(sum(values) for values in zip(*counts, strict=True))) if counts else _NONE


_NONE = WinTieLoss(0, 0, 0)


def _holm(pair: Pairwise | None) -> Cell:
    if pair is None or math.isnan(pair.holm):
        return Cell(MISSING, note="fewer than two common values")
    mark = ("•" if pair.median > 0 else "◦") if pair.significant else ""
    return Cell(f"{pair.holm:.3g}", pair.holm, mark=mark)


def _range(counts: set[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _plural(unit: str) -> str:
    return "data sets" if unit == "dataset" else "settings"
