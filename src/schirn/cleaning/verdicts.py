"""From confidences to verdicts: which tags are removed, whichever way they were judged."""

from typing import Any, NamedTuple

import numpy as np

from schirn.cleaning.found import Annotator, MissingTags, NoisyLabels
from schirn.cleaning.limits import least_likely, with_one_left
from schirn.cleaning.threshold_curve import planted_curve
from schirn.cleaning.trust import Planted, assess
from schirn.labels.tags import Tags

Array = np.ndarray

PRECISION = 0.9


class Verdicts(NamedTuple):
    """What a model says about all tags, before known tags."""

    confidence: Array
    judged: Array
    shares: dict[str, Any]
    missing: tuple[Array, Array, Array] | None
    """Row, column and confidence of the tags to suggest."""
    missing_caught: float
    """Share of the correct tags that would be suggested if they were not listed."""
    planted: Planted
    cautious_share: float | None
    """Cautious share of wrong tags; None if the method has none but the one it claims."""
    vote_model: Any = None


def decide(
    tags: Tags,
    verdicts: Verdicts,
    certain: Array,
    *,
    method: str,
    threshold: float,
    precision: float | None,
    max_remove_per_row: int | None,
    keep_one: bool,
    missing: MissingTags | None = None,
    annotators: list[Annotator] | None = None,
) -> NoisyLabels:
    """Decide which tags to remove, as far as planted tags say that they can be trusted.

    Parameters
    ----------
    tags : Tags
        Sorted by row.
    verdicts : Verdicts
    certain : ndarray
        What is known about each tag: 1 correct, -1 wrong, 0 nothing.
    method : str
        Name of what judged the tags.
    threshold, precision, max_remove_per_row, keep_one
        As in `find_noisy_labels`.
    missing : MissingTags, optional
    annotators : list of Annotator, optional
    """
    confidence, judged, planted = verdicts.confidence, verdicts.judged, verdicts.planted
    doubtful = judged & (certain == 0)
    share = verdicts.cautious_share
    if share is None:
        share = float((1 - confidence)[doubtful].sum() / max(1, doubtful.sum()))
    trust = assess(
        confidence[doubtful],
        tags.column[doubtful],
        planted,
        share=share,
        threshold=threshold,
        precision=PRECISION if precision is None else precision,
        label_names=tags.names,
    )
    claimed = verdicts.shares.get("wrong_share", share)
    curve = planted_curve(
        confidence[doubtful],
        planted.confidence,
        threshold=threshold,
        shares=(
            min(trust.wrong_share, claimed),
            claimed,
            max(claimed, verdicts.shares.get("largest_wrong_share", claimed)),
        ),
    )
    confidence = np.where(certain == 0, confidence, certain > 0)
    judged = judged | (certain != 0)
    removed = judged & (confidence < threshold)
    if max_remove_per_row is not None:
        removed = least_likely(tags.row, confidence, removed, max_remove_per_row)
    held_back = np.zeros(len(removed), dtype=bool)
    if precision is not None:
        held_back = removed & (confidence >= trust.threshold) & (certain == 0)
    removed = (removed & ~held_back) | (certain < 0)
    if keep_one:
        removed = with_one_left(tags.row, confidence, removed, certain)
    return NoisyLabels(
        n_rows=tags.n_rows,
        label_names=tags.names,
        row=tags.row,
        column=tags.column,
        confidence=confidence,
        removed=removed,
        judged=judged,
        threshold=float(threshold),
        method=method,
        missing=MissingTags() if missing is None else missing,
        annotators=annotators,
        trust=trust,
        held_back=int(held_back.sum()),
        max_remove_per_row=max_remove_per_row,
        keep_one=keep_one,
        threshold_curve=curve,
        **verdicts.shares,
    )
