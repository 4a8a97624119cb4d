"""From what the user asks to the list of cells."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schirn.bench._data import Level, Source, checksum, make_splits, unusable
from schirn.bench._methods import Method
from schirn.bench.rows import FORMAT, Row, content_key
from schirn.datasets._noise import KINDS
from schirn.exceptions import DataError, InputError, MissingExtraError

TUNINGS = ("none", "candidates", "oracle")
FEATURES = ("raw", "auto")


@dataclass(frozen=True)
class Settings:
    """What holds for all cells of a run."""

    folds: int = 5
    seeds: tuple[int, ...] = (0,)
    tuning: str = "candidates"
    inner_folds: int = 3
    features: str = "raw"
    noise: str = "legacy"
    noise_seed: int | None = None
    stored_folds: bool = False

    def check(self) -> None:
        """Refuse values that make no benchmark."""
        _one_of("tuning", self.tuning, TUNINGS)
        _one_of("features", self.features, FEATURES)
        _one_of("noise", self.noise, KINDS)
        for name in ("folds", "inner_folds"):
            if getattr(self, name) < 2:
                raise InputError(
                    f"{name} must be at least 2, not {getattr(self, name)!r}", parameter=name
                )
        if not self.seeds:
            raise InputError("no seed was given; name at least one")


@dataclass(frozen=True)
class Cell:
    """One fit to run: what its row says beforehand, and what is needed to run it."""

    row: Row
    source: Source
    method: Method
    inner_folds: int
    known: Row = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Content key."""
        return str(self.row["key"])


class _Facts(NamedTuple):
    """What the plan needs to know of a set."""

    reason: str | None
    sha256: str | None = None
    sizes: tuple[int, ...] = ()
    stored: int = 0


def make_plan(
    sets: list[tuple[Source, Level]], methods: list[Method], settings: Settings
) -> list[Cell]:
    """All cells, ordered by set, noise level, seed, method and fold."""
    settings.check()
    for source, level in sets:
        _check_level(source.name, level, settings.noise)
    facts: dict[tuple[str, bool], _Facts] = {}
    cells: list[Cell] = []
    for source, level in sets:
        own = level is None
        if (source.name, own) not in facts:
            facts[source.name, own] = _look(source, level, settings)
        found = facts[source.name, own]
        for seed in settings.seeds:
            for method in methods:
                cells += _cells(source, level, found, method, seed, settings)
    return cells


def _look(source: Source, level: Level, settings: Settings) -> _Facts:
    """Load a set once to know whether it is there and what it holds."""
    try:
        data = source.load()
    except (DataError, MissingExtraError, OSError) as error:
        return _Facts(" ".join(str(error).split()))
    reason = unusable(data, level)
    if reason is None:
        try:
            make_splits(data, settings.folds, 0, settings.stored_folds)
        except InputError as error:
            reason = str(error)
    stored = len(data.folds) if settings.stored_folds and data.folds else 0
    sizes = (data.n_samples, data.n_features, data.n_labels)
    return _Facts(reason, checksum(data), sizes, stored)


def _cells(
    source: Source, level: Level, facts: _Facts, method: Method, seed: int, settings: Settings
) -> Iterator[Cell]:
    searched = method.grid if settings.tuning != "none" else None
    folds = facts.stored or settings.folds
    base: Row = {
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
    hidden = {
        "data": facts.sha256 or f"absent {source.where}",
        "path": method.path,
        "source": method.source,
        "params": method.params,
        "grid": searched,
        "inner_folds": settings.inner_folds if settings.tuning == "candidates" else None,
    }
    if method.sees_truth and searched is not None:
        hidden["tuned_on"] = "truth"
    known: Row = {
        "reason": facts.reason,
        "grid": searched,
        "n_samples": facts.sizes[0] if facts.sizes else None,
        "n_features": facts.sizes[1] if facts.sizes else None,
        "n_labels": facts.sizes[2] if facts.sizes else None,
        "data_sha256": facts.sha256,
    }
    for fold in range(folds):
        named = {**base, "fold": fold}
        row = {"format": FORMAT, "key": content_key({**named, **hidden}), **named}
        yield Cell(row, source, method, settings.inner_folds, known)


def _noise_seed(level: Level, seed: int, settings: Settings) -> int | None:
    """The published candidate sets start the legacy stream at r, whatever the folds."""
    if level is None:
        return None
    if settings.noise_seed is not None:
        return settings.noise_seed
    return int(level) if settings.noise == "legacy" else seed


def _check_level(name: str, level: Level, noise: str) -> None:
    if level is None:
        return
    if noise == "rate" and not 0 <= level <= 1:
        raise InputError(f"{name}: noise 'rate' takes a share from 0 to 1, not {level!r}")
    if noise != "rate" and not isinstance(level, int):
        raise InputError(f"{name}: noise {noise!r} takes a whole number of labels, not {level!r}")


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(
            f"{name} must be one of {', '.join(allowed)}, not {value!r}", parameter=name
        )
