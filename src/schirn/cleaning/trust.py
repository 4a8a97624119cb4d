"""How far the removals can be trusted: random wrong tags are judged as if they were listed.

A planted tag takes the place of a listed one that is probably wrong, so the row keeps its number of
tags. If a share w of the listed tags is wrong, and wrong tags are caught as often as planted ones,

    precision of the removals = w * (share of planted tags caught) / (share of listed tags flagged).

The share w cannot be known from the tags alone. A cautious one is used, which may be far too small
if the features are weak; then the expected precision is too low, and tags are kept.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from schirn.cleaning.ranker import PlantedTags

Array = np.ndarray

# Below this expected precision, no removal is worth making.
_LEAST_PRECISION = 0.8
# Levels by the caught share if no listed tag is flagged.
_MOST_CAUGHT, _FEW_CAUGHT = 0.5, 0.05
# Half-width of a two-sided 95 % interval in standard errors, and of a one-sided one.
_TWO_SIDED, ONE_SIDED = 1.96, 1.645
_STEPS = 100


class LabelTrust(NamedTuple):
    """How the planted-tag check went for one label.

    Attributes
    ----------
    name : str
    planted : int
        Number of planted tags.
    caught : float
        Share of them below the threshold; NaN if none was planted.
    flagged : float
        Share of the listed and judged tags below the threshold; NaN if none was judged.
    """

    name: str
    planted: int
    caught: float
    flagged: float


class TrustPoint(NamedTuple):
    """How the planted-tag check went at one threshold.

    Attributes
    ----------
    threshold : float
    caught, flagged : float
        Share of the planted tags, and of the listed and judged tags, below the threshold.
    """

    threshold: float
    caught: float
    flagged: float


@dataclass(frozen=True, eq=False)
class Trust:
    """What the planted-tag check says about the removals.

    Attributes
    ----------
    level : {"good", "weak", "none"}
        "good" if the expected precision reaches the target, "weak" if only that of the least likely
        tags does, "none" if the check finds no reason to remove anything.
    sentence : str
        The same in words.
    planted : int
        Number of random wrong tags that were judged.
    caught : float
        Share of the planted tags below the threshold.
    flagged : float
        Share of the listed and judged tags below the threshold.
    ratio : float
        `caught / flagged`; 0 if nothing is flagged.
    wrong_share : float
        Cautious share of wrong tags, from which the precision is computed.
    expected_precision : float
        Expected share of wrong tags among the flagged ones, `min(1, wrong_share * ratio)`.
    threshold : float
        Tags below it may be removed: that of the call if the level is "good", a lower one if it is
        "weak", and 0 if it is "none".
    labels : list of LabelTrust
        The check for each label that was judged.
    curve : list of TrustPoint
        The check at a hundred thresholds between 0 and 1.
    """

    level: str
    sentence: str
    planted: int = 0
    caught: float = 0.0
    flagged: float = 0.0
    ratio: float = 0.0
    wrong_share: float = 0.0
    expected_precision: float = 0.0
    threshold: float = 0.0
    labels: list[LabelTrust] = field(default_factory=list, repr=False)
    curve: list[TrustPoint] = field(default_factory=list, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the check for JSON; NaN becomes None."""
        labels = [
            {key: None if value != value else value for key, value in label._asdict().items()}
            for label in self.labels
        ]
        return {**vars(self), "labels": labels, "curve": [each._asdict() for each in self.curve]}

    def limit(self, share: float) -> float:
        """Largest threshold at which most removals should be right, if `share` is wrong.

        It is 0 if there is none, and 1 if there is no curve.
        """
        if not self.curve:
            return 1.0
        threshold, caught, flagged = np.array(self.curve).T
        low = _lower_limit(caught, self.planted)
        enough = (flagged > 0) & (share * low >= _LEAST_PRECISION * flagged)
        return float(threshold[enough].max(initial=0.0))


