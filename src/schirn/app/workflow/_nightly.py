"""Nightly updates: judge only rows that are new or have changed since the last update.

A `TagState` holds a hash of each row, the probability of its tags, and the verdicts. `update_tags`
judges new and changed rows with the model, and ranks all tags again by all answers; old tags keep
their stored probabilities. Without new answers, all verdicts on old tags stay. With new answers,
they change only for a clear reason: a kept tag is removed if it would be removed even at a stricter
target precision, and a removed tag is kept if it would be kept even at a looser one. As long as the
answers have allowed no removals, there are no verdicts to keep. After retraining there are none
either: the new model judges all rows, and the changes are listed.
"""

import hashlib
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from schirn.cleaning.vocabulary import apply_vocabulary
from schirn.exceptions import DataError
from schirn.labels.tags import Tags, read_tags
from schirn.linalg.arrays import to_numpy

_FORMAT = "schirn-state"
_VERSION = 2
_BATCH = 4000
# Maximum number of features whose means are compared, and of rows for the means in training.
_MOST_FEATURES = 200
_MOST_ROWS = 5000
# Minimum number of new rows for a comparison of features.
LEAST_ROWS = 30
NEW, KEPT, REMOVED = range(3)
# Old verdicts change only at a target precision that differs by this share of the allowed errors:
# with a target of 0.9, tags are removed at 0.925 and kept again at 0.875.
MARGIN = 0.25
# Above these values, retraining is recommended: share of rows that are new since training, distance
# of the tag frequencies, shift of the features in standard deviations, share of unseen tags.
ADVICE = {"rows": 0.2, "tags": 0.1, "features": 0.2, "unseen_tags": 0.02}
# Above these values, the export is suspect: share of last night's rows that are gone, share that
# have changed, and share of their tags that are gone.
_DOUBTFUL = {"gone": 0.2, "changed": 0.5, "lost": 0.2}
# In a column that is filled in fewer rows, cells may come and go.
_MOSTLY_FILLED = 0.5
# Odd, so that multiplication keeps the checksums of different ids different.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class FeatureProfile:
    """Mean and standard deviation of the features that vary most.

    Attributes
    ----------
    columns : list of int
        Columns of these features.
    mean, deviation : list of float
        Mean and standard deviation of each feature.
    """

    columns: list[int] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    deviation: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, X: Any) -> "FeatureProfile":
        """Compute the profile of some rows."""
        X = X[:: -(-X.shape[0] // _MOST_ROWS)]
        mean = np.asarray(X.mean(axis=0), dtype=float).ravel()
        square = np.asarray((X * X if isinstance(X, np.ndarray) else X.multiply(X)).mean(axis=0))
        deviation = np.sqrt(np.maximum(square.ravel() - mean**2, 0))
        columns = np.sort(np.argsort(-deviation, kind="stable")[:_MOST_FEATURES])
        columns = columns[deviation[columns] > 0]
        return cls(columns.tolist(), mean[columns].tolist(), deviation[columns].tolist())

    def sums(self, X: Any) -> Array:
        """Return the sums of these features over some rows."""
        return np.asarray(X[:, self.columns].sum(axis=0), dtype=float).ravel()

    def drift(self, sums: Array, n: int) -> float | None:
        """Return the root mean square shift of the means, in standard deviations, minus chance.

        Parameters
        ----------
        sums : array
            Sums of the features over all new rows, from `sums`.
        n : int
            Number of new rows.

        Returns
        -------
        float or None
            None if there are too few rows.
        """
        if not self.columns or n < LEAST_ROWS:
            return None
        shift = (sums / n - np.array(self.mean)) / np.array(self.deviation)
        return float(np.sqrt(max(np.mean(shift**2) - 1 / n, 0)))


@dataclass(frozen=True, eq=False)
class TagState:
    """All rows with their last verdicts.

    Attributes
    ----------
    model : str
        Hash of the model file.
    time, trained : str
        When the state was written, and when the model was trained.
    ids, hashes : list of str
        Name of each row, and hash of its content.
    is_fresh : (n,) bool array
        Rows that are new or have changed since training, or since the first update if nothing is
        known about training.
    names : list of str
        Names of the tags.
    row, column : (m,) int arrays
        Row and name of each tag.
    probability : (m,) float array
        Probability that the tag is right; NaN for tags that the model does not know.
    removed : (m,) bool array
    training_rows, training_tags : uint64 arrays
        Checksums of the rows of the training table with their content, and of their tags.
    has_limit : bool
        True if the answers have allowed removing tags without an answer.
    is_retrained : bool
        True if the model was retrained after the verdicts, so that it judges all rows again.
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
    training_rows: Array = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    training_tags: Array = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
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
            File to write.
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
        """Read a file of `write`; raise DataError for any other file.

        Parameters
        ----------
        path : path
            File to read.

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
            return cls(**head, **values)._with_training()
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
            raise DataError(
                f"{path}: not the state of an update, damaged, or written by another version of "
                f"schirn; delete it to judge all rows again"
            ) from None

    def _with_training(self) -> "TagState":
        """Return the state with the marks of the training table, which older files lack."""
        if len(self.training_rows) or not self.ids:
            return self
        marks = _marks(self.ids, self.hashes, self.names, self.row, self.column)
        is_of_training = ~self.is_fresh
        return replace(
            self,
            training_rows=marks.rows[is_of_training],
            training_tags=marks.tags[is_of_training[self.row]],
        )

    def find(self, rows: RowContent, cells: Tags) -> "_Match":
        """Find the rows and tags of a table in this state.

        Parameters
        ----------
        rows : RowContent
            The rows of the table.
        cells : Tags
            The tags of the rows.

        Returns
        -------
        _Match
        """
        number_of = {name: k for k, name in enumerate(self.ids)}
        number = np.array([number_of.get(name, -1) for name in rows.ids], dtype=np.int64)
        # The model may have learned from other columns since.
        columns = tuple(self.filled_shares) or rows.columns
        pairs = zip(number.tolist(), rows.hashes_of(columns), strict=True)
        is_same = np.array([k >= 0 and self.hashes[k] == text for k, text in pairs], dtype=bool)
        names = {name: j for j, name in enumerate(self.names)}
        column = np.array([names.get(name, -1) for name in cells.names], dtype=np.int64)
        width = len(names) + 1
        keys = self.row * width + self.column
        order = np.argsort(keys, kind="stable")
        # A new tag gets a number that no stored tag has.
        targets = number[cells.row] * width + np.where(column < 0, width - 1, column)[cells.column]
        place = np.searchsorted(keys, targets, sorter=order)
        # Missing entries get the place -1, where lookups find a value appended at the end.
        place = np.r_[order, -1][np.minimum(place, len(order))]
        is_there = np.r_[keys, -1][place] == targets
        place = np.where(is_there & (number[cells.row] >= 0), place, -1)
        return _Match(number, is_same, place, is_same[cells.row] & (place >= 0))


class _Marks(NamedTuple):
    """Checksums of the rows of a table with their content, and of their tags.

    Attributes
    ----------
    rows, tags : uint64 arrays
    """

    rows: Array
    tags: Array


def _marks(
    ids: Sequence[str], hashes: Sequence[str], names: Sequence[str], row: Array, column: Array
) -> _Marks:
    """Return checksums by which rows and tags are recognised later."""
    numbers = _checksums(ids) * _FACTOR
    return _Marks(numbers + _checksums(hashes), numbers[row] + _checksums(names)[column])


def _checksums(texts: Iterable[str]) -> Array:
    encoded = (text.encode("utf-8", "replace") for text in texts)
    digests = (hashlib.blake2b(content, digest_size=8).digest() for content in encoded)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


class _Match(NamedTuple):
    """Rows and tags of a table in the state of the last update.

    Attributes
    ----------
    number : (n,) int array
        Number of each row in the state; -1 for new rows.
    is_same : (n,) bool array
        True for rows with unchanged content.
    place : (m,) int array
        Number of each tag in the state; -1 for tags that are new in their row.
    is_old_tag : (m,) bool array
        True for tags that are in the state and whose row is unchanged.
    """

    number: Array
    is_same: Array
    place: Array
    is_old_tag: Array

    @property
    def is_new(self) -> Array:
        """Mask of the rows that the state does not have."""
        return np.asarray(self.number < 0)

    @property
    def is_changed(self) -> Array:
        """Mask of the old rows whose content has changed."""
        return ~self.is_new & ~self.is_same

    def n_gone(self, state: TagState) -> int:
        """Return the number of rows of the state that the table lacks.

        Parameters
        ----------
        state : TagState
            The state.

        Returns
        -------
        int
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
    """Return the state of the training rows of a method, each judged by the others.

    Parameters
    ----------
    model : estimator
        The fitted method.
    rows : RowContent
        The training rows.
    tags : list of lists of str
        Tags of each row.
    X : array or CSR matrix
        Features of the rows.
    last : TagState, optional
        The previous state; verdicts on unchanged rows stay.
    model_hash : str
        Hash of the model file.

    Returns
    -------
    TagState
    """
    # As for new rows, only other rows count, and no answers about the tag itself.
    scores = getattr(model, "training_log_odds_", None)
    if scores is None:
        scores = model.held_out_scores(X)
    p = model.calibration_.probability(to_numpy(scores))
    time = utc_now()
    last = last or TagState()
    cells = _number_tags(tags, model.label_names_)
    match = last.find(rows, cells)
    marks = _marks(rows.ids, rows.hashes, cells.names, cells.row, cells.column)
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
        training_rows=marks.rows,
        training_tags=marks.tags,
        tag_counts=_count(cells),
        profile=FeatureProfile.of(X) if location(X) == "memory" else FeatureProfile(),
        filled_shares=rows.filled_shares,
        is_retrained=len(last.ids) > 0,
    )


@dataclass(frozen=True, eq=False)
class Update:
    """Result of `update_tags`.

    Attributes
    ----------
    ranking : NoisyLabels
        All tags with their verdicts.
    state : TagState
        Starting point of the next update.
    new, changed, judged : list of int
        New rows, rows with changed content, and judged rows.
    gone : int
        Number of rows of last night that the table lacks.
    unseen : dict from str to int
        Tags that the model does not know, with their counts; they are kept.
    removed, restored : list of (row, tag)
        Tags that are newly removed since last night, and tags that are no longer removed.
    carried : Carried
        Decisions matched to the rows of the table.
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
        """Difference between the present tag frequencies and those in training."""
        summary: Any = self.state.summary
        return frequency_drift(self.state.tag_counts, summary.tag_counts)[0]

    @property
    def feature_drift(self) -> float | None:
        """Shift of the features since training; None if there are few new rows."""
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
        if summary.lost_share > _DOUBTFUL["lost"]:
            doubts.append(f"{summary.lost_share:.0%} of the tags of last night's rows are gone")
        return doubts

    @property
    def advice(self) -> list[str]:
        """Reasons to retrain; none if most old rows have changed."""
        summary: Any = self.state.summary
        if summary.changed_share > _DOUBTFUL["changed"]:
            return []
        shares = {
            "rows": float(self.state.is_fresh.mean()),
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
    tag_column: str = "tags",
) -> Update:
    """Judge the new and changed rows of a table, and rank all tags by all answers.

    Parameters
    ----------
    model, columns : TagPipeline, and dict from str to list
        A fitted model, and the columns that it learned from.
    tags, rows : list of lists of str, and RowContent
        Tags, ids and content of each row.
    last, decisions : TagState and Decisions, optional
        State of the last update (without it, all rows are new), and people's answers.
    model_hash, precision : str, and float, default=0.9
        Hash of the model file, and target precision. After another model, all rows are judged, and
        tags are compared with those of this update.
    vocabulary, tag_column : Vocabulary, optional, and str, default="tags"
        What was applied to the tags; those that it keeps are never removed. And the column of tags.

    Returns
    -------
    Update
    """
    time = utc_now()
    last = last or TagState()
    cells = _number_tags(tags, model.label_names_)
    match = last.find(rows, cells)
    is_same_model = last.model in ("", model_hash)
    last = last if is_same_model else _without_training(last)
    judgement = _judge_update(model, columns, cells, last, match, is_same_model)
    counts = last.tag_counts or _count(cells)
    ranking = _ranking(model, cells, judgement, counts, precision)
    vocabulary = vocabulary or Vocabulary()
    ranking = with_kept_tags(ranking, vocabulary)
    ranking, carried, since = _answered(ranking, decisions, rows, last.time, vocabulary)
    # A value appended for the place -1 of new tags and rows; see `TagState.find`.
    was_removed = np.r_[last.removed, False][match.place]
    is_retrained = last.is_retrained or not is_same_model
    verdicts = _earlier_verdicts(last, match, was_removed, is_retrained)
    # Without new answers, verdicts on old tags stay.
    is_quiet = last.summary is not None and bool(decisions and len(decisions)) and not since
    is_settled = match.is_old_tag & (is_quiet and not is_retrained)
    ranking = _act(ranking, verdicts, carried, is_settled)
    losses = _tag_losses(last, match, cells, vocabulary)
    shares = _emptied(last.filled_shares, rows.filled_shares) | {tag_column: losses.emptied}
    summary = _summary(ranking, last, match, was_removed)
    summary = replace(summary, feature_drift=judgement.drift, lost_share=losses.lost)
    summary = replace(summary, **_most_emptied(shares))
    state = replace(
        _next_state(last, rows, cells, judgement, ranking),
        model=model_hash,
        time=time,
        trained=last.trained or time,
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


def _without_training(state: TagState) -> TagState:
    """Return a state without the facts about the training of another model."""
    none = np.zeros(0, dtype=np.uint64)
    state = replace(state, trained="", tag_counts={}, profile=FeatureProfile())
    return replace(state, training_rows=none, training_tags=none)


def _training_marks(last: TagState, marks: _Marks) -> _Marks:
    """Return the marks of the training table; the first table stands for an unknown one."""
    training = _Marks(last.training_rows, last.training_tags)
    return training if len(training.rows) else marks


def _is_fresh(marks: _Marks, training: _Marks, cells: Tags) -> Array:
    """Return the rows whose content differs from training, or that have a new tag."""
    is_fresh = np.isin(marks.rows, training.rows, invert=True)
    is_fresh[cells.row[np.isin(marks.tags, training.tags, invert=True)]] = True
    return is_fresh


def _summary(ranking: NoisyLabels, last: TagState, match: _Match, was_removed: Array) -> RunSummary:
    """Return the figures of a run, compared with the last one."""
    is_restored = ~ranking.removed & was_removed
    return replace(
        RunSummary.from_ranking(ranking),
        gone_share=match.n_gone(last) / max(1, len(last.ids)),
        changed_share=int(match.is_changed.sum()) / max(1, int((~match.is_new).sum())),
        restored_share=int(is_restored.sum()) / max(1, int(was_removed.sum())),
    )


def _emptied(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    """Return the share of its cells that each mostly filled column has lost."""
    filled = {name: share for name, share in old.items() if share >= _MOSTLY_FILLED}
    # Another model may learn from other columns.
    return {name: 1 - new[name] / share for name, share in filled.items() if name in new}


class _TagLosses(NamedTuple):
    """Losses of last night's rows that are still in the table.

    Attributes
    ----------
    lost : float
        Share of their tags that are gone.
    emptied : float
        Share of the rows that had tags and have none now; 0 if most rows had none.
    """

    lost: float
    emptied: float


def _tag_losses(last: TagState, match: _Match, cells: Tags, vocabulary: Vocabulary) -> _TagLosses:
    """Compare the tags of rows with those of last night.

    Removed tags may have been deleted since, and tags that the vocabulary changes have another name
    now: neither count as lost.
    """
    renamed = apply_vocabulary(vocabulary, [[name] for name in last.names], add_implied=False).rows
    has_name = np.array(
        [[name] == row for name, row in zip(last.names, renamed, strict=True)], bool
    )
    is_expected = has_name[last.column] & ~last.removed
    filled_share = len(np.unique(last.row[is_expected])) / max(1, len(last.ids))
    is_expected &= np.isin(last.row, match.number)
    is_listed = np.zeros(len(last.row), dtype=bool)
    is_listed[match.place[match.place >= 0]] = True
    rows = np.unique(last.row[is_expected])
    n_emptied = int(np.isin(rows, match.number[cells.row], invert=True).sum())
    return _TagLosses(
        lost=int((is_expected & ~is_listed).sum()) / max(1, int(is_expected.sum())),
        emptied=n_emptied / max(1, len(rows)) if filled_share >= _MOSTLY_FILLED else 0.0,
    )


def _most_emptied(shares: Mapping[str, float]) -> dict[str, Any]:
    """Return the column that lost most of its cells, and the share that it lost."""
    name = max(shares, key=lambda name: shares[name])
    return {"emptied_column": name, "emptied_share": shares[name]} if shares[name] > 0 else {}


def _answered(
    ranking: NoisyLabels,
    decisions: Decisions | None,
    rows: RowContent,
    when: str,
    vocabulary: Vocabulary | None,
) -> tuple[NoisyLabels, Carried, list[Decision]]:
    """Return the ranking with all decisions, the matched decisions, and decisions after a time."""
    if decisions is None:
        return ranking, Carried({}, {}, 0), []
    ranking, carried = decisions.answer(ranking, rows, vocabulary=vocabulary)
    return ranking, carried, decisions.since(when)


def _earlier_verdicts(
    last: TagState, match: _Match, was_removed: Array, is_retrained: bool
) -> Array:
    """Return the verdicts of last night; after retraining, there are none to keep."""
    if is_retrained:
        return np.full(len(was_removed), NEW)
    verdicts = np.where(was_removed, REMOVED, KEPT if last.has_limit else NEW)
    return np.where(match.is_old_tag, verdicts, NEW)


class _Judgement(NamedTuple):
    """Judgements of the model in an update.

    Attributes
    ----------
    rows : int array
        Rows that were judged.
    is_fresh : (n,) bool array
        Rows that are new or have changed.
    probability : (m,) float array
        Probability that each tag is right, stored or new.
    missing : MissingTags
        Tags that fresh rows may lack.
    drift : float or None
        Shift of the features of fresh rows.
    """

    rows: Array
    is_fresh: Array
    probability: Array
    missing: MissingTags
    drift: float | None


def _next_state(
    last: TagState, rows: RowContent, cells: Tags, judgement: _Judgement, ranking: NoisyLabels
) -> TagState:
    """Return the starting point of the next update: rows, tags, and what was judged of them."""
    marks = _marks(rows.ids, rows.hashes, cells.names, cells.row, cells.column)
    training = _training_marks(last, marks)
    return replace(
        last,
        ids=rows.ids,
        hashes=rows.hashes,
        names=cells.names,
        row=cells.row,
        column=cells.column,
        filled_shares=rows.filled_shares,
        is_fresh=_is_fresh(marks, training, cells),
        training_rows=training.rows,
        training_tags=training.tags,
        probability=judgement.probability,
        removed=ranking.removed,
        is_retrained=False,
    )


def _unseen(counts: Mapping[str, int], known: Sequence[str]) -> dict[str, int]:
    """Return tags that the model does not know, with their counts, the most frequent first."""
    names = set(known)
    return {name: n for name, n in Counter(counts).most_common() if name not in names}


def state_path(model: str) -> str:
    """Return the file of the state that belongs to a model file."""
    return f"{model.removesuffix('.schirn')}.state.npz"


def _number_tags(tags: Sequence[Sequence[str]], names: Sequence[str]) -> Tags:
    """Number the tags: first `names`, then all others."""
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


def _judge_update(
    model: Any,
    columns: Mapping[str, Sequence[Any]],
    cells: Tags,
    last: TagState,
    match: _Match,
    is_same_model: bool,
) -> _Judgement:
    """Judge new and changed rows, or all rows if the model has changed."""
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
    """Return the probabilities of the tags of some rows, and missing tags and drift of fresh rows.

    Fresh rows are rows that are new or have changed.
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
        # Training rows, their copies and edits are judged without their own influence.
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
    """Remove tags in addition to the answers; see the module docstring."""
    work = ranking.worklist
    margin = MARGIN * (1 - ranking.precision)
    position = np.full(len(ranking.row), len(work.order))
    position[work.order] = np.arange(len(work.order))
    targets = {NEW: 0.0, KEPT: margin, REMOVED: -margin}
    limits = [work.limit(ranking.precision + targets[verdict]) for verdict in (NEW, KEPT, REMOVED)]
    chosen = position < np.array(limits)[was]
    chosen = np.where(is_settled | (len(work.answered) == 0), was == REMOVED, chosen)
    # An answer from before the row changed holds until somebody answers again.
    answers = {cell: decision.answer for cell, decision in carried.changed.items()}
    rows = [row for row, _ in answers]
    for k in np.flatnonzero(np.isin(ranking.row, rows)).tolist():
        answer = answers.get((int(ranking.row[k]), ranking.label_names[ranking.column[k]]))
        chosen[k] = answer == WRONG or (chosen[k] and answer != RIGHT)
        was[k] = REMOVED if answer == WRONG else was[k]
    index = np.flatnonzero(chosen)
    # Previously removed tags come first, so that `keep_one` does not restore them.
    order = np.lexsort((position[index], was[index] != REMOVED))
    # The state does not record additions: only answers add tags.
    none_added = np.zeros(len(ranking.missing), dtype=bool)
    ordered = ranking.within_limits(index[order])
    return ranking.with_orders(ordered, none_added)
