"""Result files from others: read them, and check what they claim.

What the data set, the noise and the seeds determine is drawn again and compared by checksum; the
metrics are computed again from the stored scores, whose true labels must be those of the data set;
and a random sample of the runs of this library's methods is repeated, with one timeout of each
method and one failure of each kind (`_repetition`). A result is verified only if its scores are
there, its code is the current one, and its scores or a repeated run give every one of its metrics;
an unfinished one only if a repeated run does not finish either. Times and memory are never
verified. Nothing here can prove that a method from elsewhere did not see the true labels.
"""

import gzip
import json
import math
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import brief, byte_limit, too_large
from schirn._input import Array
from schirn.datasets import Dataset
from schirn.datasets.noise import KINDS
from schirn.estimators import sees_truth
from schirn.exceptions import DataError, InputError, MissingExtraError
from schirn.lab.bench import (
    ALL_METRICS,
    FEATURES,
    TUNINGS,
    Facts,
    Method,
    Run,
    Settings,
    Source,
    compute_metrics,
    make_methods,
    method_runs,
    own_methods,
    read_arrays,
)
from schirn.lab.bench.results import IDENTITY, Result, identity, newest, parse_result
from schirn.lab.leaderboard._evidence import (
    TOLERANCE,
    Draw,
    Entry,
    compare_metrics,
    differ,
    draw_again,
    load_again,
)
from schirn.lab.leaderboard._packing import PackedRun, arrays_of, read_scores, scores_file
from schirn.lab.leaderboard._repetition import LONGEST, repeat_runs

SUFFIXES = (".jsonl", ".jsonl.gz")
_COSTS = ("tune_seconds", "fit_seconds", "fit_cpu_seconds", "predict_seconds", "peak_memory_mb")
_VERSIONS = ("schirn", "python", "numpy", "scipy", "scikit-learn")
SUMS = ("data_sha256", "candidates_sha256", "folds_sha256")
_ALLOWED = {
    "noise": (*KINDS, "own"),
    "tuning": TUNINGS,
    "features": FEATURES,
    "split": ("kfold", "stored"),
}
# Fields that the candidates and the folds depend on.
_DRAWN = ("dataset", "r", "noise", "noise_seed", "split", "seed", "folds")
# Fields that results of several methods share when they are compared.
_COMPARED = ("dataset", "r", "noise", "tuning", "features", "split", "folds")


@dataclass(frozen=True)
class Check:
    """Result of a check of result files.

    Attributes
    ----------
    results : list of dict
        The newest result of each run.
    problems : list of str
        Reasons to reject the files, each with its place; empty if there are none.
    notes : list of str
        Why results are not verified, and what is marked.
    regenerated : int
        Number of results whose data, loaded again, and candidates and folds, drawn again, agree.
    recomputed : int
        Number of results whose metrics were computed again from their scores and agree.
    verified : int
        Number of results of which all that is true, with every metric, and which name the
        current code; and of timeouts and failures that a repeated run confirms.
    rerun : int
        Number of finished results that were run again and agree.
    """

    results: list[Result]
    problems: list[str]
    notes: list[str]
    regenerated: int
    recomputed: int
    verified: int
    rerun: int

    @property
    def verdict(self) -> str:
        """Verdict in words: "refused", "not verified" or "verified"."""
        if self.problems:
            return "refused"
        n_tried = sum(result["status"] != "skipped" for result in self.results)
        return "verified" if self.rerun and self.verified == n_tried else "not verified"


