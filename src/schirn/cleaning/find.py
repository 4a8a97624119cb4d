"""Rank the tags of a table: read them, choose a ranker and a storage, rank."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from schirn._checkpoint import kept_in, section
from schirn._files import brief
from schirn._input import Array, Number, OneOf, check_values, is_missing, location
from schirn._progress import current, shown
from schirn.cleaning._arguments import (
    check_container,
    check_same_order,
    check_single,
    checked_features,
    read_candidates,
)
from schirn.cleaning._model_rankers import FoldRanker, SieveRanker
from schirn.cleaning._ranked import MissingTags, RankedTags
from schirn.cleaning._rounds import Answers
from schirn.cleaning._storage import Storage, bring, check_on_workers, choose_storage, size_of
from schirn.cleaning._text_ranker import TextRanker
from schirn.cleaning.centroid_ranker import CentroidRanker
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.policy import PRECISION, Policy
from schirn.cleaning.ranker import (
    MIN_COUNT,
    Evidence,
    Ranker,
    RankingTask,
    UnlistedCells,
    check_evidence,
    rows_without_features,
)
from schirn.cleaning.relation_ranker import RelationRanker
from schirn.cleaning.vocabulary import Vocabulary
from schirn.estimators import OracleRidge, PartialMultiLabelClassifier, Sieve
from schirn.exceptions import InputError
from schirn.features.pipeline import make_method
from schirn.labels.known import known_tags, read_cells, read_prior
from schirn.labels.tags import Tags
from schirn.labels.votes import Votes
from schirn.linalg.features import has_unit_rows
from schirn.scale.cluster import kind_of_blocks
from schirn.scale.memory import memory_limit
from schirn.scale.row_file import RowFile
from schirn.solvers.feature_ridges import MOST_STACKED

# Above this number of labels, Sieve ignores how labels occur together; centroids are faster and
# as good.
MANY_LABELS = MOST_STACKED
# Sieve ranks the tags of texts best after two rounds.
TEXT_ROUNDS = 2
# Above this number of labels, labels in fewer than `min_count` rows are not ranked as missing
# either: there may be many times more of them than of the others.
_MANY_RARE = 1000
# Above this number of cells, no missing tags are ranked.
_MOST_CELLS = 50_000_000


def find_noisy_labels(
    X: Any,
    candidates: Any,
    *,
    method: Any = None,
    cv: Any = None,
    precision: float = PRECISION,
    keep_one: bool = True,
    known: Any = None,
    known_clean: Any = None,
    prior: Any = None,
    votes: Any = None,
    opinions: Any = None,
    vocabulary: Vocabulary | None = None,
    groups: Any = None,
    min_count: int = MIN_COUNT,
    scaled: bool = False,
    max_memory: float | None = None,
    label_names: Sequence[str] | None = None,
    separator: str = ";",
    random_state: int | None = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> NoisyLabels:
    """Rank every tag of every row by how likely it is to be correct.

    Nothing is removed and nothing is claimed: ask a person about some `questions` of the result,
    and pass the answers to `answered`. No row influences its own ranks. See "Clean my tags"
    (docs/cleaning.md) for examples and for details of the arguments.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or DataFrame of numbers, or sequence of n texts
        Features of the rows; also a `schirn.scale.RowFile`, tensors on a GPU or Dask blocks.
    candidates : (n, l) 0/1 array, sparse matrix or DataFrame, or sequence of n lists or strings
        Tags of the rows: a matrix, lists of names, or strings such as "beach;dog". Rows are matched
        by position; a pandas index with the values of another argument's in another order is an
        error.
    method : Ranker, estimator, class or str, optional
        None selects `Sieve`, a `TextRanker` for texts, or a `CentroidRanker` for more than 3,000
        labels.
    cv : int, splitter or iterable of (train, test) row indices, optional
        Folds. By default `Sieve` is fitted once, and other methods in five folds.
    precision : float, default=0.9
        Share of the removals that should be right according to the answers.
    keep_one : bool, default=True
        True keeps at least one tag per row that nobody called wrong.
    known : (n, l) array, sparse matrix or DataFrame, optional
        1 for tags known to be correct, -1 for tags known to be wrong, 0 for the others.
    known_clean : (n,) or (n, l) bool array, optional
        Rows, or cells, whose tags are all correct.
    prior : (n, l) array, sparse matrix or DataFrame, optional
        Prior probabilities; their odds multiply the ranker's odds.
    votes : Votes or (counts, voters), optional
        Result of `votes_to_candidates`, or votes for each cell and the number of voters.
    opinions : array, dict, DataFrame or iterable of (row, tag, opinion, who), optional
        Second opinions about some tags; see `NoisyLabels.with_opinions`.
    vocabulary : Vocabulary, optional
        If given, even without lines, the other tags of a row count for or against a tag, as far as
        the table shows that they go together. Accepted implications and exclusions count in full,
        rejected ones not at all. Apply the other lines first (`Vocabulary.apply`).
    groups : sequence of n values, optional
        Rows with the same value are left out together.
    min_count : int, default=5
        Tags listed in fewer rows than this, or in all rows, are kept with the verdict "unjudged".
    scaled : bool, default=False
        True leaves X unscaled. Texts and sparse rows of length 1 are never scaled.
    max_memory : float, optional
        Memory limit in gigabytes. Larger data go to temporary files where possible; otherwise an
        error is raised.
    label_names : sequence of str, optional
        Names of the columns of a matrix.
    separator : str, default=";"
        Text between the tags of a cell such as "beach;dog".
    random_state : int, default=0
        Seed of all random choices.
    checkpoint : path, optional
        Folder for the state of a long run. A killed run resumes from it; the folder is removed
        when the run ends.
    verbose : bool, default=False
        Show progress on stderr.

    Returns
    -------
    NoisyLabels
        All listed tags with their confidence, and the likeliest missing tags. It asks questions,
        takes answers, and applies the changes that the answers justify.

    Raises
    ------
    InputError
        If features and tags do not match, or an argument is invalid.

    Examples
    --------
    >>> from schirn import find_noisy_labels
    >>> colours = ["red", "blue", "green", "white", "black", "grey", "brown", "pink"]
    >>> things = ["pan", "steel pan", "chair", "oak chair"]
    >>> titles = [f"{colour} {thing}" for colour in colours for thing in things]
    >>> tags = [["pan"], ["pan"], ["chair"], ["chair"]] * 8
    >>> tags[0] = ["chair"]
    >>> ranking = find_noisy_labels(titles, tags)
    >>> suspects = ranking.suspects(1)
    >>> int(suspects.row[0]), str(suspects.label[0])
    (0, 'chair')
    >>> bool(ranking.removed.any())
    False
    """
    Number(0, high=1, open_low=True).check("precision", precision)
    Number(open_low=True, none=True).check("max_memory", max_memory)
    Number(high=2**32 - 1, integer=True, none=True).check("random_state", random_state)
    for name, flag in (("keep_one", keep_one), ("scaled", scaled), ("verbose", verbose)):
        OneOf((True, False)).check(name, flag)
    _check_names(label_names)
    knowledge = {"known": known, "known_clean": known_clean, "votes": votes, "groups": groups}
    for name, value in {"X": X, "candidates": candidates, **knowledge, "prior": prior}.items():
        check_container(name, value)
    _check_texts(X, candidates)
    _check_order(X, candidates, {**knowledge, "prior": prior})
    tags = _read(candidates, label_names, separator, votes)
    task = _ranking_task(tags, knowledge, min_count, random_state)
    X, ranker = _features_and_ranker(X, task, method, cv, scaled)
    # A prior and votes are evidence that needs no features; dense rows of zeros have features.
    needs_features = prior is None and votes is None and sp.issparse(X)
    is_empty = rows_without_features(X) if needs_features else None
    if vocabulary is not None:
        ranker = RelationRanker(ranker, vocabulary)
    with memory_limit(max_memory):
        X, storage = _store(X, task, ranker, {**knowledge, "cv": cv, "checkpoint": checkpoint})
        folder = ranker.checkpoint if checkpoint is None else checkpoint
        with kept_in(folder), shown(f"judging {len(tags.row):,} tags", verbose):
            evidence = _compute_evidence(ranker, X, task, storage)
    evidence = _add_prior(evidence, prior, task)
    if is_empty is not None:
        evidence = _only_rows_with_features(evidence, tags.row, is_empty)
    ranked = _ranked_tags(evidence, task, ranker.name, storage)
    index = candidates.index if hasattr(candidates, "iloc") else None
    ranked = replace(ranked, index=index)
    missing = _missing(evidence, known, tags)
    policy = Policy().at(precision, keep_one)
    ranking = NoisyLabels(ranked, Answers.none(len(ranked.row)), missing, policy)
    return ranking if opinions is None else ranking.with_opinions(opinions)


def _check_texts(X: Any, candidates: Any) -> None:
    """Raise InputError for one value instead of a column, or tags among the features."""
    for argument, value, what in (("X", X, "features"), ("candidates", candidates, "tags")):
        if isinstance(value, str):
            raise InputError(
                f"{argument} must hold the {what} of every row, not the text {brief(value)}; pass "
                f"the column itself",
                parameter=argument,
            )
        if value is None or np.isscalar(value):
            raise InputError(
                f"{argument} must hold the {what} of every row, not {brief(value)}",
                parameter=argument,
            )
    name = getattr(candidates, "name", None)
    if name is not None and name in list(getattr(X, "columns", ())):
        raise InputError(
            f"X has the column {name!r}, which holds the tags; leave it out of the features",
            parameter="X",
        )


def _check_order(X: Any, candidates: Any, knowledge: dict[str, Any]) -> None:
    """Raise InputError if pandas arguments have the same rows in another order."""
    check_same_order(("X", X), ("candidates", candidates), *knowledge.items())
    check_same_order(("candidates", candidates), *knowledge.items())


def _check_names(label_names: Any) -> None:
    """Raise InputError for a name that is missing or blank; the tags' reader compares them."""
    if label_names is None:
        return
    names = [label_names] if isinstance(label_names, str) else list(label_names)
    bad = [name for name in names if is_missing(name) or not str(name).strip()]
    if bad or isinstance(label_names, str):
        raise InputError(
            f"label_names must hold one name per label, not {brief(bad[0] if bad else names[0])}",
            parameter="label_names",
        )


