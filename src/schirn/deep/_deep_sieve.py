"""DeepSieve: cross-fitted networks as a scikit-learn estimator."""

import copy
import os
import secrets
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from schirn._input import Array, Number, OneOf, check_same_length, declare_parameters, parameter
from schirn._progress import stage, track
from schirn.deep import _checkpoint as files
from schirn.deep._crossfit import CrossFit
from schirn.deep._learner import Learner, Network, NetworkInput, mlp, n_outputs, outputs, seeded
from schirn.deep._posterior import NoiseLaw, row_posterior
from schirn.estimators import Fit, MethodInfo, PartialMultiLabelClassifier
from schirn.exceptions import InputError
from schirn.labels.matrix import as_labels
from schirn.linalg.arrays import pick_device
from schirn.linalg.features import standard_factor
from schirn.noise.calibration import Calibration
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class DeepSieve(PartialMultiLabelClassifier):
    r"""Neural networks trained on cross-fitted soft labels.

    .. math::
        \min_\theta -\frac{1}{nl} \sum_{ij} q_{ij} \log p_{ij} + (1 - q_{ij}) \log(1 - p_{ij})
        - \frac{\beta}{n} \|P\|_*, \qquad p = \sigma(f_\theta(x))

    The rows are split into folds. One network per fold is trained without it and scores its rows,
    with its own output layer and with a closed-form ridge on its features. A sigmoid fitted to the
    candidates turns the scores into probabilities; the confidences q move towards the exact
    posterior of the candidates given these probabilities (0 outside the candidates). One more
    network is trained on all rows and predicts. All networks are trained on q, epoch by epoch. No
    true label is used.

    Parameters
    ----------
    module : torch.nn.Module, optional
        Backbone that maps a batch of rows to one feature vector per row; a linear layer is added
        on top. It is copied for every network. By default, layers of `hidden_sizes` with ReLU and
        `dropout`.
    hidden_sizes : sequence of int, default=(256, 256)
        Layer sizes of the default backbone.
    dropout : float, default=0.3
        Dropout rate of the default backbone.
    input_shape : sequence of int, optional
        Shape of one row for the module, such as (1, 8, 8). By default rows stay flat.
    scale : {"standard", "none"}, default="standard"
        "standard" scales every feature to mean 0 and standard deviation 1.
    folds : int, default=3
        Number of judging networks.
    warm_up : int, optional
        Number of initial epochs in which every candidate counts as true. By default the warm-up
        ends when the held-out score has not risen for three epochs, or after half of `max_iter`,
        and training returns to its best epoch.
    momentum : float, default=0.7
        Weight of the old confidence in each update.
    counts : bool, default=True
        Learn how many wrong candidates rows carry, and compute the posterior of each row as a
        whole.
    rank_weight : float, default=0.0
        Weight \beta of the rank term on the batches (see `rank_loss`).
    estimate_noise : bool, default=True
        False trusts every candidate, which is plain cross-entropy with the same networks and the
        same early stopping.
    max_iter : int, default=100
        Maximum number of epochs.
    n_iter_no_change : int, default=10
        Stop when the held-out score has not risen for this many epochs. The score is the average
        precision on the candidates of rows that the scoring network was not trained on.
    batch_size : int, default=32
    learning_rate : float, default=1e-3
        Step size of AdamW.
    weight_decay : float, default=1e-3
        Weight decay of AdamW.
    average : float, default=0.99
        Decay of the running average of the weights used for scoring; 0 disables averaging.
    precision : {"float32", "bfloat16"}, default="float32"
        "bfloat16" trains in mixed precision.
    device : {"auto", "cpu", "cuda"}, default="auto"
        "auto" uses a GPU if one is available.
    checkpoint : path-like, optional
        File to write after every epoch. If it exists and belongs to the same data and parameters,
        `fit` resumes from it and returns the same model as an uninterrupted run.
    threshold : float, array-like or str, default=0.0
        Threshold rule of `predict`: a number (scores are log-odds, so 0 means p > 0.5), one number
        per label, "top-3", "row-0.9" or "cardinality".
    random_state : int or None, default=0
        Seed of weights, folds, batches and dropout.
    verbose : bool, default=False
        Show epoch, loss, share done and time left on stderr.

    Attributes
    ----------
    network_ : torch.nn.Module
        The predicting network; its output is (features, logits).
    label_confidence_ : ndarray of shape (n, l)
        Confidences q; 0 outside the candidates.
    noise_ : bool ndarray of shape (n, l)
        Candidates with q < 0.5.
    noise_rate_ : ndarray of shape (l,)
        Estimated rates at which false labels are listed.
    held_out_score_ : ndarray of shape (n_iter_,)
        Held-out score after each epoch.
    objective_ : ndarray of shape (n_iter_,)
        Loss of the predicting network after each epoch.
    best_iter_ : int
        The epoch whose network was kept.
    calibration_ : Calibration
        The identity, because scores are calibrated log-odds.
    cardinality_ : float
        Estimated number of true labels per row.
    n_iter_, label_names_, n_features_in_, feature_names_in_, classes_, threshold_

    Notes
    -----
    `folds` + 1 networks are trained, and every judging network computes the features of all rows
    once per epoch. A dense X is copied to the device in single precision; a sparse X is densified
    batch by batch. For a table of confidences on disk, or for your own training loop, use
    `PartialMultiLabelLoss` or `SieveHead`.

    Examples
    --------
    >>> from schirn.datasets import make_partial_multilabel
    >>> from schirn.deep import DeepSieve
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = DeepSieve(hidden_sizes=(32,), max_iter=5).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.noise_ <= data.candidates).all())
    True
    """

    module: nn.Module | None = None
    hidden_sizes: Sequence[int] = (256, 256)
    dropout: float = parameter(0.3, Number(high=0.99))
    input_shape: Sequence[int] | None = None
    scale: Literal["standard", "none"] = parameter("standard", OneOf(("standard", "none")))
    folds: int = parameter(3, Number(low=2, integer=True))
    warm_up: int | None = parameter(None, Number(low=1, integer=True, none=True))
    momentum: float = parameter(0.7, Number(high=1.0))
    counts: bool = parameter(True, OneOf((True, False)))
    rank_weight: float = parameter(0.0, Number())
    estimate_noise: bool = parameter(True, OneOf((True, False)))
    max_iter: int = parameter(100, Number(low=1, integer=True))
    n_iter_no_change: int = parameter(10, Number(low=1, integer=True))
    batch_size: int = parameter(32, Number(low=1, integer=True))
    learning_rate: float = parameter(1e-3, Number(open_low=True))
    weight_decay: float = parameter(1e-3, Number())
    average: float = parameter(0.99, Number(high=0.99999))
    precision: Literal["float32", "bfloat16"] = parameter("float32", OneOf(("float32", "bfloat16")))
    device: Literal["auto", "cpu", "cuda"] = parameter("auto", OneOf(("auto", "cpu", "cuda")))
    checkpoint: str | os.PathLike[str] | None = None
    threshold: ThresholdRule = 0.0
    random_state: int | None = parameter(0, Number(integer=True, none=True))
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="neural network",
        reference="ours: cross-fitted networks and the posterior of Sieve",
        cost="(folds + 1) network epochs",
        memory="n (d + l) + network",
    )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        self._start(X, Y.shape[1])
        run = CrossFit(self._rows(X), Y, self._learner, self, self._seed)
        stamp = files.stamp(self, X, Y) if self.checkpoint is not None else ""
        if self.checkpoint is not None:
            files.resume(run, self.checkpoint, stamp)
        epochs = range(run.n_iter, self.max_iter)
        for _ in track(epochs, "epoch", may_stop=True):
            if run.finished:
                break
            if run.objective:
                losses = f"loss {run.objective[-1]:.4f}"
                stage(f"{losses}, held-out score {run.held_out_score[-1]:.4f}")
            run.advance()
            if self.checkpoint is not None:
                files.write_checkpoint(run, self.checkpoint, stamp)
        return self._take(run)

    def _start(self, X: "Array | sp.csr_array", n_labels: int) -> None:
        """Set seed, device, scaling and the initial weights of the backbone."""
        seed = self.random_state
        self._seed = secrets.randbits(32) if seed is None else int(seed)
        self._device = pick_device(torch, self.device)
        self._scaling = _scaling(X, self.scale)
        self._n_labels = n_labels
        with seeded(self._device, self._seed):
            self._backbone = self._make_backbone(X.shape[1])
            self._n_hidden = n_outputs(self._backbone, self._rows(X[:1]))

    def _make_backbone(self, n_features: int) -> nn.Module:
        if self.module is None:
            return mlp(n_features, tuple(self.hidden_sizes), self.dropout)
        return copy.deepcopy(self.module)

    def _learner(self, k: int) -> Learner:
        """Create network k; default backbones differ in their initial weights."""
        with seeded(self._device, self._seed, 1 + k):
            backbone = copy.deepcopy(self._backbone)
            if self.module is None:
                for layer in backbone.modules():
                    if isinstance(layer, nn.Linear):
                        layer.reset_parameters()
            network = Network(backbone, self._n_hidden, self._n_labels)
        return Learner(network, self, self._device)

    def _rows(self, X: "Array | sp.csr_array") -> NetworkInput:
        return NetworkInput(X, self._scaling, self.input_shape, self._device)

    def _take(self, run: CrossFit) -> Fit:
        """Turn the best epoch of a run into the fitted model."""
        assert run.best is not None
        weights, log_odds, Q, law, (self._slope, self._offset) = run.best
        self.network_ = run.learners[-1].averaged.eval()
        self.network_.load_state_dict(weights)
        # A fitted model does not need its initial backbone.
        del self._backbone
        self.best_iter_ = run.best_iter
        self.held_out_score_ = np.array(run.held_out_score)
        # As arrays, because the attributes in model files cannot be tensors.
        self._law = tuple(value.cpu().numpy() for value in law)
        self.noise_rate_ = self._law[0]
        log_odds, Q = (t.numpy().astype(np.float32) for t in (log_odds, Q))
        return Fit(None, log_odds, run.n_iter, np.array(run.objective), Q)

    def _scores(self, X: "Array | sp.csr_array") -> Array:
        _, logits = outputs(self.network_, self._rows(X), np.arange(X.shape[0]), self.precision)
        return self._slope * logits.cpu().numpy().astype(X.dtype) + self._offset

    def _calibrate(self, scores: Array, Y: Array) -> Calibration:
        """Return the identity: the scores are calibrated log-odds already."""
        rate = float(np.mean(self.noise_rate_)) if self.estimate_noise else 1e-4
        return Calibration(1.0, 0.0, rate)

    def disambiguate(self, X: Any, candidates: Any) -> Array:
        """Return the posterior (n, l) that each candidate of new rows is true; 0 elsewhere.

        Candidates may come in any container accepted by `fit`; names and table columns are
        matched to the labels of the training data.

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
        labels = as_labels(candidates, names=self.label_names_)
        check_same_length(len(scores), len(labels.matrix))
        if not self.estimate_noise:
            return self.calibration_.confidence(scores, labels.matrix)
        p, Y, *law = map(torch.as_tensor, (scores, labels.matrix, *self._law))
        return row_posterior(p.sigmoid(), Y, NoiseLaw(*law)).Q.numpy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a safetensors file, atomically.

        Parameters
        ----------
        path : path-like
            A .safetensors file; an existing one is replaced.
        """
        if not hasattr(self, "network_"):
            raise InputError("this DeepSieve is not fitted; call fit before save")
        files.save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, module: nn.Module | None = None) -> "DeepSieve":
        """Load a model written by `save`; nothing in the file is executed.

        Parameters
        ----------
        path : path-like
        module : torch.nn.Module, optional
            The backbone, if the model was trained with your own. Its weights come from the file.

        Returns
        -------
        DeepSieve
        """
        return files.load_model(cls, path, module)

    def _rebuild(self, weights: dict[str, torch.Tensor]) -> None:
        """Rebuild the network from the weights of a file."""
        # Sizes in a corrupt file could request any amount of memory; on "meta" they use none.
        with torch.device("meta"):
            backbone = self._make_backbone(self.n_features_in_)
            network = Network(backbone, self._n_hidden, self._n_labels)
        try:
            network.load_state_dict(weights, assign=True)
        except RuntimeError as error:
            message = "the weights do not match the network described in the file"
            raise ValueError(message) from error
        self._device = pick_device(torch, self.device)
        self.network_ = network.to(self._device).eval()


def _scaling(X: "Array | sp.csr_array", scale: str) -> tuple[Array, Array]:
    """Return the factor and shift that scale every feature to mean 0 and standard deviation 1.

    Both are rounded to a few digits, so that a sparse and a dense X give the same network.
    """
    if scale == "none":
        n_features = X.shape[1]
        return np.ones(n_features, dtype=np.float32), np.zeros(n_features, dtype=np.float32)
    mantissa, exponent = np.frexp(standard_factor(X.astype(np.float64)))
    factor = np.ldexp(np.round(mantissa * 2**10) / 2**10, exponent)
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    shift = np.round(-mean * factor * 2**10) / 2**10
    return factor.astype(np.float32), shift.astype(np.float32)