def check_results(
    path: str | os.PathLike[str], *, reruns: int = 3, random_state: Any = None
) -> Check:
    """Check a file of benchmark results, or all result files of a folder.

    Parameters
    ----------
    path : path
        File of results (``.jsonl`` or ``.jsonl.gz``), or a folder of them, such as the output
        folder of a benchmark. Scores are expected next to each file.
    reruns : int
        Number of finished runs to repeat, drawn from those that took at most a minute; 0 repeats
        no timeouts and failures either.
    random_state : int, RandomState or None
        Randomness of that draw; None makes it unpredictable.

    Returns
    -------
    Check

    Examples
    --------
    >>> import tempfile
    >>> from schirn.lab import bench, leaderboard
    >>> folder = tempfile.mkdtemp()
    >>> data, method = "digits_attributes:1", "CandidateRidge"
    >>> results = bench.run([data], [method], output=folder, folds=2, tuning="none", jobs=0)
    >>> check = leaderboard.check_results(folder, reruns=1)
    >>> check.verdict, check.verified, check.rerun
    ('verified', 2, 1)
    """
    entries, problems = _plausible_entries(path)
    inspection = _Inspection(_lacking(entries))
    for group in _grouped(entries, _DRAWN).values():
        inspection.add(group)
    unconfirmed = inspection.unconfirmed
    repetition = repeat_runs(
        inspection.sound, inspection.unfinished, unconfirmed, reruns, random_state
    )
    notes = inspection.notes
    n_verified = len(repetition.confirmed)
    for entry, _ in inspection.sound:
        names = sorted(unconfirmed[entry.where])
        if entry.where in repetition.doubted:
            continue
        if names:
            notes[f"not verified: {', '.join(names)}, which the stored scores do not give"] += 1
        else:
            n_verified += 1
    shares = [f"{count} of {len(entries)} results {text}" for text, count in notes.items()]
    if inspection.sound and not repetition.n_run:
        shares.append(f"not verified: no run was repeated that takes at most {LONGEST:g} s")
    return Check(
        [entry.result for entry in entries],
        problems + inspection.problems + repetition.faults,
        shares + repetition.doubts + repetition.notes,
        inspection.n_regenerated,
        inspection.n_recomputed,
        n_verified,
        repetition.n_agreeing,
    )


class _Inspection:
    """Findings about results, setting by setting, before any run is repeated.

    Attributes
    ----------
    sound : list of (Entry, Run)
        Finished results without any fault or doubt.
    unfinished : list of (Entry, Run)
        Timeouts and failures of the current code without any doubt.
    unconfirmed : dict of str to set of str
        Unconfirmed metrics of a result, by its place.
    notes : Counter of str
        Doubts, with the number of results that have them.
    problems : list of str
        Faults, each with its place.
    n_regenerated, n_recomputed : int
        Results whose data were drawn again, and whose metrics were computed again.
    """

    def __init__(self, lacking: Mapping[str, str]):
        self._lacking = lacking
        self._scores = _StoredScores()
        self._last: tuple[tuple[Any, ...], Dataset] | None = None
        self.sound: list[tuple[Entry, Run]] = []
        self.unfinished: list[tuple[Entry, Run]] = []
        self.unconfirmed: dict[str, set[str]] = {}
        self.notes: Counter[str] = Counter()
        self.problems: list[str] = []
        self.n_regenerated = 0
        self.n_recomputed = 0

    def add(self, group: Sequence[Entry]) -> None:
        """Inspect results whose data, candidates and folds are the same."""
        try:
            draw = draw_again(group[0].result, self._load(group[0].result))
        except (InputError, MissingExtraError, OSError, ValueError) as error:
            draw = None
            self.notes[f"not verified: {' '.join(str(error).split())}"] += len(group)
        for entry in group:
            if entry.result["status"] == "done":
                self._add_finished(entry, draw)
            elif entry.result["status"] != "skipped":
                self._add_unfinished(entry, draw)

    def _load(self, result: Result) -> Dataset:
        """Load a data set, unless it was loaded last: results are grouped by data set."""
        key = (result["dataset"], result["data_sha256"])
        if self._last is None or self._last[0] != key:
            self._last = key, load_again(result)
        return self._last[1]

    def _run_and_doubts(self, entry: Entry) -> tuple[Run | None, list[str]]:
        """Return the run of a result, and why it is not verified."""
        run, doubts = _known_run(entry.result)
        if entry.where in self._lacking:
            doubts.append(
                f"not verified: other methods have {self._lacking[entry.where]} that their "
                "method lacks"
            )
        return run, doubts

    def _add_unfinished(self, entry: Entry, draw: Draw | None) -> None:
        run, doubts = self._run_and_doubts(entry)
        self.notes.update(doubts)
        if run is not None and draw is not None and not doubts:
            self.unfinished.append((entry, run))

    def _add_finished(self, entry: Entry, draw: Draw | None) -> None:
        result = entry.result
        run, doubts = self._run_and_doubts(entry)
        if result["reason"]:
            doubts.append(f"not verified: {result['reason']}")
        unconfirmed = set(result["metrics"])
        try:
            if draw is not None:
                _compare_draw(result, draw)
                self.n_regenerated += 1
            stored = self._scores.read(entry)
            if stored is None:
                doubts.append("not verified: the scores are missing")
            else:
                unconfirmed -= _compare_scores(result, stored, draw)
                self.n_recomputed += 1
        except (InputError, ValueError) as error:
            self.problems.append(f"{entry.where}: {' '.join(str(error).split())}")
            return
        self.notes.update(doubts)
        self.unconfirmed[entry.where] = unconfirmed
        if run is not None and draw is not None and not doubts:
            self.sound.append((entry, run))


