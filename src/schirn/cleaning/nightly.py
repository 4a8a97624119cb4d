"""Judge only what is new: rows and verdicts of last night, and what has changed since.

A `TagState` holds a hash of every row, the probability of its tags, and the verdicts. `update_tags`
judges new and changed rows with the model and ranks all tags again by all answers, old tags by
their stored probabilities. Without new answers, all verdicts on old tags stay. With new ones, they
change only if the answers clearly ask for it: a tag that was kept is removed if it would be at a
stricter target precision as well, and one that was removed is kept if it would be at a looser one.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import atomic_write, complete_lines, utc_now
from schirn._input import location
from schirn._progress import stage, track
from schirn.cleaning.decisions import (
    OPEN,
    RIGHT,
    WRONG,
    Carried,
    Decision,
    Decisions,
    RowContent,
)
from schirn.cleaning.noisy_labels import PRECISION, NoisyLabels
from schirn.cleaning.ranker import MIN_COUNT
from schirn.exceptions import DataError
from schirn.tables.expect import RunSummary, frequency_drift

Array = np.ndarray

_FORMAT, _VERSION = "schirn-state", 1
_BATCH = 4000
# Features whose means are compared, and rows from which the means of training are computed.
_MOST_FEATURES, _MOST_ROWS = 200, 5000
# The features of fewer new rows are not compared.
LEAST_ROWS = 30
NEW, KEPT, REMOVED = range(3)
# A verdict of last night changes at a target precision that differs by this share of the errors:
# with a target of 0.9, tags are removed at 0.925 and kept again at 0.875.
MARGIN = 0.25
# From here on, training again is advised: share of rows that are new since training, distance of
# the frequencies of the tags, shift of the features in standard deviations, share of unseen tags.
ADVICE = {"rows": 0.2, "tags": 0.1, "features": 0.2, "unseen_tags": 0.02}


class FeatureProfile(NamedTuple):
    """Mean and standard deviation of the features that vary most.

    Attributes
    ----------
    columns : list of int
    mean, deviation : list of float
    """

    columns: list[int] = []
    mean: list[float] = []
    deviation: list[float] = []

    @classmethod
    def of(cls, X: Any) -> "FeatureProfile":
        """Describe the features of some rows."""
        X = X[:: -(-X.shape[0] // _MOST_ROWS)]
        mean = np.asarray(X.mean(axis=0), dtype=float).ravel()
        square = np.asarray((X * X if isinstance(X, np.ndarray) else X.multiply(X)).mean(axis=0))
        deviation = np.sqrt(np.maximum(square.ravel() - mean**2, 0))
        columns = np.sort(np.argsort(-deviation, kind="stable")[:_MOST_FEATURES])
        columns = columns[deviation[columns] > 0]
        return cls(columns.tolist(), mean[columns].tolist(), deviation[columns].tolist())

    def sums(self, X: Any) -> Array:
        """Sums of these features over some rows."""
        return np.asarray(X[:, self.columns].sum(axis=0), dtype=float).ravel()

    def drift(self, sums: Array, n: int) -> float | None:
        """Root mean square of the shifts of the means, in standard deviations, less chance.

        Parameters
        ----------
        sums : array
            What `sums` returned, of all rows.
        n : int
            Number of rows; of few rows, nothing can be said.
        """
        if not self.columns or n < LEAST_ROWS:
            return None
        shift = (sums / n - np.array(self.mean)) / np.array(self.deviation)
        return float(np.sqrt(max(np.mean(shift**2) - 1 / n, 0)))


class RowState(NamedTuple):
    """A row as it was judged last.

    Attributes
    ----------
    row : str
        Hash of its content.
    judged : str
        Time at which it was judged.
    tags : dict from str to float or None
        Probability that each tag is right; None for tags that the model does not know.
    removed : list of str
    """

    row: str
    judged: str
    tags: dict[str, float | None]
    removed: list[str]


@dataclass(frozen=True)
class TagState:
    """All rows as they were judged last, by id.

    Attributes
    ----------
    model : str
        Hash of the model file.
    time, trained : str
        When the state was written, and when the model was trained.
    rows : dict from str to RowState
    tag_counts : dict from str to int
        Frequencies of the tags in training.
    profile : FeatureProfile
        Features in training.
    summary : RunSummary or None
        The last run.
    """

    model: str = ""
    time: str = ""
    trained: str = ""
    rows: dict[str, RowState] = field(default_factory=dict)
    tag_counts: dict[str, int] = field(default_factory=dict)
    profile: FeatureProfile = field(default_factory=FeatureProfile)
    summary: RunSummary | None = None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a .jsonl file, completely or not at all: a head, then one line per row."""
        head = {name: getattr(self, name) for name in ("model", "time", "trained", "tag_counts")}
        summary = None if self.summary is None else asdict(self.summary)
        head |= {"profile": self.profile._asdict(), "summary": summary}
        head = {"format": _FORMAT, "version": _VERSION, "rows": len(self.rows), **head}
        with atomic_write(path) as stream:
            stream.write(json.dumps(head, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            for name, row in self.rows.items():
                line = json.dumps({"id": name, **row._asdict()}, ensure_ascii=False)
                stream.write(line.encode("utf-8", "replace") + b"\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "TagState":
        """Read what `write` wrote; raises DataError for any other file."""
        head, *lines = complete_lines(Path(path).read_bytes()).records or [None]
        if head is None or head.get("format") != _FORMAT or head.get("version") != _VERSION:
            raise DataError(f"{path}: not the state of an update; choose another file")
        try:
            rows = {r["id"]: RowState(*(r[name] for name in RowState._fields)) for r in lines if r}
            names = ("model", "time", "trained", "tag_counts")
            summary = None if head["summary"] is None else RunSummary(**head["summary"])
            state = cls(
                **{name: head[name] for name in names},
                rows=rows,
                profile=FeatureProfile(**head["profile"]),
                summary=summary,
            )
        except (KeyError, TypeError):
            rows = {}
        if (not rows and head.get("rows")) or len(rows) != head.get("rows"):
            raise DataError(f"{path}: damaged; delete it, and all rows are judged again")
        return state


def state_after_training(
    model: Any,
    rows: RowContent,
    tags: Sequence[Sequence[str]],
    X: Any,
    *,
    last: TagState | None = None,
    model_hash: str = "",
) -> TagState:
    """Return the state of the rows that a method was trained on, each judged by the others.

    Parameters
    ----------
    model : estimator
        The fitted method.
    rows : RowContent
    tags : list of lists of str
        What the table lists.
    X : array or CSR matrix
        Features of the rows.
    last : TagState, optional
        The state before; the verdicts on rows that are as they were stay.
    model_hash : str
        Hash of the model file.
    """
    place = {name: j for j, name in enumerate(model.label_names_)}
    log_odds = getattr(model, "training_log_odds_", None)
    # From other rows only, and from no answer about the tag itself, as for new rows.
    in_fit = log_odds is not None
    p = model.calibration_.probability(log_odds) if in_fit else model.predict_proba(X)
    time, states_before = utc_now(), {} if last is None else last.rows
    states = {}
    for i, (name, row) in enumerate(zip(rows.ids, rows.hashes, strict=True)):
        old = states_before.get(name)
        removed = old.removed if old is not None and old.row == row else []
        states[name] = RowState(row, time, _probabilities(tags[i], p[i], place), removed)
    counts = dict(Counter(chain.from_iterable(tags)))
    summary = None if last is None else last.summary
    profile = FeatureProfile.of(X) if location(X) == "memory" else FeatureProfile()
    return TagState(model_hash, time, time, states, counts, profile, summary)


@dataclass(frozen=True, eq=False)
class Update:
    """What `update_tags` found.

    Attributes
    ----------
    ranking : NoisyLabels
        All tags with their verdicts.
    state : TagState
        What the next update starts from.
    new, changed, judged : list of int
        Rows that are new, whose content has changed, and that were judged.
    gone : int
        Number of rows of last night that the table lacks.
    unseen : dict from str to int
        Tags that the model does not know, and how often they occur; they are kept.
    removed, restored : list of (row, tag)
        Tags that were removed since last night, and that came back.
    carried : Carried
        Decisions found in the table.
    answers, wrong_answers : int
        Answers since last night, and how many of them say "wrong".
    tag_drift, feature_drift : float or None
        Differences from training; the second is None if few rows are new.
    advice : list of str
        Reasons to train again.
    """

    ranking: NoisyLabels
    state: TagState
    new: list[int]
    changed: list[int]
    judged: list[int]
    gone: int
    unseen: dict[str, int]
    removed: list[tuple[int, str]]
    restored: list[tuple[int, str]]
    carried: Carried
    answers: int
    wrong_answers: int
    tag_drift: float
    feature_drift: float | None
    advice: list[str]


def update_tags(
    model: Any,
    columns: Mapping[str, Sequence[Any]],
    tags: Sequence[Sequence[str]],
    rows: RowContent,
    *,
    last: TagState | None = None,
    decisions: Decisions | None = None,
    model_hash: str = "",
    precision: float = PRECISION,
) -> Update:
    """Judge the rows of a table that are new or have changed, and rank all tags by all answers.

    Parameters
    ----------
    model : TagPipeline
        A fitted model.
    columns : dict from str to list
        Columns that the model learned from.
    tags : list of lists of str
        Tags of each row.
    rows : RowContent
    last : TagState, optional
        Last night; without it all rows are new.
    decisions : Decisions, optional
        Answers of people.
    model_hash : str
        Hash of the model file. After another model, all rows are judged again.
    precision : float, default=0.9
        Target precision of the removals.
    """
    time, last = utc_now(), last or TagState()
    tags = [list(dict.fromkeys(row_tags)) for row_tags in tags]
    hashes, is_same_model = rows.hashes, last.model in ("", model_hash)
    states_before = [last.rows.get(name) for name in rows.ids]
    new = [i for i, old in enumerate(states_before) if old is None]
    changed = [i for i, old in enumerate(states_before) if old is not None and old.row != hashes[i]]
    fresh = {*new, *changed}
    if is_same_model:
        fresh |= _rows_with_new_tags(states_before, tags)
    rows_to_judge = sorted(fresh) if is_same_model else list(range(len(tags)))
    probabilities, drift = _judge(model, columns, tags, rows_to_judge, last.profile, fresh)
    states = {}
    for i, (name, old) in enumerate(zip(rows.ids, states_before, strict=True)):
        p = probabilities.get(i, {})
        if old is not None and is_same_model and old.row == hashes[i]:
            p = {tag: old.tags.get(tag, p.get(tag)) for tag in tags[i]}
        judged_at = time if old is None or i in fresh else old.judged
        states[name] = RowState(hashes[i], judged_at, p, [])
    counts = last.tag_counts or dict(Counter(chain.from_iterable(tags)))
    ranking = _ranking(model, [states[name].tags for name in rows.ids], counts, precision)
    carried, since = Carried({}, {}, 0), list[Decision]()
    if decisions is not None:
        ranking, carried = decisions.answer(ranking, rows)
        since = decisions.since(last.time)
    had_answers = last.summary is not None and last.summary.wrong_share is not None
    was = _verdicts_before(ranking, states_before, hashes, had_answers)
    is_settled = is_same_model and not since
    ranking = replace(ranking, ordered=_removals(ranking, was, carried, is_settled))
    cells = list(zip(ranking.row.tolist(), ranking.label.tolist(), strict=True))
    for row, tag in compress(cells, ranking.removed):
        states[rows.ids[row]].removed.append(tag)
    summary = replace(RunSummary.from_ranking(ranking), feature_drift=drift)
    state = TagState(model_hash, time, last.trained or time, states, counts, last.profile, summary)
    unseen = Counter(chain.from_iterable(tags))
    for name in model.label_names_:
        del unseen[name]
    tag_drift = frequency_drift(counts, summary.tag_counts)[0]
    return Update(
        ranking=ranking,
        state=state,
        new=new,
        changed=changed,
        judged=rows_to_judge,
        gone=len(last.rows) - (len(tags) - len(new)),
        unseen=dict(unseen.most_common()),
        removed=list(compress(cells, ranking.removed & (was != REMOVED))),
        restored=list(compress(cells, ~ranking.removed & (was == REMOVED))),
        carried=carried,
        answers=sum(d.answer != OPEN for d in since),
        wrong_answers=sum(d.answer == WRONG for d in since),
        tag_drift=tag_drift,
        feature_drift=drift,
        advice=_advise(
            rows=_share_since_training(state) if last.rows else 0.0,
            tags=tag_drift,
            features=drift or 0.0,
            unseen_tags=unseen.total() / max(1, len(cells)),
        ),
    )


def _rows_with_new_tags(
    states: Sequence[RowState | None], tags: Sequence[Sequence[str]]
) -> set[int]:
    """Return the rows with a tag that they did not have before: it has no probability yet."""
    pairs = zip(states, tags, strict=True)
    return {i for i, (old, names) in enumerate(pairs) if old and not set(names) <= set(old.tags)}


def state_path(model: str) -> str:
    """Return the file of the state that belongs to a model file."""
    return f"{model.removesuffix('.schirn')}.state.jsonl"


def _judge(
    model: Any,
    columns: Mapping[str, Sequence[Any]],
    tags: Sequence[Sequence[str]],
    judged: list[int],
    profile: FeatureProfile,
    fresh: set[int],
) -> tuple[dict[int, dict[str, float | None]], float | None]:
    """Return the probabilities of the tags of some rows, and the drift of the fresh ones."""
    stage(f"judging {len(judged):,} rows")
    place = {name: j for j, name in enumerate(model.label_names_)}
    probabilities: dict[int, dict[str, float | None]] = {}
    sums, n_fresh = np.zeros(len(profile.columns)), 0
    batches = [judged[k : k + _BATCH] for k in range(0, len(judged), _BATCH)]
    for batch in track(batches, "batch"):
        X = model.features_.transform({name: [c[i] for i in batch] for name, c in columns.items()})
        for i, values in zip(batch, model.method_.predict_proba(X), strict=True):
            probabilities[i] = _probabilities(tags[i], values, place)
        positions = [k for k, i in enumerate(batch) if i in fresh]
        if positions and profile.columns:
            sums, n_fresh = sums + profile.sums(X[positions]), n_fresh + len(positions)
    return probabilities, profile.drift(sums, n_fresh)


def _probabilities(
    tags: Sequence[str], values: Array, place: Mapping[str, int]
) -> dict[str, float | None]:
    """Return the probability of each tag of a row; None for labels that a model does not know."""
    return {t: float(f"{values[place[t]]:.6g}") if t in place else None for t in tags}


def _ranking(
    model: Any,
    probabilities: Sequence[Mapping[str, float | None]],
    counts: Mapping[str, int],
    precision: float,
) -> NoisyLabels:
    """Rank all tags by their probabilities, stored and new."""
    place = {name: j for j, name in enumerate(model.label_names_)}
    cells = [(i, tag, p) for i, values in enumerate(probabilities) for tag, p in values.items()]
    for _, tag, _ in cells:
        place.setdefault(tag, len(place))
    p = np.array([np.nan if p is None else p for *_, p in cells], dtype=float)
    often = np.array([counts.get(tag, 0) >= MIN_COUNT for _, tag, _ in cells], dtype=bool)
    return NoisyLabels(
        n_rows=len(probabilities),
        label_names=list(place),
        row=np.array([i for i, *_ in cells], dtype=np.int64),
        column=np.array([place[tag] for _, tag, _ in cells], dtype=np.int64),
        model_confidence=np.where(np.isnan(p), 0.5, p),
        judged=~np.isnan(p) & often,
        method=type(model.method_).__name__,
        precision=precision,
    )


def _verdicts_before(
    ranking: NoisyLabels,
    before: Sequence[RowState | None],
    hashes: Sequence[str],
    had_answers: bool,
) -> Array:
    """Return the verdict of last night on every tag; tags of changed rows are new.

    Without answers, tags were kept because nothing was known about them: these are new as well.
    """
    verdicts = np.full(len(ranking.row), NEW, dtype=np.int8)
    cells = zip(ranking.row.tolist(), ranking.label.tolist(), strict=True)
    for k, (i, tag) in enumerate(cells):
        old = before[i]
        if old is not None and old.row == hashes[i] and tag in old.tags:
            verdict = KEPT if had_answers else NEW
            verdicts[k] = REMOVED if tag in old.removed else verdict
    return verdicts


def _removals(ranking: NoisyLabels, was: Array, carried: Carried, is_settled: bool) -> Array:
    """Return the tags to remove besides those that are answered; see the head of this module."""
    work, margin = ranking.worklist, MARGIN * (1 - ranking.precision)
    position = np.full(len(ranking.row), len(work.order))
    position[work.order] = np.arange(len(work.order))
    targets = {NEW: 0.0, KEPT: margin, REMOVED: -margin}
    limits = [work.limit(ranking.precision + targets[verdict]) for verdict in (NEW, KEPT, REMOVED)]
    chosen = position < np.array(limits)[was]
    if is_settled:
        # Nobody has answered since, so there is nothing new to say about old tags.
        chosen = np.where(was == NEW, chosen, was == REMOVED)
    elif not len(work.answered):
        chosen = was == REMOVED
    # What a person said before the row has changed holds until somebody answers again.
    answers = {cell: decision.answer for cell, decision in carried.changed.items()}
    if answers:
        cells = zip(ranking.row.tolist(), ranking.label.tolist(), strict=True)
        held = np.array([answers.get(cell, "") for cell in cells], dtype=object)
        chosen = (chosen | (held == WRONG)) & (held != RIGHT)
        was = np.where(held == WRONG, REMOVED, was)
    index = np.flatnonzero(chosen)
    # Tags that were removed come first: the limits of a row must not bring them back.
    return ranking.within_limits(index[np.lexsort((position[index], was[index] != REMOVED))])


def _share_since_training(state: TagState) -> float:
    """Return the share of rows that are new or have changed since training."""
    return sum(row.judged > state.trained for row in state.rows.values()) / max(1, len(state.rows))


def _advise(**shares: float) -> list[str]:
    """Return the reasons to train again."""
    words = {
        "rows": "{:.0%} of the rows are new or have changed since training",
        "tags": "the frequencies of the tags differ by {:.2f} from those of training",
        "features": "the features have shifted by {:.2f} standard deviations since training",
        "unseen_tags": "{:.1%} of the tags are unknown to the model",
    }
    return [words[name].format(value) for name, value in shares.items() if value > ADVICE[name]]
