"""PARTICLE: credible labels, then votes between pairs of labels."""

import warnings
from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators import Fit, MethodInfo, PartialMultiLabelClassifier
from schirn.exceptions import InputError
from schirn.lab.rivals.solvers._pairwise import SVMOptions, cast_votes
from schirn.lab.rivals.solvers._particle import (
    CredibleLabels,
    credible_labels,
    look_up,
    train_voters,
    unit_range,
    vote_log_odds,
    vote_margin,
)
from schirn.noise.thresholds import LabelThreshold, ThresholdRule, scale_rows


class HalfTheOdds(LabelThreshold):
    """Predict labels whose odds, scaled to [0, 1] within the row, exceed a cut; takes log-odds."""

    def apply(self, scores: Array) -> Array:
        """0/1 predictions, (n, l)."""
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return (scale_rows(odds) > self.cut).astype(np.int8)


class _Jobs:
    """Number of processes: at least 1, or -1, -2, ... counted back from all, or None."""

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value is not allowed."""
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if value is not None and not (is_whole and value != 0):
            raise InputError(
                f"{name} must be at least 1, or -1 for all processors, or None, got {value!r}",
                parameter=name,
            )


@declare_parameters
class _Particle(PartialMultiLabelClassifier):
    """The two steps that both variants share."""

    k: int = parameter(10, Number(low=1, integer=True))
    alpha: float = parameter(0.95, Number(high=1.0))
    thr: float = parameter(0.9, Number(high=1.0, open_low=True))
    C: float = parameter(1.0, Number(open_low=True))
    include_self: bool = parameter(False, OneOf((True, False)))
    scale: Literal["none", "minmax"] = parameter("none", OneOf(("none", "minmax")))
    folds: int = parameter(0, Number(integer=True))
    max_iter: int = parameter(1000, Number(low=1, integer=True))
    tol: float = parameter(1e-5, Number())
    svm_tol: float = parameter(1e-3, Number(open_low=True))
    svm_max_iter: int = parameter(100_000, Number(low=1, integer=True))
    n_jobs: int | None = parameter(None, _Jobs())
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="credible labels, pairwise votes",
        reference="Partial Multi-Label Learning via Credible Label Elicitation",
        cost="n^2 d + l^2 machines",
        memory="n^2 + n l",
    )
    _weighted: ClassVar[bool]
    """True if there is a virtual label, and votes are weighted by the accuracy of the machines."""

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        # In single precision, ties between neighbours and between machines would break otherwise.
        dtype = X.dtype
        X = X.astype(np.float64, copy=False)
        scaling = unit_range(X) if self.scale == "minmax" else None
        scaled = X if scaling is None else scaling.apply(X)
        labels = credible_labels(scaled, Y, **self._solver_options(credible_labels))
        self._models, votes = train_voters(
            scaled,
            Y,
            labels.credible,
            options=SVMOptions(self.C, self.svm_tol, self.svm_max_iter, self.n_jobs),
            weighted=self._weighted,
            folds=self.folds,
            scaling=scaling,
        )
        self.credible_ = labels.credible
        self.n_capped_ = self._models.n_capped
        if self.n_capped_:
            warnings.warn(
                f"{self.n_capped_} of {len(self._models.pairs)} support vector machines reached "
                f'svm_max_iter={self.svm_max_iter}; set scale="minmax" or raise svm_max_iter',
                ConvergenceWarning,
                stacklevel=3,
            )
        self._learn(votes, labels, Y)
        confidence = np.where(Y, labels.F, 0).astype(dtype)
        noise = (Y != 0) & ~labels.credible
        scores = self._from_votes(votes).astype(dtype)
        return Fit(noise, scores, len(labels.changes), labels.changes, confidence)

    def _learn(self, votes: Array, labels: CredibleLabels, Y: Array) -> None:
        """Learn from the votes of the training rows, if the variant does."""

    @abstractmethod
    def _from_votes(self, votes: Array) -> Array:
        """Scores (n, l) from votes (n, l + 1)."""

    def _scores(self, X: "Array | sp.csr_array") -> Array:
        votes = cast_votes(self._models, X.astype(np.float64, copy=False), weighted=self._weighted)
        return self._from_votes(votes).astype(X.dtype)


@declare_parameters
class ParticleVLS(_Particle):
    r"""PARTICLE with a virtual label that separates relevant labels from the others.

    Candidates are propagated between neighbours, :math:`P \leftarrow \alpha T P + (1-\alpha) Y`
    on the candidates, with the weights T that reconstruct every row from its neighbours.
    Labels that the neighbours of a row then clearly support are credible. One linear support vector
    machine is trained for every pair of labels, and one for every label against its absence, the
    virtual label V. With a the training accuracy of a machine,

    .. math::
        \sigma_j(x) = \sum_{k} a_{jk} [g_{jk}(x) = j] + a_{jV} [g_{jV}(x) = j], \qquad
        \sigma_V(x) = \sum_j a_{jV} [g_{jV}(x) = V],

    and the labels with more votes than V are predicted.

    Parameters
    ----------
    k : int
        Number of neighbours.
    alpha : float
        Share of the neighbours in the propagation.
    thr : float
        A label is credible if its neighbour vote is at least this share of the row's range.
    C : float
        Hinge weight of the machines.
    ceil : bool
        Round the votes up, as published; this creates many ties.
    include_self : bool
        Count a row among its own neighbours in the graph, as the released program does. The row is
        then reconstructed from itself, and hardly anything is propagated.
    scale : {"none", "minmax"}
        "minmax" brings every feature to [0, 1] first; features of a sparse X are divided by their
        largest absolute value instead, so that zeros stay zero. The authors use unscaled features
        ("none"), which is slow and inaccurate if their ranges differ widely.
    folds : int
        0 scores the training rows, which calibrate `predict_proba`, by machines trained on them; 5
        scores them out of fold in five folds, at up to five times the cost.
    max_iter, tol : int and float
        Limit of the propagation rounds, and the spectral norm of the change at which they stop.
    svm_tol, svm_max_iter : float and int
        Tolerance and limit of the iterations of one machine.
    threshold : float, array or str
        Rule of `predict`: a number, one number per label, "top-3", or "cardinality". 0 is the rule
        above.
    n_jobs : int or None
        Number of threads.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    credible_ : (n, l) bool. If no candidate of a row is credible, its neighbours' labels are.
    noise_ : (n, l) bool, candidates that are not credible.
    label_confidence_ : (n, l) propagated confidences of the candidates, the best of a row at 1;
        0 outside the candidates.
    objective_ : spectral norm of the change in every propagation round.
    n_capped_ : number of machines that reached `svm_max_iter`, if any with a
        ConvergenceWarning; more than a few suggest ``scale="minmax"``.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    `decision_function` is :math:`\sigma_j - \sigma_V`. There are l (l + 1)/2 machines; machines of
    pairs have few rows, machines of the virtual label nearly all. Up to 11,500 rows share one
    kernel matrix of n^2 numbers.

    Examples
    --------
    >>> from schirn.lab import ParticleVLS
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = ParticleVLS().fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.noise_ == (data.candidates > model.credible_)).all())
    True
    """

    ceil: bool = parameter(True, OneOf((True, False)))
    threshold: ThresholdRule = 0.0

    _weighted: ClassVar = True

    def _from_votes(self, votes: Array) -> Array:
        return vote_margin(votes, self.ceil)


@declare_parameters
class ParticleMAP(_Particle):
    r"""PARTICLE with a maximum a posteriori rule on the number of pairwise wins.

    Credible labels and pairwise machines are as in `ParticleVLS`, without the virtual label.
    The number :math:`C_j(x)` of pairs that label j wins is turned into the odds

    .. math::
        \frac{P(H_j) \, P(C_j(x) \mid H_j)}{(1 - P(H_j)) \, P(C_j(x) \mid \neg H_j)}

    with Laplace-smoothed frequencies over the training rows: positive where j is credible,
    negative where it is neither credible nor a candidate. The released programs count them on the
    test rows with their true labels; this is the method without that leak.

    Parameters
    ----------
    k : int
        Number of neighbours.
    alpha : float
        Share of the neighbours in the propagation.
    thr : float
        A label is credible if its neighbour vote is at least this share of the row's range.
    C : float
        Hinge weight of the machines.
    s : float
        Laplace smoothing of the frequencies.
    include_self : bool
        Count a row among its own neighbours in the graph, as the released program does. The row is
        then reconstructed from itself, and hardly anything is propagated.
    decision : {"minmax", "map"}
        Rule of `predict`. "minmax" scales the odds of every row to [0, 1] and cuts at one half, as
        published, so every row gets a label; "map" predicts labels whose odds exceed one.
    scale : {"none", "minmax"}
        "minmax" brings every feature to [0, 1] first; features of a sparse X are divided by their
        largest absolute value instead, so that zeros stay zero. The authors use unscaled features
        ("none"), which is slow and inaccurate if their ranges differ widely.
    folds : int
        0 counts the wins of the training rows by machines trained on them; 5 counts them out of
        fold in five folds, at up to five times the cost. This is less optimistic, but a label with
        few credible rows may have none left in a fold.
    max_iter, tol : int and float
        Limit of the propagation rounds, and the spectral norm of the change at which they stop.
    svm_tol, svm_max_iter : float and int
        Tolerance and limit of the iterations of one machine.
    threshold : float, array, str or None
        Another rule of `predict` in place of `decision`: a number, one number per label, "top-3",
        or "cardinality", on the logarithm of the odds.
    n_jobs : int or None
        Number of threads.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    credible_ : (n, l) bool. If no candidate of a row is credible, its neighbours' labels are.
    log_odds_ : (l, l) logarithm of the odds of every label for 0 to l - 1 wins.
    noise_ : (n, l) bool, candidates that are not credible.
    label_confidence_ : (n, l) propagated confidences of the candidates, the best of a row at 1;
        0 outside the candidates.
    objective_ : spectral norm of the change in every propagation round.
    n_capped_ : number of machines that reached `svm_max_iter`, if any with a
        ConvergenceWarning; more than a few suggest ``scale="minmax"``.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    `decision_function` is the logarithm of the odds. A pair in which only one label has rows
    counts as its win. There are l (l - 1)/2 machines with few rows each. Up to 11,500 rows share
    one kernel matrix of n^2 numbers.

    Examples
    --------
    >>> from schirn.lab import ParticleMAP
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = ParticleMAP(decision="map").fit(data.X, data.candidates)
    >>> bool((model.predict(data.X) == (model.decision_function(data.X) > 0)).all())
    True
    """

    s: float = parameter(1.0, Number(open_low=True))
    decision: Literal["minmax", "map"] = parameter("minmax", OneOf(("minmax", "map")))
    threshold: Any = None

    _weighted: ClassVar = False

    def _learn(self, votes: Array, labels: CredibleLabels, Y: Array) -> None:
        negative = ~labels.credible & (Y == 0)
        self.log_odds_ = vote_log_odds(votes[:, :-1], labels.credible, negative, smoothing=self.s)

    def _from_votes(self, votes: Array) -> Array:
        return look_up(self.log_odds_, votes[:, :-1])

    def _make_threshold(self, rule: ThresholdRule | None) -> LabelThreshold:
        if rule is not None:
            return super()._make_threshold(rule)
        if self.decision == "map":
            return LabelThreshold(np.asarray(0.0))
        return HalfTheOdds(np.asarray(0.5))