def _plausible_entries(path: str | os.PathLike[str]) -> tuple[list[Entry], list[str]]:
    """Read the newest results, and reasons to reject them that need no data."""
    entries, problems = read_entries([path])
    if not entries and not problems:
        problems.append(f"{path}: the file holds no result")
    problems += [*implausible(entries), *_incomplete(entries)]
    latest = newest(sorted((e.result for e in entries), key=lambda result: result["finished"]))
    newest_ids = {id(result) for result in latest}
    return [entry for entry in entries if id(entry.result) in newest_ids], problems


def read_entries(paths: Iterable[str | os.PathLike[str]]) -> tuple[list[Entry], list[str]]:
    """Read the results of files and folders, and the reasons why lines were rejected.

    Parameters
    ----------
    paths : list of paths
        Files of results, or folders of them.

    Returns
    -------
    entries : list of Entry
        Results with their places.
    faults : list of str
        Why lines are no results, each with its place.
    """
    entries = []
    faults = []
    for file in [file for path in paths for file in _files(Path(path))]:
        for number, line in enumerate(_content(file).splitlines(), start=1):
            if line.strip():
                where = f"{file}, line {number}"
                try:
                    entries.append(Entry(parse_result(line, where), where, file))
                except DataError as error:
                    faults.append(str(error))
    return entries, faults


def _files(path: Path) -> list[Path]:
    """Return a file, or the result files of a folder."""
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.name.endswith(SUFFIXES))
    if not files:
        raise DataError(f"{path}: the folder holds no result file (*.jsonl or *.jsonl.gz)")
    return files


