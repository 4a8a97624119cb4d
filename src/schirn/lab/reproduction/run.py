"""Execute a plan: run the fits, then write tables, figures and pages into one folder."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from schirn.exceptions import DataError, InputError
from schirn.lab.bench.report import write_file, write_outputs, write_table
from schirn.lab.bench.results import Result
from schirn.lab.bench.running.engine import Batch, Engine, Report, default_threads
from schirn.lab.bench.running.methods import importable_here
from schirn.lab.bench.running.run import results_of
from schirn.lab.reproduction import ablations, studies
from schirn.lab.reproduction.costs import expected_seconds
from schirn.lab.reproduction.page import SUMMARY, TABLES_PAGE, Tables, pages
from schirn.lab.reproduction.plan import (
    STUDIES,
    TABLES,
    Plan,
    authors,
    by_dataset,
    candidates_of,
    labelled,
    methods_on,
    own_noise,
    plan_batches,
    studied,
    to_tie,
)
from schirn.lab.reproduction.studies import Study

_PUBLISHED_FIGURES = "images/reproduction"
# Larger SVG files are slow to display; the page then shows the PNG.
_LARGE_SVG = 200_000


def reproduce(
    output: str | os.PathLike[str],
    plan: Plan,
    *,
    chosen: Sequence[str] = STUDIES,
    date: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    **how: Any,
) -> list[Path]:
    """Run the tables and the studies of a plan; fits already finished in `output` are not repeated.

    Parameters
    ----------
    output : path
        Folder for results, tables, figures, ``report.html``, ``reproduction.md`` and its tables.
    plan : Plan
        From `make_plan`.
    chosen : list of str
        Names of the studies to run besides the tables.
    date : str, optional
        Date to print.
    say : callable, optional
        Called with a line of text before each step.
    **how
        `jobs`, `threads`, `time_limit`, `retry`, `keep_scores` and `report`, as in
        `schirn.lab.bench.run`, and `stop_after`, the seconds after which to stop.

    Returns
    -------
    list of Path
        The files written, ``reproduction.md`` first.
    """
    run_fits(output, plan, chosen=chosen, say=say, **how)
    return write_results(output, plan, chosen=chosen, date=date, say=say)


def run_fits(
    output: str | os.PathLike[str],
    plan: Plan,
    *,
    chosen: Sequence[str] = STUDIES,
    jobs: int = 0,
    threads: int | None = None,
    time_limit: float | None = None,
    retry: bool = False,
    stop_after: float | None = None,
    keep_scores: bool = True,
    report: Callable[[Report], None] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Run the fits of the tables and of the studies, the longest first.

    With `stop_after` the shortest come first, so that most are finished by then.

    Parameters
    ----------
    output, plan, chosen, say
        As in `reproduce`.
    jobs, threads, time_limit, retry, keep_scores, report
        As in `schirn.lab.bench.run`.
    stop_after : float, optional
        Seconds after which to stop; unfinished fits leave no trace.

    Returns
    -------
    int
        Number of unfinished fits.
    """
    batches = _batches(output, plan, chosen)
    say(f"{sum(len(batch.runs) for batch in batches)} fits")
    with importable_here():
        engine = Engine(
            batches,
            jobs=jobs,
            threads=threads or default_threads(jobs),
            time_limit=time_limit,
            retry=retry,
            keep_scores=keep_scores,
            report=report,
            cost=expected_seconds,
            stop_after=stop_after,
        )
        engine.run()
    return engine.left


