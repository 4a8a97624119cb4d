"""Rerun the published experiments, with what they lack, into one folder."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from schirn._atomic import atomic_write
from schirn.bench import ablations, studies
from schirn.bench._data import Level, Source, parse_datasets, unusable
from schirn.bench._part import (
    FULL,
    METHODS,
    QUICK,
    Part,
    Shape,
    choose_methods,
    describe,
    estimate,
    grids_of,
    train_shape,
)
from schirn.bench._progress import Report
from schirn.bench._reproduction_page import Facts, page
from schirn.bench._run import run
from schirn.bench._study import Row, Study
from schirn.bench.report import write_outputs
from schirn.bench.tables import SUFFIXES
from schirn.datasets import Dataset, add_noise, load
from schirn.exceptions import DataError, InputError, MissingExtraError

__all__ = ["FULL", "METHODS", "QUICK", "STUDIES", "Part", "Plan", "make_plan", "reproduce"]

STUDIES = (
    "label_ranks",
    "prediction_ranks",
    "theorem",
    "convergence",
    "authors_folds",
    "ablation",
    "sensitivity",
    "cooccurrence",
)
_AUTHORS = "birds_nlr_r3"
_LABELS_ONLY = "_labels_only"
# The studies besides the tables take about this share of their time.
_STUDY_SHARE = 0.5


class Plan(NamedTuple):
    """What can be run here.

    Attributes
    ----------
    part : the sets and limits that were asked for
    methods : names of the methods
    sources : sets that are here, with their noise levels, by "name" or "name:r"
    shapes : their shapes
    skipped : why the others are left out
    seconds : rough time on one core
    """

    part: Part
    methods: tuple[str, ...]
    sources: dict[str, tuple[Source, Level]]
    shapes: dict[str, Shape]
    skipped: dict[str, str]
    seconds: float

    def to_text(self, jobs: int = 1) -> str:
        """Say what will be run, what not and why, and how long it will take."""
        lines = [
            f"{_count(len(self.shapes), 'setting')}, {_count(len(self.methods), 'method')}, "
            f"{self.part.folds} folds: "
            f"about {describe(self.seconds / max(1, jobs))} with {max(1, jobs)} "
            f"process{'es' if jobs > 1 else ''} of one thread; "
            "run the same command again to go on after an interruption"
        ]
        return "\n".join(
            [*lines, *(f"skipped {name}: {why}" for name, why in self.skipped.items())]
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def make_plan(
    part: Part = FULL,
    *,
    sets: Sequence[str] | None = None,
    methods: Sequence[str] = METHODS,
    folds: int | None = None,
) -> Plan:
    """Look which data sets are here and how long everything will take.

    Parameters
    ----------
    part : FULL or QUICK
    sets : data sets instead of those of the part, as in `schirn.bench.run`
    methods : names of methods
    folds : number of folds instead of that of the part

    Examples
    --------
    >>> from schirn.bench.reproduce import QUICK, make_plan
    >>> plan = make_plan(QUICK, sets=["digits_attributes"], methods=["Schirn", "Sieve"])
    >>> plan.shapes
    {'digits_attributes': (1797, 64, 10)}
    """
    if sets is not None:
        part = part.with_sets(tuple(sets))
    if folds is not None:
        part = part.with_folds(folds)
    sources, shapes, skipped = {}, {}, {}
    for source, level in parse_datasets(part.sets, [None], {}):
        name = source.name if level is None else f"{source.name}:{level}"
        data, reason = _look(source, level)
        if data is None:
            skipped[name] = reason
        else:
            sources[name] = (source, level)
            shapes[name] = (data.n_samples, data.n_features, data.n_labels)
    seconds = (1 + _STUDY_SHARE) * estimate(shapes, methods, part)
    return Plan(part, tuple(methods), sources, shapes, skipped, seconds)


def _look(source: Source, level: Level) -> tuple[Dataset | None, str]:
    """The set, or why it cannot be used."""
    try:
        data = source.load()
        reason = unusable(data, level)
    except (DataError, InputError, MissingExtraError, OSError) as error:
        reason = " ".join(str(error).split())
        if source.name in FULL.sets[:2]:
            reason = f"put the authors' {source.name}.mat into a folder of SCHIRN_DATA"
        elif reason.startswith("There is no data set"):
            reason = f"no folder of SCHIRN_DATA has a data set {source.name!r}"
        return None, reason
    return (data, "") if reason is None else (None, reason)


def reproduce(
    output: str | os.PathLike[str],
    plan: Plan,
    *,
    chosen: Sequence[str] = STUDIES,
    jobs: int = 0,
    threads: int | None = None,
    time_limit: float | None = None,
    retry: bool = False,
    date: str | None = None,
    report: Callable[[Report], None] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Run the tables and the studies of a plan; what is finished in `output` is not run again.

    Parameters
    ----------
    output : folder of rows, tables, figures, ``report.html`` and ``reproduction.md``
    plan : from `make_plan`
    chosen : names of studies to run besides the tables, out of `STUDIES`
    jobs, threads, report : as in `schirn.bench.run`
    time_limit, retry : as in `schirn.bench.run`, for the tables
    date : date to print
    say : called with a line of text before each step

    Returns
    -------
    list of Path
        The files written, ``reproduction.md`` first.
    """
    unknown = [name for name in chosen if name not in STUDIES]
    if unknown:
        raise InputError(f"there is no study {unknown[0]!r}; there are {', '.join(STUDIES)}")
    if not plan.sources:
        name, reason = next(iter(plan.skipped.items()))
        raise DataError(
            f"none of the data sets is here; set SCHIRN_DATA to their folder ({name}: {reason})"
        )
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    how = {"jobs": jobs, "threads": threads, "report": report}
    more = {"time_limit": time_limit, "retry": retry}
    rows = _tables(plan, folder / "rows", {**how, **more}, say)
    found = list(_studies(plan, folder, chosen, how, say))
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
    facts = Facts(plan.part, plan.methods, plan.skipped, date, _searched(plan))
    text = page(rows, {study.name: study for study in found}, facts, folder / "figures")
    return [_write(folder / "reproduction.md", text), *written]


