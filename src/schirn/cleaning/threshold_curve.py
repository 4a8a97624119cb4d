"""Expected precision and recall of the removals for every threshold, with bands.

From planted tags: the share of them below a threshold is the recall, and

    precision = (share of wrong tags) * (recall) / (share of listed tags below the threshold).

The share of wrong tags is known only within limits, which make most of the band; the rest is
sampling error and the difference between planted and wrong tags.

From answers of a person: the mean of the calibrated confidences, with a band of Clopper and Pearson
limits. The answers below a threshold are a random sample of the tags there, separately for the tags
that the verdicts called wrong, of which more were drawn, and for the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

from schirn._optional import optional

Array = np.ndarray

_STEPS = 50
_LEVEL = 0.9
# Half-width of a 90 % interval in standard errors.
_Z = 1.645
# Wrong tags are not drawn like planted ones: on the tables of benchmarks/threshold_curve.py, their
# share p below a threshold differs by up to about this times p (1 - p).
_DIFFERENCE = 0.2


class ThresholdPoint(NamedTuple):
    """What to expect if all tags below one threshold are removed.

    Attributes
    ----------
    threshold : float
    removed : int
        Number of judged tags below the threshold, whatever a row may lose.
    precision, precision_low, precision_high : float
        Share of these that are wrong, and a 90 % band; NaN if there are none.
    recall, recall_low, recall_high : float
        Share of the wrong tags that are among these, and a 90 % band.
    """

    threshold: float
    removed: int
    precision: float
    precision_low: float
    precision_high: float
    recall: float
    recall_low: float
    recall_high: float

    @property
    def sentence(self) -> str:
        """The same in words."""
        if not self.removed:
            return f"At a threshold of {self.threshold:.3g}, no tag would be removed."
        tags = "1 tag" if self.removed == 1 else f"{self.removed:,} tags"
        return (
            f"At a threshold of {self.threshold:.3g}, {tags} would be removed: about "
            f"{self.precision:.0%} of these should be wrong ({self.precision_low:.0%} to "
            f"{self.precision_high:.0%}), and about {self.recall:.0%} of all wrong tags would be "
            f"found ({self.recall_low:.0%} to {self.recall_high:.0%})."
        )


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """Expected precision and recall of the removals against the threshold.

    Attributes
    ----------
    points : list of ThresholdPoint
        Sorted by threshold.
    source : {"planted tags", "answers"}
        What the bands are based on.
    """

    points: list[ThresholdPoint]
    source: str

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[ThresholdPoint]:
        return iter(self.points)

    def __repr__(self) -> str:
        return f"ThresholdCurve({len(self)} thresholds, from {self.source})"

    def at(self, threshold: float) -> ThresholdPoint:
        """Return the point whose threshold is closest.

        Parameters
        ----------
        threshold : float
        """
        return min(self.points, key=lambda point: abs(point.threshold - threshold))

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield one dictionary per threshold, for JSON; NaN becomes None."""
        for point in self.points:
            items = point._asdict().items()
            yield {name: None if value != value else value for name, value in items}

    def to_pandas(self) -> Any:
        """Return a DataFrame with one row per threshold."""
        pandas = optional("pandas", "table", "Making a table")
        return pandas.DataFrame(self.points, columns=ThresholdPoint._fields)


def planted_curve(
    confidence: Array,
    planted: Array,
    *,
    threshold: float,
    shares: tuple[float, float, float],
) -> ThresholdCurve | None:
    """Curve from planted tags; None if there are none.

    Parameters
    ----------
    confidence : ndarray
        Confidences of the listed tags that were judged.
    planted : ndarray
        Confidences of the planted wrong tags.
    threshold : float
        The threshold in force, which becomes a point of the curve.
    shares : tuple of three floats
        Share of wrong tags: the smallest that is plausible, the claimed, and the largest.
    """
    n, m = len(confidence), len(planted)
    if not n or not m:
        return None
    at = _thresholds(threshold)
    removed = np.searchsorted(np.sort(confidence), at)
    caught = np.searchsorted(np.sort(planted), at) / m
    flagged = removed / n
    recall_low, recall_high = _wilson(caught, m)
    recall_low = np.maximum(recall_low - _DIFFERENCE * caught * (1 - caught), 0)
    recall_high = np.minimum(recall_high + _DIFFERENCE * caught * (1 - caught), 1)
    flagged_low, flagged_high = _wilson(flagged, n)
    ratios = (recall_low, flagged_high), (caught, flagged), (recall_high, flagged_low)
    with np.errstate(invalid="ignore", divide="ignore"):
        low, precision, high = (
            np.where(removed > 0, np.minimum(share * recall / of, 1), np.nan)
            for share, (recall, of) in zip(shares, ratios, strict=True)
        )
    columns = (at, removed, precision, low, high, caught, recall_low, recall_high)
    return ThresholdCurve(_points(*columns), "planted tags")


