"""Nightly updates: judge only rows that are new or have changed since the last update.

A `TagState` holds a hash of each row, the probability of its tags, and the verdicts. `update_tags`
judges new and changed rows with the model, and ranks all tags again by all answers; old tags keep
their stored probabilities. Without new answers, all verdicts on old tags stay. With new answers,
they change only for a clear reason: a kept tag is removed if it would be removed even at a stricter
target precision, and a removed tag is kept if it would be kept even at a looser one. As long as the
answers have allowed no removals, there are no verdicts to keep. After retraining there are none
either: the new model judges all rows, and the changes are listed. Rows that lose their text cannot
be judged, so they always keep their verdicts.

Removed tags leave the table when the changes are written back. As long as their rows are unchanged,
they stay in the state, and count with their probabilities and answers, so that the same tags are
removed as if nothing had been written back.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from schirn._files import utc_now
from schirn._input import Array
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
from schirn.app.workflow._tag_state import (
    DepartedTags,
    FeatureProfile,
    Marks,
    Match,
    TagState,
    marks_of,
    number_tags,
    tag_counts_of,
    values_of_cells,
)
from schirn.app.workflow._vocabulary import with_kept_tags
from schirn.cleaning import SEPARATORS, Departed, MissingTags, Vocabulary
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.policy import PRECISION
from schirn.cleaning.questions import cells_of
from schirn.cleaning.ranker import MIN_COUNT, likeliest_unlisted, rows_without_features
from schirn.cleaning.vocabulary import apply_vocabulary
from schirn.labels.tags import Tags
from schirn.linalg.arrays import to_numpy

_BATCH = 4000
NEW, KEPT, REMOVED, SPARED = range(4)
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
    featureless : list of int
        Rows with tags but without features, such as an empty text; their tags are not judged, and
        keep their earlier verdicts.
    removed, restored : list of (row, tag)
        Tags that are newly removed since last night, and tags that are no longer removed.
    last_tags : list of (row, tag)
        Tags that would be removed if they were not the last ones of their rows.
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
    featureless: list[int]
    removed: list[tuple[int, str]]
    restored: list[tuple[int, str]]
    last_tags: list[tuple[int, str]]
    carried: Carried
    since: list[Decision]

    @property
    def _summary(self) -> RunSummary:
        """The figures of this run, which `update_tags` always stores."""
        assert self.state.summary is not None
        return self.state.summary

    @property
    def tag_drift(self) -> float:
        """Difference between the present tag frequencies and those in training."""
        return frequency_drift(self.state.tag_counts, self._summary.tag_counts)[0]

    @property
    def feature_drift(self) -> float | None:
        """Shift of the features since training; None if there are few new rows."""
        return self._summary.feature_drift

    @property
    def doubts(self) -> list[str]:
        """Reasons to doubt that the table is complete."""
        summary = self._summary
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
        if self._summary.changed_share > _DOUBTFUL["changed"]:
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
    keep_one: bool = True,
    vocabulary: Vocabulary | None = None,
    tag_column: str = "tags",
) -> Update:
    """Judge the new and changed rows of a table, and rank all tags by all answers.

    Parameters
    ----------
    model : TagPipeline
        A fitted model.
    columns : dict from str to list
        The columns that the model learned from.
    tags : list of lists of str
        Tags of each row.
    rows : RowContent
        Ids and content of the rows.
    last : TagState, optional
        State of the last update; without it, all rows are new.
    decisions : Decisions, optional
        People's answers.
    model_hash : str
        Hash of the model file. After another model, all rows are judged, and tags are compared with
        those of this update.
    precision : float, default=0.9
        Target precision.
    keep_one : bool, default=True
        True if each row keeps at least one tag that nobody called wrong.
    vocabulary : Vocabulary, optional
        What was applied to the tags; those that it keeps are never removed.
    tag_column : str, default="tags"
        Name of the column of tags.

    Returns
    -------
    Update
    """
    time = utc_now()
    last = last or TagState()
    cells = number_tags(tags, model.label_names_)
    match = last.find(rows, cells)
    is_same_model = last.model in ("", model_hash)
    last = last if is_same_model else _without_training(last)
    vocabulary = vocabulary or Vocabulary()
    departed = _departed_tags(last, match, cells, vocabulary)
    judgement = _judge_update(
        model, columns, cells, departed, rows.is_blank, last, match, is_same_model
    )
    counts = last.tag_counts or tag_counts_of(cells)
    ranking = _ranking(model, cells, judgement, counts, precision).at(keep_one=keep_one)
    ranking = with_kept_tags(ranking, vocabulary)
    ranking, carried, since = _answered(ranking, decisions, rows, last.time, vocabulary)
    # A value appended for the place -1 of new tags and rows; see `TagState.find`.
    was_removed = np.r_[last.removed, False][match.place]
    is_retrained = last.is_retrained or not is_same_model
    featureless = _featureless(judgement, cells, len(model.label_names_))
    # A tag that cannot be judged keeps its verdict, although its row has changed.
    is_held = np.isin(cells.row, featureless) & (match.place >= 0)
    is_valid = is_held | (match.is_old_tag & (not is_retrained))
    verdicts = np.where(is_valid, _earlier_verdicts(last, match), NEW)
    # Without new answers, verdicts on old tags stay.
    is_quiet = last.summary is not None and bool(decisions and len(decisions)) and not since
    is_settled = is_held | (is_valid & ranking.judged & is_quiet)
    free = _act(ranking.at(keep_one=False), verdicts, carried, is_settled)
    ranking = _act(ranking, verdicts, carried, is_settled)
    spared = free.removed & ~ranking.removed
    summary = _summary(ranking, last, match, was_removed)
    unseen = _unseen(summary.tag_counts, model.label_names_)
    summary = replace(
        summary,
        feature_drift=judgement.drift,
        **_losses(last, match, cells, rows, vocabulary, tag_column),
        **_joined_tags(unseen, model.label_names_),
    )
    state = replace(
        _next_state(last, rows, cells, judgement, ranking, spared),
        model=model_hash,
        time=time,
        trained=last.trained or time,
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
        unseen=unseen,
        featureless=featureless,
        removed=cells_of(ranking, ranking.removed & ~was_removed),
        restored=cells_of(ranking, ~ranking.removed & was_removed),
        last_tags=cells_of(ranking, spared),
        carried=carried,
        since=[decision for decision in since if decision.answer != OPEN],
    )


def _departed_tags(
    last: TagState, match: Match, cells: Tags, vocabulary: Vocabulary
) -> DepartedTags:
    """Return the removed tags that have left the table, and that the vocabulary leaves alone."""
    changed = {*vocabulary.drops, *vocabulary.merges}
    return last.departed_tags(match, ["" if name in changed else name for name in cells.names])


def _without_training(state: TagState) -> TagState:
    """Return a state without the facts about the training of another model."""
    none = np.zeros(0, dtype=np.uint64)
    state = replace(state, trained="", tag_counts={}, profile=FeatureProfile())
    return replace(state, training_rows=none, training_tags=none)


def _training_marks(last: TagState, marks: Marks) -> Marks:
    """Return the marks of the training table; the first table stands for an unknown one."""
    training = Marks(last.training_rows, last.training_tags)
    return training if len(training.rows) else marks


def _is_fresh(marks: Marks, training: Marks, cells: Tags) -> Array:
    """Return a mask of rows whose content or tags differ from training."""
    is_fresh = np.isin(marks.rows, training.rows, invert=True)
    is_fresh[cells.row[np.isin(marks.tags, training.tags, invert=True)]] = True
    return is_fresh


def _summary(ranking: NoisyLabels, last: TagState, match: Match, was_removed: Array) -> RunSummary:
    """Return the figures of a run, compared with the last one."""
    is_open = np.isnan(ranking.answer)
    is_restored = ~ranking.removed & was_removed & is_open
    is_new_removal = ranking.removed & ~was_removed & is_open
    # The first answers that allow removals remove the wrong tags of all earlier nights.
    n_tags = max(1, len(ranking.row))
    new_removal_share = int(is_new_removal.sum()) / n_tags if last.has_limit else 0.0
    return replace(
        RunSummary.from_ranking(ranking),
        earlier_removals=int(was_removed.sum()),
        new_removal_share=new_removal_share,
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


def _tag_losses(last: TagState, match: Match, cells: Tags, vocabulary: Vocabulary) -> _TagLosses:
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


def _losses(
    last: TagState,
    match: Match,
    cells: Tags,
    rows: RowContent,
    vocabulary: Vocabulary,
    tag_column: str,
) -> dict[str, Any]:
    """Return the figures of a run about tags and cells that are gone."""
    losses = _tag_losses(last, match, cells, vocabulary)
    shares = _emptied(last.filled_shares, rows.filled_shares) | {tag_column: losses.emptied}
    return {"lost_share": losses.lost, **_most_emptied(shares)}


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


def _earlier_verdicts(last: TagState, match: Match) -> Array:
    """Return last night's verdict on each tag; tags are new until answers allow removals."""
    verdicts = np.full(len(last.row), KEPT if last.has_limit else NEW)
    verdicts[last.spared] = SPARED
    verdicts[last.removed] = REMOVED
    return np.r_[verdicts, NEW][match.place]


