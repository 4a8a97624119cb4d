"""From evidence to verdicts: which tags are removed, whichever ranker judged them."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from schirn._input import Number
from schirn.cleaning.found import NoisyLabels
from schirn.cleaning.limits import least_likely, with_one_left
from schirn.cleaning.ranker import Evidence, RankingTask
from schirn.cleaning.threshold_curve import planted_curve
from schirn.cleaning.trust import assess

PRECISION = 0.9


@dataclass(frozen=True)
class Limits:
    """Limits to the removals, as in `find_noisy_labels`."""

    threshold: float
    precision: float | None
    max_remove_per_row: int | None
    keep_one: bool

    def __post_init__(self) -> None:
        Number(high=1).check("threshold", self.threshold)
        Number(integer=True, none=True).check("max_remove_per_row", self.max_remove_per_row)
        Number(high=1, none=True).check("precision", self.precision)


def decide(task: RankingTask, evidence: Evidence, limits: Limits, method: str) -> NoisyLabels:
    """Decide which tags to remove, as far as planted tags say that they can be trusted.

    Parameters
    ----------
    task : RankingTask
    evidence : Evidence
    limits : Limits
    method : str
        Name of what judged the tags.
    """
    tags, known, judged = task.tags, task.known, evidence.judged
    confidence, threshold = expit(evidence.log_odds), limits.threshold
    doubtful = judged & (known == 0)
    share = evidence.cautious_share
    if share is None:
        share = float((1 - confidence)[doubtful].sum() / max(1, doubtful.sum()))
    trust = assess(
        confidence[doubtful],
        tags.column[doubtful],
        evidence.planted,
        share=share,
        threshold=threshold,
        precision=PRECISION if limits.precision is None else limits.precision,
        label_names=tags.names,
    )
    claimed = evidence.shares.get("wrong_share", share)
    largest = max(claimed, evidence.shares.get("largest_wrong_share", claimed))
    curve = planted_curve(
        confidence[doubtful],
        evidence.planted.confidence,
        threshold=threshold,
        shares=(min(trust.wrong_share, claimed), claimed, largest),
    )
    confidence = np.where(known == 0, confidence, known > 0)
    judged = judged | (known != 0)
    removed = judged & (confidence < threshold)
    if limits.max_remove_per_row is not None:
        removed = least_likely(tags.row, confidence, removed, limits.max_remove_per_row)
    held_back = np.zeros(len(removed), dtype=bool)
    if limits.precision is not None:
        held_back = removed & (confidence >= trust.threshold) & (known == 0)
    removed = (removed & ~held_back) | (known < 0)
    if limits.keep_one:
        removed = with_one_left(tags.row, confidence, removed, known)
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
        annotators=evidence.annotators,
        trust=trust,
        held_back=int(held_back.sum()),
        max_remove_per_row=limits.max_remove_per_row,
        keep_one=limits.keep_one,
        threshold_curve=curve,
        **evidence.shares,
    )
