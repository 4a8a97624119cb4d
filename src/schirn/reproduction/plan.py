"""Which cells and matrices a reproduction needs, from the data sets that are here."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schirn.bench._data import Level, Source, parse_datasets, unusable
from schirn.bench._engine import Batch
from schirn.bench._methods import importable_here
from schirn.bench._run import plan_cells
from schirn.datasets import Dataset, add_noise, available, load
from schirn.exceptions import DataError, InputError, MissingExtraError
from schirn.reproduction import ablations
from schirn.reproduction.extent import (
    FULL,
    METHODS,
    Part,
    Shape,
    choose_methods,
    describe,
    expected_seconds,
    grids_of,
    train_shape,
)

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
AUTHORS = "birds_nlr_r3"
_LABELS_ONLY = "_labels_only"
# Ranks, traces, tables and figures, which are made in one process after the fits.
_REST_SHARE = 0.03


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
    files : files that are read
    """

    part: Part
    methods: tuple[str, ...]
    sources: dict[str, tuple[Source, Level]]
    shapes: dict[str, Shape]
    skipped: dict[str, str]
    seconds: float = 0.0
    files: tuple[Path, ...] = ()

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
    studies: Sequence[str] = STUDIES,
) -> Plan:
    """Look which data sets are here and how long everything will take.

    Parameters
    ----------
    part : FULL or QUICK
    sets : data sets instead of those of the part, as in `schirn.bench.run`
    methods : names of methods
    folds : number of folds instead of that of the part
    studies : names of studies, for the time

    Examples
    --------
    >>> from schirn.reproduction.run import QUICK, make_plan
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
    plan = Plan(part, tuple(methods), sources, shapes, skipped)
    if not sources:
        return plan
    batches = plan_batches(plan, Path(), studies)
    seconds = sum(expected_seconds(cell) for batch in batches for cell in batch.cells)
    return plan._replace(seconds=(1 + _REST_SHARE) * seconds, files=tuple(_files(plan)))


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


def _files(plan: Plan) -> Iterator[Path]:
    """The files of the sets, and those that only studies read."""
    found = {entry.name: entry.path for entry in available() if entry.path is not None}
    for source in dict.fromkeys(source.where for source, _ in plan.sources.values()):
        yield found.get(source, Path(source))
    if plan.part.is_published:
        used = (AUTHORS, *(f"{name}{_LABELS_ONLY}" for name in plan.skipped))
        yield from (found[name] for name in used if name in found)


def plan_batches(plan: Plan, folder: Path, studies: Sequence[str]) -> list[Batch]:
    """All fits: those of the tables first, then those of the studies, each in its folder."""
    wanted = {"rows": _asked_tables(plan), **_asked_studies(plan, studies)}
    with importable_here():
        return [
            Batch(folder / name, [cell for one in asked for cell in plan_cells(**one)])
            for name, asked in wanted.items()
        ]


def _asked_tables(plan: Plan) -> list[ablations.Asked]:
    """What the tables ask of `run`, set by set, because grids depend on the size."""
    asked = []
    for items in by_set(plan).values():
        shape = train_shape(plan.shapes[items[0]], plan.part.folds)
        methods = choose_methods(plan.methods, shape, plan.part)
        asked.append(
            {
                "datasets": [named(*plan.sources[item]) for item in items],
                "methods": methods,
                "folds": plan.part.folds,
                "grids": grids_of(methods, shape, plan.part),
            }
        )
    return asked


def _asked_studies(plan: Plan, chosen: Sequence[str]) -> dict[str, list[ablations.Asked]]:
    """What the chosen studies ask of `run`."""
    part, items = plan.part, [named(*item) for item in studied(plan)]
    asked: dict[str, list[ablations.Asked]] = {}
    if "authors_folds" in chosen:
        asked["authors_folds"] = [
            one for data in authors(plan) for one in ablations.ask_authors_folds(data)
        ]
    if "ablation" in chosen and items:
        asked["ablation"] = [ablations.ask_ablation(items, part.folds)]
    if "sensitivity" in chosen and items:
        asked["sensitivity"] = [ablations.ask_sensitivity(items, part.folds, part.every)]
    if "cooccurrence" in chosen and to_tie(plan):
        made = [ablations.tie(data)[0] for data in to_tie(plan)]
        asked["cooccurrence"] = [ablations.ask_cooccurrence(made, part.folds)]
    return asked


def named(source: Source, level: Level) -> tuple[Any, Level]:
    """A set as `run` takes it."""
    return (source.where if source.dataset is None else source.dataset, level)


def by_set(plan: Plan) -> dict[str, list[str]]:
    """Names of the settings of each set."""
    found: dict[str, list[str]] = {}
    for name, (source, _) in plan.sources.items():
        found.setdefault(source.name, []).append(name)
    return found


def searched(plan: Plan) -> dict[str, dict[str, Any]]:
    """Grids that are searched, by set and method; methods left out are missing."""
    found = {}
    for name, items in by_set(plan).items():
        shape = train_shape(plan.shapes[items[0]], plan.part.folds)
        methods = choose_methods(plan.methods, shape, plan.part)
        found[name] = {**dict.fromkeys(methods), **grids_of(methods, shape, plan.part)}
    return found


def studied(plan: Plan) -> list[tuple[Source, Level]]:
    """The sets of the ablations: each once, at its first noise level."""
    if plan.part.is_published:
        return [plan.sources[name] for name in plan.part.ablation if name in plan.sources]
    return [plan.sources[names[0]] for names in by_set(plan).values()]


def candidates_of(data: Dataset, level: Level) -> Any:
    """The candidates of a set, drawn as those of the tables."""
    if level is None:
        return data.candidates
    return add_noise(data.y_true, int(level), kind="legacy", seed=int(level))


def own_noise(plan: Plan) -> list[Dataset]:
    """The sets with candidates of their own."""
    return [source.load() for source, level in plan.sources.values() if level is None]


def to_tie(plan: Plan) -> list[Dataset]:
    """The sets whose labels are tied."""
    if plan.part.is_published:
        return [load(name) for name in plan.part.cooccurrence if name in plan.sources]
    return [source.load() for source, _ in studied(plan)]


def labelled(plan: Plan) -> list[Dataset]:
    """Sets with candidates of their own, and those of which at least the labels are here."""
    found = own_noise(plan)
    for name in (*plan.skipped, *(FULL.sets[:5] if plan.part.is_published else ())):
        for stem in (name, f"{name}{_LABELS_ONLY}"):
            if name in {data.name.removesuffix(_LABELS_ONLY) for data in found}:
                break
            found += _if_there(stem)
    return [data for data in found if data.candidates is not None]


def authors(plan: Plan) -> list[Dataset]:
    """The set of NLR's authors, if it is here."""
    return list(_if_there(AUTHORS)) if plan.part.is_published else []


def _if_there(name: str) -> Iterable[Dataset]:
    try:
        return [load(name)]
    except (DataError, MissingExtraError, OSError):
        return []
