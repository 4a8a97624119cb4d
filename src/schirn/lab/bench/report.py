"""The report of a benchmark: one HTML page, and a folder of tables and figures."""

import base64
import io
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from schirn._files import atomic_write
from schirn._optional import optional
from schirn.exceptions import InputError, MissingExtraError
from schirn.lab.bench import figures, stats, tables
from schirn.lab.bench.comparison import (
    ALL_METRICS,
    AUTO,
    CEILING,
    FLOOR,
    ORACLE_MARK,
    Comparison,
    Result,
    compare,
)
from schirn.lab.bench.protocol import bibtex, protocol_facts, protocol_paragraph
from schirn.lab.bench.rendering import SUFFIXES
from schirn.lab.bench.tables import Table, capital, metrics_in, signed
from schirn.metrics import METRICS
from schirn.report.page import render

_TITLE = "Benchmark of partial multi-label methods"
_SWEPT = ("alpha", "beta", "lam")


class Drawing(NamedTuple):
    """A figure as SVG for light and dark pages, as PNG and as PDF, with a description.

    `missing` explains why there is no figure, or is empty.
    """

    name: str
    title: str
    alt: str
    light: bytes = b""
    dark: bytes = b""
    png: bytes = b""
    pdf: bytes = b""
    missing: str = ""

    def uri(self, kind: str = "light") -> str:
        """Return the SVG as a data URI."""
        data: bytes = getattr(self, kind)
        return "data:image/svg+xml;base64," + base64.b64encode(data).decode()


class _Contents(NamedTuple):
    """All tables and figures, and further values of the page."""

    results: list[Table]
    plain: list[Table]
    others: dict[str, Table | None]
    drawings: list[Drawing]
    context: dict[str, Any]
    latex_paragraph: str


def write_report(
    rows: Iterable[Result],
    path: str | os.PathLike[str],
    *,
    title: str = _TITLE,
    date: str | None = None,
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    alpha: float = 0.05,
    test: str = "paired",
    protocol: Mapping[str, str] | None = None,
    sweep: Iterable[Result] = (),
    models: Mapping[str, Any] | None = None,
) -> Path:
    """Write the report: one HTML file that needs no network and prints well.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark, see `schirn.lab.bench.results`.
    path : path
        File to write.
    title : str
        Heading of the page.
    date : str, optional
        Date to print. Without it, equal results give equal files.
    reference : str or None
        Method that the others are tested against; "auto" takes Sieve, else Schirn; None tests
        nothing.
    metrics : list of str, optional
        Metrics to show, the most important first. Defaults to all that the results have.
    alpha, test
        Level and kind of the significance tests, as in `schirn.lab.bench.tables.results`.
    protocol : dict of str to str, optional
        Additional lines for the description of the protocol.
    sweep : list of dict, optional
        Results with one parameter varied at a time, for the sensitivity curves.
    models : dict of str to estimator, optional
        Fitted methods by name, for the convergence curves.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from schirn.lab.bench.report import write_report
    >>> results = [
    ...     {"dataset": "d", "r": 1, "method": m, "fold": f, "metrics": {"one_error": v + f / 100}}
    ...     for m, v in [("Schirn", 0.2), ("NLR", 0.3)] for f in range(5)
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(results, Path(folder) / "report.html")
    ...     page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    True
    """
    contents = _contents(
        list(rows),
        title=title,
        date=date,
        reference=reference,
        metrics=metrics,
        alpha=alpha,
        test=test,
        protocol=protocol,
        sweep=sweep,
        models=models,
    )
    return write_file(Path(path), _page(contents).encode())


