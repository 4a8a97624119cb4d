"""PARD, probabilistic graphical disambiguation."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators import Fit, MethodInfo, PartialMultiLabelClassifier
from schirn.lab.rivals.solvers._pard import Network, Schedule, networks_of_schedules, pard
from schirn.lab.rivals.solvers._scaling import identity, minmax
from schirn.noise.calibration import Calibration
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class PARD(PartialMultiLabelClassifier):
    r"""A network trained on a likelihood bound in which the true labels are hidden variables.

    .. math::
        \max_{f, q, \rho} \sum_{ij} (1 - q_{ij}) \log P(s_{ij} \mid y_{ij} = 0)
        - \beta_y \operatorname{KL}(q_{ij} \,\|\, p_{ij})
        - \beta_0 \operatorname{KL}(q_{ij} \,\|\, \pi_j)

    A label is true with probability p = sigmoid(f(x)) for a network f with one hidden layer. A true
    label is always among the candidates s, and a false one is listed at the rate rho of its label.
    The posterior q of the hidden labels is 0 outside the candidates.

    The ingredients are published; the graph, the networks and the weights are a reconstruction.

    Parameters
    ----------
    beta_y : float
        Weight of the divergence from the network.
    beta_0 : float
        Weight of the divergence from the prior. With 0 the posterior goes to 1 on all candidates
        and the rates to 0: nothing is disambiguated. With 1 too much is removed.
    hidden_size : int
        Width of the hidden layer.
    warm_up : int
        Number of initial epochs in which all candidates count as true.
    max_iter : int
        Number of epochs.
    batch_size : int
        Rows per Adam step.
    learning_rate, weight_decay : float
        Parameters of Adam.
    scale : {"minmax", "none"}
        "minmax" scales every feature to [0, 1] by its range in the training rows; "none" uses the
        features as they are, which suits binary ones.
    validation_fraction : float
        Share of the rows held out from training. The epoch with the largest bound on their
        candidates is kept; no true label is used. 0 keeps the last epoch.
    n_iter_no_change : int
        Stop when the held-out bound has not risen for this many epochs.
    threshold : float, array or str
        Rule of `predict`. The scores are log-odds, so 0 means p > 0.5. Alternatives: one number
        per label, "top-3", "row-0.9" or "cardinality".
    random_state : int or None
        Seed of the initial weights, the batches and the held-out rows.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    network_ : weights and offsets W1, b1, W2, b2 of the network, for features as given.
    prior_ : (l,) prior pi, half the candidate frequency.
    noise_rate_ : (l,) rate rho at which a false label is listed.
    label_confidence_ : (n, l) the posterior q; 0 outside the candidates.
    noise_ : (n, l) bool, candidates with q < 0.5.
    objective_, held_out_bound_ : minus the bound per training row, and the bound per held-out
        row (empty without `validation_fraction`), after each epoch.
    calibration_ : the identity: `predict_proba` gives p, and `disambiguate` the q that is best
        for p, the prior and the rates.
    cardinality_ : estimated number of true labels per row.
    n_iter_, label_names_, n_features_in_, feature_names_in_, classes_, threshold_

    Notes
    -----
    An epoch costs O(n h (d + l)) time for h hidden units, or O(h (nnz + n l)) and one O(d h) step
    per batch for a sparse X, which stays sparse. Memory is O(d h + n l) in addition to X.

    Examples
    --------
    >>> from schirn.lab import PARD
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PARD(max_iter=20).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.noise_ <= data.candidates).all())
    True
    """

    beta_y: float = parameter(1.0, Number(open_low=True))
    beta_0: float = parameter(0.1, Number())
    hidden_size: int = parameter(256, Number(low=1, integer=True))
    warm_up: int = parameter(5, Number(integer=True))
    max_iter: int = parameter(60, Number(low=1, integer=True))
    batch_size: int = parameter(128, Number(low=1, integer=True))
    learning_rate: float = parameter(1e-3, Number(open_low=True))
    weight_decay: float = parameter(1e-4, Number())
    scale: Literal["minmax", "none"] = parameter("minmax", OneOf(("minmax", "none")))
    validation_fraction: float = parameter(0.0, Number(high=0.9))
    n_iter_no_change: int = parameter(10, Number(low=1, integer=True))
    threshold: ThresholdRule = 0.0
    random_state: int | None = parameter(0, Number(integer=True, none=True))
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="variational network",
        reference="Partial Multi-Label Learning with Probabilistic Graphical Disambiguation",
        cost="n (d + l) h per epoch",
        memory="n d + d h",
        reconstructed=True,
    )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        scaling = minmax(X, 0, 1) if self.scale == "minmax" else identity(X)
        options = self._solver_options(pard)
        result = pard(X, Y, scaling=scaling, seed=self.random_state, **options)
        self.network_ = result.network
        self.prior_ = result.labels.pi
        self.noise_rate_ = result.labels.rho
        self.held_out_bound_ = result.held_out_bound
        self._label_model = result.labels
        noise = (Y == 1) & (result.q < 0.5)
        return Fit(noise, result.scores, result.n_iter, -result.bound, result.q)

    def _scores(self, X: "Array | sp.csr_array") -> Array:
        return self.network_(X)

    def _schedule(self) -> Schedule:
        return Schedule(self.beta_0, self.warm_up, self.max_iter)

    def _share_key(self) -> Hashable | None:
        """All but what the schedules of one training may differ in."""
        if self.validation_fraction or self.random_state is None:
            return None
        unshared = (*Schedule._fields, "threshold", "verbose")
        return tuple((k, v) for k, v in self.get_params(deep=False).items() if k not in unshared)

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        options = self._solver_options(networks_of_schedules)
        scaling = minmax(train, 0, 1) if self.scale == "minmax" else identity(train)
        schedules = list(dict.fromkeys(model._schedule() for model in models))
        trained: dict[Schedule, Network] = {}

        def scores(model: "PARD", Y: Array) -> Array:
            if not trained:
                networks = networks_of_schedules(
                    train, Y, schedules, scaling=scaling, seed=self.random_state, **options
                )
                trained.update(networks)
            return trained[model._schedule()](test)

        return scores

    def _calibrate(self, scores: Array, Y: Array) -> Calibration:
        """The outputs are log-odds of true labels already."""
        return Calibration(1.0, 0.0, float(np.mean(self.noise_rate_)))

    def disambiguate(self, X: Any, candidates: Any) -> Array:
        """Return the posterior (n, l) that each candidate of unseen rows is true; 0 elsewhere.

        Candidates may come in any container that `fit` takes; names and table columns are
        matched to the labels known from training.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        candidates : array-like of shape (n, l), or list of lists of str
            In any container that `fit` takes.

        Returns
        -------
        (n, l) array of float
        """
        scores = self.decision_function(X)
        Y = self._candidates_of(X, candidates, len(scores))
        return self._label_model.posterior(scores, Y.astype(scores.dtype))
