"""Why a tag was judged as it was: similar rows, words, and the other tags of the row.

Three answers, each cheap and each about rows other than the one in question:

- the most similar rows with and without the tag, by the kernel of `Sieve`;
- the words or columns that decided, by a linear ridge on the features that have a name, trained on
  the soft verdicts. For that ridge the contributions are exact; of a kernel method they are an
  approximation (`docs/cleaning.md` tells how good it is);
- how often rows with another tag of the row have this one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logit

from schirn._files import brief
from schirn._input import check_values, suggest
from schirn.cleaning.questions import LIKELY
from schirn.exceptions import InputError
from schirn.features.table import read_features
from schirn.linalg.arrays import row_pieces
from schirn.linalg.conjugate_gradients import conjugate_gradients
from schirn.linalg.features import FeatureScale, has_unit_rows, learn_scale
from schirn.linalg.kernels import Kernel, sample_width, width_sample
from schirn.linalg.leave_one_out import left_out_scores
from schirn.scale.row_file import RowFile

if TYPE_CHECKING:
    from schirn.cleaning.noisy_labels import NoisyLabels

Array = np.ndarray

MODEL = "linear ridge on the named features, without this row"
# Similar rows to count, and what is listed.
NEAR = 20
_MAX_ROWS, _MAX_WORDS, _MAX_TAGS = 5, 8, 8
# The ridge learns from this many rows, and from this many numbers if X is dense.
_SAMPLE, _SAMPLE_ENTRIES = 20_000, 40_000_000
# Up to this many features the ridge is factored; for more, conjugate gradients solve it, for
# blocks of rows or tags, without the words that hardly any row has.
_FACTORED, _BLOCK, _MIN_ROWS = 2000, 32, 3
_TOLERANCE = 1e-3
# Ridge weights to try, relative to the mean variance, on a sample of rows and frequent tags.
_GRID = 10.0 ** np.arange(-3, 2.01, 0.5)
_TUNING_ROWS, _TUNING_TAGS = 600, 256
# Products with all rows to hold at a time.
_PRODUCTS = 2**25
# 1 minus the leverage of a row like no other is at least this.
_SMALLEST = 1e-3
# Pseudo-rows that pull the share of a tag towards its usual share.
_PRIOR_ROWS = 2.0
# The summary names words with more than this share of the largest contribution, and another tag
# that changes the log-odds by more than this.
_LEAST, _NOTABLE = 0.2, 0.7


class Neighbour(NamedTuple):
    """A similar row.

    Attributes
    ----------
    row : int
    similarity : float
        Value of the kernel: 1 for an equal row, 0.37 for a pair at the median distance.
    """

    row: int
    similarity: float


class Word(NamedTuple):
    """A word or column, and what it adds to the score of the linear model.

    Attributes
    ----------
    name : str
    contribution : float
        Above 0 if it speaks for the tag.
    """

    name: str
    contribution: float


class OtherTag(NamedTuple):
    """Another tag of the row.

    Attributes
    ----------
    name : str
    rows : int
        Number of other rows with it.
    share : float
        Share of these rows that carry the tag in question.
    log_odds : float
        How much the other tag changes the log-odds of the tag in question; above 0 speaks for it.
    """

    name: str
    rows: int
    share: float
    log_odds: float


class Explanation(NamedTuple):
    """Why a tag was judged as it was.

    Attributes
    ----------
    row : int
    label : str
    verdict : str
        "kept", "removed", "unjudged", "suggested" or "not listed".
    confidence : float or None
        Probability that the tag is correct, if it is listed or suggested.
    summary : str
        One sentence.
    with_tag, without_tag : list of Neighbour
        The most similar other rows that carry the tag, and that do not. Rows in which the tag is
        itself judged wrong, or missing, are in neither list.
    near, n_near : int
        How many of the `n_near` most similar rows carry the tag.
    usual : float
        Share of all other rows that carry it.
    words : list of Word
        The words or columns with the largest contributions to the score of `model`.
    score, base, rest : float
        Score of the linear model, about the share of such rows that carry the tag. It is the sum
        of `base`, the contributions of the words listed, and `rest`, those of all others.
    named : bool
        Whether the features have names; else they are called x0, x1, ...
    model : str
        The model whose score the words make up.
    other_tags : list of OtherTag
        What the other tags of the row say, each on its own.
    """

    row: int
    label: str
    verdict: str
    confidence: float | None
    summary: str
    with_tag: list[Neighbour]
    without_tag: list[Neighbour]
    near: int
    n_near: int
    usual: float
    words: list[Word]
    score: float
    base: float
    rest: float
    named: bool
    model: str
    other_tags: list[OtherTag]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation for JSON."""
        parts = {name: [item._asdict() for item in getattr(self, name)] for name in _LISTS}
        return {**self._asdict(), **parts}


