"""What a benchmark says, in a few sentences, and how it was made."""

import math
from collections.abc import Mapping, Sequence

from schirn.bench import stats
from schirn.bench._grid import CEILING, FLOOR, MEASURES, ORACLE_MARK, Contender, Grid, Row, grid
from schirn.bench._table_parts import signed
from schirn.bench.tables import against_published


def summary(rows: Sequence[Row], metric: str) -> list[str]:
    """Sentences for the top of the report; the bad news is among them."""
    cells = grid(rows, metric)
    label = cells.measure.label.rstrip(" ↑↓")
    said = [_best_rank(rows, metric, label), _gap(rows, cells, label), _paper(rows, metric, label)]
    failed = sum(not row.get("metrics") for row in rows)
    if failed:
        said.append(
            f"{failed} of {len(rows)} runs have no result; the reasons are below the tables."
        )
    if any(c.oracle for c in cells.contenders):
        said.append(
            f"Methods with {ORACLE_MARK} were tuned on true labels, which noisy data do not have."
        )
    return [sentence for sentence in said if sentence]


def protocol(rows: Sequence[Row], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """How the rows were made, as far as they say; `extra` adds lines or replaces them."""
    asked = {"none": "none", "candidates": "on candidate labels only", "oracle": "on true labels"}
    tuning = [asked.get(name, name) for name in _values(rows, "tuning") if name != "oracle"]
    oracle = list(dict.fromkeys(c.label for c in _contenders(rows) if c.oracle))
    tuning += [f"on true labels: {', '.join(oracle)}"] if oracle else []
    found = {
        "Data sets": _datasets(rows),
        "Kind of noise": ", ".join(_values(rows, "noise")),
        "Tuning": "; ".join(tuning),
        "Features": ", ".join(_values(rows, "features")),
        "Folds": ", ".join(_values(rows, "folds")) or str(len(_values(rows, "fold"))),
        "Seeds": ", ".join(_values(rows, "seed")),
        "Threads": ", ".join(_values(rows, "threads")),
        "Versions": _versions(rows),
    }
    return {name: text for name, text in (found | dict(extra or {})).items() if text}


def _values(rows: Sequence[Row], name: str) -> list[str]:
    return [str(v) for v in dict.fromkeys(row.get(name) for row in rows) if v is not None]


def _contenders(rows: Sequence[Row]) -> tuple[Contender, ...]:
    return grid(rows, next(iter(MEASURES))).contenders


def _datasets(rows: Sequence[Row]) -> str:
    """Data sets with their noise levels."""
    levels: dict[str, list[str]] = {}
    for setting in grid(rows, next(iter(MEASURES))).settings:
        levels.setdefault(setting.dataset, []).extend([setting.level] if setting.level else [])
    return "; ".join(
        f"{name} (r = {', '.join(seen)})" if seen else f"{name} (own candidates)"
        for name, seen in levels.items()
    )


def _versions(rows: Sequence[Row]) -> str:
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for package, version in (row.get("versions") or {}).items():
            found.setdefault(package, {})[str(version)] = None
    return ", ".join(f"{package} {' and '.join(seen)}" for package, seen in found.items())


def _best_rank(rows: Sequence[Row], metric: str, label: str) -> str:
    result = stats.friedman(rows, metric, unit="setting")
    ranks = {name: rank for name, rank in result.ranks.items() if not math.isnan(rank)}
    if len(ranks) < 2:
        return ""
    order = sorted(ranks, key=ranks.__getitem__)
    n = len(result.blocks.names)
    where = f"over {n} settings" if n > 1 else "in one setting"
    return (
        f"{order[0]} ranks best in {label} (mean rank {ranks[order[0]]:.2f} of {len(order)} "
        f"{where}), before {order[1]} ({ranks[order[1]]:.2f})."
    )


def _gap(rows: Sequence[Row], cells: Grid, label: str) -> str:
    if not {FLOOR, CEILING} <= {c.method for c in cells.contenders}:
        return ""
    shares = {}
    for name, per_setting in stats.gap_closed(rows, cells.metric).items():
        known = [value for value in per_setting.values() if not math.isnan(value)]
        if known:
            shares[name] = sum(known) / len(known)
    if not shares:
        return ""
    best = max(shares, key=shares.__getitem__)
    return (
        f"On average {best} closes {100 * shares[best]:.0f} % of the gap in {label} between "
        f"a ridge trained on the candidates ({FLOOR}) and one trained on the truth ({CEILING})."
    )


def _paper(rows: Sequence[Row], metric: str, label: str) -> str:
    lines = [line for line in against_published(rows, [metric]).body if line[6].value is not None]
    own = [line for line in lines if line[3].text.startswith("Schirn")] or lines
    if not own:
        return ""
    verdicts = [line[7].text for line in own]
    who = "Schirn" if own[0][3].text.startswith("Schirn") else "the methods"
    distance = [line[6].value or 0.0 for line in own]
    far = max(own, key=lambda line: abs(line[6].value or 0.0))
    return (
        f"The published {label} of {who} is reached in {verdicts.count('yes')} of {len(own)} "
        f"cells and nearly in {verdicts.count('nearly')}; ours is "
        f"{signed(sum(distance) / len(distance))} points away on average, at most "
        f"{far[6].text} ({far[1].text}{' r=' + far[2].text if far[2].text else ''})."
    )