def assess(
    confidence: Array,
    column: Array,
    planted: PlantedTags,
    *,
    share: float,
    threshold: float,
    precision: float,
    label_names: list[str],
) -> Trust:
    """Compare planted with listed tags.

    Parameters
    ----------
    confidence, column : ndarray
        Confidence and label of the listed tags that were judged.
    planted : PlantedTags
    share : float
        Cautious share of wrong tags.
    threshold : float
        Tags below it are flagged.
    precision : float
        Precision that the removals should have.
    label_names : list of str
    """
    n, m = len(confidence), len(planted.confidence)
    if not n:
        return Trust("none", "Every tag is too rare or in all rows, so none is judged or removed.")
    below, caught_below = confidence < threshold, planted.confidence < threshold
    if not m:
        return Trust(
            "none",
            "No wrong tag could be planted, so the verdicts cannot be checked; nothing is removed.",
            flagged=float(below.mean()),
            wrong_share=share,
        )
    caught, flagged = float(caught_below.mean()), float(below.mean())
    spread = np.sqrt(caught * (1 - caught) / m + flagged * (1 - flagged) / n)
    if flagged and caught <= flagged + _TWO_SIDED * spread:
        # Wrong tags look like all others, so nothing is known about how many there are.
        share = 0.0
    ratio = caught / flagged if flagged else 0.0
    expected = min(1.0, share * ratio)
    reached = {
        target: _largest_threshold(confidence, planted.confidence, share, threshold, target)
        for target in (precision, min(precision, _LEAST_PRECISION))
    }
    if not flagged:
        level, limit = "none" if caught < _FEW_CAUGHT else "weak", threshold
        if caught >= _MOST_CAUGHT:
            level = "good"
    elif not any(reached.values()):
        level, limit = "none", 0.0
    elif expected >= precision:
        level, limit = "good", threshold
    else:
        level, limit = "weak", reached[precision]
    return Trust(
        level,
        _sentence(level, share, caught, flagged, expected, precision, limit),
        m,
        caught,
        flagged,
        ratio,
        share,
        expected,
        limit,
        _by_label(column, below, planted.column, caught_below, label_names),
        _curve(confidence, planted.confidence),
    )


def _curve(confidence: Array, planted: Array) -> list[TrustPoint]:
    """Shares of planted and of listed tags below quantiles of the latter."""
    listed, planted = np.sort(confidence), np.sort(planted)
    # More steps where few tags are flagged; above the largest confidence, all are.
    limits = np.unique([*np.quantile(listed, np.linspace(0, 1, _STEPS + 1) ** 2), 1.0])
    caught = np.searchsorted(planted, limits) / len(planted)
    flagged = np.searchsorted(listed, limits) / len(listed)
    return [TrustPoint(*map(float, point)) for point in zip(limits, caught, flagged, strict=True)]


def _largest_threshold(
    confidence: Array, planted: Array, share: float, threshold: float, precision: float
) -> float:
    """Largest threshold whose expected precision is clearly high enough; 0 if there is none."""
    below = np.sort(confidence[confidence < threshold])
    if not len(below):
        return 0.0
    steps = below[np.linspace(0, len(below) - 1, min(_STEPS, len(below))).astype(int)]
    limits = np.unique([*steps, threshold])
    flagged = np.searchsorted(below, limits) / len(confidence)
    caught = np.searchsorted(np.sort(planted), limits) / len(planted)
    low = _lower_limit(caught, len(planted))
    enough = (flagged > 0) & (share * low >= precision * flagged)
    return float(limits[enough][-1]) if enough.any() else 0.0


def _lower_limit(share: Array, n: int) -> Array:
    """One-sided lower limit of shares of n tags, by Wilson's score interval."""
    z2 = ONE_SIDED**2
    half = ONE_SIDED * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return np.maximum((share + z2 / (2 * n) - half) / (1 + z2 / n), 0)


def _sentence(
    level: str,
    share: float,
    caught: float,
    flagged: float,
    expected: float,
    precision: float,
    limit: float,
) -> str:
    advice = (
        "nothing is removed. Learn from other columns, from texts, or from the output of an "
        "encoder, or check some tags yourself."
    )
    check = f"{caught:.0%} of planted wrong tags are caught and {flagged:.0%} of the listed tags"
    if not share:
        return f"The features say too little about the tags ({check} are flagged): {advice}"
    if not flagged:
        but = "and" if level == "good" else "but only"
        return (
            f"No listed tag is doubtful enough to be removed, {but} {caught:.0%} of planted wrong "
            f"tags would be caught."
        )
    if level == "good":
        return f"{check} are flagged: about {expected:.0%} of the removals should be right."
    why = (
        f"{check} are flagged, so possibly only {expected:.0%} of the removals would be right, "
        f"less than {precision:.0%}"
    )
    return f"{why}; {'only the least likely tags are removed.' if limit else advice}"


def _by_label(
    column: Array, below: Array, planted: Array, caught: Array, names: list[str]
) -> list[LabelTrust]:
    def share(of: Array, which: Array) -> tuple[Array, Array]:
        total = np.bincount(of, minlength=len(names))
        with np.errstate(invalid="ignore"):
            return total, np.bincount(of, which, minlength=len(names)) / total

    n_listed, flagged = share(column, below)
    n_planted, found = share(planted, caught)
    return [
        LabelTrust(names[j], int(n_planted[j]), float(found[j]), float(flagged[j]))
        for j in np.flatnonzero(n_listed + n_planted)
    ]
