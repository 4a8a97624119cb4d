"""The leaderboard: a static page that compares methods over tracks, from result files.

A track is a kind of noise and the features. A setting is a data set at a noise level within a
track. A value of a method in a setting is its mean over all folds and seeds; a method that lacks
some of them has no value there. The script of the page computes means over settings, which state
how many they cover, and ranks. Results whose parameters were not chosen on candidates are left out.
"""

import json
import math
import os
import re
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schirn._files import atomic_write
from schirn._optional import optional
from schirn.datasets.noise import KINDS
from schirn.exceptions import InputError
from schirn.lab.bench import (
    CEILING,
    FEATURES,
    FLOOR,
    SMALLEST_GAP,
    Contender,
    compare,
    contender_notes,
    mark_notes,
    value_of,
)
from schirn.lab.bench.results import Result, newest
from schirn.lab.leaderboard._submission import SUMS, implausible, is_stale, read_entries
from schirn.program.page import render

TITLE = "Leaderboard of partial multi-label methods"
_MOST_SHOWN = 3


@dataclass(frozen=True)
class Column:
    """A number of the leaderboard."""

    name: str
    label: str
    greater_is_better: bool
    factor: float
    digits: int


COLUMNS = (
    Column("gap", "gap closed, % ↑", True, 100, 1),
    Column("average_precision", "average precision, % ↑", True, 100, 1),
    Column("noise_auc", "noise AUC, % ↑", True, 100, 1),
    Column("noise_auprc", "noise AUPRC, % ↑", True, 100, 1),
    Column("seconds", "seconds (not verified) ↓", False, 1, 2),
    Column("memory", "memory, MiB (not verified) ↓", False, 1, 0),
)


@dataclass(frozen=True)
class Track:
    """A kind of noise and the features."""

    noise: str
    features: str


@dataclass(frozen=True)
class Place:
    """A setting: a data set at a noise level within a track."""

    track: Track
    dataset: str
    r: Any

    @property
    def level(self) -> str:
        """Noise level in words."""
        return "own candidates" if self.r is None else f"r={self.r}"


@dataclass(frozen=True)
class Board:
    """Values by setting and method, with the methods, columns and tracks that occur.

    `n_without_bound` counts the settings without a gap, because a method exceeds its upper bound.
    """

    values: dict[tuple[Place, str], dict[str, float]]
    contenders: dict[str, Contender]
    columns: tuple[Column, ...]
    tracks: tuple[Track, ...]
    places: tuple[Place, ...]
    results: list[Result]
    n_without_bound: int


def build_leaderboard(
    paths: Iterable[str | os.PathLike[str]], folder: str | os.PathLike[str]
) -> Path:
    """Write the page of the leaderboard.

    Parameters
    ----------
    paths : list of paths
        Files of results (``.jsonl``, ``.jsonl.gz``), or folders of them.
    folder : path
        Folder of the page.

    Returns
    -------
    Path
        The page, ``index.html``.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.lab import bench, leaderboard
    >>> folder = tempfile.mkdtemp()
    >>> data, method = "digits_attributes:1", "CandidateRidge"
    >>> results = bench.run([data], [method], output=folder, folds=2, jobs=0)
    >>> leaderboard.build_leaderboard([folder], folder + "/site").name
    'index.html'
    """
    text = _page(make_board(read_results(paths)))
    page = Path(folder) / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(page) as stream:
        stream.write(text.encode())
    return page


def read_results(paths: Iterable[str | os.PathLike[str]]) -> list[Result]:
    """Read result files; raise InputError for results that cannot be compared.

    Parameters
    ----------
    paths : list of paths
        Files of results, or folders of them.

    Returns
    -------
    list of dict
        The newest result of each run.

    Raises
    ------
    InputError
        If results contradict one another, or if there are none.
    """
    entries, faults = read_entries(paths)
    faults += implausible(entries)
    settings: dict[tuple[Any, ...], tuple[dict[str, Any], str]] = {}
    for result, where, _ in entries:
        setting = tuple(result[name] for name in ("dataset", "r", "noise", "seed", "fold"))
        known, first = settings.setdefault(setting, ({}, where))
        for name in SUMS:
            if result[name] is not None and known.setdefault(name, result[name]) != result[name]:
                faults.append(f"{where}: another {name} than {first}, for the same setting")
                break
    if faults:
        ending = f" (and {len(faults) - _MOST_SHOWN} more)" if len(faults) > _MOST_SHOWN else ""
        raise InputError(
            f"{'; '.join(faults[:_MOST_SHOWN])}{ending}; see schirn leaderboard check FILE"
        )
    if not entries:
        raise InputError("there are no results to show")
    return newest(sorted((e.result for e in entries), key=lambda result: result["finished"]))


def make_board(results: Sequence[Result]) -> Board:
    """Arrange the results tuned on candidates by track, setting and method.

    Parameters
    ----------
    results : list of dict
        Results of one or more benchmarks.

    Returns
    -------
    Board
    """
    results = [result for result in results if result["tuning"] == "candidates"]
    if not results:
        raise InputError("there are no results tuned on candidates to show")
    by_track: dict[Track, list[Result]] = {}
    for result in results:
        track = Track(str(result["noise"]), result["features"])
        by_track.setdefault(track, []).append(result)
    kinds = (*KINDS, "own")
    tracks = sorted(by_track, key=lambda t: (kinds.index(t.noise), FEATURES.index(t.features)))
    values: dict[tuple[Place, str], dict[str, float]] = {}
    contenders: dict[str, Contender] = {}
    for track in tracks:
        for contender in compare(by_track[track], "average_precision").contenders:
            contenders.setdefault(contender.method, contender)
        values |= _track_values(track, by_track[track])
    ceilings = {name for name, contender in contenders.items() if contender.ceiling}
    exceeded = _add_gaps(values, ceilings)
    names = list(contenders)
    places = sorted(
        {place for place, _ in values},
        key=lambda p: (tracks.index(p.track), p.dataset, -1 if p.r is None else p.r),
    )
    # Methods that were not run in a setting have no values.
    for place in places:
        for name in names:
            values.setdefault((place, name), {})
    columns = tuple(c for c in COLUMNS if any(c.name in line for line in values.values()))
    return Board(values, contenders, columns, tuple(tracks), tuple(places), results, len(exceeded))


