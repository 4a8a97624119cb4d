"""Sieve, the default method, which needs neither tuning nor true labels."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from schirn._input import (
    Array,
    Number,
    OneOf,
    Seed,
    check_same_length,
    declare_parameters,
    location,
    parameter,
)
from schirn._progress import stage, track
from schirn.estimators._base import Fit, MethodInfo, PartialMultiLabelClassifier
from schirn.exceptions import InputError
from schirn.labels.known import as_known
from schirn.labels.votes import Votes, read_votes
from schirn.linalg.arrays import is_device_array, namespace, near, to_numpy
from schirn.linalg.features import KernelExpansion, learn_scale
from schirn.noise.calibration import Calibration, calibrate
from schirn.noise.informativeness import informativeness
from schirn.noise.model import candidate_posterior
from schirn.noise.thresholds import ThresholdRule
from schirn.noise.votes import vote_model
from schirn.scale.blocks import Layout, RowStore, one_block
from schirn.scale.fit import BlockFit
from schirn.solvers.feature_ridges import fit_features
from schirn.solvers.kernel_ridges import fit_kernel
from schirn.solvers.sieve import Knowledge, SieveOptions, SieveResult
from schirn.solvers.sieve_blocks import sieve_blocks
from schirn.solvers.sparse_ridges import fit_sparse

_BLOCK_ROWS = 5000
# Maximum number of rows used to set the threshold.
SAMPLE_ROWS = 10_000
# Above 0, so that confidences keep their order.
_LEAST_BELIEF = 0.02
# Size of a block of rows in files, in numbers.
_FILE_CELLS = 2**23


@declare_parameters
class Sieve(PartialMultiLabelClassifier):
    r"""Alternate leave-one-out ridge scores with the exact posterior of the candidates.

    Each round computes the posterior Q of the candidates from the label probabilities p and the
    noise model, fits ridge regressions of several strengths to Q,

    .. math:: \min_f \|f(X) - Q\|_F^2 + \lambda \|f\|^2 ,

    computes their leave-one-out scores in closed form (a row does not influence its own verdict),
    adds an expert for label correlations, and pools all experts into new log-odds. The pool is
    fitted to held-out rows. The noise model estimates the rate at which false labels are listed,
    how many there are per row and, if labels clearly differ, which labels are listed too often.

    Parameters
    ----------
    features : {"auto", "text", "spread", "none"} or transformer, default="auto"
        Scaling of X. "auto" treats sparse counts as text (tf-idf, rows of length 1) and divides
        other features by their spread. A scikit-learn transformer replaces the scaling.
    kernel : {"rbf", "linear"}, default="rbf"
        "rbf" takes its width from the median distance. Both have an intercept. For texts, "linear"
        is as accurate and predicts faster.
    estimate_noise : bool, default=True
        False trusts every candidate, which reduces Sieve to a tuned ridge.
    lam : float, default=None
        Ridge weight. None chooses it on candidates of held-out rows, and pools several ridges with
        weights around it.
    max_iter : int, default=8
        Maximum number of rounds.
    max_kernel_rows : int, default=4000
        With more rows than this, the kernel is approximated from `n_landmarks` rows. A linear model
        with more than `n_landmarks` sparse features uses all features, and scores each row by folds
        that leave it out.
    n_landmarks : int, default=1500
        Number of landmarks of the Nyström approximation.
    threshold : float, array or str, default=0.0
        Rule of `predict`; a log-odds threshold of 0.0 predicts labels that are more likely true
        than not.
    keep_log_odds : bool, default=False
        Keep `training_log_odds_` for rows in files or on Dask workers too.
    random_state : int, RandomState instance or None, default=0
        Seed for drawing the inner splits, the landmarks and the cells that the pool is fitted to.
    checkpoint : path, default=None
        Folder for the state of a long fit. A killed fit resumes from it when started again with the
        same data and parameters. The folder is removed at the end of the fit.
    verbose : bool, default=False
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    label_confidence_ : array or CSR array of shape (n, l)
        Confidence that a candidate is true, given its row's features, all candidates of the row,
        and the other rows; 0 outside the candidates. Read it as a model-based ranking, not as a
        claim about how many candidates are wrong, which candidates alone cannot reveal. Known
        labels get 1 or 0.
    noise_ : array of shape (n, l)
        Whether a label is a candidate whose confidence is below one half.
    informativeness_ : float
        How much the features say about the labels, from 0.02 to 1. The lower it is, the more
        confidences are shrunk towards 1; their order does not change.
    training_rows_ : TrainingRows
        Sketch of the training rows, by which `training_row_of` recognises them.
    training_influence_ : array of shape (n, l)
        Influence of each training row on its own scores, which `held_out_scores` subtracts.
    training_log_odds_ : array of shape (n, l)
        Log-odds that each label is true, each row left out of its own fit. Available for rows in
        main memory or on a device, and otherwise with `keep_log_odds`.
    noise_model_ : NoiseModel
        Rate at which false labels are listed, distribution of their number, label propensities.
    noise_rates_ : ndarray of shape (n_iter_,)
        Estimated rate in each round.
    evidence_ : ndarray of shape (n_iter_,)
        Mean log-likelihood of held-out cells after each round. The first round that lowers it is
        discarded and ends the fit. NaN with votes.
    objective_ : ndarray of shape (n_iter_,)
        Mean cross-entropy of the soft labels in each round.
    n_iter_ : int
        Number of rounds, including a discarded last round.
    vote_model_ : VoteModel or None
        Quality of the votes and of every annotator, if votes were passed to `fit`.
    pool_ : Pool
        Weights of the experts in the log-odds.
    lams_ : ndarray
        Ridge weights of the experts.
    scale_ : FeatureScale
        Scaling of the features.
    transformer_ : transformer or None
        The fitted transformer, if `features` is one.
    expansion_ : KernelExpansion
        The ridges in the form that scores new rows.
    calibration_ : Calibration
        Maps log-odds to probabilities.
    cardinality_ : float
        Mean number of labels per row, used by the threshold "cardinality".
    threshold_ : LabelThreshold
        The rule that `predict` applies.
    label_names_ : list of str
    classes_ : int array of shape (max(l, 2),)
        Indices of the labels.
    n_features_in_ : int

    Notes
    -----
    `decision_function` returns log-odds and `predict_proba` their sigmoid. The pool calibrates
    them; it is fitted to posteriors of candidates, never to true labels. A fit takes up
    to three Cholesky inverses of n x n matrices, or two eigendecompositions of the landmark
    features, and then only products: time is linear in the number of labels once there are more
    labels than rows. Memory is 6 n^2 numbers, or n times the number of landmarks.

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

    features: Any = "auto"
    kernel: str = parameter("rbf", OneOf(("rbf", "linear")))
    estimate_noise: bool = parameter(True, OneOf((True, False)))
    lam: float | None = parameter(None, Number(open_low=True, none=True))
    max_iter: int = parameter(8, Number(low=1, integer=True))
    max_kernel_rows: int = parameter(4000, Number(low=0, integer=True))
    n_landmarks: int = parameter(1500, Number(low=1, integer=True))
    threshold: ThresholdRule = 0.0
    keep_log_odds: bool = parameter(False, OneOf((True, False)))
    random_state: int | np.random.RandomState | None = parameter(0, Seed())
    checkpoint: str | os.PathLike[str] | None = None
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="leave-one-out posterior",
        reference="this library, docs/sieve.md",
        cost="n^2 l",
        memory="n^2 + n l, or n landmarks + n l",
    )

    row_locations: ClassVar = ("device", "dask", "files")
    _continues: ClassVar = ("memory", "files")

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        label_names: Sequence[str] | None = None,
        known: Any = None,
        votes: Any = None,
        groups: Any = None,
    ) -> "Sieve":
        """Train on rows and their candidate labels.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n, d)
            Also tensors, a `RowFile` or a Dask array (docs/scale.md). With `known`, `votes` or
            `groups`, a `RowFile` is mapped into memory; tensors and Dask arrays do not take these.
        y : array, sparse matrix or DataFrame of shape (n, l), or list of lists
            Candidates: 0/1 or bool, or one list of label names per row.
        label_names : sequence of str, optional
            Names of the label columns, for candidates that carry none.
        known : array, sparse matrix or DataFrame of shape (n, l), optional
            1 for candidates known to be true, -1 for candidates known to be wrong, 0 for the
            others. Similar rows learn from known labels, which also inform the rate at which each
            label is wrongly listed. Keep a wrong label among the candidates if it was listed,
            because it is evidence of noise.
        votes : Votes or (counts, voters), optional
            How many annotators chose each label: the result of `votes_to_candidates`, or an (n, l)
            array of counts with the number of annotators, one for all rows or one per row. With
            `Votes`, the quality of each annotator is estimated separately.
        groups : array of shape (n,), optional
            Rows of the same group, such as copies, never judge each other. Needs at most
            `max_kernel_rows` rows, or sparse features and a linear kernel.

        Returns
        -------
        Sieve
            The fitted estimator.
        """
        extras = {"known": known, "votes": votes, "groups": groups}
        extras = {name: value for name, value in extras.items() if value is not None}
        if location(X) != "memory":
            X = self._rows_elsewhere(X, y, extras)
        if label_names is None and isinstance(votes, Votes) and y is votes.candidates:
            label_names = votes.label_names
        self._fit_checked(X, y, label_names, **extras)
        return self

    def leaves_groups_out(self, n_rows: int, sparse: bool) -> bool:
        """Return whether `fit` takes `groups` for this many rows.

        Parameters
        ----------
        n_rows : int
        sparse : bool
            Whether the features are sparse.

        Returns
        -------
        bool
        """
        return n_rows <= self.max_kernel_rows or (sparse and self.kernel == "linear")

    def _rows_elsewhere(self, X: Any, y: Any, extras: dict[str, Any]) -> Any:
        """Convert rows in files, on a device or on workers to the form that `fit` uses."""
        name = next(iter(extras), None)
        if name is not None and location(X) == "files":
            # Only the in-memory solver takes `extras`; it reads a mapped file in pieces.
            return X.mapped()
        if name is not None:
            raise InputError(
                f"{name} needs rows in main memory; leave it out, or give X as an array or CSR "
                f"matrix",
                parameter=name,
            )
        return X._finer(self._file_rows(X, y)) if location(X) == "files" else X

    def _knowledge(
        self, Y: Array, known: Any = None, votes: Any = None, groups: Any = None
    ) -> Knowledge:
        """Validate what the user knows about the rows."""
        if groups is not None:
            # Number groups by their first row, so that results do not depend on their names.
            _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
            check_same_length(len(Y), len(groups))
            groups = np.argsort(np.argsort(first))[groups]
        quality = None
        if votes is not None:
            quality = vote_model(*read_votes(votes, Y, self.label_names_))
        certain = None if known is None else as_known(known, Y, self.label_names_)
        return Knowledge(certain, quality, groups)

    def _file_rows(self, X: Any, y: Any) -> int:
        """Number of rows per block in files, given the memory that features and scores take."""
        shape: tuple[int, ...] = getattr(y, "shape", ())
        width = max(X.shape[1], self.n_landmarks, 3 * shape[1] if len(shape) == 2 else 0)
        return max(1, _FILE_CELLS // width)

    def disambiguate(self, X: Any, candidates: Any) -> Array:
        """Return the confidence (n, l) in candidates of new rows, given the whole set; 0 elsewhere.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        candidates : array-like of shape (n, l), or list of lists of str
            In any container that `fit` takes.

        Returns
        -------
        (n, l) array of float
        """
        scores = self.held_out_scores(X)
        Y = self._candidates_of(X, candidates, len(scores))
        log_odds = to_numpy(scores)
        return near(self.posterior_of_candidates(log_odds, Y).astype(log_odds.dtype), scores)

    def posterior_of_candidates(self, log_odds: Array, Y: Array) -> Array:
        """Return the confidence (n, l) in candidates Y, given held-out log-odds.

        Parameters
        ----------
        log_odds : array of shape (n, l)
            Rows of `training_log_odds_`, or the `decision_function` of unseen rows.
        Y : array of shape (n, l)
            Candidates, 0/1.

        Returns
        -------
        (n, l) array of float
            0 outside the candidates.
        """
        if self._trusts():
            return Y.astype(np.float64)
        P = np.clip(self.calibration_.probability(log_odds), 1e-4, 1 - 1e-4)
        Q = candidate_posterior(P, Y, self.noise_model_).Q
        return np.where(Y == 1, 1 - self.informativeness_ * (1 - Q), 0)

    def _fit(self, X: "Array | sp.csr_array", Y: Array, **extras: Any) -> Fit:
        knowledge = self._knowledge(Y, **extras) if extras else Knowledge()
        known = knowledge.known
        trusted = Y
        if known is not None and self._trusts():
            # A trusting model must not learn labels that are known to be wrong.
            trusted = np.where(known < 0, 0, Y)
            knowledge = knowledge._replace(known=None)
        self._learn_features(X)
        result, expansion = self._solve(X, trusted, knowledge)
        if expansion.kernel.name == "linear":
            # Store linear weights in the precision of the features.
            expansion = expansion._replace(weights=expansion.weights.astype(X.dtype, copy=False))
        self.expansion_ = expansion
        scores = result.log_odds()
        confidence = self._set_noise_estimates(result, result.confidence()).toarray()
        if known is not None:
            confidence = np.where(known == 0, confidence, known > 0)
        self.training_log_odds_: Any = scores
        confidence = confidence.astype(X.dtype)
        return Fit(None, scores, len(self.objective_), self.objective_, confidence)

    def _solve(self, X: Any, Y: Array, knowledge: Knowledge) -> tuple[SieveResult, KernelExpansion]:
        """Run the rounds on rows in memory, with the ridges that suit their number."""
        Z = self._transformed(X)
        is_wide = Z.shape[1] > Z.shape[0] and self.kernel == "linear" and not sp.issparse(Z)
        if Z.shape[0] <= self.max_kernel_rows or is_wide:
            return fit_kernel(self.scale_.transform(Z), Y, self._options(), knowledge)
        return self._solve_many(Z, Y, knowledge)

    def _solve_many(
        self, Z: Any, Y: Array, knowledge: Knowledge
    ) -> tuple[SieveResult, KernelExpansion]:
        """Run the rounds on rows whose kernel matrix would be too large."""
        n, d = Z.shape
        options = self._options()
        scaled = self.scale_.transform
        has_groups = knowledge.groups is not None
        if self._has_texts():
            # Landmarks represent dense features well, but not many rare words.
            options = options._replace(kernel="linear")
        if options.kernel == "linear" and sp.issparse(Z) and (d > self.n_landmarks or has_groups):
            return fit_sparse(scaled(Z), Y, options, knowledge)
        if has_groups:
            raise InputError(
                f"groups are left out together up to max_kernel_rows={self.max_kernel_rows} rows, "
                f"and X has {n:,}; leave them out, or use find_noisy_labels with cv=5",
                parameter="groups",
            )
        # Scale the rows in pieces: a scaled copy takes as much memory as X.
        return fit_features(one_block(Z), Y, options, Z.dtype, scaled, knowledge)

    def _set_noise_estimates(self, result: SieveResult, posterior: sp.csr_array) -> sp.csr_array:
        """Set the noise estimates of the fit, and return the confidences of all candidates."""
        votes = result.fitted.splits[0].train.knowledge.votes
        self.pool_ = result.pool
        self.lams_ = np.asarray(result.lams, dtype=float)
        self.noise_model_ = result.noise
        self.noise_rates_ = np.array([entry.rate for entry in result.trace])
        self.objective_ = np.array([entry.cross_entropy for entry in result.trace])
        self.evidence_ = np.array([entry.evidence for entry in result.trace])
        self.vote_model_ = None if votes is None else votes._replace(log_ratio=None)
        stage("deciding how much of the noise to trust")
        if self.estimate_noise and votes is None:
            share = 1 - float(posterior.data.mean()) if posterior.nnz else 0.0
            belief = float(informativeness(result.held_auc, share))
            self.informativeness_ = max(belief, _LEAST_BELIEF)
        else:
            self.informativeness_ = 1.0
        values = 1 - self.informativeness_ * (1 - posterior.data)
        cells = values, posterior.indices, posterior.indptr
        return sp.csr_array(cells, shape=posterior.shape)

    def _fit_blocks(self, store: RowStore, layout: Layout) -> BlockFit:
        if not isinstance(self.features, str):
            raise InputError(
                f"a transformer needs all rows in main memory; transform the blocks yourself and "
                f'set features="none", or choose "auto", "text" or "spread" instead of '
                f"{self.features!r}"
            )
        OneOf(("auto", "text", "spread", "none")).check("features", self.features)
        fit = sieve_blocks(
            store,
            layout.Y,
            self._options(),
            features=self.features,
            sample_rows=SAMPLE_ROWS,
            all_log_odds=self.keep_log_odds,
        )
        self.transformer_ = None
        self.scale_ = fit.scale
        self.expansion_ = fit.expansion
        scores, candidates = fit.sample
        confidence = self._set_noise_estimates(fit.result, fit.posterior)
        self.n_iter_ = len(self.objective_)
        self.calibration_ = self._calibrate(scores, candidates)
        if fit.log_odds is not None:
            self.training_log_odds_ = fit.log_odds
        elif self.keep_log_odds:
            self.training_log_odds_ = scores
        noise = confidence.data < 0.5
        return BlockFit(scores, candidates, confidence.astype(layout.dtype), noise)

    def _scores(self, X: "Array | sp.csr_array") -> Array:
        starts = range(0, X.shape[0], _BLOCK_ROWS)
        blocks = []
        for i in track(starts, "scores of block") if len(starts) > 1 else starts:
            Z = self.scale_.transform(self._transformed(X[i : i + _BLOCK_ROWS]))
            blocks.append(self.pool_.log_odds(self.expansion_.scores(Z)))
        if is_device_array(X):
            xp = namespace(X)
            return xp.astype(xp.concat(blocks), X.dtype)
        return np.concatenate(blocks).astype(X.dtype)

    def _learn_features(self, X: "Array | sp.csr_array") -> None:
        stage("scaling the features")
        if isinstance(self.features, str):
            OneOf(("auto", "text", "spread", "none")).check("features", self.features)
            self.transformer_ = None
            # Text features are already scaled.
            is_scaled = self.features == "auto" and self._has_texts()
            self.scale_ = learn_scale(X, "none" if is_scaled else self.features)
        else:
            self._learn_transformer(X)

    def _learn_transformer(self, X: "Array | sp.csr_array") -> None:
        if not (hasattr(self.features, "fit") and hasattr(self.features, "transform")):
            raise InputError(
                f"features must be 'auto', 'text', 'spread', 'none' or a transformer of "
                f"scikit-learn, got {self.features!r}"
            )
        self.transformer_ = clone(self.features).fit(X)
        self.scale_ = learn_scale(X, "none")

    def _transformed(self, X: "Array | sp.csr_array") -> Any:
        """Return the unscaled output of the user's transformer, if there is one."""
        return X if self.transformer_ is None else _plain_output(self.transformer_.transform(X))

    def _options(self) -> SieveOptions:
        return SieveOptions(**self._solver_options(SieveOptions), trusting=self._trusts())

    def _has_texts(self) -> bool:
        return "text_features_" in vars(self)

    def _trusts(self) -> bool:
        """Return True if every candidate is taken as true."""
        return not self.estimate_noise

    def _calibrate(self, scores: Array, Y: Array) -> Calibration:
        """Calibrate the scores of a trusting ridge; pooled log-odds are already calibrated."""
        if self._trusts():
            return calibrate(scores, Y, noise_rate=1e-6)
        return Calibration(1.0, 0.0, self.noise_model_.rate)


def _plain_output(X: Any) -> Any:
    """Convert the output of a transformer to an array or CSR array."""
    X = X.to_numpy() if hasattr(X, "to_numpy") else X
    return sp.csr_array(X) if sp.issparse(X) else X
