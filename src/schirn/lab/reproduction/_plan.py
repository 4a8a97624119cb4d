"""The runs and matrices of a reproduction, given the data sets that are available."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schirn.datasets import Dataset, add_noise, load
from schirn.exceptions import DataError, InputError, MissingExtraError
from schirn.lab.bench import (
    Batch,
    Level,
    Run,
    Source,
    importable_here,
    parse_datasets,
    plan_runs,
    unusable,
)
from schirn.lab.reproduction import _ablations as ablations
from schirn.lab.reproduction import _sweeps
from schirn.lab.reproduction._experiments import FULL, KERNEL_METHODS, METHODS, ORACLE_GRID, Part
from schirn.lab.reproduction._preprocessing import preprocessing_request

STUDIES = (
    "label_ranks",
    "prediction_ranks",
    "theorem",
    "singular_values",
    "convergence",
    "ablation",
    "cooccurrence",
    "sensitivity",
    "authors_folds",
    "preprocessing",
    "split_choice",
)
TABLES = ("rows", "kernel", "oracle")
"""Folders of the tables: features as in the paper, kernel features, Schirn tuned on the truth."""
AUTHORS = "birds_nlr_r3"
"""Birds with the candidates and folds of the authors of NLR."""
_LABELS_ONLY = "_labels_only"


@dataclass(frozen=True)
class Plan:
    """Plan of a reproduction.

    Attributes
    ----------
    part : Part
        Requested data sets and limits.
    methods : tuple of str
        Names of the methods, without those that the part leaves out.
    sources : dict
        Available data sets with their noise levels, by "name" or "name:r".
    shapes : dict
        Numbers of rows, features and labels of these.
    skipped : dict of str to str
        Reasons why other data sets are left out.
    """

    part: Part
    methods: tuple[str, ...]
    sources: dict[str, tuple[Source, Level]]
    shapes: dict[str, tuple[int, int, int]]
    skipped: dict[str, str]

    def to_text(self) -> str:
        """Describe what will be run, and what will be skipped and why."""
        settings = ", ".join(self.shapes) or "none, for lack of data"
        first = (
            f"settings: {settings}; methods: {', '.join(self.methods)}; "
            f"{self.part.folds} folds; run the same command again to resume after an interruption"
        )
        return "\n".join([first, *(f"skipped {n}: {why}" for n, why in self.skipped.items())])


def make_plan(
    part: Part = FULL,
    *,
    sets: Sequence[str] | None = None,
    methods: Sequence[str] = METHODS,
    folds: int | None = None,
) -> Plan:
    """Find the available data sets of a reproduction.

    Parameters
    ----------
    part : Part
        `FULL` or `QUICK` of `schirn.lab.reproduction._experiments`.
    sets : list of str, optional
        Data sets that replace the part's own, as in `schirn.lab.bench.run`.
    methods : list of str
        Names of methods.
    folds : int, optional
        Number of folds that replaces the part's own.

    Returns
    -------
    Plan
        Pass it to `reproduce`.

    Examples
    --------
    >>> from schirn.lab.reproduction import make_plan
    >>> from schirn.lab.reproduction._experiments import QUICK
    >>> plan = make_plan(QUICK, sets=["digits_attributes"], methods=["Schirn", "Sieve"])
    >>> plan.shapes
    {'digits_attributes': (1797, 64, 10)}
    """
    if sets is not None:
        part = part.with_sets(tuple(sets))
    if folds is not None:
        part = replace(part, folds=folds)
    sources = {}
    shapes = {}
    skipped = {}
    for source, level in parse_datasets(part.sets, [None], {}):
        name = source.name if level is None else f"{source.name}:{level}"
        data, reason = _load(source, level)
        if data is None:
            skipped[name] = reason
        else:
            sources[name] = (source, level)
            shapes[name] = (data.n_samples, data.n_features, data.n_labels)
    part = replace(part, left_out=tuple(name for name in part.left_out if name in methods))
    chosen = tuple(name for name in methods if name not in part.left_out)
    return Plan(part, chosen, sources, shapes, skipped)


def _load(source: Source, level: Level) -> tuple[Dataset | None, str]:
    """Load a data set, or explain why it cannot be used."""
    try:
        data = source.load()
        reason = unusable(data, level)
    except (DataError, InputError, MissingExtraError, OSError) as error:
        reason = " ".join(str(error).split())
        if source.name in FULL.sets[:2]:
            reason = (
                f"put the authors' {source.name}.mat into a folder of SCHIRN_DATA, or run "
                f"schirn data fetch {source.name}"
            )
        elif reason.startswith(("There is no data set", "The data set")):
            reason = f"no folder of SCHIRN_DATA has a data set {source.name!r}"
        return None, reason
    return (data, "") if reason is None else (None, reason)


def plan_batches(plan: Plan, folder: Path, studies: Sequence[str]) -> list[Batch]:
    """Plan all fits: first for the tables, then for each study, each in its folder."""
    requests = {name: _table_requests(plan, name) for name in TABLES}
    requests |= _study_requests(plan, studies)
    with importable_here():
        return [Batch(folder / name, planned(plan, name, requests[name])) for name in requests]


def planned(plan: Plan, batch: str, requests: Sequence[ablations.Request]) -> list[Run]:
    """Runs of some requests, without the folds that the part leaves out.

    All methods of a fold follow each other, so that they share what they can.
    """
    runs = []
    for request in requests:
        for run in plan_runs(**request):
            n_folds = plan.part.folds_of(batch, run.fields["dataset"])
            if run.fields["split"] == "stored" or run.fields["fold"] < n_folds:
                runs.append(run)
    # Small data sets come first: a run that is stopped early has finished some settings. Sorting
    # is stable: methods stay in their order within a fold.
    settings = sorted(dict.fromkeys(map(_setting, runs)), key=lambda setting: setting[:2])
    return sorted(runs, key=lambda run: (settings.index(_setting(run)), run.fields["fold"]))


def _setting(run: Run) -> tuple[int, str, Any]:
    """Cells of the label matrix times features, which the cost grows with, and the names."""
    sizes = (run.known["n_samples"], run.known["n_features"], run.known["n_labels"])
    cells = math.prod(size or 0 for size in sizes)
    return cells, run.fields["dataset"], run.fields["r"]


def _table_requests(plan: Plan, batch: str) -> list[ablations.Request]:
    """Return the requests of a kind of tables."""
    usual = {"rows": plan.methods, "kernel": KERNEL_METHODS, "oracle": ("Schirn",)}[batch]
    methods = [method for method in plan.methods if method in usual]
    datasets = [as_item(*source) for source in plan.sources.values()]
    fixed: ablations.Request = {"folds": plan.part.folds}
    options: dict[str, ablations.Request] = {
        "kernel": {"features": "kernel"},
        "oracle": {"tuning": "oracle", "grids": {"Schirn": ORACLE_GRID}},
    }
    fixed |= options.get(batch, {})
    if not datasets:
        return []
    by_rows: dict[int, list[str]] = {}
    for method in methods:
        by_rows.setdefault(plan.part.search_rows_of(method), []).append(method)
    return [
        fixed | {"datasets": datasets, "methods": names, "search_rows": rows}
        for rows, names in by_rows.items()
    ]


def _study_requests(plan: Plan, chosen: Sequence[str]) -> dict[str, list[ablations.Request]]:
    """Return the requests of the chosen studies, by study."""
    part = plan.part
    items = [as_item(*item) for item in studied(plan)]
    requests: dict[str, list[ablations.Request]] = {}
    if "ablation" in chosen and items:
        requests["ablation"] = [ablations.ablation_request(items, part.folds)]
    if "cooccurrence" in chosen and to_tie(plan):
        tied = [ablations.tie(data)[0] for data in to_tie(plan)]
        requests["cooccurrence"] = [ablations.cooccurrence_request(tied, part.folds)]
    if "sensitivity" in chosen and items:
        requests["sensitivity"] = [_sweeps.sensitivity_request(items, part.folds)]
    if "authors_folds" in chosen:
        requests["authors_folds"] = [
            request for data in authors(plan) for request in _sweeps.authors_request(data)
        ]
    if "preprocessing" in chosen and preprocessed(plan):
        request = preprocessing_request(preprocessed(plan), part.folds)
        requests["preprocessing"] = [request]
    return requests


def as_item(source: Source, level: Level) -> tuple[Any, Level]:
    """Return a data set as `schirn.lab.bench.run` accepts it."""
    return (source.where if source.dataset is None else source.dataset, level)


def studied(plan: Plan) -> list[tuple[Source, Level]]:
    """Return the data sets of the ablations, each at its first noise level."""
    if plan.part.is_published:
        return [plan.sources[name] for name in plan.part.ablation if name in plan.sources]
    first: dict[str, tuple[Source, Level]] = {}
    for source, level in plan.sources.values():
        first.setdefault(source.name, (source, level))
    return list(first.values())


def candidates_of(data: Dataset, level: Level) -> Any:
    """Draw the candidates of a data set as for the tables."""
    if level is None:
        return data.candidates
    return add_noise(data.y_true, int(level), kind="legacy")


def own_noise(plan: Plan) -> list[Dataset]:
    """Return the data sets with their own candidates."""
    return [source.load() for source, level in plan.sources.values() if level is None]


def to_tie(plan: Plan) -> list[Dataset]:
    """Return the data sets whose labels are tied."""
    if plan.part.is_published:
        return [load(name) for name in plan.part.cooccurrence if name in plan.sources]
    return [source.load() for source, _ in studied(plan)]


def labelled(plan: Plan) -> list[Dataset]:
    """Return the data sets with their own candidates, even if only labels are available."""
    sets = own_noise(plan)
    for name in (*plan.skipped, *(FULL.sets[:5] if plan.part.is_published else ())):
        for stem in (name, f"{name}{_LABELS_ONLY}"):
            if name in {data.name.removesuffix(_LABELS_ONLY) for data in sets}:
                break
            sets += _if_available(stem)
    return [data for data in sets if data.candidates is not None]


def authors(plan: Plan) -> list[Dataset]:
    """Return the data set of NLR's authors, if it is available."""
    return list(_if_available(AUTHORS)) if plan.part.is_published else []


def with_noise(plan: Plan) -> list[tuple[str, Level, Dataset]]:
    """Return the settings with added noise: name, noise level and data set."""
    return [
        (source.name, level, source.load())
        for source, level in plan.sources.values()
        if level is not None
    ]


def preprocessed(plan: Plan) -> list[tuple[Dataset, Level]]:
    """Return the data sets that are run with the preprocessing of the release."""
    found = [plan.sources[name] for name in plan.part.preprocessed if name in plan.sources]
    return [(source.load(), level) for source, level in found]


def _if_available(name: str) -> Iterable[Dataset]:
    try:
        return [load(name)]
    except (DataError, MissingExtraError, OSError):
        return []