def _track_values(
    track: Track, results: Sequence[Result]
) -> dict[tuple[Place, str], dict[str, float]]:
    """Return the values of every method in every setting of a track."""
    groups: dict[tuple[Place, str], list[Result]] = {}
    n_folds: dict[Place, dict[int, int]] = {}
    for result in results:
        place = Place(track, result["dataset"], result["r"])
        groups.setdefault((place, result["method"]), []).append(result)
        n_folds.setdefault(place, {})[result["seed"]] = result["folds"]
    lines = {}
    for (place, method), runs in groups.items():
        finished = [result for result in runs if result["status"] == "done"]
        is_complete = len(finished) == sum(n_folds[place].values())
        lines[place, method] = _means(finished) if is_complete else {}
    return lines


def _add_gaps(
    values: Mapping[tuple[Place, str], dict[str, float]], ceilings: Collection[str]
) -> set[Place]:
    """Add the shares of the gap to the values; return the settings whose reference is no bound.

    There a method is over a point better than the ridge trained on the truth, and no share is
    added.
    """
    precisions = {
        key: line["average_precision"]
        for key, line in values.items()
        if "average_precision" in line
    }
    exceeded = {
        place
        for (place, method), value in precisions.items()
        if method not in ceilings
        and value - precisions.get((place, CEILING), math.nan) > SMALLEST_GAP
    }
    for (place, method), value in precisions.items():
        low, high = (precisions.get((place, name), math.nan) for name in (FLOOR, CEILING))
        if high - low >= SMALLEST_GAP and place not in exceeded:
            values[place, method]["gap"] = (value - low) / (high - low)
    return exceeded


def _means(finished: Sequence[Result]) -> dict[str, float]:
    """Return the means over folds and seeds, without numbers that some folds lack."""
    means = {}
    for column in COLUMNS:
        numbers = [_number(result, column.name) for result in finished]
        if numbers and None not in numbers:
            means[column.name] = statistics.fmean(numbers)
    return means


def _number(result: Result, column: str) -> Any:
    if column == "seconds":
        parts = [result[name] for name in ("tune_seconds", "fit_seconds", "predict_seconds")]
        return None if None in parts else sum(parts)
    return result["peak_memory_mb"] if column == "memory" else value_of(result, column)


def _marks(board: Board) -> list[str]:
    """Return the meanings of the marks of the methods."""
    contenders = board.contenders.values()
    notes = list(contender_notes(contenders))
    if board.n_without_bound:
        notes.append(
            f"Gap closed: {board.n_without_bound} of {len(board.places)} settings are left out, in "
            f"which a method is over a point better than {CEILING}, which has no intercept on raw "
            "features."
        )
    stale = sum(is_stale(result) for result in board.results)
    unscored = sum(r["status"] == "done" and not r["scores"] for r in board.results)
    if stale or unscored:
        notes.append(
            f"Not verified: of {len(board.results)} results, {stale} are stale (made with other "
            f"code than the current, or code that they do not name) and {unscored} have no scores."
        )
    missing = [re.split(",| [↑↓]", c.label)[0] for c in COLUMNS if c not in board.columns]
    if missing:
        notes.append(f"Left out, because no result has it: {', '.join(missing)}.")
    return notes


def _name(contender: Contender) -> str:
    """Name of a method with its marks."""
    return contender.method + "".join(note[0] for note in mark_notes([contender]))


def _page(board: Board) -> str:
    """Render the page: the data of the tables, which its script draws and filters."""
    names = list(board.contenders)
    columns = board.columns
    datasets = sorted({place.dataset for place in board.places})
    document = {
        "columns": [asdict(column) for column in columns],
        "methods": [
            {"name": _name(c), "ceiling": c.ceiling, "reference": m in (FLOOR, CEILING)}
            for m, c in board.contenders.items()
        ],
        "places": [
            {**asdict(place.track), "dataset": place.dataset, "level": place.level}
            for place in board.places
        ],
        # One line per setting, one list of numbers per method.
        "values": [
            [[_rounded(board.values[place, m].get(c.name)) for c in columns] for m in names]
            for place in board.places
        ],
    }
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # Names in the data cannot end the script element.
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return render(
        "schirn.lab.leaderboard",
        "leaderboard.html",
        title=TITLE,
        data=optional("markupsafe", "cli", "Writing an HTML page").Markup(text),
        marks=_marks(board),
        columns=columns,
        datasets=datasets,
        noises=list(dict.fromkeys(track.noise for track in board.tracks)),
        features=sorted({track.features for track in board.tracks}, key=FEATURES.index),
        counts={
            "methods": len(names),
            "data sets": len(datasets),
            "tracks": len(board.tracks),
            "settings": len(board.places),
            "runs": len(board.results),
        },
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