def write_results(
    output: str | os.PathLike[str],
    plan: Plan,
    *,
    chosen: Sequence[str] = STUDIES,
    date: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Write tables, figures and pages from finished fits; return the files.

    Raises InputError if fits are missing.
    """
    folder = Path(output)
    batches = _batches(output, plan, chosen)
    results = {batch.folder.name: results_of(*batch) for batch in batches}
    missing = {run.key for batch in batches for run in batch.runs}
    missing -= {result["key"] for rows in results.values() for result in rows}
    if missing:
        raise InputError(f"{len(missing)} fits are missing; run the same command again to resume")
    by_name = {study.name: study for study in _studies(plan, results, chosen, say)}
    say("tables and figures")
    written = []
    for name, study in by_name.items():
        text = "".join(f"{json.dumps(r, ensure_ascii=False)}\n" for r in study.records)
        written.append(write_file(folder / f"{name}.jsonl", text.encode()))
        written += write_table(folder, study.table)
    title = "Reproduction of the published experiments"
    written += write_outputs(
        results["rows"],
        folder,
        title=title,
        date=date,
        sweep=by_name["sensitivity"].records if "sensitivity" in by_name else [],
        models=_models(by_name["convergence"].records) if "convergence" in by_name else {},
    )
    if results["kernel"]:
        kernel_title = f"{title}, with kernel features"
        written += write_outputs(
            results["kernel"], folder / "kernel", title=kernel_title, date=date
        )
    texts = pages(
        Tables(*(results[name] for name in TABLES)),
        by_name,
        _figures(folder),
        part=plan.part,
        skipped=plan.skipped,
        left_out=_left_out(plan),
        date=date,
    )
    return [*(write_file(folder / name, text.encode()) for name, text in texts.items()), *written]


def _left_out(plan: Plan) -> dict[str, list[str]]:
    """Data sets on which a method takes too long for the part."""
    slow: dict[str, list[str]] = {}
    for name in by_dataset(plan):
        for method in set(plan.methods) - set(methods_on(plan, name)):
            slow.setdefault(method, []).append(name)
    return slow


def publish(output: str | os.PathLike[str], page_file: str | os.PathLike[str]) -> list[Path]:
    """Copy the summary, the tables and their figures to another folder; return the files."""
    folder, target = Path(output), Path(page_file)
    copies, figures = {}, []
    for name, copy in ((SUMMARY, target), (TABLES_PAGE, target.parent / TABLES_PAGE)):
        text = (folder / name).read_text(encoding="utf-8")
        figures += re.findall(r"\]\((?:\.\./)?figures/([\w.]+)\)", text)
        text = re.sub(r"\]\(((?:\.\./)?)figures/", rf"](\1{_PUBLISHED_FIGURES}/", text)
        copies[copy] = text.replace(f"](../{SUMMARY})", f"](../{target.name})")
    images = target.parent / _PUBLISHED_FIGURES
    return [
        *(write_file(copy, text.encode()) for copy, text in copies.items()),
        *(write_file(images / n, (folder / "figures" / n).read_bytes()) for n in figures),
    ]


def _batches(output: str | os.PathLike[str], plan: Plan, chosen: Sequence[str]) -> list[Batch]:
    """Plan all fits; raise if there are none."""
    unknown = [name for name in chosen if name not in STUDIES]
    if unknown:
        raise InputError(f"there is no study {unknown[0]!r}; the studies are {', '.join(STUDIES)}")
    if not plan.sources:
        name, reason = next(iter(plan.skipped.items()))
        raise DataError(
            f"none of the data sets is available; set SCHIRN_DATA to their folder "
            f"({name}: {reason})"
        )
    return plan_batches(plan, Path(output), chosen)


def _figures(folder: Path) -> dict[str, str]:
    """File names of the figures by stem."""
    return {
        path.stem: path.name if path.stat().st_size <= _LARGE_SVG else f"{path.stem}.png"
        for path in sorted((folder / "figures").glob("*.svg"))
    }


def _studies(
    plan: Plan,
    results: Mapping[str, list[Result]],
    chosen: Sequence[str],
    say: Callable[[str], None],
) -> Iterable[Study]:
    """Make the chosen studies from the available data and the finished fits."""
    part = plan.part
    loaded = [(source.load(), level) for source, level in studied(plan)]
    noisy = [(data, candidates_of(data, level)) for data, level in loaded]
    originals = [(data, data.candidates) for data in own_noise(plan)]
    titles = [f"{d.name}{'' if level is None else f' r={level}'}" for d, level in loaded]
    triples = [(title, d.X, c) for title, (d, c) in zip(titles, noisy, strict=True)]
    matrices = [(title, c, d.y_true) for title, (d, c) in zip(titles, noisy, strict=True)]
    matrices += [(d.name, c, d.y_true) for d, c in originals]
    tied, theirs = to_tie(plan), authors(plan)
    makers: dict[str, tuple[bool, Callable[[], Study]]] = {
        "label_ranks": (True, lambda: studies.label_ranks(labelled(plan))),
        "prediction_ranks": (True, lambda: studies.prediction_ranks(originals or noisy)),
        "theorem": (True, lambda: studies.theorem(matrices, part.draws)),
        "singular_values": (True, lambda: studies.singular_values(matrices)),
        "convergence": (bool(noisy), lambda: studies.convergence(triples)),
        "authors_folds": (
            bool(theirs),
            lambda: ablations.authors_folds(results["authors_folds"], theirs[0]),
        ),
        "ablation": (bool(noisy), lambda: ablations.ablation(results["ablation"])),
        "sensitivity": (bool(noisy), lambda: ablations.sensitivity(results["sensitivity"])),
        "cooccurrence": (
            bool(tied),
            lambda: ablations.cooccurrence(results["cooccurrence"], tied),
        ),
    }
    for name, (possible, make) in makers.items():
        if name in chosen and possible:
            say(f"study: {name.replace('_', ' ')}")
            yield make()


def _models(records: Sequence[Result]) -> dict[str, Any]:
    """Traces by data set; the objective is relative to the first round, to fit on one axis."""
    models = {}
    for name in dict.fromkeys(record["dataset"] for record in records):
        rounds = [record for record in records if record["dataset"] == name]
        keys = ("objective", "residual", "n_noise")
        traces = {key: np.array([record[key] for record in rounds], dtype=float) for key in keys}
        models[name] = SimpleNamespace(
            objective_=traces["objective"] / traces["objective"][0],
            residual_=traces["residual"],
            n_noise_=traces["n_noise"],
        )
    return models