def _content(path: Path) -> bytes:
    """Return the bytes of a file, unpacked; raise DataError if they are too many."""
    limit = byte_limit()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            content = stream.read(limit + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: not a readable gzip file, or truncated ({error})") from None
    if len(content) > limit:
        raise DataError(f"{path}: {too_large('the results take', limit)}")
    return content


def implausible(entries: Iterable[Entry]) -> list[str]:
    """Return impossible values and contradictions that can be found without the data.

    Parameters
    ----------
    entries : list of Entry
        Results with their places.

    Returns
    -------
    list of str
        Faults, each with its place.
    """
    entries = list(entries)
    problems = [f"{e.where}: {text}" for e in entries for text in _faults(e.result)]
    runs: dict[tuple[Any, ...], Entry] = {}
    keys: dict[str, tuple[Any, ...]] = {}
    lines: dict[str, str] = {}
    for entry in entries:
        result = entry.result
        run = identity(result)
        old_line = lines.setdefault(json.dumps(result, sort_keys=True), entry.where)
        if old_line != entry.where:
            problems.append(f"{entry.where}: the same line as {old_line}")
        if keys.setdefault(result["key"], run) != run:
            problems.append(f"{entry.where}: the key of another run, {result['key'][:12]}...")
        if result["status"] != "done":
            continue
        old = runs.setdefault(run, entry)
        names = set(old.result["metrics"]) & set(result["metrics"])
        if any(differ(old.result["metrics"][name], result["metrics"][name]) for name in names):
            problems.append(f"{entry.where}: another result of the same run than {old.where}")
    return problems


def _incomplete(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield what a submitted file lacks: checksums, versions or folds."""
    folds: dict[tuple[Any, ...], set[int]] = {}
    for result, where, _ in entries:
        run = tuple(result[name] for name in IDENTITY[:-1])
        folds.setdefault(run, set()).add(result["fold"])
        if result["status"] != "done":
            continue
        for name in SUMS:
            text = result[name]
            if text is None or len(text) != 64 or set(text) - set("0123456789abcdef"):
                yield f"{where}: no {name} (64 hex digits); run it again with this version"
        missing = [name for name in _VERSIONS if name not in (result["versions"] or {})]
        if missing:
            yield f"{where}: no version of {', '.join(missing)}"
    for run, numbers in folds.items():
        named = dict(zip(IDENTITY, run, strict=False))
        if len(numbers) < named["folds"]:
            yield (
                f"{brief(named['method'])} on {brief(named['dataset'])}, r={named['r']}, "
                f"{named['noise']}, {named['features']}, tuning {named['tuning']}, seed "
                f"{named['seed']}: {len(numbers)} of the {named['folds']} folds that it claims"
            )


def _lacking(entries: Iterable[Entry]) -> dict[str, str]:
    """Return what a method lacks that others have, by the places of the results in question."""
    tried = [entry for entry in entries if entry.result["status"] != "skipped"]
    places: dict[str, str] = {}
    settings = {_setting(entry.result) for entry in tried}
    for group in _grouped(tried, ["method"]).values():
        if {_setting(entry.result) for entry in group} != settings:
            places |= dict.fromkeys((e.where for e in group), "data sets, noise or features")
    for setting in _grouped(tried, _COMPARED).values():
        seeds = {entry.result["seed"] for entry in setting}
        for group in _grouped(setting, ["method"]).values():
            if {entry.result["seed"] for entry in group} != seeds:
                places |= dict.fromkeys((e.where for e in group), "seeds")
    return places


def _setting(result: Result) -> tuple[Any, ...]:
    return tuple(result[name] for name in ("dataset", "r", "noise", "features"))


def _grouped(entries: Iterable[Entry], names: Sequence[str]) -> dict[tuple[Any, ...], list[Entry]]:
    """Return the entries by the values of some fields."""
    groups: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(tuple(entry.result[name] for name in names), []).append(entry)
    return groups


def _faults(result: Result) -> Iterator[str]:
    """Yield the impossible values of a single result."""
    for name, allowed in _ALLOWED.items():
        if result[name] not in allowed:
            yield f"{name} is {brief(result[name])}; it must be one of {', '.join(allowed)}"
    if (result["r"] is None) != (result["noise"] == "own"):
        yield f"r is {result['r']} with noise {brief(result['noise'])}"
    if not (1 <= result["folds"] and 0 <= result["fold"] < result["folds"]):
        yield f"fold {result['fold']} of {result['folds']} folds, counted from 0"
    yield from _truth_faults(result)
    if result["status"] != "done":
        if result["metrics"]:
            yield f"metrics of a run that is {result['status']}"
        return
    if not result["metrics"]:
        yield "a finished run without metrics"
    for name, value in result["metrics"].items():
        if name in ALL_METRICS and value is not None and not 0 <= value <= 1:
            yield f"{brief(name)} is {value:g}; it must be from 0 to 1"
    for name in _COSTS:
        if result[name] is not None and result[name] < 0:
            yield f"{name} is {result[name]:g}, below 0"


def _truth_faults(result: Result) -> Iterator[str]:
    """Yield missing declarations of the use of true labels."""
    cls = own_methods().get(result["method"])
    if cls is not None and bool(result["sees_truth"]) != sees_truth(cls):
        yield (
            f"sees_truth is {result['sees_truth']}, but {result['method']} is "
            f"{'' if sees_truth(cls) else 'not '}trained on the true labels"
        )
    is_oracle = result["tuning"] == "oracle" and result["grid"] is not None
    if bool(result["oracle"]) != is_oracle:
        yield (
            f"oracle is {result['oracle']}, but the tuning is {brief(result['tuning'])} "
            f"{'with' if result['grid'] else 'without'} a grid"
        )


def _known_run(result: Result) -> tuple[Run | None, list[str]]:
    """Return the run of a result with usual parameters and current code, and any doubts."""
    if result["method"] not in own_methods():
        return None, [
            f"not verified: {brief(result['method'])} is not part of schirn, and may have seen the "
            "true labels"
        ]
    method = _usual_method(result["method"])
    doubts = []
    if result["code_sha256"] is None:
        doubts.append("not verified: they do not name the code of their method")
    elif result["code_sha256"] != method.code:
        doubts.append("stale: the code of their method has changed since")
    run = _usual_run(result, method._replace(code=result["code_sha256"] or ""))
    if run is None:
        doubts.append(
            "not verified: they have a key that this version would not give them: they were made "
            "with parameters, grids or a version of their own, or somebody changed a field"
        )
    return run, doubts


@cache
def _usual_method(name: str) -> Method:
    return make_methods([name], {}, {})[0]


def is_stale(result: Result) -> bool:
    """Check whether a result of this library's method was made with other or unknown code.

    Parameters
    ----------
    result : dict
        A result.

    Returns
    -------
    bool
    """
    name = result["method"]
    return name in own_methods() and result["code_sha256"] != _usual_method(name).code


def _usual_run(result: Result, method: Method) -> Run | None:
    """Return the run with the key of a result, if it has the usual parameters and grid."""
    stored = result["folds"] if result["split"] == "stored" else 0
    facts = Facts(None, result["data_sha256"], (None, None, None), stored)
    try:
        settings = Settings(
            folds=result["folds"],
            tuning=result["tuning"],
            inner_folds=result["inner_folds"] or 3,
            search_points=result["grid"] and math.prod(map(len, result["grid"].values())),
            search_rows=result["search_rows"],
            features=result["features"],
            noise="exact" if result["noise"] == "own" else result["noise"],
            noise_seed=result["noise_seed"],
            stored_folds=bool(stored),
        )
    except InputError:
        return None
    source = Source(result["dataset"], result["dataset"], {})
    runs = method_runs(source, result["r"], facts, method, result["seed"], settings)
    return next((run for run in runs if run.key == result["key"]), None)


class Stored(NamedTuple):
    """Stored scores of a run: complete, or only their order."""

    arrays: dict[str, Array]
    is_packed: bool


class _StoredScores:
    """Scores stored next to result files: one file per run, or packed."""

    def __init__(self) -> None:
        self._packed: dict[Path, dict[str, PackedRun]] = {}

    def read(self, entry: Entry) -> Stored | None:
        """Return the arrays of a run; None if they are not stored."""
        text = entry.result["scores"]
        if not text:
            return None
        name = Path(text).name
        if text != f"scores/{name}" or "\\" in name:
            raise DataError(f"scores must be a file in scores/, not {brief(text)}")
        path = entry.file.parent / "scores" / name
        if path.is_file():
            return Stored(read_arrays(path), is_packed=False)
        packed = scores_file(entry.file)
        if packed not in self._packed:
            self._packed[packed] = read_scores(packed) if packed.is_file() else {}
        run = self._packed[packed].get(entry.result["key"])
        return None if run is None else Stored(arrays_of(run), is_packed=True)


def _compare_draw(result: Result, draw: Draw) -> None:
    """Raise DataError unless a result matches its data set, noise and seeds."""
    for name, value in draw.fields(result["fold"]).items():
        if result[name] != value:
            raise DataError(
                f"{name} is {_short(result[name])}, but {brief(result['dataset'])} with noise "
                f"{result['noise']}, r={result['r']} and these seeds gives {_short(value)}"
            )


def _compare_scores(result: Result, stored: Stored, draw: Draw | None) -> set[str]:
    """Return the metrics that the stored scores give; raise DataError if one differs."""
    if draw is not None and draw.has_fold(result["fold"]):
        truth, candidate_truth = draw.labels(result["fold"])
        agrees = _have_counts if stored.is_packed else _have_labels
        if not agrees(stored.arrays, truth, candidate_truth):
            raise DataError("the true labels stored with the scores are not those of the data")
    values = compute_metrics(stored.arrays, ranks_only=stored.is_packed)
    return compare_metrics(result, values, "the stored scores give", TOLERANCE)


def _have_labels(arrays: Mapping[str, Array], truth: Array, candidate_truth: Array) -> bool:
    """Check whether the true labels stored with scores match the data."""
    stored = np.unpackbits(arrays["truth"], axis=1, count=truth.shape[1])
    return np.array_equal(stored, truth) and np.array_equal(
        arrays["candidate_truth"], candidate_truth
    )


def _have_counts(arrays: Mapping[str, Array], truth: Array, candidate_truth: Array) -> bool:
    """Check whether packed scores, which only keep their order, have the right label counts."""
    stored = np.unpackbits(arrays["truth"], axis=1, count=truth.shape[1])
    if stored.shape != truth.shape:
        return False
    # A method without confidences has no order of the candidates.
    in_order = arrays.get("candidate_truth", candidate_truth)
    return (
        np.array_equal(stored.sum(axis=1), truth.sum(axis=1))
        and len(in_order) == len(candidate_truth)
        and in_order.sum() == candidate_truth.sum()
    )


def _short(value: Any) -> str:
    return f"{value[:12]}..." if isinstance(value, str) and len(value) == 64 else brief(value)
