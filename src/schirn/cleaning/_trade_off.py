"""Removals at different target precisions, computed afterwards from the same answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from schirn._input import Array
from schirn.cleaning.policy import DROP, KEEP
from schirn.cleaning.questions import Worklist

if TYPE_CHECKING:
    from schirn.cleaning.noisy_labels import NoisyLabels

TARGETS = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
# Targets that are tried to find the highest one at which the answers allow removals.
_STEPS = np.arange(0.95, 0.49, -0.05).round(2)


class TradeOff(NamedTuple):
    """Effect of a target precision.

    Attributes
    ----------
    precision : float
        The target.
    removed : int
        Number of tags that would be removed, answered ones included, but not those that only a
        rule removes.
    right_share : float
        Expected share of these tags that are wrong, so rightly removed; NaN if there are none.
    right_share_interval : tuple of two floats
        90% interval of this share.
    wrong_left : float
        Expected number of wrong tags that would be left; NaN if the answers do not allow an
        estimate.
    unanswered : int
        Number of removed tags without an answer.
    unanswered_right_share : float
        Expected share of wrong tags among these; NaN if there are none.
    unanswered_right_share_interval : tuple of two floats
        90% interval of this share.
    wrong_left_interval : tuple of two floats
        Bounds of `wrong_left`, from the 90% intervals of the numbers of wrong tags and of those
        removed; NaN if `wrong_left` is.
    by_rule : int
        Number of tags that only a rule removes, whatever the target. The rule says that they
        should go, not that they are wrong, so no share counts them.
    """

    precision: float
    removed: int
    right_share: float
    right_share_interval: tuple[float, float]
    wrong_left: float
    unanswered: int = 0
    unanswered_right_share: float = np.nan
    unanswered_right_share_interval: tuple[float, float] = (np.nan, np.nan)
    wrong_left_interval: tuple[float, float] = (np.nan, np.nan)
    by_rule: int = 0


def trade_offs(ranking: "NoisyLabels", targets: Sequence[float]) -> list[TradeOff]:
    """Implement `NoisyLabels.trade_off`."""
    return [_trade_off(ranking, float(target)) for target in targets]


def _trade_off(ranking: "NoisyLabels", target: float) -> TradeOff:
    work = ranking.worklist
    by_rule = ranking.removed_by_rule
    chosen = ranking.removals_at(target)
    called_wrong = ranking.at(precision=target).removed & ~chosen
    n_called_wrong = int(called_wrong.sum()) - by_rule
    n_chosen = int(chosen.sum())
    n_removed = n_called_wrong + n_chosen
    n_counted = int((called_wrong & _in_share(ranking)).sum())
    if not n_chosen:
        # Every removed tag was called wrong.
        n_wrong, bounds = _wrong_left(ranking, n_counted, (n_counted, n_counted))
        share = 1.0 if n_removed else np.nan
        return TradeOff(
            precision=target,
            removed=n_removed,
            right_share=share,
            right_share_interval=(share, share),
            wrong_left=n_wrong,
            wrong_left_interval=bounds,
            by_rule=by_rule,
        )
    # `keep_one` may keep some of the top tags; the share of all top tags is used for the others.
    share, share_low, share_high = work.posterior.share_interval(work.whole.limit(target))
    n_right = np.array([share, share_low, share_high]) * n_chosen
    mean, low, high = ((n_called_wrong + n_right) / n_removed).tolist()
    n_counted_right, counted_low, counted_high = (n_counted + n_right).tolist()
    n_wrong, bounds = _wrong_left(ranking, n_counted_right, (counted_low, counted_high))
    return TradeOff(
        precision=target,
        removed=n_removed,
        right_share=mean,
        right_share_interval=(low, high),
        wrong_left=n_wrong,
        unanswered=n_chosen,
        unanswered_right_share=share,
        unanswered_right_share_interval=(share_low, share_high),
        wrong_left_interval=bounds,
        by_rule=by_rule,
    )


def _in_share(ranking: "NoisyLabels") -> Array:
    """Return a mask of the tags that `wrong_share` is about: judged, and without a rule."""
    ruled = [ranking.policy.columns(rule, ranking.label_names) for rule in (KEEP, DROP)]
    return np.asarray(ranking.judged & ~np.isin(ranking.column, np.concatenate(ruled)))


def _wrong_left(
    ranking: "NoisyLabels", n_removed: float, removed_bounds: tuple[float, float]
) -> tuple[float, tuple[float, float]]:
    """Return the expected number of wrong tags in the table that are not removed, and its bounds.

    Parameters
    ----------
    ranking : NoisyLabels
        The ranking with answers.
    n_removed : float
        Expected number of wrong tags among the removed ones that `wrong_share` is about.
    removed_bounds : tuple of two floats
        Bounds of this number.
    """
    work = ranking.worklist.whole
    is_departed = work.usable & (np.arange(len(work.row)) >= len(ranking.row))
    n_departed = float((1 - work.probability[is_departed]).sum())
    mean = ranking.wrong_share * ranking.n_in_share - n_departed - n_removed
    if np.isnan(mean):
        return np.nan, (np.nan, np.nan)
    low, high = (
        share * ranking.n_in_share - n_departed - n
        for share, n in zip(ranking.wrong_share_interval, removed_bounds[::-1], strict=True)
    )
    expected = max(mean, 0.0)
    return expected, (min(max(low, 0.0), expected), max(high, expected))


def first_target(work: Worklist, below: float) -> float | None:
    """Return the highest target below `below` with removals; None if there is none."""
    for target in _STEPS[_STEPS < below].tolist():
        if work.limit(target):
            return float(target)
    return None