class _Judgement(NamedTuple):
    """Judgements of the model in an update.

    Attributes
    ----------
    rows : int array
        Rows that were judged.
    probability : (m,) float array
        Probability that each tag is right, stored or new.
    departed : Departed
        Tags that have left the table since they were removed.
    missing : MissingTags
        Tags that rows may lack which are new or have changed since last night.
    drift : float or None
        Shift of the features of these rows.
    """

    rows: Array
    probability: Array
    departed: Departed
    missing: MissingTags
    drift: float | None


def _next_state(
    last: TagState,
    rows: RowContent,
    cells: Tags,
    judgement: _Judgement,
    ranking: NoisyLabels,
    spared: Array,
) -> TagState:
    """Return the starting point of the next update: rows, tags, and what was judged of them."""
    marks = marks_of(rows.ids, rows.hashes, cells.names, cells.row, cells.column)
    training = _training_marks(last, marks)
    departed = judgement.departed
    is_departed = np.r_[np.zeros(len(cells.row), bool), np.ones(len(departed), bool)]
    return replace(
        last,
        ids=rows.ids,
        hashes=rows.hashes,
        names=cells.names,
        row=np.r_[cells.row, departed.row],
        column=np.r_[cells.column, departed.column],
        filled_shares=rows.filled_shares,
        is_fresh=_is_fresh(marks, training, cells),
        training_rows=training.rows,
        training_tags=training.tags,
        probability=np.r_[judgement.probability, departed.confidence],
        removed=np.r_[ranking.removed, is_departed[len(cells.row) :]],
        departed=is_departed,
        spared=np.r_[spared, np.zeros(len(departed), bool)],
        has_limit=last.has_limit or ranking.worklist.limit(ranking.precision) > 0,
        is_retrained=False,
    )


