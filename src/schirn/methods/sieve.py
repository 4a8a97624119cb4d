"""Sieve, the default method: no tuning, no true labels."""

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import joblib
import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.utils import check_random_state

from schirn._input import Number, OneOf, Seed, check_same_length
from schirn._progress import stage, track
from schirn.exceptions import InputError
from schirn.labels.known import as_known
from schirn.labels.matrix import as_labels
from schirn.labels.votes import Votes, read_votes
from schirn.linalg.arrays import is_device_array, like, namespace, near, to_numpy
from schirn.linalg.features import learn_scale
from schirn.linalg.weights import as_weights, copies, repeat, whole
from schirn.methods._base import Fit, MethodInfo, PartialMultiLabelClassifier
from schirn.noise.calibration import Calibration, calibrate
from schirn.noise.caution import caution
from schirn.noise.missing import completed, missing_probability, missing_rate
from schirn.noise.model import candidate_posterior
from schirn.noise.thresholds import ThresholdRule
from schirn.noise.votes import VoteModel, anchored, vote_model
from schirn.scale.blocks import Layout, RowStore
from schirn.scale.fit import BlockFit
from schirn.scale.input import location
from schirn.solvers.sieve import SieveResult, known_rates, trusts
from schirn.solvers.sieve_blocks import SieveFit, gather_fit, sieve_blocks
from schirn.solvers.sieve_kernel import (
    Options,
    expansion,
    kernel_between,
    kernel_matrix,
    solve,
)
from schirn.solvers.sieve_landmarks import FactoredRows, factor
from schirn.solvers.sieve_landmarks import solve as solve_landmarks

Array = np.ndarray

_BLOCK_ROWS = 5000
# Rows that decide how much of the claimed noise to believe.
_JUDGED_ROWS = 10_000
# Numbers of a block of rows in files.
_FILE_CELLS = 2**23
# Weak features are never sure that a label is missing.
_STRONG = 0.25