def _read(candidates: Any, label_names: Sequence[str] | None, separator: str, votes: Any) -> Tags:
    """Read the tags; tags without names take the names of the votes."""
    is_nameless = getattr(candidates, "ndim", 0) == 2 and not hasattr(candidates, "columns")
    if label_names is None and isinstance(votes, Votes) and is_nameless:
        label_names = votes.label_names
    tags = read_candidates(candidates, label_names, separator)
    if not len(tags.row):
        raise InputError("no row has a tag, so there is nothing to clean")
    return tags


def _ranking_task(
    tags: Tags, knowledge: dict[str, Any], min_count: int, random_state: int | None
) -> RankingTask:
    Number(1, integer=True).check("min_count", min_count)
    groups = knowledge["groups"]
    return RankingTask(
        tags,
        _columns_to_rank(tags, min_count),
        known_tags(knowledge["known"], knowledge["known_clean"], tags),
        knowledge["votes"],
        None if groups is None else group_numbers(groups, tags.n_rows),
        min_count,
        # As many as are listed, but none in very large tables.
        n_unlisted=len(tags.row) if np.prod(tags.shape, dtype=float) <= _MOST_CELLS else None,
        random_state=random_state,
    )


def group_numbers(groups: Iterable[Any], n: int) -> Array:
    """Number the groups in sorted order; a row without a group becomes its own group.

    Parameters
    ----------
    groups : iterable of n values
        Group of each row; a missing value means none.
    n : int
        Number of rows.

    Returns
    -------
    (n,) int array
    """
    values = list(groups)
    if len(values) != n:
        raise InputError(f"groups has {len(values)} values for {n} rows; give one per row")
    try:
        distinct = {value for value in values if not is_missing(value)}
        ordered = sorted(distinct, key=lambda value: (isinstance(value, str), value))
    except TypeError:
        raise InputError("groups must hold one text or number per row, not lists") from None
    number = {value: k for k, value in enumerate(ordered)}
    unused = count(len(number))
    return np.array([next(unused) if is_missing(value) else number[value] for value in values])


