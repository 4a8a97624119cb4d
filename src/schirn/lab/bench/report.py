"""The report of a benchmark: one HTML page, and a folder of tables and figures."""

import base64
import io
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
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
from schirn.lab.bench.protocol import bibtex, protocol_paragraph
from schirn.lab.bench.rendering import SUFFIXES, Table
from schirn.lab.bench.tables import capital, finite_mean, metrics_in, signed
from schirn.metrics import METRICS
from schirn.report.page import render

_SWEPT = ("alpha", "beta", "lam")


class Drawing(NamedTuple):
    """A figure by format ("svg", "png", "pdf", and "dark" for dark pages), with a description.

    `missing` explains why there is no figure, or is empty.
    """

    name: str
    title: str
    alt: str
    formats: dict[str, bytes]
    missing: str = ""

    def uri(self, format: str) -> str:
        """Return the SVG for light ("svg") or dark pages as a data URI."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.formats[format]).decode()


def write_outputs(
    rows: Iterable[Result],
    folder: str | os.PathLike[str],
    *,
    title: str = "Benchmark of partial multi-label methods",
    date: str | None = None,
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    alpha: float = 0.05,
    test: str = "paired",
    sweep: Iterable[Result] = (),
    models: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write the report, all tables in all formats and all figures into a folder.

    The folder gets ``report.html``, one file that needs no network and prints well; ``tables/``
    with every table as ``.txt``, ``.md``, ``.tex`` and ``.csv`` (``results_<metric>``, ``results``
    with all metrics, ``ranks``, ``win_tie_loss``, ``friedman``, ``wilcoxon``,
    ``gap_closed_<metric>``, ``published``, ``costs``); ``figures/`` with every figure as ``.svg``,
    ``.png`` and ``.pdf``; ``protocol.tex`` and ``protocol.txt``, a paragraph that states the
    protocol; and ``references.bib``. Each file is replaced completely or not at all. Tables and
    figures for which results are missing are left out.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark, see `schirn.lab.bench.results`.
    folder : path
        Folder of the files.
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
    sweep : list of dict, optional
        Results with one parameter varied at a time, for the sensitivity curves.
    models : dict of str to estimator, optional
        Fitted methods by name, for the convergence curves.

    Returns
    -------
    list of Path
        The files written, the report first.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.lab.bench.report import write_outputs
    >>> results = [
    ...     {"dataset": "d", "r": 1, "method": m, "fold": f, "metrics": {"one_error": v + f / 100}}
    ...     for m, v in [("Schirn", 0.2), ("NLR", 0.3)] for f in range(5)
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_outputs(results, folder)[0]
    ...     page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    True
    """
    results = list(rows)
    names = metrics_in(results) if metrics is None else list(metrics)
    if not names:
        failed = f"; all {len(results)} runs failed" if results else ""
        raise InputError(f"There is no benchmark result to report{failed}.")
    options: dict[str, Any] = {"reference": reference, "alpha": alpha, "test": test}
    main = [name for name in names if name in METRICS] or names
    comparison = compare(results, names[0])
    # Without a reference method, nothing is tested.
    tested = test if tables.reference_of(results, comparison, reference) else None
    paragraph = partial(protocol_paragraph, results, test=tested, alpha=alpha)
    further = _possible_tables(results, main, options)
    drawings = {d.name: d for d in _drawings(results, main[0], alpha, list(sweep), models or {})}
    texts = {
        "protocol.txt": f"{paragraph()}\n",
        "protocol.tex": f"{paragraph(latex=True)}\n",
        "references.bib": bibtex([c.method for c in comparison.contenders]),
    }
    page = _page(
        results,
        names,
        title=title,
        date=date,
        paragraph=texts["protocol.txt"],
        references=texts["references.bib"],
        results=[tables.results(results, name, published=True, **options) for name in names],
        tables=further,
        drawn=drawings,
    )
    texts = {"report.html": page, **texts}
    written = [write_file(Path(folder) / name, text.encode()) for name, text in texts.items()]
    for table in (*(tables.results(results, name, **options) for name in names), *further.values()):
        written += write_table(Path(folder), table)
    for drawing in drawings.values():
        for suffix in ("svg", "png", "pdf"):
            if not drawing.missing:
                file = Path(folder) / "figures" / f"{drawing.name}.{suffix}"
                written.append(write_file(file, drawing.formats[suffix]))
    return written


def _page(rows: Sequence[Result], metrics: Sequence[str], **context: Any) -> str:
    """Render the report."""
    comparison = compare(rows, metrics[0])
    drawings: Mapping[str, Drawing] = context["drawn"]
    return render(
        "schirn.lab.bench",
        "report.html",
        extra="bench",
        summary=summary(rows, metrics[0]),
        n_settings=len(comparison.settings),
        n_methods=len(comparison.contenders),
        n_runs=len(rows),
        n_failed=sum(not result.get("metrics") for result in rows),
        labels=[ALL_METRICS[name].label for name in metrics],
        ceilings={c.label for c in comparison.contenders if c.ceiling},
        oracles={c.label for c in comparison.contenders if c.oracle},
        extras=[d for n, d in drawings.items() if n.startswith(("sensitivity", "convergence"))],
        **context,
    )