class Sieve(PartialMultiLabelClassifier):
    r"""Alternate leave-one-out ridge scores with the exact posterior of the candidates.

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
    checkpoint : path, optional
        Folder for the state of a long fit. A fit that was killed goes on there if it is started
        again with the same data and parameters; when it is done, the folder is removed.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    label_confidence_ : (n, l) probability that a candidate is true, given its row's features, all
        candidates of the row, and the other rows; 0 outside the candidates. Where the features
        cannot tell, it goes back towards 1. Labels given as known get 1 or 0.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    wrong_share_ : share of the candidates that are wrong by these confidences.
    largest_wrong_share_ : the largest share that the candidates allow.
    caution_ : how much of the estimated noise is believed, for each label.
    training_log_odds_ : (n, l) log-odds that each label is true, each row left out of its own fit;
        for rows in main memory or on a device.
    missing_ : (n, l) CSR array, probability that an unlisted label is true, if above one half.
    missing_rate_ : share of the true labels that are missing from the candidates; 0 unless clear.
    vote_model_ : quality of the votes and of every annotator, if `fit` was given votes.
    noise_model_ : rate at which false labels are listed, law of their number, label propensities.
    noise_rates_ : estimated rate after each round.
    pool_ : weights of the experts in the log-odds.
    lams_ : ridge weights of the experts.
    objective_ : mean cross-entropy of the soft labels per round.
    scale_, transformer_, expansion_, calibration_, cardinality_, n_iter_, label_names_,
    n_features_in_, classes_, threshold_

    Notes
    -----
    `decision_function` returns log-odds and `predict_proba` their sigmoid; they are calibrated by
    the pool, which is fitted to posteriors of candidates, never to true labels. Time is three
    Cholesky inverses of n x n, or two eigendecompositions of the landmark features, then products:
    linear in the number of labels as soon as there are more labels than rows. Memory is 6 n^2, or
    n times the number of landmarks.

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
        cost="n^2 l",
        memory="n^2 + n l, or n landmarks + n l",
    )

    row_locations: ClassVar = ("device", "dask", "files")
    keeps_log_odds = False
    """Set it to True to get `training_log_odds_` also of rows in files or on Dask workers."""
    _continues: ClassVar = ("memory", "files")
    _fitted: ClassVar = {
        "transformer_": "transformer?",
        "scale_": "FeatureScale",
        "expansion_": "KernelExpansion",
        "pool_": "Pool",
        "noise_model_": "NoiseModel",
        "noise_rates_": "trace (*)",
        "lams_": "float 0.. (*)",
        "vote_model_": "[VoteModel?]",
        "caution_": "[Caution]",
        "wrong_share_": "[float 0..1]",
        "largest_wrong_share_": "[float 0..1]",
        "missing_rate_": "[float 0..1]",
        "training_log_odds_": "[float (n, l)]",
        "missing_": "[sparse float? 0..1 (n, l)]",
    }
    wrong_share_: float
    largest_wrong_share_: float

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
        checkpoint: str | os.PathLike[str] | None = None,
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
        self.checkpoint = checkpoint
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        label_names: Sequence[str] | None = None,
        known: Any = None,
        votes: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> "Sieve":
        """Train on rows and their candidate labels.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n, d)
            Or tensors, a `RowFile` or a Dask array (docs/scale.md). A `RowFile` is mapped into
            memory if any of `known`, `votes`, `groups` and `sample_weight` is given; the others
            do not take these.
        y : array, sparse matrix or DataFrame of shape (n, l), or list of lists
            Candidates: 0/1 or bool, or one list of label names per row.
        label_names : sequence of str, optional
            Names of the label columns, for candidates that carry none.
        known : array, sparse matrix or DataFrame of shape (n, l), optional
            1 for candidates known to be true, -1 for wrong ones, 0 for the others. Similar rows
            learn from them. Leave a wrong label among the candidates if it was listed: it tells
            how much noise there is.
        votes : Votes or (counts, voters), optional
            How many of several annotators chose each label, from `votes_to_candidates` or as an
            (n, l) array with the number of annotators, for all rows or for each. With `Votes`,
            every annotator gets a quality of their own.
        groups : array of shape (n,), optional
            Rows of one group, such as copies, never judge each other.
        sample_weight : array of shape (n,), optional
            Weights of the rows. A row of weight 2 counts like two copies that are left out
            together, one of weight 0 is judged like an unseen row. For rows in main memory, up to
            `max_kernel_rows`, without `known` and `votes`.
        """
        given = {"known": known, "votes": votes, "groups": groups, "sample_weight": sample_weight}
        name = next((name for name, value in given.items() if value is not None), None)
        if name is not None and location(X) == "files":
            # Only the solver for rows in memory takes these; it reads a mapped file in pieces.
            X = X.mapped()
        if location(X) in self.row_locations:
            if name is not None:
                raise InputError(
                    f"{name} needs rows in main memory; leave it out, or give X as an array or "
                    f"CSR matrix",
                    parameter=name,
                )
            if location(X) == "files":
                X = X._finer(self._file_rows(X, y))
            super().fit(X, y, label_names=label_names)
            return self
        self._check()
        if label_names is None and isinstance(votes, Votes) and y is votes.candidates:
            label_names = votes.label_names
        with self._fitting():
            X, Y = self._validate_training(X, y, label_names)
            rates = known_rates(self.noise_level, Y.sum(axis=1), Y.shape[1])
            said = None
            if votes is not None:
                said = vote_model(*read_votes(votes, Y, self.label_names_))
            if groups is not None:
                # Numbered by their first row: what the groups are called does not matter.
                _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
                check_same_length(len(Y), len(groups))
                groups = np.argsort(np.argsort(first))[groups]
            options = Options(rates, as_known(known, Y, self.label_names_), said, groups)
            weights = as_weights(sample_weight, len(Y))
            with self._continued(X, Y, *options[:2], options.groups, weights, _ballots(votes)):
                if weights is None:
                    self._finish(self._fit_with(X, Y, options), Y)
                else:
                    self._fit_weighted(X, Y, options, weights)
        return self

    def _file_rows(self, X: Any, y: Any) -> int:
        """Rows of a block in files, by their features, landmarks and scores of all ridges."""
        shape: tuple[int, ...] = getattr(y, "shape", ())
        width = max(X.shape[1], self.n_landmarks, 3 * shape[1] if len(shape) == 2 else 0)
        return max(1, _FILE_CELLS // width)

    def disambiguate(self, X: Any, candidates: Any) -> Array:
        """Confidence (n, l) in the candidates of unseen rows, given whole sets; 0 elsewhere."""
        scores = self.decision_function(X)
        labels = as_labels(candidates, names=self.label_names_)
        check_same_length(len(scores), len(labels.matrix))
        log_odds = to_numpy(scores)
        return near(
            self.posterior_of_candidates(log_odds, labels.matrix).astype(log_odds.dtype), scores
        )

    def posterior_of_candidates(self, log_odds: Array, Y: Array) -> Array:
        """Return the confidence (n, l) in candidates Y, from log-odds of rows that were left out.

        Parameters
        ----------
        log_odds : array of shape (n, l)
            Rows of `training_log_odds_`, or the `decision_function` of unseen rows.
        Y : array of shape (n, l)
            Candidates, 0/1.
        """
        if self._trusts():
            return Y.astype(np.float64)
        P = np.clip(self.calibration_.probability(log_odds), 1e-4, 1 - 1e-4)
        noise = self.noise_model_._replace(rate=float(np.mean(self.noise_model_.rate)))
        Q = candidate_posterior(P, Y, noise).Q
        # Models of version 0.1 believed every claim.
        if hasattr(self, "caution_"):
            Q = np.where(Y == 1, self.caution_.apply(Q, np.arange(Q.shape[1])), 0)
        return Q

    def suggest(self, X: Any, candidates: Any, *, min_confidence: float = 0.5) -> sp.csr_array:
        """Labels that are probably missing from the candidates of unseen rows.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n, d)
        candidates : as in `fit`
        min_confidence : float
            Smallest probability of a suggestion.

        Returns
        -------
        suggestions : CSR array of shape (n, l)
            Probability that a label is true although it is not listed; 0 for labels that are
            listed or not worth suggesting.
        """
        scores = to_numpy(self.decision_function(X))
        labels = as_labels(candidates, names=self.label_names_)
        check_same_length(len(scores), len(labels.matrix))
        return self._missing(scores, labels.matrix, min_confidence)

    def _missing(self, log_odds: Array, Y: Any, min_confidence: float) -> sp.csr_array:
        low = self._least_log_odds(min_confidence)
        if is_device_array(log_odds):
            xp, (row, label) = namespace(log_odds), Y.nonzero()
            z = xp.reshape(log_odds + 0, (-1,))
            z[like(row.astype(np.int64) * Y.shape[1] + label, z, "own")] = -np.inf
            unlisted = xp.nonzero(z >= low)[0]
            cells, z = to_numpy(unlisted), to_numpy(xp.take(z, unlisted))
        else:
            cells = np.flatnonzero((log_odds >= low) & (Y == 0))
            z = log_odds.ravel()[cells]
        return self._likely(*np.divmod(cells, Y.shape[1]), z, Y.shape, min_confidence)

    def _least_log_odds(self, min_confidence: float) -> float:
        """Cells that are not listed need a closer look from here on; there are few of them."""
        # The probability rises with the log-odds.
        low, high = -40.0, 40.0
        while high - low > 1e-3:
            middle = (low + high) / 2
            if self.probability_unlisted(np.array([middle]))[0] >= min_confidence:
                high = middle
            else:
                low = middle
        return -np.inf if low == -40.0 else low

    def probability_unlisted(self, z: Array) -> Array:
        """Return the probability that labels with log-odds `z` are true although not listed."""
        rate, missing = float(np.mean(self.noise_model_.rate)), getattr(self, "missing_rate_", 0.0)
        return missing_probability(completed(z, missing), rate, missing)

    def _likely(
        self, row: Array, label: Array, z: Array, shape: tuple[int, int], min_confidence: float
    ) -> sp.csr_array:
        """Those cells that are missing with at least this probability."""
        p = self.probability_unlisted(z)
        likely = p >= max(min_confidence, np.finfo(p.dtype).tiny)
        return sp.csr_array((p[likely], (row[likely], label[likely])), shape=shape)

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        rates = known_rates(self.noise_level, Y.sum(axis=1), Y.shape[1])
        return self._fit_with(X, Y, Options(rates))

    def _fit_weighted(
        self, X: "Array | sp.csr_array", Y: Array, options: Options, weights: Array
    ) -> None:
        """Train on rows with weights; rows without weight are judged like unseen ones."""
        if options.known is not None or options.votes is not None:
            name = "known" if options.known is not None else "votes"
            raise InputError(
                f"sample_weight cannot be combined with {name}; repeat rows instead",
                parameter="sample_weight",
            )
        kept, rates, groups = weights > 0, options.rates, options.groups
        if isinstance(rates, np.ndarray):
            rates = rates[kept]
        else:
            (sizes,) = repeat(copies(weights), Y.sum(axis=1))
            rates = known_rates(self.noise_level, sizes, Y.shape[1])
        options = Options(
            rates,
            groups=None if groups is None else groups[kept],
            weights=as_weights(weights[kept], int(kept.sum())),
        )
        fit = self._fit_with(X[kept], Y[kept], options)
        self._finish(fit, Y[kept], copies(options.weights))
        if kept.all():
            return
        scores, own = self._scores(X[~kept]), fit.scores
        unseen = self.posterior_of_candidates(scores, Y[~kept]).astype(X.dtype)
        self.training_log_odds_ = whole(kept, own, scores)
        self.missing_ = self._missing(self.training_log_odds_, Y, 0.5)
        self.label_confidence_ = whole(kept, self.label_confidence_, unseen)
        self.noise_ = (Y == 1) & (self.label_confidence_ < 0.5)

    def _fit_with(self, X: "Array | sp.csr_array", Y: Array, options: Options) -> Fit:
        known, listed, trusted = options.known, Y, Y
        if known is not None:
            # What is known to be wrong is neither learned by a trusting model nor missing.
            trusted = np.where(known < 0, 0, Y) if self._trusts() else Y
            listed = np.where(known < 0, 1, Y)
            options = options._replace(known=None if self._trusts() else known)
        counts = copies(options.weights)
        self._learn_features(X, counts)
        found = self._solve(X, trusted, options)
        confidence = self._judge(found, options.votes, counts).toarray()
        if known is not None:
            confidence = np.where(known == 0, confidence, known > 0)
            self.wrong_share_ = float((Y * (1 - confidence)).sum() / max(Y.sum(), 1))
            self.largest_wrong_share_ = max(self.caution_.largest_share, self.wrong_share_)
        scores, objective = found.sample.log_odds, found.objective
        self.training_log_odds_ = scores
        self.missing_ = self._missing(scores, listed, 0.5)
        noise = (Y == 1) & (confidence < 0.5)
        return Fit(noise, scores, len(objective), objective, confidence.astype(X.dtype))

    def _judge(
        self, found: SieveFit, votes: VoteModel | None = None, counts: Array | None = None
    ) -> sp.csr_array:
        """Keep what a fit found; the confidences of all candidates."""
        self.expansion_, self.pool_, self.noise_model_ = found.expansion, found.pool, found.noise
        self.noise_rates_, self.lams_ = found.rates, found.lams
        self.vote_model_ = None if votes is None else votes._replace(log_ratio=None)
        confidence, rate = found.confidence.copy(), float(np.mean(found.noise.rate))
        Z, Y, Q = repeat(counts, *found.sample)
        some = slice(None, None, max(1, len(Y) // _JUDGED_ROWS))
        stage("deciding how much of the noise to trust")
        seen = caution(Z[some], Y[some], Q[some], rate)
        times = None if counts is None else np.repeat(counts, np.diff(confidence.indptr))

        def wrong_share() -> float:
            return float(np.average(1 - confidence.data, weights=times)) if confidence.nnz else 0.0

        # Whoever names the noise, or counts votes, is believed.
        if self.noise_level is not None or votes is not None:
            seen = seen._replace(factors=np.ones(Y.shape[1]), strict_share=wrong_share())
        self.caution_ = seen
        confidence.data = seen.apply(confidence.data, confidence.indices)
        self.wrong_share_ = wrong_share()
        self.largest_wrong_share_ = max(seen.largest_share, self.wrong_share_)
        self.missing_rate_ = 0.0
        if seen.separation > _STRONG:
            self.missing_rate_ = missing_rate(Z[some], Y[some], rate)
        return confidence

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
        options |= {"sample_rows": _JUDGED_ROWS, "all_log_odds": self.keeps_log_odds}
        found = sieve_blocks(store, **options)
        self.transformer_, self.scale_ = None, found.scale
        confidence = self._judge(found)
        self.objective_, self.n_iter_ = found.objective, len(found.objective)
        scores, listed, _ = found.sample
        self.calibration_ = self._calibrate(scores, listed)
        if found.log_odds is not None:
            self.training_log_odds_ = found.log_odds
        elif self.keeps_log_odds:
            self.training_log_odds_ = scores
        if is_device_array(found.log_odds):
            self.missing_ = self._missing(found.log_odds, confidence, 0.5)
        elif len(listed) == confidence.shape[0]:
            self.missing_ = self._missing(scores, listed, 0.5)
        else:
            cells = found.unlisted(self._least_log_odds(0.5))
            self.missing_ = self._likely(*cells, confidence.shape, 0.5)
        wrong = (confidence.data < 0.5, confidence.indices.copy(), confidence.indptr.copy())
        noise = sp.csr_array(wrong, shape=confidence.shape)
        noise.eliminate_zeros()
        return BlockFit(scores, listed, noise, confidence.astype(layout.dtype))

    def _scores(self, X: "Array | sp.csr_array") -> Array:
        blocks = [
            self.pool_.log_odds(self.expansion_.scores(self._scaled(X[i : i + _BLOCK_ROWS])))
            for i in track(range(0, X.shape[0], _BLOCK_ROWS), "scores of block")
        ]
        if is_device_array(X):
            xp = namespace(X)
            return xp.astype(xp.concat(blocks), X.dtype)
        return np.concatenate(blocks).astype(X.dtype)

    def _share_key(self) -> Hashable:
        names = ("kernel", "max_kernel_rows", "n_landmarks", "random_state")
        return (*(repr(getattr(self, name)) for name in names), _content(self.features))

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        Z = self._fit_features(train)
        Z_test = self._scaled(test)
        if not self._is_small(Z):
            factored = self._factor(Z)
            features = factored.source.features(Z_test)
            return lambda model, Y: model._solve_factored(factored, Y).scores(features)
        kernel, K = kernel_matrix(Z, self.kernel, check_random_state(self.random_state))
        K_test = kernel_between(kernel, Z_test, Z)

        def scores(model: Any, Y: Array) -> Array:
            rates = known_rates(model.noise_level, Y.sum(axis=1), Y.shape[1])
            return np.asarray(solve(K, Y, options=Options(rates), **model._rounds()).scores(K_test))

        return scores

    def _fit_features(self, X: "Array | sp.csr_array") -> Any:
        self._learn_features(X)
        return self._scaled(X)

    def _learn_features(self, X: "Array | sp.csr_array", counts: Array | None = None) -> None:
        stage("scaling the features")
        (rows,) = repeat(counts, X)
        if isinstance(self.features, str):
            OneOf(("auto", "text", "spread", "none")).check("features", self.features)
            self.transformer_ = None
            self.scale_ = learn_scale(rows, self.features)
        elif not (hasattr(self.features, "fit") and hasattr(self.features, "transform")):
            raise InputError(
                f"features must be 'auto', 'text', 'spread', 'none' or a transformer of "
                f"scikit-learn, got {self.features!r}"
            )
        else:
            self.transformer_ = clone(self.features).fit(rows)
            self.scale_ = learn_scale(rows, "none")

    def _scaled(self, X: "Array | sp.csr_array") -> Any:
        if self.transformer_ is not None:
            X = self.transformer_.transform(X)
            X = X.to_numpy() if hasattr(X, "to_numpy") else X
            X = sp.csr_array(X) if sp.issparse(X) else X
        return self.scale_.transform(X)

    def _is_small(self, Z: Any) -> bool:
        """Whether the kernel matrix of all rows is used."""
        n, d = Z.shape
        return n <= self.max_kernel_rows or (self.kernel == "linear" and d > n)

    def _rounds(self) -> dict[str, Any]:
        names = ("kernel", "lam", "max_iter", "random_state")
        rounds = {name: getattr(self, name) for name in names}
        return {**rounds, "trusting": self._trusts()}

    def _factor(self, Z: Any, **options: Any) -> FactoredRows:
        rng = check_random_state(self.random_state)
        return factor(Z, kernel=self.kernel, n_landmarks=self.n_landmarks, rng=rng, **options)

    def _solve(self, X: Any, Y: Array, options: Options) -> SieveFit:
        Z = X if self.transformer_ is None else self._scaled(X)
        if self._is_small(Z):
            Z = self.scale_.transform(X) if self.transformer_ is None else Z
            rng, counts = check_random_state(self.random_state), copies(options.weights)
            kernel, K = kernel_matrix(Z, self.kernel, rng, counts)
            result = solve(K, Y, options=options, **self._rounds())
            own = expansion(kernel, Z, result.ridges)
            return gather_fit(own, result, self.scale_, 1)._replace(problem=None)
        if options.weights is not None:
            raise InputError(
                f"sample_weight is supported up to max_kernel_rows={self.max_kernel_rows} rows, "
                f"and X has {Z.shape[0]:,}; leave it out, or repeat rows instead",
                parameter="sample_weight",
            )
        if options.groups is not None:
            raise InputError(
                f"groups are left out together up to max_kernel_rows={self.max_kernel_rows} rows, "
                f"and X has {Z.shape[0]:,}; leave them out, or use find_noisy_labels with cv=5",
                parameter="groups",
            )
        # Rows are scaled some at a time, because a scaled copy takes as much memory as X.
        whole = self.transformer_ is not None
        factored = self._factor(Z, **({} if whole else {"scaled": self.scale_.transform}))
        many = self._solve_factored(factored, Y, options)
        found = gather_fit(factored.source.expansion(many.ridges), many, self.scale_, 1)
        if options.votes is None:
            return found
        # Votes enter after the rounds here: the features have learned from the candidates alone.
        votes, (row, label) = options.votes, np.nonzero(Y)
        z = anchored(np.clip(found.sample.log_odds, -11, 11), votes.frequency) + votes.log_ratio
        found.confidence.data = expit(z[row, label])
        return found

    def _solve_factored(
        self, factored: FactoredRows, Y: Array, options: Options | None = None
    ) -> SieveResult:
        rates = known_rates(self.noise_level, Y.sum(axis=1), Y.shape[1])
        known = None if options is None else options.known
        rounds = {**self._rounds(), "rng": check_random_state(self.random_state)}
        del rounds["random_state"]
        problem = factored.problem(Y, rates, known)
        return solve_landmarks(problem, known=known is not None, **rounds)

    def _trusts(self) -> bool:
        return trusts(self.noise_level)

    def _calibrate(self, scores: Array, Y: Array) -> Calibration:
        """Calibrate the trusting ridge; the pool is calibrated already."""
        if self._trusts():
            return calibrate(scores, Y, noise_rate=1e-6)
        return Calibration(1.0, 0.0, float(np.mean(self.noise_model_.rate)))


def _ballots(votes: Any) -> Any:
    """What votes consist of."""
    return (votes.counts, *votes.ballots) if isinstance(votes, Votes) else votes


def _content(features: Any) -> str:
    """Hash of the fitted behaviour of a transformer; its repr is abbreviated."""
    try:
        return str(joblib.hash(features))
    except Exception:
        return str(id(features))