def _features_and_ranker(
    X: Any, task: RankingTask, method: Any, cv: Any, scaled: bool
) -> tuple[Any, Ranker]:
    """Read the features and choose the ranker."""
    X, is_text = checked_features(X)
    sparse = sp.issparse(X)
    where = location(X)
    is_scaled = scaled or is_text or has_unit_rows(X)
    if where == "dask" and is_scaled:
        sparse = is_text or kind_of_blocks(X) == "sparse"
    return X, choose_ranker(method, task, cv, where=where, scaled=is_scaled, sparse=sparse)


def _ranked_tags(
    evidence: Evidence, task: RankingTask, method: str, storage: Storage
) -> RankedTags:
    tags = task.tags
    return RankedTags(
        n_rows=tags.n_rows,
        label_names=tags.names,
        row=tags.row,
        column=tags.column,
        model_confidence=np.asarray(expit(evidence.log_odds)),
        judged=evidence.judged | (task.known != 0),
        method=method,
        known=task.known,
        planted_confidence=expit(evidence.planted[~np.isnan(evidence.planted)]),
        annotators=evidence.annotators,
        storage=storage,
    )


def _columns_to_rank(tags: Tags, min_count: int) -> Array:
    """Return labels listed in some rows but not all; with very many labels, only frequent ones."""
    varies = (tags.counts > 0) & (tags.counts < tags.n_rows)
    if varies.sum() > _MANY_RARE:
        varies &= tags.counts >= min_count
    return np.flatnonzero(varies)


