"""PLAIN, deep learning with graph disambiguation."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, Number, declare_parameters, parameter
from schirn._optional import optional
from schirn.estimators import Fit, MethodInfo, PartialMultiLabelClassifier
from schirn.exceptions import InputError
from schirn.lab.rivals.solvers._plain import Layers, plain, standard
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class PLAIN(PartialMultiLabelClassifier):
    r"""A network trained on labels that are propagated over graphs of the rows and of the labels.

    .. math::
        \min_Z \tfrac\alpha2 \operatorname{tr}(Z^\top (I - S) Z)
        + \tfrac\beta2 \operatorname{tr}(Z (I - L) Z^\top)
        + \tfrac\eta2 \|Z - Y\|_F^2 + \tfrac12 \|Z - P\|_F^2

    Before every epoch, gradient steps from the candidates Y lead to the pseudo-labels Z, each label
    is scaled to [0, 1], and the network learns Z by cross-entropy; its probabilities are the P of
    the next epoch. S joins near rows and L labels that are listed together.

    Graphs, steps, network and weights follow the released code, with four exceptions: the
    steps are ten times as large and a tenth as many, features are scaled by the training rows
    alone, negative cosines count as zero, and the last epoch is kept instead of the one that is
    best on the test rows. `noise_` and `label_confidence_` are ours. `fit` requires the extra
    `deep` (PyTorch); a fitted model works without it.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of the graph of the rows.
    beta : float, default=0.01
        Weight of the graph of the labels.
    eta : float, default=1.0
        Weight of the candidates. That of the network is 1.
    n_neighbors : int, default=10
        Number of neighbours in the graph of the rows.
    propagation_rate : float, default=0.1
        Size of the gradient steps; below 2 / (2 alpha + 2 beta + eta + 1), where they diverge.
    n_propagations : int, default=20
        Number of gradient steps before every epoch.
    hidden_sizes : sequence of int, default=(64, 64)
        Widths of the hidden layers.
    max_iter : int, default=30
        Number of epochs.
    batch_size : int, default=32
        Rows per step of stochastic gradient descent.
    learning_rate : float, default=0.01
        Step size of stochastic gradient descent, with momentum 0.9.
    weight_decay : float, default=5e-5
        Weight decay of stochastic gradient descent.
    threshold : float, array or str, default="cardinality"
        Rule of `predict`: a number, one number per label, "top-3", "row-0.9" or "cardinality".
    random_state : int or None, default=0
        Seed of the initial weights and the batches.
    verbose : bool, default=False
        Show epoch, share done and time left on stderr.

    Attributes
    ----------
    coefs_, intercepts_ : tuple of ndarray
        Weights and offsets of the layers, for features as given.
    label_confidence_ : ndarray of shape (n, l)
        Pseudo-labels Z of the last epoch; 0 outside the candidates.
    noise_ : bool ndarray of shape (n, l)
        Candidates with a confidence below one half.
    objective_ : ndarray of shape (n_iter_,)
        Mean cross-entropy of each epoch.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    The graph costs O(n^2 d) once; an epoch costs O(s n l (k + l)) for s propagation steps and k
    neighbours, and O(n h (d + h + l)) for hidden layers of width h. A sparse X is densified batch
    by batch. Memory is O(n (k + l)) in addition to X. Training runs on one thread of the processor,
    so that results depend only on the seed.

    References
    ----------
    "Deep Partial Multi-Label Learning with Graph Disambiguation".

    Examples
    --------
    >>> from schirn.lab import PLAIN
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PLAIN(max_iter=5).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.noise_ <= data.candidates).all())
    True
    """

    alpha: float = parameter(0.1, Number())
    beta: float = parameter(0.01, Number())
    eta: float = parameter(1.0, Number())
    n_neighbors: int = parameter(10, Number(low=1, integer=True))
    propagation_rate: float = parameter(0.1, Number(open_low=True))
    n_propagations: int = parameter(20, Number(low=1, integer=True))
    hidden_sizes: Sequence[int] = (64, 64)
    max_iter: int = parameter(30, Number(low=1, integer=True))
    batch_size: int = parameter(32, Number(low=1, integer=True))
    learning_rate: float = parameter(0.01, Number(open_low=True))
    weight_decay: float = parameter(5e-5, Number())
    threshold: ThresholdRule = "cardinality"
    random_state: int | None = parameter(0, Number(integer=True, none=True))
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="network and propagated labels",
        reference="Deep Partial Multi-Label Learning with Graph Disambiguation",
        cost="n^2 d + n h (d + h + l) per epoch",
        memory="n (k + l) + d h",
    )

    def _check(self) -> None:
        super()._check()
        sizes = tuple(self.hidden_sizes)
        for size in sizes:
            Number(low=1, integer=True).check("hidden_sizes", size)
        curvature = 2 * (self.alpha + self.beta) + self.eta + 1
        if self.propagation_rate * curvature >= 2:
            raise InputError(
                f"propagation_rate must be below {2 / curvature:.3g} for these alpha, beta and "
                f"eta, got {self.propagation_rate!r}: larger steps diverge",
                parameter="propagation_rate",
            )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        # Before the graph is computed: a missing PyTorch raises MissingExtraError at once.
        optional("torch", "deep", "PLAIN")
        options = self._solver_options(plain)
        result = plain(X, Y, scaling=standard(X), seed=self.random_state, **options)
        self.coefs_ = tuple(result.layers.weights)
        self.intercepts_ = tuple(result.layers.offsets)
        confidence = np.where(Y == 1, result.Z, 0)
        noise = (Y == 1) & (confidence < 0.5)
        n_iter = len(result.objective)
        return Fit(noise, result.scores, n_iter, result.objective, confidence)

    def _scores(self, X: "Array | sp.csr_array") -> Array:
        return Layers(self.coefs_, self.intercepts_).outputs(X)
