"""The state between two nightly updates: rows, tags, verdicts, and what training knew.

The file of a state is an .npz archive: arrays under the names of their attributes, and all other
attributes as JSON.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from schirn._files import atomic_write, utc_now
from schirn._input import Array, location
from schirn.app.tables import RunSummary
from schirn.app.workflow._decisions import RowContent
from schirn.cleaning.ranker import rows_without_features
from schirn.exceptions import DataError
from schirn.labels.tags import Tags, read_tags
from schirn.linalg.arrays import to_numpy

_FORMAT = "schirn-state"
_VERSION = 4
# Maximum number of features whose means are compared, and of rows for the means in training.
_MOST_FEATURES = 200
_MOST_ROWS = 5000
# Minimum number of new rows for a comparison of features.
LEAST_ROWS = 30
# Odd, so that no two ids of rows coincide after a multiplication of their checksums.
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
        Probability that the tag is right; NaN for tags that the model does not know, and for rows
        without features.
    removed : (m,) bool array
    departed : (m,) bool array
        Tags that were removed and have left the table since.
    spared : (m,) bool array
        Tags that stay only because they are the last ones of their rows.
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
    departed: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    spared: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
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
            return cls(**head, **values)
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
            raise DataError(
                f"{path}: not the state of an update, damaged, or of another version of schirn; "
                f"delete it to judge all rows again"
            ) from None

    def find(self, rows: RowContent, cells: Tags) -> "Match":
        """Find the rows and tags of a table in this state.

        Parameters
        ----------
        rows : RowContent
            The rows of the table.
        cells : Tags
            The tags of the rows.

        Returns
        -------
        Match
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
        return Match(number, is_same, place, is_same[cells.row] & (place >= 0))

    def departed_tags(self, match: "Match", names: Sequence[str]) -> "DepartedTags":
        """Find the removed tags that a table no longer lists, in rows that have not changed.

        Parameters
        ----------
        match : Match
            The rows and tags of the table in this state.
        names : sequence of str
            Names of the tags; those with other names are left out.

        Returns
        -------
        DepartedTags
        """
        is_listed = np.zeros(len(self.row), dtype=bool)
        is_listed[match.place[match.place >= 0]] = True
        row_of = np.full(len(self.ids), -1)
        row_of[match.number[match.is_same]] = np.flatnonzero(match.is_same)
        column_of = {name: j for j, name in enumerate(names)}
        columns = np.array([column_of.get(name, -1) for name in self.names], dtype=np.int64)
        row = row_of[self.row]
        column = columns[self.column]
        place = np.flatnonzero(self.removed & ~is_listed & (row >= 0) & (column >= 0))
        return DepartedTags(row[place], column[place], place)


class DepartedTags(NamedTuple):
    """Removed tags that have left the table since.

    Attributes
    ----------
    row, column : (k,) int arrays
        Row of the table, and number of the name, of each tag.
    place : (k,) int array
        Number of each tag in the state.
    """

    row: Array
    column: Array
    place: Array


class Marks(NamedTuple):
    """Checksums of the rows of a table with their content, and of their tags.

    Attributes
    ----------
    rows, tags : uint64 arrays
    """

    rows: Array
    tags: Array


def marks_of(
    ids: Sequence[str], hashes: Sequence[str], names: Sequence[str], row: Array, column: Array
) -> Marks:
    """Return checksums by which rows and tags are recognised later."""
    numbers = _checksums(ids) * _FACTOR
    return Marks(numbers + _checksums(hashes), numbers[row] + _checksums(names)[column])


def _checksums(texts: Iterable[str]) -> Array:
    encoded = (text.encode("utf-8", "replace") for text in texts)
    digests = (hashlib.blake2b(content, digest_size=8).digest() for content in encoded)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


class Match(NamedTuple):
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
        The previous state; verdicts on rows that are unchanged or empty stay.
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
    p = np.array(model.calibration_.probability(to_numpy(scores)))
    is_empty = rows.is_blank | rows_without_features(X)
    p[is_empty] = np.nan
    time = utc_now()
    last = last or TagState()
    cells = number_tags(tags, model.label_names_)
    match = last.find(rows, cells)
    departed = last.departed_tags(match, cells.names)
    row = np.r_[cells.row, departed.row]
    column = np.r_[cells.column, departed.column]
    is_departed = np.arange(len(row)) >= len(cells.row)
    keeps_verdicts = match.is_same | is_empty
    removed = keeps_verdicts[cells.row] & np.r_[last.removed, False][match.place]
    marks = marks_of(rows.ids, rows.hashes, cells.names, cells.row, cells.column)
    return replace(
        last,
        model=model_hash,
        time=time,
        trained=time,
        ids=rows.ids,
        hashes=rows.hashes,
        is_fresh=np.zeros(len(rows.ids), dtype=bool),
        names=cells.names,
        row=row,
        column=column,
        probability=values_of_cells(np.asarray(p), row, column),
        removed=np.r_[removed, is_departed[len(removed) :]],
        departed=is_departed,
        spared=np.zeros(len(row), dtype=bool),
        training_rows=marks.rows,
        training_tags=marks.tags,
        tag_counts=tag_counts_of(cells),
        profile=FeatureProfile.of(X) if location(X) == "memory" else FeatureProfile(),
        filled_shares=rows.filled_shares,
        is_retrained=len(last.ids) > 0,
    )


def state_path(model: str) -> str:
    """Return the file of the state that belongs to a model file."""
    return f"{model.removesuffix('.schirn')}.state.npz"


def number_tags(tags: Sequence[Sequence[str]], names: Sequence[str]) -> Tags:
    """Number the tags: first `names`, then all others."""
    return read_tags(tags, list(dict.fromkeys(chain(names, chain.from_iterable(tags)))))


def tag_counts_of(cells: Tags) -> dict[str, int]:
    """Return the number of rows with each tag that occurs."""
    counts = zip(cells.names, cells.counts.tolist(), strict=True)
    return {name: count for name, count in counts if count}


def values_of_cells(values: Array, row: Array, column: Array) -> Array:
    """Return the values (n, l) of some cells; NaN for labels that a model does not know."""
    is_known = column < values.shape[1]
    return np.where(is_known, values[row, np.where(is_known, column, 0)], np.nan)