def choose_ranker(
    method: Any,
    task: RankingTask,
    cv: Any = None,
    *,
    where: str = "memory",
    scaled: bool = False,
    sparse: bool = False,
) -> Ranker:
    """Choose the ranker that judges the tags.

    Parameters
    ----------
    method : Ranker, estimator, class, str or None
        As in `find_noisy_labels`.
    task : RankingTask
        The tags to judge.
    cv : int, splitter or iterable, optional
        Folds; None leaves the choice to the library.
    where : {"memory", "files", "device", "dask"}
        Where the features are stored.
    scaled, sparse : bool
        Whether `Sieve`, if chosen here, leaves the features unscaled, and whether they are sparse,
        as the features of texts are.

    Returns
    -------
    Ranker
    """
    if isinstance(method, type) and not issubclass(method, PartialMultiLabelClassifier):
        method = method()
    if isinstance(method, Ranker):
        if cv is not None:
            raise InputError(f"{method.name} does not use cv; leave it out", parameter="cv")
        return method
    if method is None and cv is None and task.votes is None and where != "device":
        if len(task.judged_columns) > MANY_LABELS and where != "dask":
            return CentroidRanker()
        if scaled and sparse:
            return TextRanker()
    if not (method is None or isinstance(method, str | type | PartialMultiLabelClassifier)):
        if not hasattr(method, "fit") or not hasattr(method, "predict_proba"):
            raise InputError(
                f"method must be a method of this library or its name, a Ranker, or a classifier "
                f"that has predict_proba, not {method!r}",
                parameter="method",
            )
        return FoldRanker(method, cv)
    model = make_method(method, scaled=scaled, sparse=sparse)
    is_ours = isinstance(model, Sieve) and not isinstance(method, Sieve)
    if is_ours and scaled and sparse:
        model.set_params(max_iter=TEXT_ROUNDS)
    if isinstance(model, OracleRidge):
        raise InputError(
            "OracleRidge needs the true labels; choose another method", parameter="method"
        )
    if not isinstance(model, Sieve) or cv is not None:
        return FoldRanker(model, cv)
    # With many dense rows, Sieve can only leave out single rows, not groups.
    ranker = SieveRanker(model)
    leaves_groups_out = task.groups is None or model.leaves_groups_out(task.tags.n_rows, sparse)
    return ranker if leaves_groups_out else FoldRanker(model)


