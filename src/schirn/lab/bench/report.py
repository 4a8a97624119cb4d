"""The report of a benchmark: one HTML page, and a folder of tables and figures."""

import base64
import io
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from schirn._files import atomic_write
from schirn._optional import optional
from schirn.exceptions import InputError, MissingExtraError
from schirn.lab.bench import figures, stats, tables
from schirn.lab.bench._comparison import (
    ALL_METRICS,
    AUTO,
    CEILING,
    FLOOR,
    ORACLE_MARK,
    Comparison,
    Contender,
    Result,
    compare,
)
from schirn.lab.bench._rendering import SUFFIXES, Table
from schirn.lab.bench.protocol import TEST_REFERENCES, bibtex, protocol_paragraph
from schirn.lab.bench.suite import DESIGN_NOTE
from schirn.lab.bench.tables import finite_mean, metrics_in
from schirn.metrics import METRICS
from schirn.program.page import render


@dataclass(frozen=True)
class Drawing:
    """A figure by format, with a description; `missing` explains why there is none."""

    name: str
    title: str
    alt: str
    formats: dict[str, bytes]
    missing: str = ""

    @property
    def uri(self) -> str:
        """The SVG as a data URI."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.formats["svg"]).decode()


def write_outputs(
    rows: Iterable[Result],
    folder: str | os.PathLike[str],
    *,
    title: str = "Benchmark of partial multi-label methods",
    date: str | None = None,
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    alpha: float = 0.05,
    test: str = stats.DEFAULT_TEST,
    design: Collection[str] = (),
) -> list[Path]:
    """Write the report, all tables in all formats and all figures into a folder.

    The folder gets ``report.html``, one file that needs no network and prints well; ``tables/``
    with every table as ``.md``, ``.tex`` and ``.csv`` (``results_<metric>``, ``ranks``,
    ``win_tie_loss``, ``friedman``, ``wilcoxon``, ``gap_closed_<metric>``, ``costs``);
    ``figures/`` with every figure as ``.svg`` and ``.pdf``; ``protocol.tex`` and ``protocol.txt``,
    a paragraph that states the protocol; and ``references.bib``. Each file is replaced completely
    or not at all. Tables and figures for which results are missing are left out.

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
        As in `schirn.lab.bench.tables.results`, like alpha and test.
    metrics : list of str, optional
        Metrics to show, the most important first. Defaults to all that the results have.
    alpha, test
        Level and kind of the significance tests.
    design : list of str
        Data sets to mark, because they were used when Sieve was designed.

    Returns
    -------
    list of Path
        The files written, the report first.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.lab.bench.report import write_outputs
    >>> result = {"dataset": "d", "method": "NLR", "fold": 0, "metrics": {"one_error": 0.3}}
    >>> write_outputs([result], tempfile.mkdtemp())[0].name
    'report.html'
    """
    results = list(rows)
    names = _metrics_to_show(results, metrics)
    options: dict[str, Any] = {"reference": reference, "alpha": alpha, "test": test}
    main = [name for name in names if name in METRICS] or names
    further = _possible_tables(results, main, options)
    drawings = _drawings(results, main[0], alpha)

    def table_of(name: str, **further: Any) -> Table:
        return _with_marks(tables.results(results, name, **further, **options), design)

    texts = _texts(results, names[0], reference, alpha, test)
    page = _page(
        results,
        names,
        title=title,
        date=date,
        paragraph=texts["protocol.txt"],
        references=texts["references.bib"],
        results=[table_of(name, published=True) for name in names],
        tables=further,
        drawn={drawing.name: drawing for drawing in drawings},
    )
    return _write_all(
        Path(folder),
        {"report.html": page, **texts},
        [*map(table_of, names), *further.values()],
        drawings,
    )


def _metrics_to_show(results: Sequence[Result], metrics: Sequence[str] | None) -> list[str]:
    """Return the metrics of a report; raise InputError if there is none."""
    names = metrics_in(results) if metrics is None else list(metrics)
    if not names:
        failed = f"; all {len(results)} runs failed" if results else ""
        raise InputError(f"there is no benchmark result to report{failed}")
    return names


def _with_marks(table: Table, design: Collection[str]) -> Table:
    """Mark the data sets that were used when Sieve was designed, if there are any."""
    if not {line[0].text for line in table.body} & set(design):
        return table
    body = [
        [replace(name, text=f"{name.text}*") if name.text in design else name, *cells]
        for name, *cells in table.body
    ]
    return replace(table, body=body, notes=[*table.notes, DESIGN_NOTE])


def _texts(
    results: list[Result], metric: str, reference: str | None, alpha: float, test: str
) -> dict[str, str]:
    """Return the protocol and the references, by file name."""
    comparison = compare(results, metric)
    # Without a reference method, nothing is tested.
    tested = test if tables.reference_of(results, comparison, reference) else None
    paragraph = partial(protocol_paragraph, results, test=tested, alpha=alpha)
    latex = paragraph(latex=True)
    cited = [key for key in TEST_REFERENCES if f"{{{key}}}" in latex]
    return {
        "protocol.txt": f"{paragraph()}\n",
        "protocol.tex": f"{latex}\n",
        "references.bib": bibtex([*(c.method for c in comparison.contenders), *cited]),
    }


def _page(rows: Sequence[Result], metrics: Sequence[str], **context: Any) -> str:
    """Render the report."""
    comparison = compare(rows, metrics[0])
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
        **context,
    )


def _write_all(
    folder: Path, texts: Mapping[str, str], all_tables: Iterable[Table], drawings: Iterable[Drawing]
) -> list[Path]:
    """Write texts, tables and figures; return the files."""
    written = [write_file(folder / name, text.encode()) for name, text in texts.items()]
    for table in all_tables:
        written += write_table(folder, table)
    for drawing in drawings:
        for suffix, content in drawing.formats.items():
            written.append(write_file(folder / "figures" / f"{drawing.name}.{suffix}", content))
    return written


def write_file(path: Path, data: bytes) -> Path:
    """Write a file completely or not at all; return its path.

    Parameters
    ----------
    path : Path
        File to write.
    data : str or bytes
        Its content.

    Returns
    -------
    Path
        The file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as stream:
        stream.write(data)
    return path