def _featureless(judgement: _Judgement, cells: Tags, n_labels: int) -> list[int]:
    """Return the rows in which tags are not judged although the model knows them."""
    is_unjudged = np.isnan(judgement.probability) & (cells.column < n_labels)
    return np.unique(cells.row[is_unjudged]).tolist()


def _unseen(counts: Mapping[str, int], known: Sequence[str]) -> dict[str, int]:
    """Return tags that the model does not know, with their counts, the most frequent first."""
    names = set(known)
    return {name: n for name, n in Counter(counts).most_common() if name not in names}


def _joined_tags(unseen: Mapping[str, int], known: Sequence[str]) -> dict[str, Any]:
    """Return the figures about known tags with another separator between, such as "pan|oven"."""
    names = set(known)

    def is_joined(tag: str, mark: str) -> bool:
        parts = [part.strip() for part in tag.split(mark)]
        return len(parts) > 1 and names >= {*parts}

    # A slash is often part of a name.
    marks = [mark for mark in SEPARATORS if mark != "/"]
    joined = [tag for tag in unseen if any(is_joined(tag, mark) for mark in marks)]
    return {"joined_tags": sum(unseen[tag] for tag in joined), "joined_tag": next(iter(joined), "")}


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
    departed = judgement.departed
    is_known = ~np.isnan(departed.confidence)
    ranking = NoisyLabels.from_arrays(
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
    return ranking.with_departed(
        replace(
            departed,
            confidence=np.where(is_known, departed.confidence, 0.5),
            judged=is_known & often[departed.column],
            answer=np.full(len(departed), np.nan),
        )
    )


def _judge_update(
    model: Any,
    columns: Mapping[str, Sequence[Any]],
    cells: Tags,
    departed: DepartedTags,
    is_blank: Array,
    last: TagState,
    match: Match,
    is_same_model: bool,
) -> _Judgement:
    """Judge new and changed rows, or all rows if the model has changed."""
    is_due = ~match.is_same
    # A tag that is new in its row has no probability yet.
    is_due[cells.row[~match.is_old_tag & is_same_model]] = True
    rows = np.flatnonzero(is_due) if is_same_model else np.arange(cells.n_rows)
    masks = is_due, is_blank
    p, missing, drift = _judge(model, columns, cells, departed, rows, last.profile, *masks)
    n_listed = len(cells.row)
    p, p_departed = p[:n_listed], p[n_listed:]
    if is_same_model:
        stored = np.r_[last.probability, np.nan][match.place]
        p = np.where(match.is_old_tag, stored, p)
        p_departed = last.probability[departed.place]
    p[is_blank[cells.row]] = np.nan
    left = Departed(departed.row, departed.column, p_departed)
    return _Judgement(rows, p, left, missing, drift)


def _judge(
    model: Any,
    columns: Mapping[str, Sequence[Any]],
    cells: Tags,
    departed: DepartedTags,
    rows: Array,
    profile: FeatureProfile,
    is_due: Array,
    is_blank: Array,
) -> tuple[Array, MissingTags, float | None]:
    """Return the probabilities of the tags of some rows, and missing tags and drift of due rows.

    A row is due if it is new or has changed since last night. The tags that have left the table
    follow those that it lists, and are not missing. Those of rows without features are unknown.
    """
    stage(f"judging {len(rows):,} rows")
    n_labels = len(model.label_names_)
    tag_row = np.r_[cells.row, departed.row]
    tag_column = np.r_[cells.column, departed.column]
    p = np.full(len(tag_row), np.nan)
    unlisted = [np.zeros((3, 0))]
    sums = np.zeros(len(profile.columns))
    n_full = 0
    batches = [rows[k : k + _BATCH] for k in range(0, len(rows), _BATCH)]
    for batch in track(batches, "batch"):
        X = model.features_.transform(
            {name: [column[i] for i in batch.tolist()] for name, column in columns.items()}
        )
        method = model.method_
        # Training rows, and copies and edits of them, are judged without themselves.
        P = np.array(method.calibration_.probability(to_numpy(method.held_out_scores(X))))
        is_empty = is_blank[batch] | rows_without_features(X)
        P[is_empty] = np.nan
        index = np.flatnonzero(np.isin(tag_row, batch))
        row = np.searchsorted(batch, tag_row[index])
        column = tag_column[index]
        p[index] = values_of_cells(P, row, column)
        due = np.flatnonzero(is_due[batch])
        Y = np.zeros((len(batch), max(n_labels, int(column.max(initial=0)) + 1)), dtype=bool)
        Y[row, column] = True
        full = due[~is_empty[due]]
        count = int(Y[full].sum())
        best = likeliest_unlisted(P[full], Y[full, :n_labels], np.arange(n_labels), count)
        unlisted.append(np.array([batch[full][best.row], best.column, best.log_odds]))
        if len(full) and profile.columns:
            sums = sums + profile.sums(X[full])
            n_full = n_full + len(full)
    row, column, likely = np.concatenate(unlisted, axis=1)
    order = np.lexsort((column, row))
    row = row[order].astype(np.int64)
    column = column[order].astype(np.int64)
    missing = MissingTags(row, column, likely[order], cells.names)
    return p, missing, profile.drift(sums, n_full)


def _act(ranking: NoisyLabels, was: Array, carried: Carried, is_settled: Array) -> NoisyLabels:
    """Remove tags in addition to the answers; see the module docstring."""
    work = ranking.worklist
    margin = MARGIN * (1 - ranking.precision)
    position = np.full(len(ranking.row), len(work.order))
    position[work.order] = np.arange(len(work.order))
    targets = {NEW: 0.0, KEPT: margin, REMOVED: -margin, SPARED: -margin}
    limits = [work.limit(ranking.precision + target) for target in targets.values()]
    chosen = position < np.array(limits)[was]
    has_answers = len(work.whole.answered) > 0
    was_chosen = (was == REMOVED) | (was == SPARED)
    chosen = np.where(is_settled | (not has_answers), was_chosen, chosen)
    was = was.copy()
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
