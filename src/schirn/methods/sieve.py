"""Sieve, the default method: no tuning, no true labels."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import check_random_state

from schirn._input import Number, OneOf, Seed, check_same_length
from schirn.exceptions import InputError
from schirn.labels.known import as_known
from schirn.labels.matrix import as_labels
from schirn.linalg.arrays import is_device_array, namespace, near, to_numpy
from schirn.linalg.features import learn_scale
from schirn.methods._base import Fit, MethodInfo, PartialMultiLabelClassifier
from schirn.noise.calibration import Calibration, calibrate
from schirn.noise.model import candidate_posterior
from schirn.noise.thresholds import ThresholdRule
from schirn.scale.blocks import Layout, RowStore
from schirn.scale.fit import BlockFit, sample_stride
from schirn.scale.input import location
from schirn.solvers.sieve import SieveResult, Split, log_odds, solve
from schirn.solvers.sieve_blocks import FactoredRows, factor, known_rates, sieve_blocks, trusts

Array = np.ndarray

_BLOCK_ROWS = 5000


class Sieve(PartialMultiLabelClassifier):
    r"""Leave-one-out ridge scores and the exact posterior of the candidates, in turns.

    Each round computes the posterior Q of the candidates from the label probabilities p and the
    noise model, fits ridge regressions of several strengths to Q,

    .. math:: \min_f \|f(X) - Q\|_F^2 + \lambda \|f\|^2 ,

    takes their leave-one-out scores in closed form (a row does not influence its own verdict), adds
    an expert for label correlations, and pools all experts into new log-odds. The pool is fitted to
    held-out rows. The noise model estimates the rate at which false labels are listed, how many
    there are per row and, if labels clearly differ, which labels are listed too often.

    Parameters
    ----------
    features : {"auto", "text", "spread", "none"} or transformer
        Scaling of X. "auto" treats sparse counts as text (tf-idf, rows of length 1) and divides
        other features by their spread. A scikit-learn transformer is fitted and used instead.
    kernel : {"rbf", "linear"}
        "rbf" takes its width from the median distance. Both have an intercept.
    noise_level : float or array of shape (n,), optional
        Expected number of wrong labels per row; 0 trusts every candidate, which makes this a tuned
        ridge. None estimates the noise.
    lam : float, optional
        Ridge weight. None chooses it on candidates of held-out rows and pools several around it.
    max_iter : int
        Number of rounds.
    max_kernel_rows : int
        With more rows than this, the kernel is approximated from `n_landmarks` rows.
    n_landmarks : int
        Number of landmarks of the Nyström approximation.
    threshold : float, array or str
        Rule of `predict`; 0.0 on log-odds predicts labels that are more likely true than not.
    random_state : int, optional
        Seed of the inner splits, the landmarks and the cells that the pool is fitted to.
    verbose : bool
        Print one line every ten rounds.

    Attributes
    ----------
    label_confidence_ : (n, l) posterior probability that a candidate is true, given the features of
        its row, all candidates of the row, and the other rows; 0 outside the candidates. Labels
        given as known get 1 or 0.
    noise_ : (n, l) bool, candidates whose posterior is below one half.
    noise_model_ : rate at which false labels are listed, law of their number, label propensities.
    noise_rates_ : estimated rate after each round.
    pool_ : weights of the experts in the log-odds.
    lams_ : ridge weights of the experts.
    objective_ : mean cross-entropy of the soft labels per round.
    scale_, transformer_, expansion_, calibration_, cardinality_, n_iter_, label_names_,
    n_features_in_, classes_, threshold_

    Notes
    -----
    `decision_function` returns log-odds and `predict_proba` their sigmoid. The pool calibrates
    them: it is fitted to posteriors of candidates, never to true labels. The time is that of one
    eigendecomposition of n x n (or of the landmark features) and three smaller ones, followed by
    products; memory is n^2, or n times the number of landmarks.

    Examples
    --------
    >>> from schirn import Sieve
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = Sieve().fit(data.X, data.candidates)
    >>> model.predict_proba(data.X[:3]).shape
    (3, 6)
    >>> bool((model.noise_ <= data.candidates).all())
    True
    """

    _constraints: ClassVar = {
        "kernel": OneOf(("rbf", "linear")),
        "lam": Number(open_low=True, none=True),
        "max_iter": Number(low=1, integer=True),
        "max_kernel_rows": Number(low=0, integer=True),
        "n_landmarks": Number(low=1, integer=True),
        "random_state": Seed(),
    }
    _info: ClassVar = MethodInfo(
        family="leave-one-out posterior",
        reference="this library, docs/sieve.md",
        cost="4 n^2 l",
        memory="n^2 + n l, or n landmarks + n l",
    )

    _locations: ClassVar = ("device", "dask", "files")

    def __init__(
        self,
        *,
        features: Any = "auto",
        kernel: str = "rbf",
        noise_level: float | Array | None = None,
        lam: float | None = None,
        max_iter: int = 8,
        max_kernel_rows: int = 4000,
        n_landmarks: int = 1500,
        threshold: ThresholdRule = 0.0,
        random_state: int | None = 0,
        verbose: bool = False,
    ):
        self.features = features
        self.kernel = kernel
        self.noise_level = noise_level
        self.lam = lam
        self.max_iter = max_iter
        self.max_kernel_rows = max_kernel_rows
        self.n_landmarks = n_landmarks
        self.threshold = threshold
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, *, label_names: Sequence[str] | None = None, known: Any = None
    ) -> "Sieve":
        """Train on rows and their candidate labels.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n, d)
        y : array, sparse matrix, DataFrame or list of lists
            The candidates: 0/1 or bool, or one list of label names per row.
        label_names : sequence of str, optional
            Names of the label columns, for candidates without names.
        known : array, sparse matrix or DataFrame of shape (n, l), optional
            Verified labels: 1 for true candidates, -1 for wrong ones, 0 for the others. They are
            fixed, and similar rows learn from them. Leave a wrong label among the candidates if it
            was listed: it informs the estimate of the noise.
        """
        if location(X) in self._locations:
            if known is not None:
                raise InputError(
                    "known labels need rows in main memory; leave `known` out, or give X as an "
                    "array or CSR matrix"
                )
            super().fit(X, y, label_names=label_names)
            return self
        self._check()
        X, Y = self._validate_training(X, y, label_names)
        certain = as_known(known, Y, self.label_names_)
        self._finish(self._fit_known(X, Y, certain), Y)
        return self

    def disambiguate(self, X: Any, candidates: Any) -> Array:
        """Posterior (n, l) of the candidates of unseen rows, given the whole set; 0 elsewhere."""
        scores = self.decision_function(X)
        labels = as_labels(candidates, names=self.label_names_)
        check_same_length(len(scores), len(labels.matrix))
        P = np.clip(self.calibration_.probability(to_numpy(scores)), 1e-4, 1 - 1e-4)
        noise = self.noise_model_._replace(rate=float(np.mean(self.noise_model_.rate)))
        if self._trusts():
            return near(labels.matrix.astype(P.dtype), scores)
        return near(candidate_posterior(P, labels.matrix, noise).Q.astype(P.dtype), scores)

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        return self._fit_known(X, Y, None)

    def _fit_known(self, X: "Array | sp.csr_array", Y: Array, known: Array | None) -> Fit:
        factored = self._factor(self._fit_features(X))
        result = self._solve(factored, Y, known)
        self.expansion_ = factored.source.expansion(result.ridges)
        self._keep(result)
        Q = result.Q
        noise = (Y == 1) & (Q < 0.5)
        confidence = np.where(Y == 1, Q, 0).astype(X.dtype)
        return Fit(noise, result.log_odds, len(result.objective), result.objective, confidence)

    def _keep(self, result: SieveResult) -> None:
        self.pool_, self.noise_model_ = result.pool, result.noise
        self.noise_rates_, self.lams_ = result.rates, np.asarray(result.lams)

    def _fit_blocks(self, store: RowStore, layout: Layout) -> BlockFit:
        if not isinstance(self.features, str):
            raise InputError(
                f"a transformer needs all rows in main memory; transform the blocks yourself and "
                f'set features="none", or choose "auto", "text" or "spread" instead of '
                f"{self.features!r}"
            )
        OneOf(("auto", "text", "spread", "none")).check("features", self.features)
        names = ("features", "kernel", "noise_level", "lam", "max_iter", "max_kernel_rows")
        options = {name: getattr(self, name) for name in (*names, "n_landmarks", "random_state")}
        found = sieve_blocks(store, callback=self._callback(), **options)
        self.transformer_, self.scale_, self.expansion_ = None, found.scale, found.expansion
        self._keep(found.result)
        self.objective_, self.n_iter_ = found.result.objective, len(found.result.objective)
        confidence = sp.csr_array(sp.vstack(found.result.soft_labels()))
        samples = found.result.problem.gather(_sample, sample_stride(*confidence.shape))
        scores, listed = (np.concatenate(arrays) for arrays in zip(*samples, strict=True))
        self.calibration_ = self._calibrate(scores, listed)
        wrong = (confidence.data < 0.5, confidence.indices.copy(), confidence.indptr.copy())
        noise = sp.csr_array(wrong, shape=confidence.shape)
        noise.eliminate_zeros()
        return BlockFit(scores, listed, noise, confidence.astype(layout.dtype))

    def _scores(self, X: "Array | sp.csr_array") -> Array:
        blocks = [
            self.pool_.log_odds(self.expansion_.scores(self._scaled(X[i : i + _BLOCK_ROWS])))
            for i in range(0, X.shape[0], _BLOCK_ROWS)
        ]
        if is_device_array(X):
            xp = namespace(X)
            return xp.astype(xp.concat(blocks), X.dtype)
        return np.concatenate(blocks).astype(X.dtype)

    def _share_key(self) -> Hashable:
        names = ("kernel", "max_kernel_rows", "n_landmarks", "random_state")
        return (*(repr(getattr(self, name)) for name in names), _content(self.features))

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        factored = self._factor(self._fit_features(train))
        features = factored.source.features(self._scaled(test))
        return lambda model, Y: model._solve(factored, Y).scores(features)

    def _fit_features(self, X: "Array | sp.csr_array") -> Any:
        if isinstance(self.features, str):
            OneOf(("auto", "text", "spread", "none")).check("features", self.features)
            self.transformer_ = None
            self.scale_ = learn_scale(X, self.features)
        elif not (hasattr(self.features, "fit") and hasattr(self.features, "transform")):
            raise InputError(
                f"features must be 'auto', 'text', 'spread', 'none' or a transformer of "
                f"scikit-learn, got {self.features!r}"
            )
        else:
            self.transformer_ = clone(self.features).fit(X)
            self.scale_ = learn_scale(X, "none")
        return self._scaled(X)

    def _scaled(self, X: "Array | sp.csr_array") -> Any:
        if self.transformer_ is not None:
            X = self.transformer_.transform(X)
            X = X.to_numpy() if hasattr(X, "to_numpy") else X
            X = sp.csr_array(X) if sp.issparse(X) else X
        return self.scale_.transform(X)

    def _factor(self, Z: Any) -> FactoredRows:
        return factor(
            Z,
            kernel=self.kernel,
            max_kernel_rows=self.max_kernel_rows,
            n_landmarks=self.n_landmarks,
            rng=check_random_state(self.random_state),
        )

    def _solve(self, factored: FactoredRows, Y: Array, known: Array | None = None) -> SieveResult:
        trusting = self._trusts()
        rates = known_rates(self.noise_level, Y.sum(axis=1), Y.shape[1])
        if trusting and known is not None:
            Y, known = np.where(known < 0, 0, Y), None
        return solve(
            factored.problem(Y, rates, known),
            kernel=self.kernel,
            lam=self.lam,
            trusting=trusting,
            max_iter=self.max_iter,
            rng=check_random_state(self.random_state),
            callback=self._callback(),
            known=known is not None,
        )

    def _trusts(self) -> bool:
        return trusts(self.noise_level)

    def _calibrate(self, scores: Array, Y: Array) -> Calibration:
        """Calibrate the trusting ridge; the pool is calibrated already."""
        if self._trusts():
            return calibrate(scores, Y, noise_rate=1e-6)
        return Calibration(1.0, 0.0, float(np.mean(self.noise_model_.rate)))


def _sample(splits: Sequence[Split], stride: int) -> tuple[Array, Array]:
    """Log-odds and candidates (m, l) of the rows 0, stride, 2 stride, ... among all rows."""
    indices, c = splits[0].train.indices, splits[0].train.candidates
    listed = np.zeros(c.shape, dtype=np.uint8)
    listed[to_numpy(c.row), c.label] = 1
    order = np.argsort(indices)
    chosen = indices[order] % stride == 0
    return log_odds(splits)[chosen], listed[order[chosen]]


def _content(features: Any) -> str:
    """Hash of the fitted behaviour of a transformer; its repr is abbreviated."""
    try:
        return str(joblib.hash(features))
    except Exception:
        return str(id(features))
