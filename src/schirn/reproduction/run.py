"""Rerun the published experiments, with what they lack, into one folder."""

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from schirn._files import atomic_write
from schirn.bench._engine import Batch, Engine, default_threads
from schirn.bench._methods import importable_here
from schirn.bench._plan import Cell
from schirn.bench._progress import Report
from schirn.bench._run import rows_of
from schirn.bench.report import write_outputs
from schirn.bench.tables import SUFFIXES
from schirn.exceptions import DataError, InputError
from schirn.reproduction import ablations, studies
from schirn.reproduction.extent import FULL, METHODS, QUICK, Part, expected_seconds
from schirn.reproduction.page import Facts, page
from schirn.reproduction.plan import (
    STUDIES,
    Plan,
    authors,
    candidates_of,
    labelled,
    make_plan,
    named,
    own_noise,
    plan_batches,
    searched,
    studied,
    to_tie,
)
from schirn.reproduction.study import Row, Study

__all__ = [
    "FULL",
    "METHODS",
    "QUICK",
    "STUDIES",
    "Part",
    "Plan",
    "make_plan",
    "publish",
    "reproduce",
    "run_fits",
    "write_results",
]

_PUBLISHED_FIGURES = "images/reproduction"
# A larger drawing is slow to show; the page then takes the picture of it.
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
    """Run the tables and the studies of a plan; what is finished in `output` is not run again.

    Parameters
    ----------
    output : folder of rows, tables, figures, ``report.html`` and ``reproduction.md``
    plan : from `make_plan`
    chosen : names of studies to run besides the tables, out of `STUDIES`
    date : date to print
    say : called with a line of text before each step
    **how : jobs, threads, time_limit, retry, keep_scores and report, as in `run_fits`

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

    With `stop_after` the shortest come first, so that most is done by then.

    Parameters
    ----------
    output, plan, chosen, say : as in `reproduce`
    jobs, threads, time_limit, retry, keep_scores, report : as in `schirn.bench.run`
    stop_after : seconds after which to stop; fits that are not finished then leave no trace

    Returns
    -------
    int
        How many fits are not finished.
    """
    batches = _batches(output, plan, chosen)
    say(f"{sum(len(batch.cells) for batch in batches)} fits")
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
    """Write tables, figures and pages from finished fits; returns the files.

    Where fits are missing, a method counts in a setting only with all of its folds, a study only
    with all of its fits; the page says what is missing.
    """
    folder = Path(output)
    batches = _batches(output, plan, chosen)
    rows, missing = _complete(rows_of(*batches[0]), batches[0].cells)
    begun = [b.folder.name for b in batches[1:] if len(rows_of(*b)) < len(b.cells)]
    missing |= {f"the study {name.replace('_', ' ')}": [] for name in begun}
    found = list(_studies(plan, folder, [name for name in chosen if name not in begun], say))
    say("tables and figures")
    written = _write_studies(folder, found)
    written += write_outputs(
        rows,
        folder,
        title="Reproduction of the published experiments",
        date=date,
        sweep=_rows_of(found, "sensitivity"),
        models=_models(_rows_of(found, "convergence")),
    )
    facts = Facts(plan.part, plan.methods, plan.skipped, date, searched(plan), missing)
    text = page(rows, {study.name: study for study in found}, facts, _figures(folder))
    return [_write(folder / "reproduction.md", text), *written]


def _complete(rows: Sequence[Row], cells: Sequence[Cell]) -> tuple[list[Row], dict[str, list[str]]]:
    """The rows of methods with all folds of a setting, and the settings that others lack."""
    keys = {row["key"] for row in rows}
    short = {_place(cell) for cell in cells if cell.key not in keys}
    missing: dict[str, list[str]] = {}
    for method, dataset, level in sorted(short, key=str):
        setting = dataset if level is None else f"{dataset} r={level}"
        missing.setdefault(method, []).append(setting)
    where = {cell.key: _place(cell) for cell in cells}
    return [row for row in rows if where[row["key"]] not in short], missing


def _place(cell: Cell) -> tuple[str, str, int | None]:
    return cell.row["method"], cell.row["dataset"], cell.row["r"]


def publish(output: str | os.PathLike[str], page_file: str | os.PathLike[str]) -> list[Path]:
    """Copy the page and the figures that it shows to another place; returns the files."""
    target = Path(page_file)
    text = (Path(output) / "reproduction.md").read_text(encoding="utf-8")
    images = target.parent / _PUBLISHED_FIGURES
    images.mkdir(parents=True, exist_ok=True)
    written = []
    for name in re.findall(r"\]\(figures/([\w.]+)\)", text):
        with atomic_write(images / name) as stream:
            stream.write((Path(output) / "figures" / name).read_bytes())
        written.append(images / name)
    return [_write(target, text.replace("](figures/", f"]({_PUBLISHED_FIGURES}/")), *written]


