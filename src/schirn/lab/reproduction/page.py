"""The pages of a reproduction: a summary with its reading, and all tables."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from schirn.lab.bench import tables
from schirn.lab.bench.comparison import Result
from schirn.lab.bench.rendering import Cell, Table
from schirn.lab.bench.report import summary
from schirn.lab.bench.running.methods import default_grid
from schirn.lab.bench.tables import finite_mean, metrics_in, signed
from schirn.lab.reproduction.costs import describe
from schirn.lab.reproduction.experiments import Part
from schirn.lab.reproduction.findings import findings
from schirn.lab.reproduction.studies import Study
from schirn.metrics import METRICS
from schirn.report.page import render

SUMMARY = "reproduction.md"
TABLES_PAGE = "results/reproduction.md"


class Tables(NamedTuple):
    """Results of the tables.

    `rows` have the features of the paper, `kernel` those of a kernel; `oracle` are those of Schirn
    with parameters chosen on the truth of the test rows.
    """

    rows: Sequence[Result]
    kernel: Sequence[Result] = ()
    oracle: Sequence[Result] = ()


def pages(
    results_of_tables: Tables,
    studies: Mapping[str, Study],
    figures: Mapping[str, str],
    *,
    part: Part,
    skipped: Mapping[str, str],
    left_out: Mapping[str, Sequence[str]],
    date: str | None = None,
) -> dict[str, str]:
    """Write the summary and the tables as Markdown; return the texts by file name.

    Parameters
    ----------
    results_of_tables : Tables
        Results of the tables.
    studies : dict of str to Study
        Studies by name.
    figures : dict of str to str
        Files in the folder "figures", by their stems.
    part : Part
        What was run.
    skipped : dict of str to str
        Reasons why data sets were left out.
    left_out : dict of str to list of str
        Data sets on which a method takes too long, by method.
    date : str, optional
        Date to print.
    """
    results = results_of_tables.rows
    main = [name for name in metrics_in(results) if name in METRICS]
    studied = [r for study in studies.values() for r in study.records if "key" in r]
    fits = [*results_of_tables.rows, *results_of_tables.kernel, *results_of_tables.oracle, *studied]
    page = partial(_page, figures=figures, part=part, date=date)
    summary_text = page(
        "reproduction.md",
        "figures",
        n_fits=len(fits),
        took=describe(_seconds(fits)),
        code=code_note(fits),
        findings=[
            *summary(results, main[0]),
            *findings(
                results, studies, kernel=results_of_tables.kernel, oracle=results_of_tables.oracle
            ),
        ],
        distances=_distances(results, main),
    )
    protocol = [
        *_some_folds(part, results_of_tables),
        *(
            f"Left out because it takes too long: {method} on {', '.join(names)}."
            for method, names in left_out.items()
        ),
        *(f"Skipped: {name} – {why}" for name, why in skipped.items()),
        *_versions(fits),
    ]
    tables_text = page(
        "tables.md",
        "../figures",
        protocol=protocol,
        grids=_grids(results),
        studies={name: study.table.render("markdown") for name, study in studies.items()},
        **_tables(results_of_tables, main),
    )
    return {SUMMARY: summary_text, TABLES_PAGE: tables_text}


def _page(
    template: str,
    folder: str,
    *,
    figures: Mapping[str, str],
    **context: Any,
) -> str:
    """Render one page, whose figures are in `folder`."""

    def figure(name: str, title: str) -> str:
        return f"![{title}]({folder}/{figures[name]})\n\n" if name in figures else ""

    text = render(
        "schirn.lab.reproduction",
        template,
        extra="bench",
        escape=False,
        figure=figure,
        **context,
    )
    return text.rstrip() + "\n"


def _tables(found: Tables, metrics: Sequence[str]) -> dict[str, Any]:
    """Render the tables of the tables page, by their names in its template."""
    results = found.rows
    extra = [tables.costs(results)]
    if "noise_auc" in metrics_in(results):
        extra.insert(0, tables.results(results, "noise_auc", reference=None))
    kernel = []
    if found.kernel:
        kernel = [tables.results(found.kernel, name) for name in metrics]
        kernel += [*_comparisons(found.kernel, metrics), tables.costs(found.kernel)]
    with_oracle = [*results, *found.oracle]
    return {
        "main_tables": _rendered(tables.results(with_oracle, m, published=True) for m in metrics),
        "comparisons": _rendered(_comparisons(results, metrics)),
        "extra_tables": _rendered(extra),
        "kernel_tables": _rendered(kernel),
    }


def _rendered(items: Iterable[Table]) -> list[str]:
    return [table.render("markdown") for table in items]


def code_note(results: Sequence[Result]) -> str:
    """State how many fits do not name the code that made them; empty if all do."""
    unnamed = sum(not result.get("code_sha256") for result in results)
    if not unnamed:
        return ""
    return (
        f"**Measured with an earlier version**: {unnamed} of {len(results)} fits do not name the "
        "code of their method, so the figures of the current code can differ. `schirn reproduce` "
        "runs these fits again."
    )


def _versions(results: Sequence[Result]) -> list[str]:
    """List the versions that produced the results."""
    counts = Counter(
        ", ".join(f"{name} {version}" for name, version in (result.get("versions") or {}).items())
        for result in results
    )
    if len(counts) < 2:
        return [f"Versions: {text}." for text in counts]
    return [
        *(f"Versions of {count} fits: {text}." for text, count in counts.most_common()),
        "The fits were shared by machines with these versions. Times in the tables are those of "
        "the machine that a fit happened to run on, with one process per core.",
    ]


def _seconds(results: Sequence[Result]) -> float:
    """Time of searches, fits and scores."""
    names = ("tune_seconds", "fit_seconds", "predict_seconds")
    return sum(result.get(name) or 0.0 for result in results for name in names)


def _some_folds(part: Part, found: Tables) -> list[str]:
    """Say where fewer folds than all were run."""
    slow: dict[int, list[str]] = {}
    for key, count in part.some_folds.items():
        where, dataset = key if isinstance(key, tuple) else (key, None)
        named = {"kernel": "the tables with kernel features", "oracle": "Schirn†"}
        name = named.get(where, f"the study {where}" if dataset is None else where)
        results = {"kernel": found.kernel, "oracle": found.oracle}.get(where, found.rows)
        if dataset is None or dataset in {result["dataset"] for result in results}:
            slow.setdefault(count, []).append(name if dataset is None else f"{name} on {dataset}")
    return [
        f"Only the first {'fold' if count == 1 else f'{count} folds'} of {part.folds}, for time: "
        f"{', '.join(names)}."
        for count, names in slow.items()
    ]


def _grids(results: Sequence[Result]) -> str:
    """What every method searches."""
    first = {str(r["method"]): r for r in reversed(results) if r["status"] == "done"}
    body = []
    for method in dict.fromkeys(str(result["method"]) for result in results):
        if method not in first:
            continue
        grid, rows = first[method].get("grid"), first[method].get("search_rows")
        where = "held-out rows, all" if rows is None else f"held-out rows, at most {rows:,} in all"
        if grid is None:
            grid, where = default_grid(method) or {}, "in fit, all rows"
        text = "; ".join(f"{k}: {', '.join(map(_value, values))}" for k, values in grid.items())
        points = str(math.prod(map(len, grid.values())))
        body.append([*map(Cell, (method, text or "–", points if grid else "–", where))])
    title = "Grids, searched in every fold on every data set"
    head = ["method", "values", "points", "scored on"]
    return Table("grids", title, head, body, stub=2).render("markdown") if body else ""


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _distances(results: Sequence[Result], metrics: Sequence[str]) -> str:
    """Mean distance of each method from the paper, one column per metric."""
    records = tables.published_records(results, metrics)
    labels = list(dict.fromkeys(record["metric"] for record in records))
    body = []
    for method in dict.fromkeys(record["label"] for record in records):
        compared = [r for r in records if r["label"] == method and r["reached"]]
        body.append([Cell(method)])
        for label in labels:
            mean = finite_mean(r["distance"] for r in compared if r["metric"] == label)
            body[-1].append(Cell("–" if math.isnan(mean) else signed(mean)))
        verdicts = [record["reached"] for record in compared]
        counts = (verdicts.count("yes"), verdicts.count("nearly"), len(verdicts))
        body[-1] += [Cell(str(count)) for count in counts]
    table = Table(
        "distance",
        "Ours − published, in points, mean over the settings",
        ["method", *labels, "reached", "nearly", "of"],
        body,
        [
            "reached: ours is at least as good; nearly: it falls short by no more than the printed "
            "standard deviation. The table named published lists all settings.",
        ],
    )
    return table.render("markdown") if records else ""


def _comparisons(results: Sequence[Result], metrics: Sequence[str]) -> list[Table]:
    """Win/tie/loss and gap closed, if the results allow them."""
    methods = {result["method"] for result in results}
    items = []
    if len(methods) > 1:
        references = [name for name in ("Schirn", "Sieve") if name in methods]
        items += [tables.win_tie_loss(results, name, metrics) for name in references]
    if {"CandidateRidge", "OracleRidge"} <= methods:
        items.append(tables.gaps(results, metrics[0]))
    return items
