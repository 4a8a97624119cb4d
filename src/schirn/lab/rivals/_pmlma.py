"""PML-MA, feature-label modal alignment."""

from collections.abc import Hashable
from typing import ClassVar

from schirn._input import Array, Number, declare_parameters, parameter
from schirn.estimators import MethodInfo
from schirn.lab.rivals._anchors import AnchorMethod, AnchorRows
from schirn.lab.rivals.solvers._anchors import AnchorResult
from schirn.lab.rivals.solvers._pmlma import pmlma, weighted_space
from schirn.linalg.row_space import RowSpace


@declare_parameters
class PMLMA(AnchorMethod):
    r"""Low-rank pseudo-labels aligned with features, neighbours and class prototypes.

    .. math::
        \min_{W, R, Q} \; & \|\Phi W - R\|_F^2 + \|Y - R Q^\top\|_F^2 + \lambda \|R\|_*
        + \beta \|\Phi^\top D - V R^\top\|_F^2 + \gamma \|W\|_F^2 \\
        & + \alpha \operatorname{tr}\bigl((\Phi W)^\top D_s \Phi W + R^\top D_s R
        - 2 (\Phi W)^\top S R\bigr) \quad \text{s.t. } R = 0 \text{ where } Y = 0

    Phi is a kernel map of the features, R the pseudo-labels, S a graph of neighbours, and V holds
    the prototype of every label. The two projections of the paper cancel and are not computed.

    The steps follow the released code. It looks up its parameters by data set; here they
    are chosen as for any other method.

    Parameters
    ----------
    lam : float
        Weight of the nuclear norm of the pseudo-labels. Too large a value shrinks them to zero,
        with a ConvergenceWarning.
    alpha : float
        Weight of the neighbour graph.
    beta : float
        Weight of the class prototypes.
    gamma : float
        Ridge weight.
    target_weight : float
        Weight of the candidates in the step of the pseudo-labels. 2, as in the released code, pulls
        all of them to about 1; 1 is what follows from the objective.
    n_anchors : int or None
        Number of training rows drawn as anchors of the kernel map. None is the released rule, up to
        4000: all of fewer than 1000 rows, half of fewer than 5000, a third of fewer than 9000, else
        a quarter.
    n_neighbors : int
        Number of neighbours in the graph.
    max_iter : int
        Maximum number of rounds.
    tol : float
        Stop when the relative fall of the objective, looked at one round later, is below this.
    threshold : float, array or str
        Rule of `predict`: a number (0.5 in the released code, which predicts too many labels under
        much noise), one number per label, "top-3", "row-0.9" or "cardinality".
    random_state : int, RandomState or None
        Seed of the anchors; without effect if all rows are anchors.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    pseudo_labels_ : (n, l) the matrix R; 0 outside the candidates, not limited to 1.
    label_confidence_ : (n, l) probability that a candidate is true, from leave-one-out scores (with
        the pseudo-labels of the other rows fixed), calibrated on the candidates; 0 outside them.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    map_, dual_coef_ : the kernel map, and the weights of its columns.
    objective_ : objective per round, with the lengths of the columns of R in place of the nuclear
        norm, as in the released code.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    The map is factored once. With m anchors a round costs O(n m l + n l^2) and the fit O(n m)
    memory. Features are scaled to [-1, 1], so their units do not matter; sparse ones stay sparse.

    Examples
    --------
    >>> from schirn.lab import PMLMA
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PMLMA().fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.pseudo_labels_[data.candidates == 0] == 0).all())
    True
    """

    lam: float = parameter(10.0, Number())
    alpha: float = parameter(0.01, Number())
    beta: float = parameter(0.01, Number())
    gamma: float = parameter(1.0, Number(open_low=True))
    target_weight: float = parameter(2.0, Number(open_low=True))
    max_iter: int = parameter(50, Number(low=1, integer=True))

    _info: ClassVar = MethodInfo(
        family="low-rank pseudo-labels, aligned with features",
        reference="Feature-Label Modal Alignment for Robust Partial Multi-Label Learning",
        cost="n^2 l",
        memory="n^2",
    )

    def _released_anchors(self, n: int, d: int) -> int:
        share = 1 if n < 1000 else 2 if n < 5000 else 3 if n < 9000 else 4
        return -(-n // share)

    def _ridge(self) -> float:
        return self.gamma

    def _factor(self, rows: AnchorRows, ridge: float) -> RowSpace:
        return weighted_space(rows.Phi, rows.graph, self.alpha, ridge)

    def _factor_key(self) -> Hashable:
        return self.alpha

    def _solve(self, rows: AnchorRows, space: RowSpace, Y: Array) -> AnchorResult:
        return pmlma(space, Y, rows.graph, **self._solver_options(pmlma))
