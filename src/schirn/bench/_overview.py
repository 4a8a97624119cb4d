"""A first look at the rows: mean and spread of one measure, and what went wrong."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable

from schirn.bench.rows import STATUSES, Row
from schirn.metrics import METRICS


def overview(rows: Iterable[Row], metric: str = "average_precision") -> str:
    """A text table, data sets down and methods across, over folds and seeds.

    Parameters
    ----------
    rows : rows of one benchmark, as `run` or `read_rows` return them
    metric : name of a measure in the rows

    Examples
    --------
    >>> from schirn.bench import overview
    >>> print(overview([]))
    no cell was run
    """
    rows = list(rows)
    if not rows:
        return "no cell was run"
    heads, lines = overview_table(rows, metric)
    label = METRICS[metric].label if metric in METRICS else metric
    widths = [max(len(line[k]) for line in (heads, *lines)) for k in range(len(heads))]
    table = [
        "  ".join(
            text.ljust(width) if k == 0 else text.rjust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (heads, ["-" * width for width in widths], *lines)
    ]
    title = f"{label}, mean ± standard deviation; {settings_text(rows)}"
    return "\n".join([title, "", *table, "", counts_text(rows)])


def overview_table(rows: list[Row], metric: str) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the table."""
    methods = list(dict.fromkeys(method_label(row) for row in rows))
    sets = list(dict.fromkeys(set_label(row) for row in rows))
    cells: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        cells[set_label(row), method_label(row)].append(row)
    lines = [[name, *(_entry(cells[name, method], metric) for method in methods)] for name in sets]
    return ["data set", *methods], lines


def _entry(rows: list[Row], metric: str) -> str:
    values = [v for row in rows if (v := row["metrics"].get(metric)) is not None]
    bad = Counter(row["status"] for row in rows if row["status"] != "done")
    notes = [f"{count} {status}" for status, count in bad.items()]
    if values:
        spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        notes.insert(0, f"{statistics.fmean(values):.3f}{spread}")
    return ", ".join(notes) or "-"


def set_label(row: Row) -> str:
    """Name of a set with its noise."""
    if row["r"] is None:
        return str(row["dataset"])
    kind = "" if row["noise"] == "legacy" else f" {row['noise']}"
    return f"{row['dataset']} r={row['r']}{kind}"


def method_label(row: Row) -> str:
    """Name of a method; says where parameters were chosen on the truth."""
    return f"{row['method']} (oracle)" if row["oracle"] else str(row["method"])


def settings_text(rows: list[Row]) -> str:
    """What the cells have in common, in words."""
    words = {
        "none": "recommended parameters",
        "candidates": "tuned on candidates",
        "oracle": "ORACLE: tuned on the true labels of the test rows",
    }
    tuning = ", ".join(words[name] for name in dict.fromkeys(row["tuning"] for row in rows))
    features = " and ".join(dict.fromkeys(row["features"] for row in rows))
    return f"{tuning}; {features} features"


def counts_text(rows: list[Row]) -> str:
    """How many cells are done and how many are not."""
    counts = Counter(row["status"] for row in rows)
    return ", ".join(f"{counts[name]} {name}" for name in STATUSES if counts[name])
