"""Sieve that keeps the leave-one-out log-odds of its training rows, for benchmarks of rankings."""

from typing import Any

import numpy as np

from schirn import Sieve


class LeftOutSieve(Sieve):
    """Sieve with one attribute more: `log_odds_`, (n, l), each row left out of its own fit."""

    def _finish(self, fit: Any, Y: np.ndarray) -> None:
        self.log_odds_ = np.asarray(fit.scores, dtype=np.float64)
        super()._finish(fit, Y)