def write_outputs(
    rows: Iterable[Result], folder: str | os.PathLike[str], **options: Any
) -> list[Path]:
    """Write the report, all tables in all formats and all figures into a folder.

    The folder gets ``report.html``; ``tables/`` with every table as ``.txt``, ``.md``, ``.tex`` and
    ``.csv`` (``results_<metric>``, ``results`` with all metrics, ``ranks``, ``win_tie_loss``,
    ``friedman``, ``wilcoxon``, ``gap_closed_<metric>``, ``published``, ``costs``); ``figures/``
    with every figure as ``.svg``, ``.png`` and ``.pdf``; ``protocol.tex`` and ``protocol.txt``, a
    paragraph that states the protocol; and ``references.bib``. Each file is replaced completely or
    not at all. Tables and figures for which results are missing are left out. Options are those of
    `write_report`.

    Returns
    -------
    list of Path
        The files written, the report first.
    """
    contents, folder = _contents(list(rows), **options), Path(folder)
    for name in ("tables", "figures"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    written = [write_file(folder / "report.html", _page(contents).encode())]
    texts = {
        "protocol.txt": contents.context["paragraph"] + "\n",
        "protocol.tex": contents.latex_paragraph + "\n",
        "references.bib": contents.context["references"],
    }
    written += [write_file(folder / name, text.encode()) for name, text in texts.items()]
    for table in (*contents.plain, *(table for table in contents.others.values() if table)):
        for format, suffix in SUFFIXES.items():
            file = folder / "tables" / f"{table.name}.{suffix}"
            written.append(write_file(file, table.render(format).encode()))
    for drawing in contents.drawings:
        if not drawing.missing:
            file = folder / "figures" / drawing.name
            written.append(write_file(file.with_suffix(".svg"), drawing.light))
            written.append(write_file(file.with_suffix(".png"), drawing.png))
            written.append(write_file(file.with_suffix(".pdf"), drawing.pdf))
    return written


def write_file(path: Path, data: bytes) -> Path:
    """Write a file completely or not at all; return its path."""
    with atomic_write(path) as stream:
        stream.write(data)
    return path


def _contents(
    results: list[Result],
    *,
    title: str = _TITLE,
    date: str | None = None,
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    alpha: float = 0.05,
    test: str = "paired",
    protocol: Mapping[str, str] | None = None,
    sweep: Iterable[Result] = (),
    models: Mapping[str, Any] | None = None,
) -> _Contents:
    """Compute all tables and figures."""
    names = metrics_in(results) if metrics is None else list(metrics)
    if not names:
        failed = f"; all {len(results)} runs failed" if results else ""
        raise InputError(f"There is no benchmark result to report{failed}.")
    options: dict[str, Any] = {"reference": reference, "alpha": alpha, "test": test}
    main = [name for name in names if name in METRICS] or names
    made: dict[str, Callable[[], Table]] = {
        "results": lambda: tables.results(results, main, **options),
        "ranks": lambda: tables.ranks(results, main),
        "win_tie_loss": lambda: tables.win_tie_loss(results, metrics=main, **options),
        "friedman": lambda: tables.friedman_tests(results, main, alpha=alpha),
        "wilcoxon": lambda: tables.wilcoxon_tests(results, reference, main, alpha=alpha),
        "gaps": lambda: tables.gaps(results, main[0]),
        "published": lambda: tables.against_published(results, main),
        "costs": lambda: tables.costs(results),
    }
    comparison = compare(results, names[0])
    # Without a reference method, nothing is tested.
    tested = test if tables.reference_of(results, comparison, reference) else None
    context = {
        "title": title,
        "date": date,
        "summary": summary(results, names[0]),
        "protocol": protocol_facts(results, protocol or {}),
        "paragraph": protocol_paragraph(results, test=tested, alpha=alpha),
        "references": bibtex([c.method for c in comparison.contenders]),
        "n_settings": len(comparison.settings),
        "n_methods": len(comparison.contenders),
        "n_runs": len(results),
        "n_failed": sum(not result.get("metrics") for result in results),
        "labels": [ALL_METRICS[name].label for name in names],
        "ceilings": {c.label for c in comparison.contenders if c.ceiling},
        "oracles": {c.label for c in comparison.contenders if c.oracle},
    }
    return _Contents(
        [tables.results(results, name, published=True, **options) for name in names],
        [tables.results(results, name, **options) for name in names],
        {name: _possible(make) for name, make in made.items() if name != "results" or main[1:]},
        _drawings(results, main[0], alpha, list(sweep), models or {}),
        context,
        protocol_paragraph(results, test=tested, alpha=alpha, latex=True),
    )


def _possible(make: Callable[[], Table]) -> Table | None:
    """Make a table; return None if the results lack what it needs."""
    try:
        table = make()
    except InputError:
        return None
    return table if table.body else None


def _page(contents: _Contents) -> str:
    drawn = {drawing.name: drawing for drawing in contents.drawings}
    return render(
        "schirn.lab.bench",
        "report.html",
        extra="bench",
        **contents.context,
        results=contents.results,
        tables=contents.others,
        levels=[d for name, d in drawn.items() if name.startswith("noise_levels")],
        drawn=drawn,
        extras=[d for n, d in drawn.items() if n.startswith(("sensitivity", "convergence"))],
    )


def summary(results: Sequence[Result], metric: str) -> list[str]:
    """Summarise the results in a few sentences, bad news included."""
    comparison = compare(results, metric)
    label = comparison.info.label.rstrip(" ↑↓")
    sentences = [
        _best_rank(results, metric, label),
        _gap(results, comparison, label),
        _paper(results, metric, label),
    ]
    failed = sum(not result.get("metrics") for result in results)
    if failed:
        sentences.append(
            f"{failed} of {len(results)} runs have no result; the reasons are below the tables."
        )
    if any(c.oracle for c in comparison.contenders):
        sentences.append(
            f"Methods with {ORACLE_MARK} were tuned on true labels, which noisy data do not have."
        )
    return [sentence for sentence in sentences if sentence]


def _best_rank(results: Sequence[Result], metric: str, label: str) -> str:
    friedman = stats.friedman(results, metric, unit="setting")
    ranks = {name: rank for name, rank in friedman.ranks.items() if not math.isnan(rank)}
    if len(ranks) < 2:
        return ""
    best, second = sorted(ranks, key=ranks.__getitem__)[:2]
    n = len(friedman.blocks.names)
    where = f"over {n} settings" if n > 1 else "in one setting"
    if ranks[best] == ranks[second]:
        first = [name for name, rank in ranks.items() if rank == ranks[best]]
        return (
            f"{' and '.join(first)} share the best rank in {label} ({ranks[best]:.2f} of "
            f"{len(ranks)} {where})."
        )
    return (
        f"{best} ranks best in {label} (mean rank {ranks[best]:.2f} of {len(ranks)} "
        f"{where}), ahead of {second} ({ranks[second]:.2f})."
    )


def _gap(results: Sequence[Result], comparison: Comparison, label: str) -> str:
    if not {FLOOR, CEILING} <= {c.method for c in comparison.contenders}:
        return ""
    shares = {}
    for name, per_setting in stats.gap_closed(results, comparison.metric).items():
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


def _paper(results: Sequence[Result], metric: str, label: str) -> str:
    table = tables.against_published(results, [metric])
    lines = [line for line in table.body if line[6].value is not None]
    own = [line for line in lines if line[3].text.startswith("Schirn")] or lines
    if not own:
        return ""
    verdicts = [line[7].text for line in own]
    who = "Schirn" if own[0][3].text.startswith("Schirn") else "the methods"
    distance = [line[6].value or 0.0 for line in own]
    far = max(own, key=lambda line: abs(line[6].value or 0.0))
    return (
        f"The published {label} of {who} is reached in {verdicts.count('yes')} of {len(own)} "
        f"settings and nearly reached in {verdicts.count('nearly')}; ours is "
        f"{signed(sum(distance) / len(distance))} points away on average, at most "
        f"{far[6].text} ({far[1].text}{' r=' + far[2].text if far[2].text else ''})."
    )


def _drawings(
    results: Sequence[Result],
    metric: str,
    alpha: float,
    sweep: Sequence[Result],
    models: Mapping[str, Any],
) -> list[Drawing]:
    """Draw all figures that the results allow."""
    comparison = compare(results, metric)
    label = comparison.info.label.rstrip(" ↑↓")
    n = len({result["dataset"] for result in results})
    columns = _columns(n)
    drawn = [
        _draw(
            f"noise_levels_{metric}",
            f"{capital(label)} by noise level",
            "Mean and standard deviation over the folds; the numbers are in the tables.",
            partial(_noise_panels, results=results, metric=metric),
            ((4.0 if columns == 3 else 5.2) * columns, 3.4 * math.ceil(n / columns) + 0.5),
        ),
        _draw(
            "gap_closed",
            f"Gap closed in {label}",
            "One dot per setting; the bar is the mean. The numbers are in the table.",
            lambda figure: figures.gap_closed(results, metric, ax=figure.subplots()),
            (7.5, 1.6 + 0.42 * len(comparison.contenders)),
        ),
        _draw(
            "critical_difference",
            f"Critical-difference diagram of {label}",
            "Mean ranks over the data sets; bars join methods that cannot be distinguished.",
            lambda figure: figures.critical_difference(
                results, metric, alpha=alpha, ax=figure.subplots()
            ),
            (8.5, 4.2),
        ),
        _draw(
            "time_quality",
            f"{capital(label)} by time of a fit",
            "Both averaged over the settings; up and to the left is better for a score.",
            lambda figure: figures.time_quality(results, metric, ax=figure.subplots()),
            (7.5, 4.4),
        ),
    ]
    if sweep:
        drawn.append(_sensitivity(sweep, metric, label))
    return drawn + _convergence(models)


def _draw(
    name: str, title: str, alt: str, paint: Callable[[Any], Any], size: tuple[float, float]
) -> Drawing:
    """Draw a figure for a light and a dark page, or note why that is impossible."""
    matplotlib = optional("matplotlib", "plot", "Drawing a figure")
    module = optional("matplotlib.figure", "plot", "Drawing a figure")
    saved: dict[str, Any] = {}
    try:
        for theme in ("light", "dark"):
            with matplotlib.rc_context(figures.theme(theme)):
                figure = module.Figure(figsize=size, layout="constrained")
                paint(figure)
                saved[theme] = _save(figure, "svg")
                if theme == "light":
                    saved["png"] = _save(figure, "png", dpi=150, facecolor="white")
                    saved["pdf"] = _save(figure, "pdf")
    except (InputError, MissingExtraError) as error:
        return Drawing(name, title, alt, missing=str(error))
    return Drawing(name, title, alt, **saved)


def _save(figure: Any, format: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    # Without a date, equal results give equal files.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format, {})
    figure.savefig(stream, format=format, metadata=metadata, bbox_inches="tight", **options)
    return stream.getvalue()


def _columns(n: int) -> int:
    return 2 if n in (2, 4) else min(3, n)


def _noise_panels(figure: Any, results: Sequence[Result], metric: str) -> None:
    """Draw one panel per data set with a common legend."""
    names = list(dict.fromkeys(str(result["dataset"]) for result in results))
    columns = _columns(len(names))
    axes = figure.subplots(math.ceil(len(names) / columns), columns, squeeze=False).ravel()
    for ax in axes[len(names) :]:
        ax.set_visible(False)
    handles: dict[str, Any] = {}
    for ax, name in zip(axes, names, strict=False):
        figures.noise_levels(results, metric, name, legend=False, ax=ax)
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(),
        handles,
        loc="outside lower center",
        ncols=min(6, len(handles)),
        title=figures.hint(compare(results, metric).contenders).strip(" ()") or None,
    )


def _sensitivity(sweep: Sequence[Result], metric: str, label: str) -> Drawing:
    def n_values(name: str) -> int:
        return len({repr((result.get("params") or {}).get(name)) for result in sweep})

    swept = [name for name in _SWEPT if n_values(name) > 1]

    def paint(figure: Any) -> None:
        if not swept:
            raise InputError(f"No result of the sweep varies one of: {', '.join(_SWEPT)}.")
        for ax, name in zip(figure.subplots(1, len(swept), squeeze=False)[0], swept, strict=True):
            figures.sensitivity(sweep, name, metric, ax=ax)

    alt = "One line per setting; the other parameters are fixed at their usual values."
    size = (4.4 * max(1, len(swept)), 3.8)
    return _draw("sensitivity", f"Sensitivity of {label} to the parameters", alt, paint, size)


def _convergence(models: Mapping[str, Any]) -> list[Drawing]:
    drawn = []
    for quantity, (attribute, words) in figures.QUANTITIES.items():
        own = {name: m for name, m in models.items() if getattr(m, attribute, None) is not None}

        def paint(figure: Any, own: Any = own, quantity: str = quantity) -> None:
            figures.convergence(own, quantity, ax=figure.subplots())

        if own:
            name, title = f"convergence_{quantity}", f"Convergence: {words} per round"
            drawn.append(_draw(name, title, f"Lines of {', '.join(own)}.", paint, (6.5, 3.8)))
    return drawn
