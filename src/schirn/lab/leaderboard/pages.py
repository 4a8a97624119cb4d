"""The leaderboard: static pages that compare methods over tracks, from result files.

A track is a kind of noise, the features and the selection of parameters. A setting is a data set at
a noise level within a track. A value of a method in a setting is its mean over all folds and seeds;
a method that lacks some of them has no value there. Means over settings state how many they cover,
and a method that lacks settings which others have gets neither a rank nor a first place.
"""

import hashlib
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from schirn._files import atomic_write
from schirn._optional import optional
from schirn.datasets.noise import KINDS
from schirn.exceptions import InputError
from schirn.lab.bench.comparison import (
    ALL_METRICS,
    BASELINE_MARK,
    CEILING,
    FLOOR,
    ORACLE_MARK,
    RECONSTRUCTED_MARK,
    Contender,
    compare,
    value_of,
)
from schirn.lab.bench.results import Result, newest
from schirn.lab.bench.running.methods import default_grid, own_methods, recommended
from schirn.lab.bench.running.plan import FEATURES, TUNINGS
from schirn.lab.leaderboard.submission import implausible, read_entries
from schirn.report.page import render

TITLE = "Leaderboard of partial multi-label methods"
_GENERATOR = '<meta name="generator" content="schirn leaderboard">'
_MOST_SHOWN = 3
# Shares of a smaller difference between the references would be noise.
SMALLEST_GAP = 0.01


class Column(NamedTuple):
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
    Column("calibration_error", "calibration error, % ↓", False, 100, 1),
    Column("seconds", "seconds ↓", False, 1, 2),
    Column("memory", "memory, MiB ↓", False, 1, 0),
)


class Track(NamedTuple):
    """A kind of noise, the features and the selection of parameters."""

    noise: str
    features: str
    tuning: str


class Place(NamedTuple):
    """A setting: a data set at a noise level within a track."""

    track: Track
    dataset: str
    r: Any

    @property
    def level(self) -> str:
        """Noise level in words."""
        return "own candidates" if self.r is None else f"r={self.r}"


class Line(NamedTuple):
    """A method in a setting: its values by column, or the reason why it has none."""

    values: dict[str, float]
    deviation: float
    n_done: int
    n_wanted: int
    reason: str
    command: str


class Board(NamedTuple):
    """All lines, with the methods, columns and tracks that occur."""

    lines: dict[tuple[Place, str], Line]
    contenders: dict[str, Contender]
    columns: tuple[Column, ...]
    tracks: tuple[Track, ...]
    places: tuple[Place, ...]
    results: list[Result]


class Mean(NamedTuple):
    """Mean of a method over the settings that it finished; rank only if it finished all."""

    value: float
    n: int


