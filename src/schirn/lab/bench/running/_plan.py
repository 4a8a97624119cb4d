"""Turn a request into the list of runs: one data set, noise level, seed, method and fold each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scipy import sparse

from schirn.datasets.noise import KINDS
from schirn.exceptions import DataError, InputError, MissingExtraError
from schirn.lab.bench.results import FORMAT, Result, content_key
from schirn.lab.bench.running._data import (
    Level,
    Source,
    checksum,
    make_splits,
    parse_datasets,
    unusable,
)
from schirn.lab.bench.running._methods import Grid, Method, Params, make_methods, thin_grid

TUNINGS = ("none", "candidates", "oracle")
FEATURES = ("raw", "auto", "kernel")


@dataclass(frozen=True)
class Settings:
    """Settings shared by all runs of a benchmark: arguments of `schirn.lab.bench.run`.

    Attributes
    ----------
    r : int, float, None or list of them
        Noise levels of data sets given without one. None uses the candidates that come with the
        data set.
    folds : int
        Number of folds; 1 trains on four fifths of the rows and tests on the last fifth.
    seeds : list of int
        Seeds of the folds and of the methods; each one adds a repetition.
    tuning : {"none", "candidates", "oracle"}
        "none" uses the recommended parameters, "candidates" chooses them on the candidates of
        held-out training rows, and "oracle" on the true labels of the test rows, as much of the
        literature does; every result of the latter is marked as such.
    inner_folds : int
        Number of folds of the search on candidates.
    search_points : int, optional
        Search at most this many points of each grid, see `thin_grid`.
    search_rows : int, optional
        Search on at most this many training rows of each fold, drawn at random. The final fit uses
        all rows. Methods that choose their parameters in `fit` always use all rows.
    features : {"raw", "auto", "kernel"}
        The features that all methods get: as in the file ("raw"), scaled according to their kind
        ("auto"), or `schirn.features.KernelFeatures` ("kernel"), learned from the training
        rows. With "auto" and "kernel", `fit_intercept` is turned on if the method has it. Sieve
        does not scale the features again and uses a linear kernel, unless `params` say otherwise.
    noise : str
        Kind of noise, see `schirn.datasets.add_noise`. It is drawn after the split, in each fold
        from the training rows alone; "legacy" is drawn for all rows, as the published sets are.
    noise_seed : int, optional
        Seed of the noise. Defaults to r for "legacy" noise, which yields the published candidate
        sets, and to the seed of the folds otherwise.
    stored_folds : bool
        Use the folds that come with a data set, if it has any.
    params : dict of str to dict, optional
        Fixed parameters by method: ``{"Schirn": {"lam": 10.0}}``.
    grids : dict of str to dict or None, optional
        Grids to search instead of the default ones, by method; None disables the search.
    reader_options : dict, optional
        Options for data sets given as files, see `schirn.datasets.load`.
    """

    r: Level | Sequence[Level] = None
    folds: int = 5
    seeds: Sequence[int] = (0,)
    tuning: str = "candidates"
    inner_folds: int = 3
    search_points: int | None = None
    search_rows: int | None = None
    features: str = "raw"
    noise: str = "legacy"
    noise_seed: int | None = None
    stored_folds: bool = False
    params: Mapping[str, Params] = field(default_factory=dict)
    grids: Mapping[str, Grid | None] = field(default_factory=dict)
    reader_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, allowed in (("tuning", TUNINGS), ("features", FEATURES), ("noise", KINDS)):
            value = getattr(self, name)
            if value not in allowed:
                raise InputError(
                    f"{name} must be one of {', '.join(allowed)}, not {value!r}", parameter=name
                )
        for name, least in (("folds", 1), ("inner_folds", 2)):
            if getattr(self, name) < least:
                raise InputError(
                    f"{name} must be at least {least}, not {getattr(self, name)!r}", parameter=name
                )
        if self.search_rows is not None and self.search_rows < self.inner_folds:
            raise InputError(
                f"search_rows must be at least the number of inner folds, {self.inner_folds}, "
                f"not {self.search_rows!r}",
                parameter="search_rows",
            )
        if not self.seeds:
            raise InputError("no seed was given; name at least one")


@dataclass(frozen=True)
class Run:
    """One unit of work: a search, a fit and its scores.

    `fields` identify the run in its result; `known` are further fields that are known beforehand;
    `hidden` is all else that determines the metrics, and therefore the key.
    """

    fields: Result
    source: Source
    method: Method
    inner_folds: int
    known: Result = field(default_factory=dict)
    hidden: Result = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Content key."""
        return str(self.fields["key"])

    def key_with(self, code: str) -> str:
        """Content key of the same run with other code of its method."""
        named = {name: self.fields[name] for name in self.fields if name not in ("format", "key")}
        return content_key({**named, **self.hidden, "source": code})


class Facts(NamedTuple):
    """Facts about a data set for the plan; `reason` says why it cannot be used."""

    reason: str | None
    sha256: str | None = None
    sizes: tuple[int | None, ...] = (None, None, None)
    stored: int = 0
    is_sparse: bool = False