def _batches(output: str | os.PathLike[str], plan: Plan, chosen: Sequence[str]) -> list[Batch]:
    """All fits, or why there are none."""
    unknown = [name for name in chosen if name not in STUDIES]
    if unknown:
        raise InputError(f"there is no study {unknown[0]!r}; there are {', '.join(STUDIES)}")
    if not plan.sources:
        name, reason = next(iter(plan.skipped.items()))
        raise DataError(
            f"none of the data sets is here; set SCHIRN_DATA to their folder ({name}: {reason})"
        )
    return plan_batches(plan, Path(output), chosen)


def _figures(folder: Path) -> dict[str, str]:
    """File names of the figures, by their names without suffix."""
    return {
        path.stem: path.name if path.stat().st_size <= _LARGE_SVG else f"{path.stem}.png"
        for path in sorted((folder / "figures").glob("*.svg"))
    }


def _studies(
    plan: Plan, folder: Path, chosen: Sequence[str], say: Callable[[str], None]
) -> Iterable[Study]:
    """The chosen studies on what is here; their fits are done."""
    part = plan.part
    items = studied(plan)
    sets = [named(source, level) for source, level in items]
    loaded = [(source.load(), level) for source, level in items]
    noisy = [(data, candidates_of(data, level)) for data, level in loaded]
    own = [(data, data.candidates) for data in own_noise(plan)]
    titles = [f"{d.name}{'' if level is None else f' r={level}'}" for d, level in loaded]
    triples = [(title, d.X, c) for title, (d, c) in zip(titles, noisy, strict=True)]
    matrices = [(title, c, d.y_true) for title, (d, c) in zip(titles, noisy, strict=True)]
    matrices += [(d.name, c, d.y_true) for d, c in own]
    tied, theirs = to_tie(plan), authors(plan)
    fixed: dict[str, Any] = {"folds": part.folds, "jobs": 0}
    made: dict[str, tuple[bool, Callable[[], Study]]] = {
        "label_ranks": (True, lambda: studies.label_ranks(labelled(plan))),
        "prediction_ranks": (True, lambda: studies.prediction_ranks(own or noisy)),
        "theorem": (True, lambda: studies.theorem(matrices, part.draws)),
        "convergence": (bool(noisy), lambda: studies.convergence(triples)),
        "authors_folds": (
            bool(theirs),
            lambda: ablations.authors_folds(theirs[0], folder / "authors_folds", jobs=0),
        ),
        "ablation": (bool(sets), lambda: ablations.ablation(sets, folder / "ablation", **fixed)),
        "sensitivity": (
            bool(sets),
            lambda: ablations.sensitivity(sets, folder / "sensitivity", every=part.every, **fixed),
        ),
        "cooccurrence": (
            bool(tied),
            lambda: ablations.cooccurrence(tied, folder / "cooccurrence", **fixed),
        ),
    }
    for name, (possible, make) in made.items():
        if name in chosen and possible:
            say(f"study: {name.replace('_', ' ')}")
            yield make()


def _rows_of(found: Iterable[Study], name: str) -> list[Row]:
    return [row for study in found if study.name == name for row in study.rows]


def _models(rows: Sequence[Row]) -> dict[str, Any]:
    """Traces by data set; the objective relative to the first round, so that one axis holds all."""
    models = {}
    for name in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == name]
        keys = ("objective", "residual", "n_noise")
        traces = {key: np.array([row[key] for row in own], dtype=float) for key in keys}
        models[name] = SimpleNamespace(
            objective_=traces["objective"] / traces["objective"][0],
            residual_=traces["residual"],
            n_noise_=traces["n_noise"],
        )
    return models


def _write_studies(folder: Path, found: Iterable[Study]) -> list[Path]:
    """Rows as JSON lines and tables in all formats."""
    written = []
    (folder / "tables").mkdir(exist_ok=True)
    for study in found:
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in study.rows)
        written.append(_write(folder / f"{study.name}.jsonl", text))
        for format, suffix in SUFFIXES.items():
            path = folder / "tables" / f"{study.table.name}.{suffix}"
            written.append(_write(path, study.table.render(format)))
    return written


def _write(path: Path, text: str) -> Path:
    with atomic_write(path) as stream:
        stream.write(text.encode())
    return path
