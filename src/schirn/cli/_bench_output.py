"""What the commands that run benchmarks share: progress, and what their options mean."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from schirn.bench import Report
from schirn.bench._overview import method_label, set_label
from schirn.cli._output import printable, rich_console
from schirn.methods import methods as all_methods


def split_list(text: str) -> list[str]:
    """The parts of a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_methods(text: str) -> dict[str, str]:
    """Methods by the name they have in the rows."""
    found: dict[str, str] = {}
    own = {name.lower(): name for name in all_methods()}
    for part in split_list(text):
        name, equals, method = part.partition("=")
        if not equals:
            method = own.get(part.lower(), part)
            name = method
        wanted = {known: known for known in own.values()} if part == "all" else {name: method}
        found.update(wanted)
    return found


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[Report], None] | None]:
    """A bar on a terminal, one line per cell elsewhere."""
    console = None if quiet else rich_console(sys.stderr)
    if console is None:
        yield None if quiet else _line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("looking at the data")

        def report(report: Report) -> None:
            text = f"{_left(report)}  {_cell(report)}"
            bar.update(
                task, total=report.total, completed=report.finished, description=_escape(text)
            )
            if report.row["status"] in ("failed", "timeout"):
                bar.console.print(printable(_cell(report)), markup=False)

        yield report


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))


def _line(report: Report) -> None:
    sys.stderr.write(
        f"[{report.finished}/{report.total}] {printable(_cell(report))}{_left(report, ', ')}\n"
    )
    sys.stderr.flush()


def _cell(report: Report) -> str:
    row = report.row
    name = f"{set_label(row)} {method_label(row)} fold {row['fold']}"
    if row["seed"]:
        name += f" seed {row['seed']}"
    if row["status"] == "skipped":
        return f"{name}: skipped"
    if row["status"] != "done":
        return f"{name}: {row['status']} ({row['reason']})"
    took = sum(row[key] for key in ("tune_seconds", "fit_seconds", "predict_seconds"))
    return f"{name}: {row['metrics']['average_precision']:.3f} in {took:.1f} s"


def _left(report: Report, before: str = "") -> str:
    if report.seconds_left is None or report.finished == report.total:
        return ""
    minutes, rest = divmod(round(report.seconds_left), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
    return f"{before}about {clock if hours or minutes else f'{rest} s'} left"


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return value


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Seconds from a number with a unit, such as 90, 90s, 9m or 1.5h."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        value = float(number) * _UNITS[unit]
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a time such as 90s, 9m or 1.5h, not {text!r}")
    return value