def write_table(folder: Path, table: Table) -> list[Path]:
    """Write a table in all formats into the folder ``tables``; return the files.

    Parameters
    ----------
    folder : Path
        Folder of the tables.
    table : Table
        Table to write.

    Returns
    -------
    list of Path
        The files.
    """
    return [
        write_file(folder / "tables" / f"{table.name}.{suffix}", table.render(format).encode())
        for format, suffix in SUFFIXES.items()
    ]


def _possible_tables(
    results: list[Result], metrics: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Table]:
    """Make the tables for which the results have what they need."""
    reference = options["reference"]
    alpha = options["alpha"]
    makers: dict[str, Callable[[], Table]] = {
        "ranks": lambda: tables.ranks(results, metrics),
        "win_tie_loss": lambda: tables.win_tie_loss(results, metrics=metrics, **options),
        "friedman": lambda: tables.friedman_tests(results, metrics, alpha=alpha),
        "wilcoxon": lambda: tables.wilcoxon_tests(results, reference, metrics, alpha=alpha),
        "gaps": lambda: tables.gaps(results, metrics[0]),
        "costs": lambda: tables.costs(results),
    }
    possible = {}
    for name, make in makers.items():
        with suppress(InputError):
            if (table := make()).body:
                possible[name] = table
    return possible


def summary(results: Sequence[Result], metric: str) -> list[str]:
    """Summarise the results in a few sentences, bad news included.

    Parameters
    ----------
    results : list of dict
        Results of a benchmark.
    metric : str
        Metric to sum up.

    Returns
    -------
    list of str
        Sentences.
    """
    comparison = compare(results, metric)
    label = comparison.info.name
    sentences = [stats.leading(stats.friedman(results, metric), label), _gap(comparison, label)]
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


