"""Progress and options shared by the commands that run benchmarks."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from schirn.bench import Report
from schirn.bench._overview import dataset_label, method_label
from schirn.cli._output import printable, rich_console
from schirn.methods import methods as all_methods


def split_list(text: str) -> list[str]:
    """Split a comma-separated list."""
    return [item.strip() for item in text.split(",") if item.strip()]


def parse_methods(text: str) -> dict[str, str]:
    """Methods by their name in the results."""
    found: dict[str, str] = {}
    own = {name.lower(): name for name in all_methods()}
    for item in split_list(text):
        name, equals, method = item.partition("=")
        if not equals:
            name = method = own.get(item.lower(), item)
        found.update({known: known for known in own.values()} if item == "all" else {name: method})
    return found


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[Report], None] | None]:
    """Show a progress bar on a terminal, one line per run elsewhere."""
    console = None if quiet else rich_console(sys.stderr)
    if console is None:
        yield None if quiet else _line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading the data")

        def report(report: Report) -> None:
            text = f"{_left(report)}  {_run(report)}"
            bar.update(
                task, total=report.total, completed=report.finished, description=_escape(text)
            )
            if report.row["status"] in ("failed", "timeout"):
                bar.console.print(printable(_run(report)), markup=False)

        yield report


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))


def _line(report: Report) -> None:
    sys.stderr.write(
        f"[{report.finished}/{report.total}] {printable(_run(report))}{_left(report, ', ')}\n"
    )
    sys.stderr.flush()


def _run(report: Report) -> str:
    result = report.row
    name = f"{dataset_label(result)} {method_label(result)} fold {result['fold']}"
    if result["seed"]:
        name += f" seed {result['seed']}"
    if result["status"] == "skipped":
        return f"{name}: skipped"
    if result["status"] != "done":
        return f"{name}: {result['status']} ({result['reason']})"
    took = sum(result[key] for key in ("tune_seconds", "fit_seconds", "predict_seconds"))
    return f"{name}: {result['metrics']['average_precision']:.3f} in {took:.1f} s"


def _left(report: Report, before: str = "") -> str:
    if report.seconds_left is None or report.finished == report.total:
        return ""
    minutes, rest = divmod(round(report.seconds_left), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
    return f"{before}about {clock if hours or minutes else f'{rest} s'} left"


def seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return value


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Parse a duration such as 90, 90s, 9m or 1.5h into seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        value = float(number) * _UNITS[unit]
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"must be a duration such as 90s, 9m or 1.5h, not {text!r}"
        )
    return value


def megabytes(text: str) -> float:
    """Parse a size such as 500m or 4g into MiB."""
    units = {"m": 1.0, "g": 1024.0}
    try:
        value = float(text[:-1]) * units[text[-1:].lower()]
    except (ValueError, KeyError):
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a size such as 500m or 4g, not {text!r}")
    return value