def build_leaderboard(
    paths: Iterable[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    title: str = TITLE,
) -> list[Path]:
    """Write the pages of the leaderboard.

    Parameters
    ----------
    paths : list of paths
        Files of results (``.jsonl``, ``.jsonl.gz``), or folders of them.
    folder : path
        Folder of the pages: ``index.html``, and one page per data set and per method. Pages of an
        earlier leaderboard that are no longer needed are removed.
    title : str
        Heading of the first page.

    Returns
    -------
    list of Path
        The pages written, ``index.html`` first.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.lab import bench, leaderboard
    >>> folder = tempfile.mkdtemp()
    >>> data, method = "digits_attributes:1", "CandidateRidge"
    >>> results = bench.run([data], [method], output=folder, folds=2, tuning="none", jobs=0)
    >>> [page.name for page in leaderboard.build_leaderboard([folder], folder + "/site")]
    ['index.html', 'dataset-digits_attributes.html', 'method-CandidateRidge.html']
    """
    board = make_board(read_results(paths))
    datasets = list(dict.fromkeys(place.dataset for place in board.places))
    pages = {
        **_page_names("dataset", datasets),
        **_page_names("method", list(board.contenders)),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shared = {"title": title, "marks": _marks(board), "columns": board.columns}
    written = {"index.html": _index(board, pages, shared)}
    for name in datasets:
        written[pages["dataset", name]] = _dataset_page(board, name, pages, shared)
    for name in board.contenders:
        written[pages["method", name]] = _method_page(board, name, pages, shared)
    for old in (*folder.glob("dataset-*.html"), *folder.glob("method-*.html")):
        with suppress(OSError, UnicodeDecodeError):
            if old.name not in written and _GENERATOR in old.read_text("utf-8")[:2000]:
                old.unlink()
    for name, text in written.items():
        with atomic_write(folder / name) as stream:
            stream.write(text.encode())
    return [folder / name for name in written]


def read_results(paths: Iterable[str | os.PathLike[str]]) -> list[Result]:
    """Read result files; raise InputError for results that cannot be compared."""
    entries, faults = [], []
    for path in paths:
        for item in read_entries(path):
            if isinstance(item, str):
                faults.append(item)
            else:
                entries.append(item)
    faults += implausible(entries)
    drawn: dict[tuple[Any, ...], tuple[dict[str, Any], str]] = {}
    for result, where, _ in entries:
        setting = tuple(result[name] for name in ("dataset", "r", "noise", "seed"))
        own = {name: result[name] for name in ("data_sha256", "candidates_sha256", "folds_sha256")}
        own = {name: value for name, value in own.items() if value is not None}
        known, first = drawn.setdefault(setting, ({}, where))
        other = [name for name, value in own.items() if known.setdefault(name, value) != value]
        if other:
            faults.append(f"{where}: another {other[0]} than {first}, for the same setting")
    if faults:
        more = f" (and {len(faults) - _MOST_SHOWN} more)" if len(faults) > _MOST_SHOWN else ""
        raise InputError(
            f"{'; '.join(faults[:_MOST_SHOWN])}{more}; see schirn leaderboard check FILE"
        )
    if not entries:
        raise InputError("there are no results to show")
    return newest(sorted((e.result for e in entries), key=lambda result: result["finished"]))


def make_board(results: Sequence[Result]) -> Board:
    """Arrange results by track, setting and method."""
    by_track: dict[Track, list[Result]] = {}
    for result in results:
        track = Track(str(result["noise"]), result["features"], result["tuning"])
        by_track.setdefault(track, []).append(result)
    order = ((*KINDS, "own"), FEATURES, ("candidates", *TUNINGS))
    tracks = sorted(
        by_track, key=lambda t: [known.index(v) for known, v in zip(order, t, strict=True)]
    )
    lines: dict[tuple[Place, str], Line] = {}
    contenders: dict[str, Contender] = {}
    for track in tracks:
        for contender in compare(by_track[track], "average_precision").contenders:
            old = contenders.setdefault(contender.method, contender)
            contenders[contender.method] = old._replace(
                oracle=False, ceiling=old.ceiling or contender.ceiling
            )
        lines |= _track_lines(track, by_track[track])
    names = list(contenders)
    places = sorted({place for place, _ in lines}, key=lambda p: _place_key(p, tracks))
    # Methods that were not run in a setting are missing, and are shown as such.
    for place in places:
        for name in names:
            lines.setdefault((place, name), Line({}, math.nan, 0, 0, "not run", ""))
    columns = tuple(c for c in COLUMNS if any(c.name in line.values for line in lines.values()))
    return Board(lines, contenders, columns, tuple(tracks), tuple(places), list(results))


def _place_key(place: Place, tracks: Sequence[Track]) -> tuple[Any, ...]:
    return (tracks.index(place.track), place.dataset, -1 if place.r is None else place.r)


def _track_lines(track: Track, results: Sequence[Result]) -> dict[tuple[Place, str], Line]:
    """Values of every method in every setting of a track."""
    groups: dict[tuple[Place, str], list[Result]] = {}
    wanted: dict[Place, dict[int, int]] = {}
    for result in results:
        place = Place(track, result["dataset"], result["r"])
        groups.setdefault((place, result["method"]), []).append(result)
        wanted.setdefault(place, {})[result["seed"]] = result["folds"]
    lines = {}
    for (place, method), own in groups.items():
        done = [result for result in own if result["status"] == "done"]
        n_wanted = sum(wanted[place].values())
        precision = [v for r in done if (v := value_of(r, "average_precision")) is not None]
        reasons = dict.fromkeys(
            f"{r['status']}: {r['reason']}" if r["reason"] else str(r["status"])
            for r in own
            if r["status"] != "done"
        )
        is_whole = len(done) == n_wanted
        why = "" if is_whole else "; ".join(reasons) or "not all folds were run"
        lines[place, method] = Line(
            _values(done) if is_whole else {},
            _deviation(precision),
            len(done),
            n_wanted,
            why,
            reproducing_command(own),
        )
    for (place, _), line in lines.items():
        low, high = (
            lines[place, name].values.get("average_precision", math.nan)
            if (place, name) in lines
            else math.nan
            for name in (FLOOR, CEILING)
        )
        if "average_precision" in line.values and high - low >= SMALLEST_GAP:
            line.values["gap"] = (line.values["average_precision"] - low) / (high - low)
    return lines


def _values(done: Sequence[Result]) -> dict[str, float]:
    """Means over folds and seeds; a number that some folds lack is left out."""
    getters: dict[str, Callable[[Result], float | None]] = {
        "seconds": lambda r: _sum(r, ("tune_seconds", "fit_seconds", "predict_seconds")),
        "memory": lambda r: r["peak_memory_mb"],
    }
    found = {}
    for column in COLUMNS:
        name = column.name
        if name not in ALL_METRICS and name not in getters:
            continue
        get = getters.get(name)
        numbers = [get(r) if get else value_of(r, name) for r in done]
        known = [number for number in numbers if number is not None]
        if known and len(known) == len(done):
            found[name] = math.fsum(known) / len(known)
    return found


def _sum(result: Result, names: Iterable[str]) -> float | None:
    numbers = [result[name] for name in names]
    return None if None in numbers else float(sum(numbers))


def _deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.nan
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def means(board: Board, places: Sequence[Place], column: str) -> tuple[dict[str, Mean], int]:
    """Mean of every method over the settings that it finished, and the number of settings."""
    kept = [p for p in places if any(column in board.lines[p, m].values for m in board.contenders)]
    found = {}
    for method in board.contenders:
        own = [v for p in kept if (v := board.lines[p, method].values.get(column)) is not None]
        found[method] = Mean(math.fsum(own) / len(own) if own else math.nan, len(own))
    return found, len(kept)


def ranks(board: Board, places: Sequence[Place]) -> dict[str, float]:
    """Mean rank in average precision of the methods that finished all settings."""
    finished, total = means(board, places, "average_precision")
    rivals = [
        m for m, mean in finished.items() if mean.n == total and not board.contenders[m].ceiling
    ]
    kept = [
        p for p in places if any("average_precision" in board.lines[p, m].values for m in rivals)
    ]
    sums = dict.fromkeys(rivals, 0.0)
    for place in kept:
        scores = {m: board.lines[place, m].values["average_precision"] for m in rivals}
        for m in rivals:
            better = sum(score > scores[m] for score in scores.values())
            equal = sum(score == scores[m] for score in scores.values())
            sums[m] += better + (equal + 1) / 2
    return {m: value / len(kept) for m, value in sums.items()} if kept else {}


def reproducing_command(own: Sequence[Result]) -> str:
    """The command that runs a method in a setting again, with both references."""
    first = own[0]
    method, r, seeds = first["method"], first["r"], sorted({result["seed"] for result in own})
    methods = list(dict.fromkeys((method, FLOOR, CEILING)))
    words = [
        "schirn",
        "bench",
        f"--datasets={first['dataset']}:{'own' if r is None else r}",
        f"--methods={','.join(methods)}",
        *([] if r is None else [f"--noise={first['noise']}"]),
        f"--features={first['features']}",
        f"--tuning={first['tuning']}",
        f"--folds={first['folds']}",
        f"--seeds={','.join(map(str, seeds))}",
    ]
    default_seed = r if first["noise"] == "legacy" else first["seed"]
    if r is not None and (len(seeds) > 1 or first["noise_seed"] != default_seed):
        noise_seeds = {result["noise_seed"] for result in own}
        words += [f"--noise-seed={first['noise_seed']}"] if len(noise_seeds) == 1 else []
    if first["split"] == "stored":
        words.append("--stored-folds")
    if first["search_rows"] is not None:
        words.append(f"--search-rows={first['search_rows']}")
    if first["inner_folds"] not in (None, 3):
        words.append(f"--inner-folds={first['inner_folds']}")
    words += [f"--param={method}.{name}={value}" for name, value in _fixed(first).items()]
    return " ".join(shlex.quote(word) for word in (*words, "--output=out"))


def _fixed(result: Result) -> dict[str, str]:
    """Parameters of a method of this library that are not the usual ones."""
    method = result["method"]
    if method not in own_methods():
        return {}
    usual = {**recommended(method), "random_state": result["seed"], "fit_intercept": True}
    searched = default_grid(method) or {}
    return {
        name: json.dumps(value)
        for name, value in result["params"].items()
        if name not in searched and (name not in usual or usual[name] != value)
    }


def _page_names(kind: str, names: Sequence[str]) -> dict[tuple[str, str], str]:
    """File names of pages: harmless, and different also where case does not count."""
    found: dict[tuple[str, str], str] = {}
    used: set[str] = set()
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60]
        if plain != name or plain.lower() in used:
            plain += "-" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
        used.add(plain.lower())
        found[kind, name] = f"{kind}-{plain}.html"
    return found


def _marks(board: Board) -> list[str]:
    """What the marks of the methods mean."""
    found = [f"{ORACLE_MARK} tuned on the true labels of the test rows, which nobody has."] * any(
        track.tuning == "oracle" for track in board.tracks
    )
    contenders = board.contenders.values()
    if any(c.reconstructed for c in contenders):
        found.append(
            f"{RECONSTRUCTED_MARK} reconstructed: neither code nor full text was available."
        )
    if any(c.baseline for c in contenders):
        found.append(f"{BASELINE_MARK} baseline: an ordinary classifier of the candidates.")
    truth = [c.method for c in contenders if c.ceiling]
    if truth:
        found.append(f"{', '.join(truth)}: trained on the true labels, an upper bound.")
    missing = [c.label for c in COLUMNS if c not in board.columns]
    if missing:
        names = [re.split(",| [↑↓]", label)[0] for label in missing]
        found.append(f"Left out, because no result has it: {', '.join(names)}.")
    return found


def _name(contender: Contender) -> str:
    """Name of a method with its marks, except that of the oracle, which belongs to a track."""
    return (
        contender.method
        + RECONSTRUCTED_MARK * contender.reconstructed
        + BASELINE_MARK * contender.baseline
    )


def _index(board: Board, pages: Mapping[tuple[str, str], str], shared: dict[str, Any]) -> str:
    """The first page: the data of the tables, which its script draws and filters."""
    names, columns = list(board.contenders), board.columns
    datasets = list(dict.fromkeys(sorted(place.dataset for place in board.places)))
    document = {
        "columns": [column._asdict() for column in columns],
        "methods": [
            {
                "name": _name(c),
                "page": pages["method", m],
                "ceiling": c.ceiling,
                "reference": m in (FLOOR, CEILING),
            }
            for m, c in board.contenders.items()
        ],
        "places": [
            {**place.track._asdict(), "dataset": place.dataset, "level": place.level}
            for place in board.places
        ],
        # One line per setting, one list of numbers per method.
        "values": [
            [[_rounded(board.lines[place, m].values.get(c.name)) for c in columns] for m in names]
            for place in board.places
        ],
    }
    tunings = list(dict.fromkeys(t.tuning for t in sorted(board.tracks, key=_tuning_order)))
    return _rendered(
        **shared,
        kind="index",
        heading=shared["title"],
        data=document,
        datasets=[(name, pages["dataset", name]) for name in datasets],
        methods=[(_name(c), pages["method", m]) for m, c in board.contenders.items()],
        noises=list(dict.fromkeys(track.noise for track in board.tracks)),
        features=sorted({track.features for track in board.tracks}, key=FEATURES.index),
        tunings=tunings,
        table=_static_table(board, tunings[0]),
        counts={
            "methods": len(names),
            "data sets": len(datasets),
            "tracks": len(board.tracks),
            "settings": len(board.places),
            "runs": len(board.results),
        },
        sections=[],
        facts={},
    )


def _tuning_order(track: Track) -> int:
    return ("candidates", *TUNINGS).index(track.tuning)


def _static_table(board: Board, tuning: str) -> dict[str, Any]:
    """The table by metrics for readers without JavaScript: all data sets, one selection."""
    places = [place for place in board.places if place.track.tuning == tuning]
    found = [means(board, places, column.name) for column in board.columns]
    by_rank = ranks(board, places)
    body = []
    for method, contender in board.contenders.items():
        cells = [
            shown(values[method].value, column)
            + (f" ({values[method].n} of {total})" if 0 < values[method].n < total else "")
            for column, (values, total) in zip(board.columns, found, strict=True)
        ]
        rank = f"{by_rank[method]:.2f}" if method in by_rank else "–"
        body.append([_name(contender), rank, *cells])
    return {"tuning": tuning, "head": ["method", "mean rank ↓"], "body": body}


def _dataset_page(
    board: Board, name: str, pages: Mapping[tuple[str, str], str], shared: dict[str, Any]
) -> str:
    own = [place for place in board.places if place.dataset == name]
    rows = [result for result in board.results if result["dataset"] == name]
    sections = [
        _section(
            board,
            f"{place.track.noise}, {place.level}, {place.track.features} features, "
            f"selection: {place.track.tuning}",
            [
                (_name(c) + _oracle(place, c), pages["method", m], board.lines[place, m])
                for m, c in board.contenders.items()
            ],
        )
        for place in own
    ]
    first = next((r for r in rows if r["status"] == "done"), rows[0])
    facts = {
        "rows": _whole(first["n_train"], first["n_test"]),
        "features": first["n_features"],
        "labels": first["n_labels"],
        "data_sha256": first["data_sha256"],
        **{
            f"candidates_sha256, {noise}{'' if r is None else f' r={r} seed {seed}'}": digest
            for noise, r, seed, digest in dict.fromkeys(
                (x["noise"], x["r"], x["noise_seed"], x["candidates_sha256"]) for x in rows
            )
            if digest
        },
    }
    return _page(shared, f"Data set {name}", "method", sections, facts)


def _method_page(
    board: Board, name: str, pages: Mapping[tuple[str, str], str], shared: dict[str, Any]
) -> str:
    contender = board.contenders[name]
    rows = [result for result in board.results if result["method"] == name]
    sections = []
    for track in board.tracks:
        lines = [
            (f"{p.dataset}, {p.level}", pages["dataset", p.dataset], board.lines[p, name])
            for p in board.places
            if p.track == track
        ]
        title = f"{track.noise}, {track.features} features, selection: {track.tuning}"
        mark = f" {ORACLE_MARK}" if track.tuning == "oracle" and not contender.ceiling else ""
        sections.append(_section(board, title + mark, lines))
    versions = {
        f"{package} {version}"
        for result in rows
        for package, version in (result["versions"] or {}).items()
    }
    cls = own_methods().get(name)
    facts = {
        "about": (cls.__doc__ or "").strip().splitlines()[0] if cls else "not part of schirn",
        "versions": ", ".join(sorted(versions)),
        "runs": f"{sum(r['status'] == 'done' for r in rows)} of {len(rows)} finished",
    }
    return _page(shared, f"Method {_name(contender)}", "data set", sections, facts)


def _oracle(place: Place, contender: Contender) -> str:
    return ORACLE_MARK if place.track.tuning == "oracle" and not contender.ceiling else ""


def _section(board: Board, title: str, lines: Sequence[tuple[str, str, Line]]) -> dict[str, Any]:
    """A table: one line per method or setting, with the command that reproduces it."""
    body = []
    for name, page, line in lines:
        cells = []
        for column in board.columns:
            value = line.values.get(column.name, math.nan)
            text = shown(value, column)
            if column.name == "average_precision" and not math.isnan(value + line.deviation):
                text += f" ± {shown(line.deviation, column)}"
            cells.append({"text": text, "value": None if math.isnan(value) else value})
        folds = f"{line.n_done} of {line.n_wanted}" if line.n_wanted else "–"
        body.append(
            {
                "name": name,
                "page": page,
                "cells": cells,
                "folds": folds,
                "reason": line.reason,
                "command": line.command,
            }
        )
    return {"title": title, "body": body}


def _page(
    shared: dict[str, Any],
    heading: str,
    first: str,
    sections: list[dict[str, Any]],
    facts: dict[str, Any],
) -> str:
    known = {name: value for name, value in facts.items() if value not in (None, "")}
    return _rendered(
        **shared,
        kind="page",
        heading=heading,
        first=first,
        sections=sections,
        facts=known,
    )


def _rendered(*, data: Any = None, **context: Any) -> str:
    """Render a page; names in the data cannot end the script element."""
    markup = optional("markupsafe", "cli", "Writing an HTML page").Markup
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    generator = markup(_GENERATOR)
    return render(
        "schirn.lab.leaderboard",
        "leaderboard.html",
        data=markup(text),
        generator=generator,
        **context,
    )


def shown(value: float, column: Column) -> str:
    """A value in the unit of its column."""
    if math.isnan(value):
        return "–"
    text = f"{column.factor * value:.{column.digits}f}"
    return ("0" + text[2:] if float(text) == 0 and text.startswith("-") else text).replace("-", "−")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _whole(*numbers: int | None) -> int | None:
    return None if None in numbers else sum(n for n in numbers if n is not None)