def write_file(path: Path, data: bytes) -> Path:
    """Write a file completely or not at all; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as stream:
        stream.write(data)
    return path


def write_table(folder: Path, table: Table) -> list[Path]:
    """Write a table in all formats into the folder ``tables``; return the files."""
    return [
        write_file(folder / "tables" / f"{table.name}.{suffix}", table.render(format).encode())
        for format, suffix in SUFFIXES.items()
    ]


def _possible_tables(
    results: list[Result], metrics: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Table]:
    """Make the tables for which the results have what they need."""
    reference, alpha = options["reference"], options["alpha"]
    makers: dict[str, Callable[[], Table]] = {
        "results": lambda: tables.results(results, metrics, **options),
        "ranks": lambda: tables.ranks(results, metrics),
        "win_tie_loss": lambda: tables.win_tie_loss(results, metrics=metrics, **options),
        "friedman": lambda: tables.friedman_tests(results, metrics, alpha=alpha),
        "wilcoxon": lambda: tables.wilcoxon_tests(results, reference, metrics, alpha=alpha),
        "gaps": lambda: tables.gaps(results, metrics[0]),
        "published": lambda: tables.against_published(results, metrics),
        "costs": lambda: tables.costs(results),
    }
    if len(metrics) == 1:
        del makers["results"]
    possible = {}
    for name, make in makers.items():
        with suppress(InputError):
            if (table := make()).body:
                possible[name] = table
    return possible


def summary(results: Sequence[Result], metric: str) -> list[str]:
    """Summarise the results in a few sentences, bad news included."""
    comparison = compare(results, metric)
    label = comparison.info.name
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
    friedman = stats.friedman(results, metric)
    ranks = {name: rank for name, rank in friedman.ranks.items() if not math.isnan(rank)}
    if len(ranks) < 2:
        return ""
    best, second = sorted(ranks, key=ranks.__getitem__)[:2]
    n = len(friedman.blocks.names)
    where = f"over {n} data sets" if n > 1 else "on one data set"
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
    closed = stats.gap_closed(results, comparison.metric)
    shares = {name: finite_mean(per_setting.values()) for name, per_setting in closed.items()}
    shares = {name: share for name, share in shares.items() if not math.isnan(share)}
    if not shares:
        return ""
    best = max(shares, key=shares.__getitem__)
    return (
        f"On average {best} closes {100 * shares[best]:.0f} % of the gap in {label} between "
        f"a ridge trained on the candidates ({FLOOR}) and one trained on the truth ({CEILING})."
    )


def _paper(results: Sequence[Result], metric: str, label: str) -> str:
    records = [r for r in tables.published_records(results, [metric]) if r["reached"]]
    compared = [record for record in records if record["method"] == "Schirn"] or records
    if not compared:
        return ""
    verdicts = [record["reached"] for record in compared]
    who = "Schirn" if compared[0]["method"] == "Schirn" else "the methods"
    distances = [record["distance"] for record in compared]
    farthest = max(compared, key=lambda record: abs(record["distance"]))
    return (
        f"The published {label} of {who} is reached in {verdicts.count('yes')} of {len(compared)} "
        f"settings and nearly reached in {verdicts.count('nearly')}; ours is "
        f"{signed(sum(distances) / len(distances))} points away on average, at most "
        f"{signed(farthest['distance'])} ({farthest['setting']})."
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
    label = comparison.info.name
    n = len({result["dataset"] for result in results})
    columns = _columns(n)
    drawings = [
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
            _single(figures.gap_closed, results, metric),
            (7.5, 1.6 + 0.42 * len(comparison.contenders)),
        ),
        _draw(
            "critical_difference",
            f"Critical-difference diagram of {label}",
            "Mean ranks over the data sets; bars join methods that cannot be distinguished.",
            _single(figures.critical_difference, results, metric, alpha=alpha),
            (8.5, 4.2),
        ),
    ]
    if sweep:
        drawings.append(_sensitivity(sweep, metric, label))
    for quantity, (attribute, words) in figures.QUANTITIES.items():
        traced = {name: m for name, m in models.items() if getattr(m, attribute, None) is not None}
        if traced:
            paint = _single(figures.convergence, traced, quantity)
            name, title = f"convergence_{quantity}", f"Convergence: {words} per round"
            drawings.append(_draw(name, title, f"Lines of {', '.join(traced)}.", paint, (6.5, 3.8)))
    return drawings


def _single(draw: Callable[..., Any], *args: Any, **options: Any) -> Callable[[Any], Any]:
    """A painter of a figure with one panel."""
    return lambda figure: draw(*args, **options, ax=figure.subplots())


def _draw(
    name: str, title: str, alt: str, paint: Callable[[Any], Any], size: tuple[float, float]
) -> Drawing:
    """Draw a figure for a light and a dark page, or note why that is impossible."""
    matplotlib = optional("matplotlib", "plot", "Drawing a figure")
    module = optional("matplotlib.figure", "plot", "Drawing a figure")
    formats: dict[str, bytes] = {}
    try:
        for theme in ("light", "dark"):
            with matplotlib.rc_context(figures.theme(theme)):
                figure = module.Figure(figsize=size, layout="constrained")
                paint(figure)
                if theme == "dark":
                    formats["dark"] = _save(figure, "svg")
                    break
                formats["svg"] = _save(figure, "svg")
                formats["png"] = _save(figure, "png", dpi=150, facecolor="white")
                formats["pdf"] = _save(figure, "pdf")
    except (InputError, MissingExtraError) as error:
        return Drawing(name, title, alt, {}, str(error))
    return Drawing(name, title, alt, formats)


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
