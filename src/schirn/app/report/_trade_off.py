"""Plot of the trade-off: number of removed tags at each target precision."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schirn.cleaning import NoisyLabels, TradeOff

# Size of the drawing, in its own units; bars stand on the base line.
WIDTH = 480
HEIGHT = 200
_TOP = 24
_BASE = 172
_BAR_SHARE = 0.6


@dataclass(frozen=True)
class Bar:
    """One target, as a bar as high as the number of removed tags.

    Attributes
    ----------
    line : TradeOff
        Effect of the target.
    x, y : float
        Upper left corner.
    width, height : float
        Size; targets that remove nothing have no height.
    is_chosen : bool
        True for the target of the ranking.
    """

    line: "TradeOff"
    x: float
    y: float
    width: float
    height: float
    is_chosen: bool

    @property
    def middle(self) -> float:
        """Horizontal centre, for the captions of the bar."""
        return self.x + self.width / 2

    @property
    def wrong_left(self) -> str:
        """Bounds of the number of wrong tags left, in words, with no more digits than they have."""
        if math.isnan(self.line.wrong_left):
            return "unknown"
        bounds = self.line.wrong_left_interval
        low, high = (f"{float(f'{round(n):.2g}'):,.0f}" for n in bounds)
        return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class TradeOffPlot:
    """Bars of all targets, the strictest first.

    Attributes
    ----------
    bars : list of Bar
        One bar per target.
    precision : float
        Target of the ranking.
    width, height, base : int
        Size of the drawing, and vertical position of the base line.
    """

    bars: list[Bar]
    precision: float
    width: int = WIDTH
    height: int = HEIGHT
    base: int = _BASE

    @classmethod
    def of(cls, ranking: "NoisyLabels") -> "TradeOffPlot | None":
        """Return the plot of a ranking; None without answers, or if no target removes anything.

        Parameters
        ----------
        ranking : NoisyLabels
            The ranking.

        Returns
        -------
        TradeOffPlot or None
        """
        if not ranking.n_answers or not ranking.is_checked:
            return None
        lines = ranking.trade_off()
        if ranking.precision not in [line.precision for line in lines]:
            lines += ranking.trade_off([ranking.precision])
            lines.sort(key=lambda line: -line.precision)
        highest = max(line.removed for line in lines)
        if not highest:
            return None
        step = WIDTH / len(lines)
        width = _BAR_SHARE * step
        bars = []
        for k, line in enumerate(lines):
            height = (_BASE - _TOP) * line.removed / highest
            x = k * step + (step - width) / 2
            is_chosen = line.precision == ranking.precision
            bars.append(Bar(line, x, _BASE - height, width, height, is_chosen))
        return cls(bars, ranking.precision)
