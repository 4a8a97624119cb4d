"""One page and one folder with everything a benchmark has to show."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schirn._files import atomic_write
from schirn.bench import tables
from schirn.bench._drawings import Drawing, drawings
from schirn.bench._grid import MEASURES, Row, grid
from schirn.bench._summary import protocol, summary
from schirn.bench._table_parts import AUTO
from schirn.bench.tables import Table
from schirn.exceptions import InputError
from schirn.metrics import METRICS
from schirn.report.page import render

_TITLE = "Benchmark of partial multi-label methods"


class _Study(NamedTuple):
    """Everything there is to show."""

    results: list[Table]
    plain: list[Table]
    others: dict[str, Table | None]
    drawings: list[Drawing]
    context: dict[str, Any]


def write_report(
    rows: Iterable[Row],
    path: str | os.PathLike[str],
    *,
    title: str = _TITLE,
    date: str | None = None,
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    alpha: float = 0.05,
    test: str = "paired",
    protocol: Mapping[str, str] | None = None,
    sweep: Iterable[Row] = (),
    models: Mapping[str, Any] | None = None,
) -> Path:
    """Write the report: one HTML file that needs no network and prints well.

    Parameters
    ----------
    rows : benchmark rows, see `schirn.bench.rows`
    path : file to write
    title : heading of the page
    date : date to print; none is printed if it is not given, so that equal rows give equal files
    reference : method the tests compare with; "auto" takes Sieve or Schirn
    metrics : measures to show, all that the rows have if not given; the first one leads
    alpha, test : level and kind of the tests over folds, as in `schirn.bench.stats.win_tie_loss`
    protocol : lines to add to the box that says how the rows were made
    sweep : rows with one parameter varied at a time, for the sensitivity curves
    models : fitted methods by name, for the convergence curves

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from schirn.bench.report import write_report
    >>> rows = [
    ...     {"dataset": "d", "r": 1, "method": m, "fold": f, "metrics": {"one_error": v + f / 100}}
    ...     for m, v in [("Schirn", 0.2), ("NLR", 0.3)] for f in range(5)
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(rows, Path(folder) / "report.html")
    ...     page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    True
    """
    study = _study(
        rows,
        title=title,
        date=date,
        reference=reference,
        metrics=metrics,
        alpha=alpha,
        test=test,
        extra=protocol,
        sweep=sweep,
        models=models,
    )
    return _write(Path(path), _page(study).encode())


def write_outputs(
    rows: Iterable[Row],
    folder: str | os.PathLike[str],
    *,
    title: str = _TITLE,
    date: str | None = None,
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    alpha: float = 0.05,
    test: str = "paired",
    protocol: Mapping[str, str] | None = None,
    sweep: Iterable[Row] = (),
    models: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write the report, all tables in all formats and all figures into a folder.

    The folder gets ``report.html``; ``tables/`` with every table as ``.txt``, ``.md``, ``.tex``
    and ``.csv`` (``results_<metric>``, ``ranks``, ``win_tie_loss``, ``friedman``, ``wilcoxon``,
    ``gap_closed_<metric>``, ``published``, ``costs``); and ``figures/`` with every figure as
    ``.svg`` and ``.png``. Files there are replaced one by one, each whole or not at all. What
    cannot be made of the rows is left out. Parameters as in `write_report`.

    Returns
    -------
    list of Path
        The files written, the report first.
    """
    study = _study(
        rows,
        title=title,
        date=date,
        reference=reference,
        metrics=metrics,
        alpha=alpha,
        test=test,
        extra=protocol,
        sweep=sweep,
        models=models,
    )
    place = Path(folder)
    for name in ("tables", "figures"):
        (place / name).mkdir(parents=True, exist_ok=True)
    written = [_write(place / "report.html", _page(study).encode())]
    for table in (*study.plain, *(table for table in study.others.values() if table)):
        for format, suffix in tables.SUFFIXES.items():
            file = place / "tables" / f"{table.name}.{suffix}"
            written.append(_write(file, table.render(format).encode()))
    for drawing in study.drawings:
        if not drawing.missing:
            file = place / "figures" / drawing.name
            written.append(_write(file.with_suffix(".svg"), drawing.light))
            written.append(_write(file.with_suffix(".png"), drawing.png))
    return written


def _write(path: Path, data: bytes) -> Path:
    with atomic_write(path) as stream:
        stream.write(data)
    return path


def _study(
    rows: Iterable[Row],
    *,
    title: str,
    date: str | None,
    reference: str | None,
    metrics: Sequence[str] | None,
    alpha: float,
    test: str,
    extra: Mapping[str, str] | None,
    sweep: Iterable[Row],
    models: Mapping[str, Any] | None,
) -> _Study:
    """Compute all tables and figures."""
    rows = list(rows)
    names = tables.measured(rows) if metrics is None else list(metrics)
    if not names:
        failed = f"; all {len(rows)} runs failed" if rows else ""
        raise InputError(f"There is no benchmark result to report{failed}.")
    options: dict[str, Any] = {"reference": reference, "alpha": alpha, "test": test}
    results = [tables.results(rows, name, published=True, **options) for name in names]
    plain = [tables.results(rows, name, **options) for name in names]
    main = [name for name in names if name in METRICS] or names
    made: dict[str, Callable[[], Table]] = {
        "ranks": lambda: tables.ranks(rows, main),
        "win_tie_loss": lambda: tables.win_tie_loss(rows, reference, main, alpha=alpha, test=test),
        "friedman": lambda: tables.friedman_tests(rows, main, alpha=alpha),
        "wilcoxon": lambda: tables.wilcoxon_tests(rows, reference, main, alpha=alpha),
        "gaps": lambda: tables.gaps(rows, main[0]),
        "published": lambda: tables.against_published(rows, main),
        "costs": lambda: tables.costs(rows),
    }
    others = {name: _possible(make) for name, make in made.items()}
    cells = grid(rows, names[0])
    context = {
        "title": title,
        "date": date,
        "summary": summary(rows, names[0]),
        "protocol": protocol(rows, extra),
        "n_settings": len(cells.settings),
        "n_methods": len(cells.contenders),
        "n_runs": len(rows),
        "n_failed": sum(not row.get("metrics") for row in rows),
        "labels": [MEASURES[name].label for name in names],
        "ceilings": {c.label for c in cells.contenders if c.ceiling},
        "oracles": {c.label for c in cells.contenders if c.oracle},
    }
    drawn = drawings(rows, main[:1], alpha=alpha, sweep=list(sweep), models=models)
    return _Study(results, plain, others, drawn, context)


def _possible(make: Callable[[], Table]) -> Table | None:
    """The table, or nothing where the rows lack what it needs."""
    try:
        table = make()
    except InputError:
        return None
    return table if table.body else None


def _page(study: _Study) -> str:
    drawn = {drawing.name: drawing for drawing in study.drawings}
    return render(
        "schirn.bench",
        "report.html",
        extra="bench",
        **study.context,
        results=study.results,
        tables=study.others,
        levels=[d for name, d in drawn.items() if name.startswith("noise_levels")],
        drawn=drawn,
        extras=[d for n, d in drawn.items() if n.startswith(("sensitivity", "convergence"))],
    )
