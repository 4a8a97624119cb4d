"""Judge only what is new: rows and verdicts of last night, and what has changed since.

A `TagState` holds a hash of every row, the probability of its tags, and the verdicts. `update_tags`
judges new and changed rows with the model and ranks all tags again by all answers, old tags by
their stored probabilities. Without new answers, all verdicts on old tags stay. With new ones, they
change only if the answers clearly ask for it: a tag that was kept is removed if it would be at a
stricter target precision as well, and one that was removed is kept if it would be at a looser one.
As long as the answers have allowed no removals, there is no verdict to keep, and after training
again there is none either: the new model judges all rows, and what changes is listed.
"""

import json
import os
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from schirn._files import atomic_write, utc_now
from schirn._input import Array, location
from schirn._progress import stage, track
from schirn.app.tables import RunSummary, frequency_drift
from schirn.app.workflow._decisions import (
    OPEN,
    RIGHT,
    WRONG,
    Carried,
    Decision,
    Decisions,
    RowContent,
)
from schirn.app.workflow._vocabulary import with_kept_tags
from schirn.cleaning import MissingTags, Vocabulary
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.policy import PRECISION
from schirn.cleaning.questions import cells_of
from schirn.cleaning.ranker import MIN_COUNT, likeliest_unlisted
from schirn.exceptions import DataError
from schirn.labels.tags import Tags, read_tags
from schirn.linalg.arrays import to_numpy

_FORMAT = "schirn-state"
_VERSION = 2
_BATCH = 4000
# Features whose means are compared, and rows from which the means of training are computed.
_MOST_FEATURES = 200
_MOST_ROWS = 5000
# The features of fewer new rows are not compared.
LEAST_ROWS = 30
NEW, KEPT, REMOVED = range(3)
# A verdict of last night changes at a target precision that differs by this share of the errors:
# with a target of 0.9, tags are removed at 0.925 and kept again at 0.875.
MARGIN = 0.25
# From here on, training again is advised: share of rows that are new since training, distance of
# the frequencies of the tags, shift of the features in standard deviations, share of unseen tags.
ADVICE = {"rows": 0.2, "tags": 0.1, "features": 0.2, "unseen_tags": 0.02}
# From here on, the export is suspected: shares of last night's rows that are gone, and that have
# changed.
_DOUBTFUL = {"gone": 0.2, "changed": 0.5}
# Cells may come and go in a column that is filled in fewer rows.
_MOSTLY_FILLED = 0.5


@dataclass(frozen=True)
class FeatureProfile:
    """Mean and standard deviation of the features that vary most.

    Attributes
    ----------
    columns : list of int
    mean, deviation : list of float
    """

    columns: list[int] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    deviation: list[float] = field(default_factory=list)

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


