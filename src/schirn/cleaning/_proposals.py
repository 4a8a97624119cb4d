"""Propose changes to the list of tags, with the evidence for each.

Candidates come from spelling, from neighbouring mean rows, and from rows that tags share. Each step
costs sparse products, and never a pass over all pairs of tags. Use decides what is proposed: how
similar the rows of two tags are, and how often the tags occur together.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._input import Number, check_same_length
from schirn.cleaning._arguments import check_same_order, read_candidates
from schirn.cleaning._merge_proposals import propose_merges
from schirn.cleaning._relation_proposals import propose_exclusions, propose_implications
from schirn.cleaning._tag_faults import propose_drops, propose_splits
from schirn.cleaning._tag_use import TagUse, unit_rows
from schirn.cleaning.vocabulary import Vocabulary, VocabularyLine, apply_vocabulary
from schirn.exceptions import InputError
from schirn.features import TextFeatures
from schirn.labels.tags import Tags, read_tags

MOST_PROPOSALS = 100

# Maximum share of exclusions among all proposals.
_MOST_EXCLUSIONS = 0.2


def propose_vocabulary(
    tags: Any,
    X: Any = None,
    *,
    vocabulary: Vocabulary | None = None,
    label_names: Sequence[str] | None = None,
    separator: str = ";",
    max_proposals: int = MOST_PROPOSALS,
    used_once: bool = False,
) -> Vocabulary:
    """Propose changes to the list of tags: merge, imply, exclude, drop, split.

    Nothing is changed. Each proposal is a line with its evidence; accept or reject it, and apply
    the accepted lines with `Vocabulary.apply`. Two tags are compared by the rows that list them: by
    the features X and by the other tags of these rows. Without X, synonyms that are not spelled
    alike cannot be distinguished from alternatives, and are not proposed.

    Parameters
    ----------
    tags : 0/1 matrix, DataFrame, list of lists of names, or strings such as "beach;dog"
        Tags of the rows.
    X : sequence of n texts, or array or sparse matrix of shape (n, d), optional
        Features of the rows.
    vocabulary : Vocabulary, optional
        Lines answered before. They come first in the result, and nothing that they decide is
        proposed again.
    label_names : list of str, optional
        Names of the columns of a matrix.
    separator : str, default=";"
        Text between tags.
    max_proposals : int, default=100
        Maximum number of proposals; the best are returned.
    used_once : bool, default=False
        List the tags of a single row after all other proposals, to drop them.

    Returns
    -------
    Vocabulary
        Answered lines, then proposals, the best first; `unlisted` has the other proposals.

    Raises
    ------
    InputError
        If X and the tags differ in their number of rows.

    Examples
    --------
    >>> from schirn.cleaning import propose_vocabulary
    >>> texts = ["steel pan", "iron pan", "oak chair", "chair leg", "red lamp"] * 10
    >>> tags = ["pan;kitchen", "Pan", "chair;oak", "chair", "lamp"] * 10
    >>> for line in propose_vocabulary(tags, texts):
    ...     print(line.action, line.tag, line.target, line.rows, line.rows_target)
    merge Pan pan 10 10
    """
    Number(0, integer=True).check("max_proposals", max_proposals)
    check_same_order(("tags", tags), ("X", X))
    table = read_candidates(tags, label_names, separator, "tags")
    answered = () if vocabulary is None else vocabulary.answered
    if answered:
        table = _after(Vocabulary(answered), table)
    use = TagUse(table, _unit_features(X, table))
    proposals = [*propose_merges(use), *propose_implications(use), *propose_drops(use)]
    proposals += [*propose_splits(use), *propose_exclusions(use)]
    proposals = _undecided(proposals, Vocabulary(answered))
    proposals = _without_second_names(_without_second_fates(proposals))
    best = _best(proposals, max_proposals, used_once)
    listed = {id(line) for line in best}
    unlisted = [line for line in proposals if id(line) not in listed]
    return Vocabulary([*answered, *best], unlisted)


def _after(vocabulary: Vocabulary, tags: Tags) -> Tags:
    """Return the tags after the accepted lines."""
    rows: list[list[str]] = [[] for _ in range(tags.n_rows)]
    for row, column in zip(tags.row.tolist(), tags.column.tolist(), strict=True):
        rows[row].append(tags.names[column])
    return read_tags(apply_vocabulary(vocabulary, rows).rows, None)


def _unit_features(X: Any, tags: Tags) -> sp.csr_array | None:
    """Return the features scaled to rows of unit length; None without features."""
    if X is None:
        return None
    if isinstance(X, str):
        raise InputError("X must hold the text of every row, not one text", parameter="X")
    if getattr(X, "ndim", 1) == 1:
        texts = list(X)
        check_same_length(len(texts), tags.n_rows)
        return TextFeatures(max_characters=0).fit_transform(texts)
    matrix = X if sp.issparse(X) else np.asarray(X)
    check_same_length(matrix.shape[0], tags.n_rows)
    return unit_rows(sp.csr_array(matrix, dtype=np.float32))


def _undecided(lines: list[VocabularyLine], answered: Vocabulary) -> list[VocabularyLine]:
    """Drop proposals that the answers already decide."""
    return [line for line in lines if not answered.decides(line)]


def _without_second_fates(lines: list[VocabularyLine]) -> list[VocabularyLine]:
    """Leave out drops of tags that a merge concerns; a rare one is then no longer used once."""
    merges = [line for line in lines if line.action == "merge"]
    merged = {line.tag for line in merges}
    named = merged | {line.target for line in merges}
    return [
        line
        for line in lines
        if line.action != "drop" or line.tag not in (merged if line.is_sure else named)
    ]


def _without_second_names(lines: list[VocabularyLine]) -> list[VocabularyLine]:
    """Drop proposals about a name that another, confident proposal replaces or drops."""
    merged = {line.tag for line in lines if line.action == "merge" and line.is_sure}
    merged |= {line.tag for line in lines if line.action == "drop" and line.is_sure}
    return [
        line
        for line in lines
        if line.action in ("merge", "drop") or merged.isdisjoint((line.tag, line.target))
    ]


def _best(lines: list[VocabularyLine], count: int, used_once: bool) -> list[VocabularyLine]:
    """Return the best proposals: confident ones, and ones that concern many rows."""

    def merit(line: VocabularyLine) -> tuple[bool, bool, float, float, str, str]:
        affected = line.rows
        if line.action == "imply":
            affected = line.rows - line.both
        elif line.action == "exclude":
            # An exclusion changes no row.
            affected = 0
        gain = line.confidence * math.log2(2 + affected)
        rank = (line.is_used_once, -gain, -line.confidence)
        return not line.is_sure, *rank, line.tag, line.target

    ordered = sorted(lines, key=merit)
    limit = max(1, int(_MOST_EXCLUSIONS * count))
    exclusions = [line for line in ordered if line.action == "exclude"][limit:]
    left_out = {id(line) for line in exclusions}
    left_out |= {id(line) for line in ordered if line.is_used_once and not used_once}
    return [line for line in ordered if id(line) not in left_out][:count]