def _tables(plan: Plan, folder: Path, how: dict[str, Any], say: Callable[[str], None]) -> list[Row]:
    """Rows of all methods on all sets, set by set."""
    rows: list[Row] = []
    for name, items in _by_set(plan).items():
        shape = train_shape(plan.shapes[items[0]], plan.part.folds)
        methods = choose_methods(plan.methods, shape, plan.part)
        levels = f", {len(items)} noise levels" if len(items) > 1 else ""
        say(f"{name}: {len(methods)} methods{levels}")
        rows += run(
            [_named(*plan.sources[item]) for item in items],
            methods,
            output=folder,
            folds=plan.part.folds,
            grids=grids_of(methods, shape, plan.part),
            **how,
        )
    return rows


def _named(source: Source, level: Level) -> tuple[Any, Level]:
    """A set as `run` takes it."""
    return (source.where if source.dataset is None else source.dataset, level)


def _by_set(plan: Plan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, (source, _) in plan.sources.items():
        found.setdefault(source.name, []).append(name)
    return found


def _searched(plan: Plan) -> dict[str, dict[str, Any]]:
    """Grids that were searched, by set and method; methods left out are missing."""
    found = {}
    for name, items in _by_set(plan).items():
        shape = train_shape(plan.shapes[items[0]], plan.part.folds)
        methods = choose_methods(plan.methods, shape, plan.part)
        found[name] = {**dict.fromkeys(methods), **grids_of(methods, shape, plan.part)}
    return found


def _studies(
    plan: Plan, folder: Path, chosen: Sequence[str], how: dict[str, Any], say: Callable[[str], None]
) -> Iterable[Study]:
    """The chosen studies on what is here."""
    part = plan.part
    items = _studied(plan)
    named = [_named(source, level) for source, level in items]
    loaded = [(source.load(), level) for source, level in items]
    noisy = [(data, _candidates(data, level)) for data, level in loaded]
    own = [(data, data.candidates) for data in _own_noise(plan)]
    titles = [f"{d.name}{'' if level is None else f' r={level}'}" for d, level in loaded]
    run_how = {**how, "folds": part.folds}
    triples = [(title, d.X, c) for title, (d, c) in zip(titles, noisy, strict=True)]
    matrices = [(title, c, d.y_true) for title, (d, c) in zip(titles, noisy, strict=True)]
    matrices += [(d.name, c, d.y_true) for d, c in own]
    tied = [data for data, _ in loaded]
    if part.is_published:
        tied = [load(name) for name in part.cooccurrence if name in plan.sources]
    authors = _authors() if part.is_published else []
    made: dict[str, tuple[bool, Callable[[], Study]]] = {
        "label_ranks": (True, lambda: studies.label_ranks(_labelled(plan))),
        "prediction_ranks": (True, lambda: studies.prediction_ranks(own or noisy)),
        "theorem": (True, lambda: studies.theorem(matrices, part.draws)),
        "convergence": (bool(noisy), lambda: studies.convergence(triples)),
        "authors_folds": (
            bool(authors),
            lambda: ablations.authors_folds(authors[0], folder / "authors_folds", **how),
        ),
        "ablation": (
            bool(named),
            lambda: ablations.ablation(named, folder / "ablation", **run_how),
        ),
        "sensitivity": (
            bool(named),
            lambda: ablations.sensitivity(
                named, folder / "sensitivity", every=1 if part.sweep else 2, **run_how
            ),
        ),
        "cooccurrence": (
            bool(tied),
            lambda: ablations.cooccurrence(tied, folder / "cooccurrence", **run_how),
        ),
    }
    for name, (possible, make) in made.items():
        if name in chosen and possible:
            say(f"study: {name.replace('_', ' ')}")
            yield make()


def _studied(plan: Plan) -> list[tuple[Source, Level]]:
    """The sets of the ablations: each once, at its first noise level."""
    if plan.part.is_published:
        return [plan.sources[name] for name in plan.part.ablation if name in plan.sources]
    return [plan.sources[names[0]] for names in _by_set(plan).values()]


def _candidates(data: Dataset, level: Level) -> Any:
    if level is None:
        return data.candidates
    return add_noise(data.y_true, int(level), kind="legacy", seed=int(level))


def _own_noise(plan: Plan) -> list[Dataset]:
    """The sets with candidates of their own."""
    return [source.load() for source, level in plan.sources.values() if level is None]


def _labelled(plan: Plan) -> list[Dataset]:
    """Sets with candidates of their own, and those of which at least the labels are here."""
    found = _own_noise(plan)
    for name in (*plan.skipped, *(FULL.sets[:5] if plan.part.is_published else ())):
        for stem in (name, f"{name}{_LABELS_ONLY}"):
            if name in {data.name.removesuffix(_LABELS_ONLY) for data in found}:
                break
            try:
                data = load(stem)
            except (DataError, MissingExtraError, OSError):
                continue
            if data.candidates is not None:
                found.append(data)
    return found


def _authors() -> list[Dataset]:
    """The set of NLR's authors, if it is here."""
    try:
        return [load(_AUTHORS)]
    except (DataError, OSError):
        return []


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