@dataclass(frozen=True, eq=False)
class TagState:
    """All rows as they were judged last.

    Attributes
    ----------
    model : str
        Hash of the model file.
    time, trained : str
        When the state was written, and when the model was trained.
    ids, hashes : list of str
        Name of each row, and hash of its content.
    is_fresh : (n,) bool array
        Rows that are new or have changed since training.
    names : list of str
        Names of the tags.
    row, column : (m,) int arrays
        Row and name of each tag.
    probability : (m,) float array
        Probability that the tag is right; NaN for tags that the model does not know.
    removed : (m,) bool array
    has_limit : bool
        Whether answers have allowed to remove tags besides those that they are about.
    is_retrained : bool
        Whether the model was trained again after the verdicts: it judges all rows anew.
    tag_counts : dict from str to int
        Frequencies of the tags in training.
    profile : FeatureProfile
        Features in training.
    filled_shares : dict of str to float
        Share of the rows with a value, of each column that the model learns from.
    summary : RunSummary or None
        The last run.
    """

    model: str = ""
    time: str = ""
    trained: str = ""
    ids: list[str] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    is_fresh: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    names: list[str] = field(default_factory=list)
    row: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    column: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    probability: Array = field(default_factory=lambda: np.zeros(0))
    removed: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    has_limit: bool = False
    is_retrained: bool = False
    tag_counts: dict[str, int] = field(default_factory=dict)
    profile: FeatureProfile = field(default_factory=FeatureProfile)
    filled_shares: dict[str, float] = field(default_factory=dict)
    summary: RunSummary | None = None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz file, completely or not at all.

        Parameters
        ----------
        path : path
        """
        values = vars(self).items()
        arrays: Any = {name: value for name, value in values if isinstance(value, Array)}
        head = {name: value for name, value in values if name not in arrays}
        head |= {"profile": asdict(self.profile), "summary": self.summary and asdict(self.summary)}
        head |= {"format": _FORMAT, "version": _VERSION}
        with atomic_write(path) as stream:
            np.savez(stream, head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "TagState":
        """Read what `write` wrote; raises DataError for any other file.

        Parameters
        ----------
        path : path

        Returns
        -------
        TagState
        """
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                values = dict(file)
            head = json.loads(values.pop("head").tobytes())
            if (head.pop("format"), head.pop("version")) != (_FORMAT, _VERSION):
                raise ValueError
            head["profile"] = FeatureProfile(**head["profile"])
            head["summary"] = head["summary"] and RunSummary(**head["summary"])
            return cls(**head, **values)
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
            raise DataError(
                f"{path}: not the state of an update, or damaged, or of another version of schirn; "
                f"delete it to judge all rows again"
            ) from None

    def find(self, rows: RowContent, cells: Tags) -> "_Match":
        """Find the rows and tags of a table in this state.

        Parameters
        ----------
        rows : RowContent
        cells : Tags
            The tags of the rows.

        Returns
        -------
        _Match
        """
        number_of = {name: k for k, name in enumerate(self.ids)}
        number = np.array([number_of.get(name, -1) for name in rows.ids], dtype=np.int64)
        pairs = zip(number.tolist(), rows.hashes, strict=True)
        is_same = np.array([k >= 0 and self.hashes[k] == text for k, text in pairs], dtype=bool)
        names = {name: j for j, name in enumerate(self.names)}
        column = np.array([names.get(name, -1) for name in cells.names], dtype=np.int64)
        width = len(names) + 1
        keys = self.row * width + self.column
        order = np.argsort(keys, kind="stable")
        # A new tag gets a number that no stored tag has.
        targets = number[cells.row] * width + np.where(column < 0, width - 1, column)[cells.column]
        place = np.searchsorted(keys, targets, sorter=order)
        # What is not found has the place -1, at which lookups find the value appended at the end.
        place = np.r_[order, -1][np.minimum(place, len(order))]
        is_there = np.r_[keys, -1][place] == targets
        place = np.where(is_there & (number[cells.row] >= 0), place, -1)
        return _Match(number, is_same, place, is_same[cells.row] & (place >= 0))


class _Match(NamedTuple):
    """Rows and tags of a table in the state of the last update.

    Attributes
    ----------
    number : (n,) int array
        Number of each row in the state; -1 for new rows.
    is_same : (n,) bool array
        Whether the content of the row is as it was.
    place : (m,) int array
        Number of each tag in the state; -1 for tags that are new in their row.
    is_old_tag : (m,) bool array
        Whether the tag was there and its row is as it was.
    """

    number: Array
    is_same: Array
    place: Array
    is_old_tag: Array

    @property
    def is_new(self) -> Array:
        """Rows that the state does not have."""
        return np.asarray(self.number < 0)

    @property
    def is_changed(self) -> Array:
        """Rows whose content is another one."""
        return ~self.is_new & ~self.is_same

    def n_gone(self, state: TagState) -> int:
        """Return the number of rows of the state that the table lacks.

        Parameters
        ----------
        state : TagState
        """
        return len(state.ids) - int((~self.is_new).sum())


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
    # From other rows only, and from no answer about the tag itself, as for new rows.
    scores = getattr(model, "training_log_odds_", None)
    if scores is None:
        scores = model.held_out_scores(X)
    p = model.calibration_.probability(to_numpy(scores))
    time = utc_now()
    last = last or TagState()
    cells = _number_tags(tags, model.label_names_)
    match = last.find(rows, cells)
    return replace(
        last,
        model=model_hash,
        time=time,
        trained=time,
        ids=rows.ids,
        hashes=rows.hashes,
        is_fresh=np.zeros(len(rows.ids), dtype=bool),
        names=cells.names,
        row=cells.row,
        column=cells.column,
        probability=_of_cells(np.asarray(p), cells.row, cells.column),
        removed=match.is_same[cells.row] & np.r_[last.removed, False][match.place],
        tag_counts=_count(cells),
        profile=FeatureProfile.of(X) if location(X) == "memory" else FeatureProfile(),
        filled_shares=rows.filled_shares,
        is_retrained=len(last.ids) > 0,
    )


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
    since : list of Decision
        Answers since last night.
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
    since: list[Decision]

    @property
    def tag_drift(self) -> float:
        """Difference of the frequencies of the tags from those of training."""
        summary: Any = self.state.summary
        return frequency_drift(self.state.tag_counts, summary.tag_counts)[0]

    @property
    def feature_drift(self) -> float | None:
        """Shift of the features since training; None if few rows are new."""
        summary: Any = self.state.summary
        return summary.feature_drift

    @property
    def doubts(self) -> list[str]:
        """Reasons to doubt that the table is complete."""
        summary: Any = self.state.summary
        doubts = []
        if summary.gone_share > _DOUBTFUL["gone"]:
            doubts.append(f"{summary.gone_share:.0%} of last night's rows are gone")
        if summary.changed_share > _DOUBTFUL["changed"]:
            doubts.append(f"{summary.changed_share:.0%} of last night's rows have changed")
        return doubts

    @property
    def advice(self) -> list[str]:
        """Reasons to train again; none from a table in which most old rows have changed."""
        summary: Any = self.state.summary
        if summary.changed_share > _DOUBTFUL["changed"]:
            return []
        shares = {
            # Without a state, nothing is known about training.
            "rows": float(self.state.is_fresh.mean()) * (len(self.new) < self.ranking.n_rows),
            "tags": self.tag_drift,
            "features": self.feature_drift or 0.0,
            "unseen_tags": sum(self.unseen.values()) / max(1, len(self.ranking.row)),
        }
        words = {
            "rows": "{:.0%} of the rows are new or have changed since training",
            "tags": "the frequencies of the tags differ by {:.2f} from those of training",
            "features": "the features have shifted by {:.2f} standard deviations since training",
            "unseen_tags": "{:.1%} of the tags are unknown to the model",
        }
        return [words[name].format(value) for name, value in shares.items() if value > ADVICE[name]]


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
    vocabulary: Vocabulary | None = None,
) -> Update:
    """Judge the rows of a table that are new or have changed, and rank all tags by all answers.

    Parameters
    ----------
    model, columns : TagPipeline, and dict from str to list
        A fitted model, and the columns that it learned from.
    tags, rows : list of lists of str, and RowContent
        Tags, ids and content of each row.
    last, decisions : TagState and Decisions, optional
        Last night, without which all rows are new, and answers of people.
    model_hash, precision : str, and float, default=0.9
        Hash of the model file, and target precision. After another model, all rows are judged.
    vocabulary : Vocabulary, optional
        What was applied to the tags; those that it keeps are never removed.

    Returns
    -------
    Update
    """
    time = utc_now()
    last = last or TagState()
    cells = _number_tags(tags, model.label_names_)
    match = last.find(rows, cells)
    is_same_model = last.model in ("", model_hash)
    judgement = _judge_update(model, columns, cells, last, match, is_same_model)
    counts = last.tag_counts or _count(cells)
    ranking = _ranking(model, cells, judgement, counts, precision)
    ranking = with_kept_tags(ranking, vocabulary or Vocabulary())
    ranking, carried, since = _answered(ranking, decisions, rows, last.time)
    # Appended for the place -1, that of new tags and rows; see `TagState.find`.
    was_removed = np.r_[last.removed, False][match.place]
    is_retrained = last.is_retrained or not is_same_model
    verdicts = _earlier_verdicts(last, was_removed, is_retrained)
    verdicts = np.where(match.is_old_tag, verdicts, NEW)
    # Nobody has answered since, so there is nothing new to say about old tags.
    is_quiet = last.summary is not None and bool(decisions and len(decisions)) and not since
    is_settled = match.is_old_tag & (is_quiet and not is_retrained)
    ranking = _act(ranking, verdicts, carried, is_settled)
    summary = replace(
        _summary(ranking, last, rows, match, was_removed), feature_drift=judgement.drift
    )
    state = _next_state(
        last,
        rows,
        cells,
        is_fresh=judgement.is_fresh | np.r_[last.is_fresh, False][match.number],
        model=model_hash,
        time=time,
        trained=last.trained or time,
        probability=judgement.probability,
        removed=ranking.removed,
        has_limit=last.has_limit or ranking.worklist.limit(precision) > 0,
        tag_counts=counts,
        summary=summary,
    )
    return Update(
        ranking=ranking,
        state=state,
        new=np.flatnonzero(match.is_new).tolist(),
        changed=np.flatnonzero(match.is_changed).tolist(),
        judged=judgement.rows.tolist(),
        gone=match.n_gone(last),
        unseen=_unseen(summary.tag_counts, model.label_names_),
        removed=cells_of(ranking, ranking.removed & ~was_removed),
        restored=cells_of(ranking, ~ranking.removed & was_removed),
        carried=carried,
        since=[decision for decision in since if decision.answer != OPEN],
    )


def _summary(
    ranking: NoisyLabels, last: TagState, rows: RowContent, match: _Match, was_removed: Array
) -> RunSummary:
    """Return the figures of a run, compared with the last one."""
    is_restored = ~ranking.removed & was_removed
    return replace(
        RunSummary.from_ranking(ranking),
        gone_share=match.n_gone(last) / max(1, len(last.ids)),
        changed_share=int(match.is_changed.sum()) / max(1, int((~match.is_new).sum())),
        restored_share=int(is_restored.sum()) / max(1, int(was_removed.sum())),
        **_emptied(last.filled_shares, rows.filled_shares),
    )


def _emptied(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, Any]:
    """Return the mostly filled column that lost most of its cells, and the share that it lost."""
    filled = {name: share for name, share in old.items() if share >= _MOSTLY_FILLED}
    losses = {name: 1 - new.get(name, 0.0) / share for name, share in filled.items()}
    name = max(losses, key=lambda name: losses[name], default="")
    if not name or losses[name] <= 0:
        return {}
    return {"emptied_column": name, "emptied_share": losses[name]}


def _answered(
    ranking: NoisyLabels, decisions: Decisions | None, rows: RowContent, when: str
) -> tuple[NoisyLabels, Carried, list[Decision]]:
    """Return the ranking with all decisions, what became of them, and those after a time."""
    if decisions is None:
        return ranking, Carried({}, {}, 0), []
    ranking, carried = decisions.answer(ranking, rows)
    return ranking, carried, decisions.since(when)


def _earlier_verdicts(last: TagState, was_removed: Array, is_retrained: bool) -> Array:
    """Return the verdicts of last night; after training again, there is none to keep."""
    if is_retrained:
        return np.full(len(was_removed), NEW)
    return np.where(was_removed, REMOVED, KEPT if last.has_limit else NEW)


def _next_state(
    last: TagState,
    rows: RowContent,
    cells: Tags,
    **values: Any,
) -> TagState:
    """Return what the next update starts from."""
    return replace(
        last,
        ids=rows.ids,
        hashes=rows.hashes,
        names=cells.names,
        row=cells.row,
        column=cells.column,
        filled_shares=rows.filled_shares,
        is_retrained=False,
        **values,
    )


def _unseen(counts: Mapping[str, int], known: Sequence[str]) -> dict[str, int]:
    """Return tags that the model does not know with their counts, the most frequent first."""
    names = set(known)
    return {name: n for name, n in Counter(counts).most_common() if name not in names}


def state_path(model: str) -> str:
    """Return the file of the state that belongs to a model file."""
    return f"{model.removesuffix('.schirn')}.state.npz"


def _number_tags(tags: Sequence[Sequence[str]], names: Sequence[str]) -> Tags:
    """Number the tags: those in `names` first, then all others."""
    return read_tags(tags, list(dict.fromkeys(chain(names, chain.from_iterable(tags)))))


def _count(cells: Tags) -> dict[str, int]:
    counts = zip(cells.names, cells.counts.tolist(), strict=True)
    return {name: count for name, count in counts if count}


def _of_cells(values: Array, row: Array, column: Array) -> Array:
    """Return the values (n, l) of some cells; NaN for labels that a model does not know."""
    is_known = column < values.shape[1]
    return np.where(is_known, values[row, np.where(is_known, column, 0)], np.nan)


def _ranking(
    model: Any,
    cells: Tags,
    judgement: "_Judgement",
    counts: Mapping[str, int],
    precision: float,
) -> NoisyLabels:
    """Rank all tags by their probabilities, stored and new."""
    p = judgement.probability
    often = np.array([counts.get(name, 0) >= MIN_COUNT for name in cells.names], dtype=bool)
    return NoisyLabels.from_arrays(
        n_rows=cells.n_rows,
        label_names=cells.names,
        row=cells.row,
        column=cells.column,
        confidence=np.where(np.isnan(p), 0.5, p),
        judged=~np.isnan(p) & often[cells.column],
        method=type(model.method_).__name__,
        missing=judgement.missing,
        precision=precision,
    )


class _Judgement(NamedTuple):
    """What the model says of an update.

    Attributes
    ----------
    rows : int array
        Rows that were judged.
    is_fresh : (n,) bool array
        Rows that are new or have changed.
    probability : (m,) float array
        Probability that each tag is right, stored or new.
    missing : MissingTags
    drift : float or None
        Shift of the features of fresh rows.
    """

    rows: Array
    is_fresh: Array
    probability: Array
    missing: MissingTags
    drift: float | None


def _judge_update(
    model: Any,
    columns: Mapping[str, Sequence[Any]],
    cells: Tags,
    last: TagState,
    match: _Match,
    is_same_model: bool,
) -> _Judgement:
    """Judge the rows that are new or have changed; all rows after another model."""
    is_fresh = ~match.is_same
    # A tag that is new in its row has no probability yet.
    is_fresh[cells.row[~match.is_old_tag & is_same_model]] = True
    rows = np.flatnonzero(is_fresh) if is_same_model else np.arange(cells.n_rows)
    p, missing, drift = _judge(model, columns, cells, rows, last.profile, is_fresh)
    if is_same_model:
        stored = np.r_[last.probability, np.nan][match.place]
        p = np.where(match.is_old_tag, stored, p)
    return _Judgement(rows, is_fresh, p, missing, drift)


def _judge(
    model: Any,
    columns: Mapping[str, Sequence[Any]],
    cells: Tags,
    rows: Array,
    profile: FeatureProfile,
    is_fresh: Array,
) -> tuple[Array, MissingTags, float | None]:
    """Return the probabilities of the tags of some rows, tags they may miss, and their drift.

    Missing tags and drift are those of fresh rows.
    """
    stage(f"judging {len(rows):,} rows")
    n_labels = len(model.label_names_)
    p = np.full(len(cells.row), np.nan)
    unlisted = [np.zeros((3, 0))]
    sums = np.zeros(len(profile.columns))
    n_fresh = 0
    batches = [rows[k : k + _BATCH] for k in range(0, len(rows), _BATCH)]
    for batch in track(batches, "batch"):
        X = model.features_.transform(
            {name: [column[i] for i in batch.tolist()] for name, column in columns.items()}
        )
        method = model.method_
        # Rows that the model was trained on, their copies and edits, are judged without themselves.
        P = method.calibration_.probability(to_numpy(method.held_out_scores(X)))
        index = np.flatnonzero(np.isin(cells.row, batch))
        row = np.searchsorted(batch, cells.row[index])
        column = cells.column[index]
        p[index] = _of_cells(P, row, column)
        fresh = np.flatnonzero(is_fresh[batch])
        Y = np.zeros((len(batch), max(n_labels, int(column.max(initial=0)) + 1)), dtype=bool)
        Y[row, column] = True
        count = int(Y[fresh].sum())
        best = likeliest_unlisted(P[fresh], Y[fresh, :n_labels], np.arange(n_labels), count)
        unlisted.append(np.array([batch[fresh][best.row], best.column, best.log_odds]))
        if len(fresh) and profile.columns:
            sums = sums + profile.sums(X[fresh])
            n_fresh = n_fresh + len(fresh)
    row, column, likely = np.concatenate(unlisted, axis=1)
    order = np.lexsort((column, row))
    row = row[order].astype(np.int64)
    column = column[order].astype(np.int64)
    missing = MissingTags(row, column, likely[order], cells.names)
    return p, missing, profile.drift(sums, n_fresh)


def _act(ranking: NoisyLabels, was: Array, carried: Carried, is_settled: Array) -> NoisyLabels:
    """Remove tags besides those that are answered; see the head of this module."""
    work = ranking.worklist
    margin = MARGIN * (1 - ranking.precision)
    position = np.full(len(ranking.row), len(work.order))
    position[work.order] = np.arange(len(work.order))
    targets = {NEW: 0.0, KEPT: margin, REMOVED: -margin}
    limits = [work.limit(ranking.precision + targets[verdict]) for verdict in (NEW, KEPT, REMOVED)]
    chosen = position < np.array(limits)[was]
    chosen = np.where(is_settled | (len(work.answered) == 0), was == REMOVED, chosen)
    # What a person said before the row has changed holds until somebody answers again.
    answers = {cell: decision.answer for cell, decision in carried.changed.items()}
    rows = [row for row, _ in answers]
    for k in np.flatnonzero(np.isin(ranking.row, rows)).tolist():
        answer = answers.get((int(ranking.row[k]), ranking.label_names[ranking.column[k]]))
        chosen[k] = answer == WRONG or (chosen[k] and answer != RIGHT)
        was[k] = REMOVED if answer == WRONG else was[k]
    index = np.flatnonzero(chosen)
    # Tags that were removed come first: the limits of a row must not bring them back.
    order = np.lexsort((position[index], was[index] != REMOVED))
    # The state does not record additions: only answers add tags.
    none_added = np.zeros(len(ranking.missing), dtype=bool)
    ordered = ranking.within_limits(index[order])
    return ranking.with_orders(ordered, none_added)
