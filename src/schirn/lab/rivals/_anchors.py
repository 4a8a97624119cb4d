"""The template of methods that are linear in a kernel map on anchors: PML-MA and PML-PLR."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn._input import Array, Number, Seed, declare_parameters, parameter
from schirn._progress import stage
from schirn.estimators import Fit, PartialMultiLabelClassifier
from schirn.lab.rivals.solvers._anchors import MOST_ANCHORS, AnchorMap, AnchorResult, anchor_map
from schirn.lab.rivals.solvers.graph import NeighbourGraph, neighbour_graph
from schirn.linalg.row_space import RowSpace
from schirn.noise.thresholds import ThresholdRule


class AnchorRows(NamedTuple):
    """Training rows: the map and what it makes of them, the scaled rows Z, and their graph."""

    map: AnchorMap
    Phi: Array
    Z: "Array | sp.csr_array"
    graph: NeighbourGraph


@declare_parameters
class AnchorMethod(PartialMultiLabelClassifier):
    """A method whose scores are a kernel map of the features times weights.

    A search over parameters makes the map and the graph of each fold once.
    """

    n_anchors: int | None = parameter(None, Number(low=1, integer=True, none=True))
    n_neighbors: int = parameter(5, Number(low=1, integer=True))
    tol: float = parameter(1e-4, Number())
    threshold: ThresholdRule = 0.5
    random_state: Any = parameter(0, Seed())
    verbose: bool = False

    @abstractmethod
    def _released_anchors(self, n: int, d: int) -> int:
        """The number of anchors in the released code."""

    @abstractmethod
    def _ridge(self) -> float:
        """The ridge weight."""

    @abstractmethod
    def _factor(self, rows: AnchorRows, ridge: float) -> RowSpace:
        """Factor the map for ridge weights from this one on."""

    @abstractmethod
    def _solve(self, rows: AnchorRows, space: RowSpace, Y: Array) -> AnchorResult:
        """Call the solver."""

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        rows = self._rows(X)
        stage("factoring the features")
        space = self._factor(rows, self._ridge())
        result = self._solve(rows, space, Y)
        self.map_ = rows.map
        self.dual_coef_ = space.coefficients(result.w)[0]
        self.pseudo_labels_ = result.pseudo_labels
        return Fit(None, result.loo_scores, result.n_iter, result.objective)

    def _rows(self, X: "Array | sp.csr_array") -> AnchorRows:
        released = min(self._released_anchors(*X.shape), MOST_ANCHORS)
        n_anchors = released if self.n_anchors is None else self.n_anchors
        stage("computing the kernel")
        kernel_map, Phi = anchor_map(X, n_anchors, check_random_state(self.random_state))
        Z = kernel_map.scaled(X)
        stage("finding neighbours")
        return AnchorRows(kernel_map, Phi, Z, neighbour_graph(Z, self.n_neighbors))

    def _scores(self, X: "Array | sp.csr_array") -> Array:
        return self.map_.scores(X, self.dual_coef_)

    def _factor_key(self) -> Hashable:
        """Models with the same key share the factored map."""
        return None

    def _share_key(self) -> Hashable | None:
        return (self.n_anchors, self.n_neighbors, self.random_state)

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        rows = self._rows(train)
        mapped = rows.map.transform(test)
        ridge = min(model._ridge() for model in models)
        spaces: dict[Hashable, RowSpace] = {}

        def scores(model: "AnchorMethod", Y: Array) -> Array:
            key = model._factor_key()
            if key not in spaces:
                spaces[key] = model._factor(rows, ridge)
            return mapped @ spaces[key].coefficients(model._solve(rows, spaces[key], Y).w)[0]

        return scores