def answered_curve(
    confidence: Array,
    called_wrong: Array,
    index: Array,
    answer: Array,
    *,
    threshold: float,
) -> ThresholdCurve | None:
    """Curve from answers; None if there are none.

    Parameters
    ----------
    confidence : ndarray
        Calibrated confidences of the tags that the sample could draw.
    called_wrong : ndarray of bool
        Tags that the verdicts called wrong before the answers.
    index : ndarray
        Tags of the sample that were answered, as indices into these.
    answer : ndarray
        0 for a wrong tag, 1 for a correct one.
    threshold : float
        The threshold in force, which becomes a point of the curve.
    """
    if not len(index):
        return None
    at = _thresholds(threshold)
    order = np.argsort(confidence, kind="stable")
    removed = np.searchsorted(confidence[order], at)
    wrong = np.r_[0, np.cumsum(1 - confidence[order])]
    with np.errstate(invalid="ignore"):
        precision = wrong[removed] / removed
    recall = wrong[removed] / max(wrong[-1], 1e-300)

    # Tags, answers and wrong answers of both strata, below and above every threshold.
    below, above = [], []
    for stratum in (called_wrong, ~called_wrong):
        mine = stratum[index]
        asked, is_wrong = confidence[index[mine]], answer[mine] == 0
        sorted_values = map(np.sort, (confidence[stratum], asked, asked[is_wrong]))
        counts = [(np.searchsorted(values, at), len(values)) for values in sorted_values]
        below.append([count for count, _ in counts])
        above.append([total - count for count, total in counts])
    low, high = _wrong_limits(below)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision_low, precision_high = low / removed, high / removed
    # Both sides hold at once, so that their ratio does.
    (low, high), (least, most) = (_wrong_limits(side, 2) for side in (below, above))
    recall_low, recall_high = low / np.maximum(low + most, 1e-300), high / (high + least + 1e-300)
    return ThresholdCurve(
        _points(
            *(at, removed, precision),
            *(np.fmin(precision_low, precision), np.fmax(precision_high, precision)),
            *(recall, np.minimum(recall_low, recall), np.maximum(recall_high, recall)),
        ),
        "answers",
    )


def _wrong_limits(strata: list[list[Array]], sides: int = 1) -> tuple[Array, Array]:
    """Limits of the number of wrong tags in two strata, by Clopper and Pearson.

    Each stratum has its share of the error probability, and so has each side of the threshold.
    """
    filled = sum((tags > 0).astype(int) for tags, _, _ in strata)
    tail = (1 - _LEVEL) / 2 / np.maximum(filled, 1) / sides
    low, high = np.zeros(len(tail)), np.zeros(len(tail))
    for tags, n, wrong in strata:
        with np.errstate(invalid="ignore"):
            low += tags * np.where(wrong > 0, beta.ppf(tail, wrong, n - wrong + 1), 0)
            high += tags * np.where(wrong < n, beta.ppf(1 - tail, wrong + 1, n - wrong), 1)
    return low, high


def _wilson(share: Array, n: int) -> tuple[Array, Array]:
    """Wilson's score interval of a share among n."""
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n * n)) / (1 + _Z**2 / n)
    # Rounding must not leave the share outside.
    return np.minimum(middle - half, share).clip(0), np.maximum(middle + half, share).clip(max=1)


def _thresholds(threshold: float) -> Array:
    steps = np.arange(1, _STEPS) / _STEPS
    return np.unique(np.r_[steps[np.abs(steps - threshold) > 1e-9], threshold])


def _points(*columns: Array) -> list[ThresholdPoint]:
    lists = (column.tolist() for column in columns)
    return [ThresholdPoint(*values) for values in zip(*lists, strict=True)]