def plan_runs(
    datasets: Sequence[Any], methods: Sequence[Any] | Mapping[str, Any], **settings: Any
) -> list[Run]:
    """List the runs of a request, ordered by data set, noise level, seed, method and fold.

    Parameters are the same as in `schirn.lab.bench.run`; `settings` are the fields of `Settings`.
    """
    shared = Settings(**settings)
    levels = list(shared.r) if isinstance(shared.r, Sequence) else [shared.r]
    datasets = [datasets] if isinstance(datasets, str) else datasets
    methods = [methods] if isinstance(methods, str) else methods
    sources = parse_datasets(datasets, levels, shared.reader_options)
    chosen = make_methods(methods, shared.params, shared.grids)
    for source, level in sources:
        _check_level(source.name, level, shared.noise)
    facts: dict[tuple[str, bool], Facts] = {}
    runs: list[Run] = []
    for source, level in sources:
        has_candidates = level is None
        if (source.name, has_candidates) not in facts:
            facts[source.name, has_candidates] = _inspect(source, level, shared)
        _check_labels(source.name, level, shared.noise, facts[source.name, has_candidates].sizes[2])
        for seed in shared.seeds:
            for method in chosen:
                runs += method_runs(
                    source, level, facts[source.name, has_candidates], method, seed, shared
                )
    return runs


def _inspect(source: Source, level: Level, settings: Settings) -> Facts:
    """Load a data set once to learn its size and whether it can be used."""
    try:
        data = source.load()
    except (DataError, MissingExtraError, OSError) as error:
        return Facts(" ".join(str(error).split()))
    reason = unusable(data, level)
    if reason is None:
        try:
            make_splits(data, settings.folds, 0, settings.stored_folds)
        except InputError as error:
            reason = str(error)
    stored = len(data.folds) if settings.stored_folds and data.folds else 0
    sizes = (data.n_samples, data.n_features, data.n_labels)
    return Facts(reason, checksum(data), sizes, stored, sparse.issparse(data.X))


def method_runs(
    source: Source, level: Level, facts: Facts, method: Method, seed: int, settings: Settings
) -> Iterator[Run]:
    """Yield the runs of one method on one data set, one per fold."""
    on_candidates = settings.tuning == "candidates"
    is_left_to_fit = on_candidates and method.tunes_itself
    searched = None if settings.tuning == "none" or is_left_to_fit else method.grid
    if searched is not None and settings.search_points is not None:
        searched = thin_grid(searched, settings.search_points, method.usual)
    search_rows = settings.search_rows if on_candidates and searched is not None else None
    folds = facts.stored or settings.folds
    base: Result = {
        "dataset": source.name,
        "r": level,
        "noise": "own" if level is None else settings.noise,
        "noise_seed": _noise_seed(level, seed, settings),
        "method": method.name,
        "sees_truth": method.sees_truth,
        "tuning": settings.tuning,
        "oracle": settings.tuning == "oracle" and searched is not None,
        "features": settings.features,
        "split": "stored" if facts.stored else "kfold",
        "seed": seed,
        "folds": folds,
    }
    # Anything else that determines the metrics is part of the key, but not a field of the result.
    inner_folds = settings.inner_folds if on_candidates and searched is not None else None
    hidden = {
        "data": facts.sha256 or f"absent {source.where}",
        "path": method.path,
        "source": method.code,
        "params": method.params,
        "grid": searched,
        "inner_folds": inner_folds,
    }
    if search_rows is not None:
        hidden["search_rows"] = search_rows
    if method.sees_truth and searched is not None:
        hidden["tuned_on"] = "truth"
    if base["noise"] not in ("own", "legacy"):
        hidden["noise_from"] = "training rows"
    known: Result = {
        "reason": facts.reason,
        "grid": searched,
        "search_rows": search_rows,
        "inner_folds": inner_folds,
        **dict(zip(("n_samples", "n_features", "n_labels"), facts.sizes, strict=True)),
        "data_sha256": facts.sha256,
        "is_sparse": facts.is_sparse,
        "code_sha256": method.code or None,
    }
    for fold in range(folds):
        named = {**base, "fold": fold}
        fields = {"format": FORMAT, "key": content_key({**named, **hidden}), **named}
        yield Run(fields, source, method, settings.inner_folds, known, hidden)


def _noise_seed(level: Level, seed: int, settings: Settings) -> int | None:
    """Return the seed of the noise; published candidate sets start the legacy stream at r."""
    if level is None:
        return None
    if settings.noise_seed is not None:
        return settings.noise_seed
    return int(level) if settings.noise == "legacy" else seed


def _check_labels(name: str, level: Level, noise: str, n_labels: int | None) -> None:
    """Raise InputError for more wrong labels per row than there can be."""
    if level is None or n_labels is None or noise in ("rate", "annotators"):
        return
    if level >= n_labels:
        raise InputError(
            f"{name} has {n_labels} labels, so a row can have at most {n_labels - 1} "
            f"wrong ones, not {level}",
            parameter="r",
        )


def _check_level(name: str, level: Level, noise: str) -> None:
    if level is None:
        return
    if noise == "rate" and not 0 <= level <= 1:
        raise InputError(f"{name}: noise 'rate' takes a share from 0 to 1, not {level!r}")
    if noise != "rate" and not isinstance(level, int):
        raise InputError(f"{name}: noise {noise!r} takes a whole number of labels, not {level!r}")