def _store(
    X: Any, task: RankingTask, ranker: Ranker, arguments: dict[str, Any]
) -> tuple[Any, Storage]:
    """Choose a storage for the features, and move them there."""
    needs = ranker.needs(task)
    storage = choose_storage(size_of(X), location(X), needs)
    if storage.name == "workers":
        check_on_workers(ranker.name, needs, arguments)
        return X, storage
    X = bring(X, storage)
    if len(X.shape) != 2 or X.shape[0] != task.tags.n_rows:
        raise InputError(f"X has shape {X.shape}, but there are tags for {task.tags.n_rows} rows")
    if location(X) == "memory":
        # A model would report the row number within its fold.
        check_values(X)
        check_single(X)
    return X, storage


def _compute_evidence(ranker: Ranker, X: Any, task: RankingTask, storage: Storage) -> Evidence:
    """Rank the tags where the rows are stored."""
    if task.votes is not None and not ranker.takes_votes:
        raise InputError(
            f"{ranker.name} takes no votes here: votes are used in a single fit, not in folds; use "
            f"Sieve without cv, and without groups if there are many rows, or votes.prior as prior",
            parameter="votes",
        )
    display = current()
    if display is not None and storage.is_short_of_memory:
        display.say(storage.reason)
    options = {"votes": task.votes, "min_count": task.min_count, "seed": task.random_state}
    tags = task.tags
    data = (X, tags.row, tags.column, task.columns, task.known, task.groups)
    with section("find_noisy_labels", {**options, **ranker.settings()}, *data):
        if storage.name == "blocks" and location(X) == "memory":
            X = RowFile(X)
        return check_evidence(ranker.rank(X, task), task, ranker.name)


def _add_prior(evidence: Evidence, prior: Any, task: RankingTask) -> Evidence:
    """Add the log-odds of the prior to the evidence about each tag."""
    if prior is None:
        return evidence
    z = logit(np.clip(read_prior(prior, task.tags), 1e-6, 1 - 1e-6))
    # A planted tag has the prior of the tag that it replaces.
    planted = evidence.planted + z[task.replaced(evidence.log_odds)]
    return evidence._replace(log_odds=evidence.log_odds + z, planted=planted)


def _only_rows_with_features(evidence: Evidence, row: Array, is_empty: Array) -> Evidence:
    """Return the evidence without that about rows without features, which is none."""
    is_judged = evidence.judged & ~is_empty[row]
    log_odds = np.where(is_judged, evidence.log_odds, 0.0)
    unlisted = evidence.unlisted
    if unlisted is not None:
        has_features = ~is_empty[unlisted.row.astype(np.int64)]
        unlisted = UnlistedCells(*(values[has_features] for values in unlisted))
    return evidence._replace(judged=is_judged, log_odds=log_odds, unlisted=unlisted)


def _missing(evidence: Evidence, known: Any, tags: Tags) -> MissingTags:
    """Rank the tags that are not listed, without those known to be wrong."""
    if evidence.unlisted is None:
        return MissingTags(label_names=tags.names)
    row, column, log_odds = evidence.unlisted
    if known is not None:
        possible = read_cells(known, tags.names, "known").reshape(tags.shape)[row, column] >= 0
        row = row[possible]
        column = column[possible]
        log_odds = log_odds[possible]
    order = np.lexsort((column, row))
    return MissingTags(row[order], column[order], np.asarray(expit(log_odds[order])), tags.names)
