"""The pages of a reproduction: a summary with its reading, and all tables."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from schirn.lab.bench import GRIDS, Cell, Result, Table, compare, folds_of, tables
from schirn.lab.bench.protocol import protocol_paragraph
from schirn.lab.bench.report import summary
from schirn.lab.bench.suite import design_sets, read_suite
from schirn.lab.bench.tables import finite_mean, metrics_in, signed
from schirn.lab.reproduction._experiments import Part
from schirn.lab.reproduction._findings import findings
from schirn.lab.reproduction._studies import Study
from schirn.metrics import METRICS
from schirn.program.page import render

SUMMARY = "reproduction.md"
TABLES_PAGE = "results/reproduction.md"
PAPER_TEST = "paired"
SUITE = "pml-2"
"""The suite that marks the data sets on which Sieve was designed."""


def pages(
    results: Mapping[str, Sequence[Result]],
    studies: Mapping[str, Study],
    figures: Mapping[str, str],
    *,
    part: Part,
    skipped: Mapping[str, str],
    finished: Mapping[str, str] | None = None,
    date: str | None = None,
) -> dict[str, str]:
    """Write the summary and the tables as Markdown; return the texts by file name.

    Parameters
    ----------
    results : dict of str to list of dict
        Results of the tables: "rows" with the features of the paper, "kernel" with kernel features,
        and "oracle" for Schirn with parameters chosen on the true labels of the test rows.
    studies : dict of str to Study
        Studies by name.
    figures : dict of str to str
        Files in the folder "figures", by their stems.
    part : Part
        What was run.
    skipped : dict of str to str
        Reasons why data sets were left out.
    finished : dict of str to str, optional
        How many of the planned fits of every table and study are finished, such as "12 of 105".
    date : str, optional
        Date to print.

    Returns
    -------
    dict of str to str
        The summary first.
    """
    rows, kernel, oracle = (results.get(name, []) for name in ("rows", "kernel", "oracle"))
    metrics = [name for name in metrics_in(rows) if name in METRICS]
    studied = [r for study in studies.values() for r in study.records if "key" in r]
    fits = [*rows, *kernel, *oracle, *studied]
    shared: dict[str, Any] = {"figures": figures, "part": part, "date": date}
    summary_text = _page(
        "reproduction.md",
        "figures",
        n_fits=len(fits),
        hours=_seconds(fits) / 3600,
        findings=_with_design(
            [*summary(rows, metrics[0]), *findings(rows, studies, kernel, oracle)], rows
        ),
        budgets=_budgets(rows),
        fold_counts=_fold_counts(rows, part.folds),
        design=_design(rows),
        finished=_finished(finished or {}),
        versions=_versions(fits),
        few_folds=_few_folds(part, fits),
        **shared,
    )
    shown: dict[str, Any] = {"test": PAPER_TEST, "folds": True}
    main_tables = [tables.results([*rows, *oracle], m, published=True, **shown) for m in metrics]
    more_tables = [*_comparisons(rows, metrics, published=True), tables.costs(rows)]
    if "noise_auc" in metrics_in(rows):
        more_tables.append(tables.results(rows, "noise_auc", reference=None))
    kernel_tables = []
    if kernel:
        kernel_tables = [tables.results(kernel, m, **shown) for m in metrics]
        kernel_tables += [*_comparisons(kernel, metrics), tables.costs(kernel)]
    tables_text = _page(
        "tables.md",
        "../figures",
        protocol=_protocol(part, rows, fits, skipped),
        distances=_distances(rows, metrics),
        studies=[str(study.table) for study in studies.values()],
        main_tables=map(str, main_tables),
        more_tables=map(str, more_tables),
        kernel_tables=list(map(str, kernel_tables)),
        **shared,
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


def _seconds(results: Sequence[Result]) -> float:
    """Return the time of searches, fits and scores."""
    names = ("tune_seconds", "fit_seconds", "predict_seconds")
    return sum(result.get(name) or 0.0 for result in results for name in names)


_WORDS = {
    "rows": "tables with the features of the paper",
    "kernel": "tables with kernel features",
    "oracle": "Schirn†, tuned on the test rows",
    "ablation": "ablations",
    "cooccurrence": "labels tied in pairs",
    "sensitivity": "parameter sensitivity",
    "authors_folds": "folds of NLR's authors",
    "preprocessing": "preprocessing of the release",
}


def _finished(counts: Mapping[str, str]) -> str:
    """Describe how much of the plan has been run with the present code."""
    if counts and all(done == planned for done, _, planned in map(str.split, counts.values())):
        return "All planned fits are finished."
    parts = [f"{_WORDS.get(name, name)}: {count}" for name, count in counts.items()]
    return f"Finished fits, out of those planned: {'; '.join(parts)}." if parts else ""


def _versions(fits: Sequence[Result]) -> list[str]:
    """Return the versions of the library and of its code, with the number of fits by each."""
    counts = Counter(str(fit["versions"].get("schirn")) for fit in fits if fit.get("versions"))
    return [f"{version} ({count} fits)" for version, count in sorted(counts.items())]


def _protocol(
    part: Part, rows: Sequence[Result], fits: Sequence[Result], skipped: Mapping[str, str]
) -> list[str]:
    """Return the notes above the tables."""
    return [
        *_few_folds(part, fits),
        *_design(rows),
        *(f"Left out because it takes too long: {method}." for method in part.left_out),
        *(f"Skipped: {name} – {why}" for name, why in skipped.items()),
        protocol_paragraph(rows, test=PAPER_TEST),
    ]


def _budgets(results: Sequence[Result]) -> list[str]:
    """State how many points each method searches, on how many rows."""
    contenders = {c.method: c.label for c in compare(results, next(iter(METRICS))).contenders}
    in_fit: dict[str, str] = {}
    searched: dict[int | None, dict[str, str]] = {}
    for result in results:
        method = str(result["method"])
        if grid := result.get("grid"):
            text = f"{contenders[method]} ({_n_points(grid)})"
            searched.setdefault(result.get("search_rows"), {})[method] = text
        elif method in GRIDS:
            in_fit[method] = f"{contenders[method]} ({_n_points(GRIDS[method])})"
        else:
            in_fit[method] = contenders[method]
    sentences = [
        f"On {f'at most {rows}' if rows else 'all'} training rows (number of points): "
        f"{', '.join(texts.values())}."
        for rows, texts in searched.items()
    ]
    if in_fit:
        sentences.append(
            f"In `fit`, on all training rows (largest number of points): "
            f"{', '.join(in_fit.values())}."
        )
    return sentences


def _n_points(grid: Mapping[str, Sequence[Any]]) -> int:
    return math.prod(len(values) for values in grid.values())


def _fold_counts(results: Sequence[Result], n_folds: int) -> str:
    """State how many settings have all folds, and how many only the first ones."""
    counts = Counter(folds_of(results).values())
    fewer = [f"{counts[n]} in the first {n} only" for n in sorted(counts) if n != n_folds]
    all_folds = f"{counts[n_folds]} of {counts.total()} settings are run in {n_folds} folds"
    return f"{', '.join([all_folds, *fewer])}."


def _design(results: Sequence[Result]) -> list[str]:
    """State which data sets were used to design Sieve, if it has results on them."""
    datasets = {str(r["dataset"]) for r in results if r["method"] == "Sieve"}
    used = datasets & design_sets(read_suite(SUITE))
    if not used:
        return []
    which = f"All {len(used)} data sets" if used == datasets else ", ".join(sorted(used))
    return [f"{which} were used to design Sieve: its results on them prove nothing about others."]


def _with_design(lines: Sequence[str], results: Sequence[Result]) -> list[str]:
    """Add to every finding about Sieve that these data sets were used to design it."""
    note = " Sieve was designed on these data sets." if _design(results) else ""
    return [line + note * ("Sieve" in line) for line in lines]


def _few_folds(part: Part, results: Sequence[Result]) -> list[str]:
    """State where fewer folds than all were run."""
    datasets = {result["dataset"] for result in results}
    return [
        f"Only the first {count} of {part.folds} folds, for time: {name}."
        for name, count in part.few_folds.items()
        if name in (*datasets, "kernel", "sensitivity")
    ]


def _distances(results: Sequence[Result], metrics: Sequence[str]) -> str:
    """Return the mean distance of each method from the paper, one column per metric."""
    records = tables.published_records(results, metrics)
    labels = list(dict.fromkeys(record["metric"] for record in records))
    body = []
    for method in dict.fromkeys(record["label"] for record in records):
        compared = [r for r in records if r["label"] == method and r["reached"]]
        body.append([Cell(method)])
        for label in labels:
            mean = finite_mean(r["distance"] for r in compared if r["metric"] == label)
            body[-1].append(Cell("–" if math.isnan(mean) else signed(mean)))
        mean = finite_mean(abs(record["distance"]) for record in compared)
        body[-1].append(Cell("–" if math.isnan(mean) else f"{100 * mean:.1f}"))
        verdicts = [record["reached"] for record in compared]
        counts = (verdicts.count("yes"), verdicts.count("nearly"), len(verdicts))
        body[-1] += [Cell(str(count)) for count in counts]
    table = Table(
        "distance",
        "Ours − published, in points, mean over the settings",
        ["method", *labels, "absolute", "reached", "nearly", "of"],
        body,
        [
            "absolute: mean absolute distance over settings and metrics. reached: ours is at least "
            "as good; nearly: it falls short by no more than the printed standard deviation. For "
            "a reconstruction (‡), exceeding the printed values is not a success either.",
        ],
    )
    return str(table) if records else ""


def _comparisons(
    results: Sequence[Result], metrics: Sequence[str], published: bool = False
) -> list[Table]:
    """Return win/tie/loss counts and gaps closed, if the results allow them."""
    methods = {result["method"] for result in results}
    items = []
    if len(methods) > 1:
        references = [name for name in ("Schirn", "Sieve") if name in methods]
        items += [
            tables.win_tie_loss(results, name, metrics, published=published, test=PAPER_TEST)
            for name in references
        ]
    if {"CandidateRidge", "OracleRidge"} <= methods:
        items.append(tables.gaps(results, metrics[0]))
    return items