def _gap(comparison: Comparison, label: str) -> str:
    """State the largest share of the gap between the references that a method closes."""
    if not {FLOOR, CEILING} <= {c.method for c in comparison.contenders}:
        return ""
    gains = {c: _gains(comparison, c) for c in comparison.rivals if c.method != FLOOR}
    shares = {
        c: sum(ours for ours, _ in pairs) / whole
        for c, pairs in gains.items()
        if (whole := sum(possible for _, possible in pairs)) > 0
    }
    if not shares:
        return ""
    best = max(shares, key=shares.__getitem__)
    ours, possible = zip(*gains[best], strict=True)
    sentence = (
        f"In {label}, {best.label} gains {100 * finite_mean(ours):.1f} points on average over a "
        f"ridge trained on the candidates ({FLOOR}); the same ridge trained on the truth "
        f"({CEILING}) gains {100 * finite_mean(possible):.1f}. Pooled over the settings "
        f"({len(ours)}), {best.label} thus closes {100 * shares[best]:.0f}% of the gap. It is "
        f"below {FLOOR} in {sum(gain < 0 for gain in ours)} of them."
    )
    n_exceeded = len(stats.settings_above_ceiling(comparison))
    if n_exceeded:
        settings = "1 setting" if n_exceeded == 1 else f"{n_exceeded} settings"
        sentence += f" Left out: {settings} with a method over a point above {CEILING}."
    return sentence


def _gains(comparison: Comparison, contender: Contender) -> list[tuple[float, float]]:
    """Return the gains of a method and of the ridge on the truth over the ridge, by setting.

    Settings without one of the three, or in which the ridge on the truth is no upper bound, are
    left out.
    """
    sign = 1 if comparison.info.greater_is_better else -1
    exceeded = stats.settings_above_ceiling(comparison)
    pairs = []
    for setting in comparison.settings:
        low, ours, high = (
            sign * comparison.mean(setting, each)
            for each in (comparison.find(FLOOR), contender, comparison.find(CEILING))
        )
        if setting not in exceeded and not math.isnan(low + ours + high):
            pairs.append((ours - low, high - low))
    return pairs


def _drawings(results: Sequence[Result], metric: str, alpha: float) -> list[Drawing]:
    """Draw all figures that the results allow."""
    comparison = compare(results, metric)
    label = comparison.info.name
    return [
        _draw(
            "gap_closed",
            f"Gap closed in {label}",
            "One dot per setting; the bar is the mean. The numbers are in the table.",
            partial(figures.gap_closed, results, metric),
            (7.5, 1.6 + 0.42 * len(comparison.contenders)),
        ),
        _draw(
            "critical_difference",
            f"Critical-difference diagram of {label}",
            "Mean ranks over the data sets; bars join methods that cannot be distinguished.",
            partial(figures.critical_difference, results, metric, alpha=alpha),
            (8.5, 4.2),
        ),
    ]


def _draw(
    name: str, title: str, alt: str, paint: Callable[..., Any], size: tuple[float, float]
) -> Drawing:
    """Draw a figure, or note why that is impossible."""
    matplotlib = optional("matplotlib", "plot", "Drawing a figure")
    module = optional("matplotlib.figure", "plot", "Drawing a figure")
    formats: dict[str, bytes] = {}
    try:
        with matplotlib.rc_context(figures.STYLE):
            figure = module.Figure(figsize=size, layout="constrained")
            paint(ax=figure.subplots())
            # Without a date, equal results give equal files.
            for format, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
                stream = io.BytesIO()
                figure.savefig(stream, format=format, metadata=metadata, bbox_inches="tight")
                formats[format] = stream.getvalue()
    except (InputError, MissingExtraError) as error:
        return Drawing(name, title, alt, {}, str(error))
    return Drawing(name, title, alt, formats)
