"""PML-PLR, pseudo-label reconstruction."""

import warnings
from typing import ClassVar, Literal

from sklearn.utils import check_random_state

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators import MethodInfo
from schirn.exceptions import ApproximationWarning
from schirn.lab.rivals._anchors import AnchorMethod, AnchorRows
from schirn.lab.rivals.solvers._anchors import AnchorResult
from schirn.lab.rivals.solvers._pmlplr import pmlplr
from schirn.linalg.row_space import RowSpace, row_space

MOST_RECONSTRUCTED = 4000


@declare_parameters
class PMLPLR(AnchorMethod):
    r"""Pseudo-labels from rotated candidates, neighbours and a reconstruction from near rows.

    .. math::
        \min \; & \|\Phi W - F\|_F^2 + \|Q^\top Y - F\|_F^2 + \beta \operatorname{tr}(F^\top C L F)
        + \lambda \|W\|_F^2 \\
        & + \|Y - C H^\top P\|_F^2 + \operatorname{tr}(G C^\top) + \alpha \|Y - H^\top P\|_1

    over W, F with 0 <= F <= Y, an orthogonal Q, C with rows on the simplex, and H'P of lower rank
    than Y. Phi is a kernel map of the features, L the Laplacian of a graph of neighbours, and G
    holds squared distances.

    The steps follow the released code, except for one sign in the step of H. It looks up
    its parameters by data set; here they are chosen as for any other method.

    Parameters
    ----------
    alpha : float
        Weight of the entries of Y - H'P.
    beta : float
        Weight of the neighbour graph.
    lam : float
        Ridge weight.
    ratio : float
        Rank of H'P as a share of the number of labels.
    reconstruct : {"auto", True, False}
        False leaves out C, H and P (the second line of the objective) and keeps F between 0 and Y,
        which the released step does not do. It predicts as well on the data of the check, and takes
        no time that grows with the square of the number of rows. "auto" is True for up to 4000
        rows, and False with an ApproximationWarning for more.
    mu : float
        Weight of the copy of Y - H'P.
    n_anchors : int or None
        Number of training rows drawn as anchors of the kernel map. None is the released rule, up to
        4000: five times the number of features.
    n_neighbors : int
        Number of neighbours in the graph.
    max_iter : int
        Maximum number of rounds. The objective soon stalls or rises, so the rounds act as early
        stopping.
    tol : float
        Stop from round 6 on when the relative fall of the objective is below this value.
    threshold : float, array or str
        Rule of `predict`: a number (0.5 in the released code), one number per label, "top-3",
        "row-0.9" or "cardinality".
    random_state : int, RandomState or None
        Seed of the anchors and of the first H and P.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    pseudo_labels_ : (n, l) the matrix F; 0 outside the candidates. With the reconstruction some
        entries leave [0, 1].
    label_confidence_ : (n, l) probability that a candidate is true, from leave-one-out scores (with
        the pseudo-labels of the other rows fixed), calibrated on the candidates; 0 outside them.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    map_, dual_coef_ : the kernel map, and the weights of its columns.
    objective_ : objective per round.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    The map is factored once. With m anchors a round costs O(n m l + n l^2), and O(n^2 l) more with
    the reconstruction, whose C is sparse; the fit takes O(n m) memory. Features are scaled to
    [-1, 1], so their units do not matter; sparse ones stay sparse.

    Examples
    --------
    >>> from schirn.lab import PMLPLR
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PMLPLR(reconstruct=False).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.pseudo_labels_ <= data.candidates).all())
    True
    """

    alpha: float = parameter(0.1, Number())
    beta: float = parameter(0.1, Number())
    lam: float = parameter(1.0, Number(open_low=True))
    ratio: float = parameter(0.8, Number(open_low=True, high=1.0))
    reconstruct: Literal["auto", True, False] = parameter("auto", OneOf(("auto", True, False)))
    mu: float = parameter(1e3, Number(open_low=True))
    max_iter: int = parameter(40, Number(low=1, integer=True))

    _info: ClassVar = MethodInfo(
        family="pseudo-labels reconstructed from near rows",
        reference="Pseudo-Label Reconstruction for Partial Multi-Label Learning",
        cost="n^2 l",
        memory="n min(n, 5 d)",
    )

    def _released_anchors(self, n: int, d: int) -> int:
        return min(5 * d, n)

    def _ridge(self) -> float:
        return self.lam

    def _factor(self, rows: AnchorRows, ridge: float) -> RowSpace:
        return row_space(rows.Phi, ridge=ridge)

    def _solve(self, rows: AnchorRows, space: RowSpace, Y: Array) -> AnchorResult:
        n = len(Y)
        reconstruct = n <= MOST_RECONSTRUCTED if self.reconstruct == "auto" else self.reconstruct
        if self.reconstruct == "auto" and not reconstruct:
            warnings.warn(
                f"the reconstruction of {n} rows takes O(n^2) time in every round, and PMLPLR "
                f"leaves it out; set reconstruct to choose explicitly",
                ApproximationWarning,
                stacklevel=5,
            )
        return pmlplr(
            space,
            Y,
            rows.graph.laplacian(),
            rows.Z if reconstruct else None,
            rng=check_random_state(self.random_state),
            **self._solver_options(pmlplr),
        )
