"""Ridge regression in the row space of X, with its leave-one-out scores."""

from dataclasses import dataclass

import numpy as np

from schirn._input import Array
from schirn.linalg.row_space import RowSpace


@dataclass(frozen=True, eq=False)
class RidgeResult:
    """Coordinates w of the weights in the row space, and two kinds of training scores."""

    w: Array
    scores: Array
    loo_scores: Array
    objective: float


def ridge(space: RowSpace, Y: Array, lam: float) -> RidgeResult:
    """Minimise ||X W - Y||_F^2 + lam ||W||_F^2 over W.

    The leave-one-out scores are exact: row i is scored by the solution without row i.
    """
    w = space.ridge(space.project(Y), lam)
    scores = space.expand(w)
    loss = np.sum((scores - Y) ** 2, dtype=np.float64)
    objective = float(loss + lam * np.sum(space.penalty[:, None] * w**2, dtype=np.float64))
    return RidgeResult(w, scores, space.leave_one_out(Y, scores, lam), objective)