_LISTS = ("with_tag", "without_tag", "words", "other_tags")


class _Row(NamedTuple):
    """A row in the linear ridge."""

    copies: Array
    """Rows of the ridge with the same features, the row itself included."""
    features: Array
    """Features of the ridge that the row has, and their values."""
    values: Array
    influence: Array
    """What one unit of residual of these rows adds to the weights of the features of the row."""
    leverage: float


class Reasons:
    """Explain verdicts from the features and the verdicts alone.

    Making the object scales the features and prepares a ridge; the first question about a tag and
    about a row costs a ridge solution each, or `explain_all` solves many together. Above 20,000
    rows, the ridge learns from a sample, in which rare tags keep their rows; similar rows are
    always searched for in all rows.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or DataFrame of numbers, or sequence of n texts
        The features that the tags were judged by. Those of a `numpy.memmap` or a
        `schirn.scale.RowFile` stay in their file.
    ranking : NoisyLabels
        The verdicts.
    feature_names : sequence of str, optional
        Names of the columns of X; by default those of the DataFrame, the words of the texts, or
        x0, x1, ... A feature with an empty name is never listed.
    scaled : bool, optional
        Whether the tags were judged by X as it is; by default only sparse rows of unit length and
        texts are taken as they are, and others are scaled as `Sieve` does.

    Attributes
    ----------
    feature_names : sequence of str or None
        None if the features have no names.

    Examples
    --------
    >>> from itertools import product
    >>> from schirn import find_noisy_labels
    >>> looks, stuff = ["red", "blue", "old", "new", "big", "tiny"], ["oak", "steel", "clay"]
    >>> texts = [" ".join(words) for words in product(looks, stuff, ["pan", "chair", "lamp"])]
    >>> tags = [[text.split()[-1]] for text in texts]
    >>> for row in range(0, 54, 4):
    ...     tags[row].append(tags[row - 1][0])
    >>> ranking = find_noisy_labels(texts, tags)
    >>> why = ranking.reasons(texts).explain(0, "lamp")
    >>> why.verdict, why.words[0].name, why.words[0].contribution < 0
    ('kept', 'pan', True)
    >>> why.other_tags[0].name, why.other_tags[0].share
    ('pan', 0.0)
    """

    def __init__(
        self,
        X: Any,
        ranking: "NoisyLabels",
        *,
        feature_names: Sequence[str] | None = None,
        scaled: bool | None = None,
    ) -> None:
        X, names, is_text = read_features(X)
        X = X.mapped() if isinstance(X, RowFile) else X
        X = X if isinstance(X, np.memmap) else _as_floats(X)
        self.feature_names = names if feature_names is None else feature_names
        if X.ndim != 2 or X.shape[0] != ranking.n_rows:
            raise InputError(f"X has shape {X.shape}, but {ranking.n_rows} rows are ranked")
        if self.feature_names is not None and len(self.feature_names) != X.shape[1]:
            raise InputError(
                f"feature_names has {len(self.feature_names)} names for {X.shape[1]} features",
                parameter="feature_names",
            )
        check_values(X)
        self.ranking = ranking
        if scaled is None:
            scaled = is_text or has_unit_rows(X)
        kind = "none" if scaled else "auto"
        self._Z = Z = _ScaledRows(X, learn_scale(X, kind))
        sample = width_sample(ranking.n_rows, np.random.RandomState(0))
        self._kernel = Kernel("rbf", sample_width(Z[sample]))
        self._read_verdicts()
        self._rows = self._sample()
        sample = Z[self._rows]
        # Features of the ridge, and where each feature is among them.
        self._features, self._slot = np.arange(Z.shape[1]), np.arange(Z.shape[1])
        named = np.array([self._name(f) != "" for f in self._features.tolist()], dtype=bool)
        if Z.sparse:
            # Character sequences would take over what their words explain.
            used = named if named.any() else ~named
            if used.sum() > _FACTORED:
                used = used & (np.bincount(sample.indices, minlength=Z.shape[1]) >= _MIN_ROWS)
            self._features = np.flatnonzero(used)
            self._slot = np.where(used, np.cumsum(used) - 1, -1)
            sample = sp.csr_array(sample[:, self._features])
        self._named = named[self._features]
        self._ridge = _Ridge(sample, self._soft[self._rows])

    def explain(self, row: int, label: str | int) -> Explanation:
        """Explain the verdict on one cell.

        Parameters
        ----------
        row : int
            Number of the row, from 0.
        label : str or int
            Name of the label, or its number. The row need not carry it.
        """
        return self.explain_all([(row, label)])[0]

    def explain_all(self, cells: Iterable[tuple[int, str | int]]) -> list[Explanation]:
        """Explain many verdicts, in less time than one by one.

        Parameters
        ----------
        cells : iterable of (row, label)
        """
        pairs = [(self._row_number(row), self._column(label)) for row, label in cells]
        columns = list(dict.fromkeys(j for _, j in pairs))
        models: dict[int, tuple[Array, float]] = {}
        for start in range(0, len(columns), _BLOCK):
            block = columns[start : start + _BLOCK]
            W, b = self._ridge.weights(block)
            models |= {j: (W[:, k], float(b[k])) for k, j in enumerate(block)}
        columns_of: dict[int, list[int]] = {}
        for i, j in dict.fromkeys(pairs):
            columns_of.setdefault(i, []).append(j)
        rows = list(columns_of)
        step = max(1, min(_BLOCK, _PRODUCTS // max(1, self.ranking.n_rows)))
        explanations: dict[tuple[int, int], Explanation] = {}
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            distance, Z = self._Z.distances(block), self._Z[block]
            U = self._ridge.influence(Z[:, self._features])
            for k, i in enumerate(block):
                at = self._row(i, Z[[k]], U[:, k], distance[:, k])
                similarity = np.exp(distance[:, k] / -self._kernel.width)
                for j in columns_of[i]:
                    explanations[i, j] = self._explain(i, j, similarity, at, *models[j])
        return [explanations[pair] for pair in pairs]

    def _explain(
        self, row: int, column: int, similarity: Array, at: _Row, w: Array, b: float
    ) -> Explanation:
        label = self.ranking.label_names[column]
        carried, counted = self._tag(column)
        counted[row] = False
        neighbours = [
            [Neighbour(int(i), float(similarity[i])) for i in _largest(similarity, mask, _MAX_ROWS)]
            for mask in (counted & carried, counted & ~carried)
        ]
        nearest = _largest(similarity, counted, NEAR)
        words, base, rest = self._words(column, at, w, b)
        verdict, confidence = self._verdict(row, column)
        why = Explanation(
            row=row,
            label=label,
            verdict=verdict,
            confidence=confidence,
            summary="",
            with_tag=neighbours[0],
            without_tag=neighbours[1],
            near=int(carried[nearest].sum()),
            n_near=len(nearest),
            usual=float(carried[counted].mean()) if counted.any() else 0.0,
            words=words,
            score=base + rest + sum(word.contribution for word in words),
            base=base,
            rest=rest,
            named=self.feature_names is not None,
            model=MODEL,
            other_tags=self._other_tags(row, column),
        )
        empty = self._Z.sparse and not self._Z.squares[row]
        below = confidence is not None and confidence < LIKELY
        sentence = _sentence(why, below, empty)
        return why._replace(summary=sentence)

    def _verdict(self, row: int, column: int) -> tuple[str, float | None]:
        ranking, missing = self.ranking, self.ranking.missing
        index = np.flatnonzero((ranking.row == row) & (ranking.column == column))
        for k in index:
            verdict = "kept" if ranking.judged[k] else "unjudged"
            return "removed" if ranking.removed[k] else verdict, float(ranking.confidence[k])
        for k in np.flatnonzero((missing.row == row) & (missing.column == column)):
            p = float(missing.confidence[k])
            return "suggested" if p >= LIKELY else "not listed", p
        return "not listed", None

    def _words(self, column: int, at: _Row, w: Array, b: float) -> tuple[list[Word], float, float]:
        """Contributions to the score of the ridge without the row and its copies."""
        weights = w[at.features]
        score = b + float(at.values @ weights)
        if len(at.copies):
            # The rows G left out: e -> (I - H_GG)^-1 e, where all entries of H_GG are h.
            residuals = self._ridge.target(column)[at.copies] - score
            room = max(1 - len(at.copies) * at.leverage, _SMALLEST)
            weights = weights - at.influence * (residuals.sum() / room)
            score -= at.leverage * float(residuals.sum()) / room
        parts = at.values * weights
        size = np.where(self._named[at.features], np.abs(parts), 0)
        order = np.argsort(-size, kind="stable")[:_MAX_WORDS]
        order = order[size[order] > 1e-9]
        words = [
            Word(self._name(int(self._features[at.features[k]])), float(parts[k])) for k in order
        ]
        total = float(parts.sum())
        return words, score - total, total - sum(word.contribution for word in words)

    def _other_tags(self, row: int, column: int) -> list[OtherTag]:
        """How often rows with another tag of the row have this one."""
        carried, n = self._carried, self.ranking.n_rows - 1
        has = np.zeros(self.ranking.n_rows, dtype=bool)
        has[_column_rows(carried, column)] = True
        has[row] = False
        usual = (has.sum() + 0.5) / (n + 1)
        start, end = np.searchsorted(self.ranking.row, (row, row + 1))
        tags = []
        for k in self.ranking.column[start:end][~self._wrong[start:end]].tolist():
            rows = _column_rows(carried, k)
            size, n_both = len(rows) - 1, int(has[rows].sum())
            if k != column and size > 0:
                share = (n_both + _PRIOR_ROWS * usual) / (size + _PRIOR_ROWS)
                change = float(logit(share) - logit(usual))
                tags.append(OtherTag(self.ranking.label_names[k], size, n_both / size, change))
        return sorted(tags, key=lambda tag: -abs(tag.log_odds))[:_MAX_TAGS]

    def _read_verdicts(self) -> None:
        ranking = self.ranking
        self._wrong = ranking.removed | (ranking.judged & (ranking.confidence < LIKELY))
        self._suggested = ranking.missing.above()
        shape = (ranking.n_rows, len(ranking.label_names))

        def matrix(values: Array) -> Any:
            return sp.csr_array((values, (ranking.row, ranking.column)), shape=shape)

        # What the ridge learns: a tag that was not judged is taken as given.
        self._soft = matrix(np.where(ranking.judged, ranking.confidence, 1.0))
        self._listed = sp.csc_array(matrix(np.ones(len(ranking.row), dtype=np.int8)))
        right = matrix((~self._wrong).astype(np.int8))
        right.eliminate_zeros()
        self._carried = sp.csc_array(right)

    def _tag(self, column: int) -> tuple[Array, Array]:
        """Rows that carry a tag, and rows that count: it is neither judged wrong nor suggested."""
        n, missing = self.ranking.n_rows, self._suggested
        carried = np.zeros(n, dtype=bool)
        carried[_column_rows(self._carried, column)] = True
        settled = np.ones(n, dtype=bool)
        settled[_column_rows(self._listed, column)] = False
        settled[missing.row[missing.column == column]] = False
        return carried, settled | carried

    def _sample(self) -> Array:
        """Sorted rows for the ridge: half of them in turn from all tags, half at random."""
        ranking, Z = self.ranking, self._Z
        size = _SAMPLE if Z.sparse else min(_SAMPLE, _SAMPLE_ENTRIES // max(1, Z.shape[1]))
        if ranking.n_rows <= size:
            return np.arange(ranking.n_rows)
        order = np.random.RandomState(0).permutation(ranking.n_rows)
        place = np.empty(ranking.n_rows, dtype=np.int64)
        place[order] = np.arange(ranking.n_rows)
        # Rank of every row within its rarest tag.
        by_tag = np.lexsort((place[ranking.row], ranking.column))
        starts = np.searchsorted(ranking.column[by_tag], ranking.column)
        rank = np.empty(len(by_tag), dtype=np.int64)
        rank[by_tag] = np.arange(len(by_tag))
        turn = np.full(ranking.n_rows, ranking.n_rows)
        np.minimum.at(turn, ranking.row, rank - starts)
        first = np.lexsort((place, turn))[: size // 2]
        random_rows = order[~np.isin(order, first)][: size - len(first)]
        return np.sort(np.concatenate([first, random_rows]))

    def _row(self, row: int, z: Any, influence: Array, distance: Array) -> _Row:
        if sp.issparse(z):
            features, values = self._slot[z.indices], np.asarray(z.data, dtype=np.float64)
            features, values = features[features >= 0], values[features >= 0]
        else:
            features, values = np.arange(z.shape[1]), np.asarray(z[0], dtype=np.float64)
        squares = self._Z.squares
        size = float(squares[row])
        equal = distance[self._rows] <= 1e-5 * size
        equal &= np.abs(squares[self._rows] - size) <= 1e-5 * size
        copies = np.flatnonzero(equal)
        # Features that repeat in many rows are categories, not copies.
        if len(copies) > max(1, len(self._rows) // 10):
            copies = np.flatnonzero(self._rows == row)
        centred = values @ influence[features] - float(self._ridge.mean @ influence)
        leverage = 1 / max(1, len(self._rows)) + float(centred)
        return _Row(copies, features, values, influence[features], leverage)

    def _name(self, feature: int) -> str:
        return f"x{feature}" if self.feature_names is None else str(self.feature_names[feature])

    def _row_number(self, row: Any) -> int:
        if not isinstance(row, int | np.integer) or not 0 <= row < self.ranking.n_rows:
            raise InputError(
                f"row must be a number from 0 to {self.ranking.n_rows - 1}, not {row!r}",
                parameter="row",
            )
        return int(row)

    def _column(self, label: Any) -> int:
        names = self.ranking.label_names
        if isinstance(label, int | np.integer):
            if 0 <= label < len(names):
                return int(label)
            raise InputError(
                f"label must be a name or a number from 0 to {len(names) - 1}, not {label!r}",
                parameter="label",
            )
        if label not in names:
            raise InputError(
                f"there is no label {brief(label)}; {suggest(label, names)}", parameter="label"
            )
        return names.index(label)


class _ScaledRows:
    """Scaled rows. Those of a file are scaled anew when they are needed, some at a time."""

    def __init__(self, X: Any, scale: FeatureScale) -> None:
        self._X, self._scale, self.shape = X, scale, X.shape
        self._Z = None if isinstance(X, np.memmap) else scale.transform(X)
        self.sparse = sp.issparse(self[:1])
        self.squares = np.concatenate([_row_squares(Z) for Z in self._pieces()])

    def __getitem__(self, rows: Any) -> Any:
        if self._Z is not None:
            return self._Z[rows]
        return self._scale.transform(_as_floats(np.asarray(self._X[rows])))

    def _pieces(self) -> Iterator[Any]:
        if self._Z is not None:
            yield self._Z
            return
        for _, piece in row_pieces(self._X):
            yield self._scale.transform(_as_floats(np.asarray(piece)))

    def distances(self, rows: list[int]) -> Array:
        """Squared distances (n, k) of all rows from some of them."""
        block = self[rows]
        block = block.toarray() if sp.issparse(block) else block
        products = np.concatenate([np.asarray(Z @ block.T) for Z in self._pieces()])
        products *= -2
        products += self.squares[:, None]
        products += self.squares[rows]
        return np.maximum(products, 0, out=products)


class _Ridge:
    """The ridge argmin ||Z w + b - q||^2 + lam ||w||^2, one for every column q of Q."""

    def __init__(self, Z: Any, Q: Any) -> None:
        n, d = Z.shape
        self.Z, self._Q = Z, sp.csc_array(Q)
        self.mean = np.asarray(Z.mean(axis=0), dtype=np.float64).ravel() if n else np.zeros(d)
        self.lam = self._choose_lam()
        self._factor: Any = None
        if d <= _FACTORED:
            gram = Z.T @ Z
            gram = np.asarray(gram.toarray() if sp.issparse(gram) else gram, dtype=np.float64)
            gram -= n * np.outer(self.mean, self.mean)
            gram[np.diag_indices(d)] += self.lam
            self._factor = cho_factor(gram, lower=True, overwrite_a=True) if d else None
        else:
            squares = Z.multiply(Z) if sp.issparse(Z) else Z * Z
            diagonal = np.asarray(squares.sum(axis=0), dtype=np.float64).ravel()
            self._diagonal = np.maximum(diagonal - n * self.mean**2, 0)

    def target(self, column: int) -> Array:
        """Soft labels of a column, dense."""
        return np.asarray(self._Q[:, [column]].toarray(), dtype=np.float64).ravel()

    def weights(self, columns: Sequence[int]) -> tuple[Array, Array]:
        """Weights (d, k) and intercepts (k,) for some columns."""
        Q = np.asarray(self._Q[:, list(columns)].toarray(), dtype=np.float64)
        means = Q.mean(axis=0) if len(Q) else np.zeros(len(columns))
        right = np.asarray(self.Z.T @ Q.astype(self.Z.dtype), dtype=np.float64)
        W = self._solve(right - len(Q) * np.outer(self.mean, means))
        return W, means - self.mean @ W

    def influence(self, rows: Any) -> Array:
        """(Z'Z + lam)^-1 (z - mean) of some rows z, (d, k)."""
        rows = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
        return self._solve(rows.T.astype(np.float64) - self.mean[:, None])

    def _solve(self, B: Array) -> Array:
        """Solve (Z'Z - n mean mean' + lam) W = B."""
        if not len(B):
            return B
        if self._factor is not None:
            return np.asarray(cho_solve(self._factor, B))
        Z, n, mean = self.Z, self.Z.shape[0], self.mean

        def normal(W: Array) -> Array:
            product = np.asarray(Z.T @ (Z @ W.astype(Z.dtype)), dtype=np.float64)
            return product - n * np.outer(mean, mean @ W)

        return conjugate_gradients(
            normal, B, mu=1.0, ridge=self.lam, diagonal=self._diagonal, tolerance=_TOLERANCE
        ).W

    def _choose_lam(self) -> float:
        """The ridge weight with the least leave-one-out error on a sample of rows."""
        Z, n = self.Z, self.Z.shape[0]
        variance = 1.0
        if n:
            variance = float(_row_squares(Z).mean(dtype=np.float64) - self.mean @ self.mean)
        if n < 3 or variance <= 1e-12:
            return max(variance, 1e-6)
        rows = np.sort(np.random.RandomState(0).choice(n, min(n, _TUNING_ROWS), replace=False))
        frequent = np.argsort(-np.diff(self._Q.indptr), kind="stable")[:_TUNING_TAGS]
        Q = np.asarray(self._Q[:, frequent].toarray()[rows], dtype=np.float64)
        K = Kernel("linear")(Z[rows], Z[rows]).astype(np.float64)
        lams = (variance * _GRID).tolist()
        errors = [float(((S - Q) ** 2).mean()) for S in left_out_scores(K, Q, lams)]
        return lams[int(np.argmin(errors))]


def _sentence(why: Explanation, below: bool, empty: bool) -> str:
    """The verdict and the reasons that agree with it, in one sentence."""
    p = 0.0 if why.confidence is None else why.confidence
    share = f"the model gives it {'less than 1%' if p < 0.01 else f'{p:.0%}'}"
    verdict = {
        "removed": f"is removed ({share})",
        "kept": f"is suspicious ({share})" if below else f"looks right ({share})",
        "suggested": f"may be missing ({share})",
        "unjudged": "was not judged, because it is too rare or in every row",
        "not listed": "is not listed",
    }[why.verdict]
    reasons = []
    if empty:
        reasons.append("the row has no features to compare it by")
    elif why.n_near:
        count, carry = f"{why.near or 'none'} of", "carries" if why.near == 1 else "carry"
        similar = "most similar row" + ("s" if why.n_near != 1 else "")
        reasons.append(
            f"{count} the {why.n_near} {similar} {carry} it ({why.usual:.0%} of all rows do)"
        )
    sign = -1 if why.verdict == "removed" or (why.verdict == "kept" and below) else 1
    least = _LEAST * max((abs(word.contribution) for word in why.words), default=0)
    words = [f"“{word.name}”" for word in why.words if sign * word.contribution > least][:3]
    if words and why.named and not empty:
        speak = "speaks" if len(words) == 1 else "speak"
        side = "for" if sign > 0 else "against"
        reasons.append(f"{_listed(words)} {speak} {side} it")
    tag = next((tag for tag in why.other_tags if sign * tag.log_odds > _NOTABLE), None)
    if tag is not None:
        often = "often" if sign > 0 else "seldom"
        reasons.append(f"rows with “{tag.name}” {often} have it ({tag.share:.0%})")
    return f"“{why.label}” {verdict}{': ' if reasons else ''}{'; '.join(reasons)}."


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _largest(values: Array, mask: Array, n: int) -> Array:
    """Indices of the largest values inside a mask, largest first, ties by index."""
    index = np.flatnonzero(mask)
    if len(index) > n:
        limit = np.partition(values[index], -n)[-n]
        index = index[values[index] >= limit]
    return index[np.argsort(-values[index], kind="stable")][:n]


def _column_rows(matrix: Any, column: int) -> Array:
    """Rows of the entries of a CSC column."""
    return np.asarray(matrix.indices[matrix.indptr[column] : matrix.indptr[column + 1]])


def _row_squares(Z: Any) -> Array:
    squares = Z.multiply(Z).sum(axis=1) if sp.issparse(Z) else np.einsum("ij,ij->i", Z, Z)
    return np.asarray(squares).ravel()


def _as_floats(X: Array) -> Array:
    return X if X.dtype.kind == "f" and X.dtype.itemsize > 2 else X.astype(np.float64)
