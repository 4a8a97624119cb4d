"""Reasons why a tag looks right or wrong: the words of its row, and the most similar rows.

The words come from a linear ridge on the named features, fitted to a sample of rows to predict
whether they carry the tag. Similar rows are found with the kernel of `Sieve`. The explained row
itself is left out of both, and a row without features, such as an empty text, is similar to none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from schirn._files import brief
from schirn._input import Array, check_values, suggest
from schirn.cleaning._arguments import check_same_order
from schirn.cleaning._ranked import SUSPICIOUS_SHARE
from schirn.cleaning.questions import LIKELY
from schirn.exceptions import InputError
from schirn.features.table import read_features
from schirn.linalg.arrays import row_pieces
from schirn.linalg.features import has_unit_rows, learn_scale, sample_width, width_sample
from schirn.scale.row_file import RowFile

if TYPE_CHECKING:
    from schirn.cleaning.noisy_labels import NoisyLabels


# Number of similar rows considered, and maximum number of rows and words listed.
NEAR = 20
_MAX_ROWS = 5
_MAX_WORDS = 8
# Number of rows that the ridge is fitted to, plus this many more that carry the tag.
_SAMPLE = 2000
_CARRIERS = 50
# Ridge weight, relative to the mean squared length of a row.
_RIDGE = 0.1
# Number of cells explained together.
_BLOCK = 32
# Minimum share of the largest contribution for words named in the summary.
_LEAST = 0.2


@dataclass(frozen=True)
class Neighbour:
    """A similar row.

    Attributes
    ----------
    row : int
        Number of the row, from 0.
    similarity : float
        Value of the kernel: 1 for an equal row, 0.37 for a pair at the median distance.
    """

    row: int
    similarity: float


@dataclass(frozen=True)
class Word:
    """A word or column of the row.

    Attributes
    ----------
    name : str
        The word, or the name of the column.
    contribution : float
        Contribution to the score of the linear model, which approximates the share of such rows
        that carry the tag. Positive values support the tag.
    """

    name: str
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """Reasons for the verdict on one tag.

    Attributes
    ----------
    row : int
        Number of the row, from 0.
    label : str
        Name of the label.
    verdict : str
        "kept", "removed", "unjudged", "suggested" or "not listed".
    confidence : float or None
        Probability that the tag is correct, if it is listed or suggested.
    summary : str
        One sentence.
    words : list of Word
        Words or columns with the largest contributions; empty if the features have no names.
    with_tag, without_tag : list of Neighbour
        The most similar other rows with and without the tag. Rows in which the tag itself is judged
        wrong or missing are in neither list, nor are rows without features.
    near, n_near : int
        Number of rows with the tag among the `n_near` most similar rows.
    usual : float
        Share of all other rows that list the tag, even where it is judged wrong.
    """

    row: int
    label: str
    verdict: str
    confidence: float | None
    summary: str
    words: list[Word]
    with_tag: list[Neighbour]
    without_tag: list[Neighbour]
    near: int
    n_near: int
    usual: float

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as a dictionary for JSON.

        Returns
        -------
        dict
        """
        return asdict(self)


class Reasons:
    """Explain verdicts from nothing but the features and the verdicts.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or DataFrame of numbers, or sequence of n texts
        The features that the tags were judged by. A `numpy.memmap` or a `schirn.scale.RowFile` is
        read in pieces.
    ranking : NoisyLabels
        The verdicts.
    feature_names : sequence of str, optional
        Names of the columns of X; by default the DataFrame's column names, or the words of the
        texts. Features with an empty name are never listed.
    scaled : bool, optional
        True if the tags were judged by unscaled X. By default texts and sparse rows of unit length
        are left unscaled, and other features are scaled as in `Sieve`.

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
    """

    def __init__(
        self,
        X: Any,
        ranking: "NoisyLabels",
        *,
        feature_names: Sequence[str] | None = None,
        scaled: bool | None = None,
    ) -> None:
        check_same_order(("ranking", ranking), ("X", X))
        X, names, is_text = read_features(X)
        X = X.mapped() if isinstance(X, RowFile) else X
        X = X.astype(np.float64) if X.dtype.kind in "biu" else X
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
        self._X = X
        scaled = is_text or has_unit_rows(X) if scaled is None else scaled
        self._scale = learn_scale(X, "none" if scaled else "auto")
        sample = self._rows(width_sample(ranking.n_rows, np.random.RandomState(0)))
        self._width = sample_width(sample)
        lengths = (np.asarray(_squares(Z).sum(axis=1)).ravel() for _, Z in self._pieces())
        self._squares = np.concatenate(list(lengths))
        # In columns of numbers, zeros are values; elsewhere a row of zeros has no features.
        squares = np.asarray(_squares(X).sum(axis=1)).ravel() if sp.issparse(X) else self._squares
        self._empty = (squares == 0) & (sp.issparse(X) or scaled)
        self._suspicious = _most_suspicious(ranking)
        self._wrong = ranking.removed | (ranking.judged & (ranking.confidence < LIKELY))
        self._suggested = ranking.missing.above()
        self._named = np.flatnonzero([name != "" for name in self.feature_names or ()])
        self._sample = np.random.default_rng(0).permutation(ranking.n_rows)[:_SAMPLE]

    def explain(self, row: int, label: str | int) -> Explanation:
        """Explain the verdict on one cell.

        Parameters
        ----------
        row : int
            Number of the row, from 0.
        label : str or int
            Name or number of the label. The row need not carry it.

        Returns
        -------
        Explanation
        """
        return self.explain_all([(row, label)])[0]

    def explain_all(self, cells: Iterable[tuple[int, str | int]]) -> list[Explanation]:
        """Explain many verdicts, faster than one by one.

        Rows that are explained together are left out together, at most a quarter of all rows.

        Parameters
        ----------
        cells : iterable of (row, label)
            The cells to explain.

        Returns
        -------
        list of Explanation
        """
        pairs = [(self._row_number(row), self._column(label)) for row, label in cells]
        explanations = []
        step = min(_BLOCK, max(1, self.ranking.n_rows // 4))
        for start in range(0, len(pairs), step):
            block = pairs[start : start + step]
            masks = [self._rows_of_label(row, column) for row, column in block]
            similarity = self._similarity([row for row, _ in block])
            weights = self._weights([row for row, _ in block], [column for _, column in block])
            for k, (row, column) in enumerate(block):
                explanation = self._explain(row, column, masks[k], similarity[k], weights[k])
                explanations.append(explanation)
        return explanations

    def _explain(
        self, row: int, column: int, masks: tuple[Array, Array], similarity: Array, weights: Array
    ) -> Explanation:
        carried, counted = masks
        with_tag, without_tag = (
            [Neighbour(int(i), float(similarity[i])) for i in _largest(similarity, mask, _MAX_ROWS)]
            for mask in (counted & carried, counted & ~carried)
        )
        nearest = _largest(similarity, counted, NEAR)
        verdict, confidence = self._verdict(row, column)
        of_cell = (self.ranking.row == row) & (self.ranking.column == column)
        is_suspicious = bool(self._suspicious[of_cell].any())
        why = Explanation(
            row=row,
            label=self.ranking.label_names[column],
            verdict=verdict,
            confidence=confidence,
            summary="",
            words=self._words(row, weights),
            with_tag=with_tag,
            without_tag=without_tag,
            near=int(carried[nearest].sum()),
            n_near=len(nearest),
            usual=self._share_of_rows(row, column),
        )
        return replace(why, summary=_sentence(why, is_suspicious, bool(self._empty[row])))

    def _verdict(self, row: int, column: int) -> tuple[str, float | None]:
        ranking = self.ranking
        missing = self.ranking.missing
        for k in np.flatnonzero((ranking.row == row) & (ranking.column == column)):
            verdict = "kept" if ranking.judged[k] else "unjudged"
            return "removed" if ranking.removed[k] else verdict, float(ranking.confidence[k])
        for k in np.flatnonzero((missing.row == row) & (missing.column == column)):
            p = float(missing.confidence[k])
            return "suggested" if p >= LIKELY else "not listed", p
        return "not listed", None

    def _share_of_rows(self, row: int, column: int) -> float:
        """Return the share of other rows that list a tag, even where it is judged wrong."""
        rows = np.unique(self.ranking.row[self.ranking.column == column])
        n_others = max(self.ranking.n_rows - 1, 1)
        return float(np.count_nonzero(rows != row) / n_others)

    def _rows_of_label(self, row: int, column: int) -> tuple[Array, Array]:
        """Rows that carry a tag, and other rows that count.

        These have features, and the tag is neither judged wrong in them nor suggested for them.
        """
        ranking = self.ranking
        missing = self._suggested
        carried = np.zeros(ranking.n_rows, dtype=bool)
        counted = ~self._empty if not self._empty[row] else np.zeros(ranking.n_rows, dtype=bool)
        has_label = ranking.column == column
        carried[ranking.row[has_label & ~self._wrong]] = True
        counted[ranking.row[has_label & self._wrong]] = False
        counted[missing.row[missing.column == column]] = False
        counted[row] = False
        return carried, counted

    def _weights(self, rows: Sequence[int], columns: Sequence[int]) -> Array:
        """Return the weights (k, d) of the named features in ridges that leave out the rows.

        Their targets are the confidences of the tags; unjudged tags count as right.
        """
        ranking = self.ranking
        tags_by_column = [np.flatnonzero(ranking.column == column) for column in columns]
        carriers = (ranking.row[tags][:_CARRIERS] for tags in tags_by_column)
        sample = np.setdiff1d(np.concatenate([self._sample, *carriers]), rows)
        if not len(sample) or not len(self._named):
            return np.zeros((len(columns), len(self._named)))
        Q = np.zeros((ranking.n_rows, len(columns)))
        for k, tags in enumerate(tags_by_column):
            Q[ranking.row[tags], k] = np.where(ranking.judged[tags], ranking.confidence[tags], 1)
        # Imported here because most programs that import the library explain nothing.
        from sklearn.linear_model import Ridge

        Z = self._rows(sample)[:, self._named]
        lam = max(_RIDGE * float(_squares(Z).sum()) / len(sample), 1e-12)
        return np.atleast_2d(Ridge(alpha=lam, tol=1e-3).fit(Z, Q[sample].astype(Z.dtype)).coef_)

    def _words(self, row: int, weights: Array) -> list[Word]:
        """Return the words with the largest contributions to the score of a row."""
        z = self._rows([row])[:, self._named]
        parts = (z.toarray() if sp.issparse(z) else z)[0] * weights
        order = np.argsort(-np.abs(parts), kind="stable")[:_MAX_WORDS]
        names: Any = self.feature_names
        return [
            Word(str(names[self._named[k]]), float(parts[k])) for k in order if abs(parts[k]) > 1e-9
        ]

    def _rows(self, rows: Any) -> Any:
        """Return the scaled rows."""
        X = self._X[rows]
        return self._scale.transform(X if sp.issparse(X) else np.asarray(X, dtype=np.float64))

    def _pieces(self) -> Iterator[tuple[int, Any]]:
        """Yield the first row number and the scaled rows of each piece."""
        step = self._X.shape[0] if sp.issparse(self._X) else None
        for first, piece in row_pieces(self._X, step):
            yield first, self._rows(slice(first, first + piece.shape[0]))

    def _similarity(self, rows: list[int]) -> Array:
        """Return the kernel (k, n) between some rows and all rows."""
        block = self._rows(rows)
        block = block.toarray() if sp.issparse(block) else block
        products = np.concatenate([np.asarray(Z @ block.T) for _, Z in self._pieces()])
        distance = self._squares[:, None] + self._squares[rows] - 2 * products
        return np.exp(np.maximum(distance, 0).T / -self._width)

    def _row_number(self, row: Any) -> int:
        if not isinstance(row, int | np.integer) or not 0 <= row < self.ranking.n_rows:
            raise InputError(
                f"row must be a number from 0 to {self.ranking.n_rows - 1}, not {row!r}",
                parameter="row",
            )
        return int(row)

    def _column(self, label: Any) -> int:
        names = self.ranking.label_names
        if isinstance(label, int | np.integer) and 0 <= label < len(names):
            return int(label)
        if label in names:
            return names.index(label)
        hint = suggest(str(label), names)
        raise InputError(f"there is no label {brief(str(label))}; {hint}", parameter="label")


def _most_suspicious(ranking: "NoisyLabels") -> Array:
    """Whether each tag is among the most suspicious 10% of those judged."""
    confidence = ranking.confidence[ranking.judged]
    if not len(confidence):
        return ranking.judged
    limit = np.quantile(confidence, SUSPICIOUS_SHARE, method="lower")
    return ranking.judged & (ranking.confidence < limit)


def _sentence(why: Explanation, is_suspicious: bool, is_empty: bool) -> str:
    """The verdict and the reasons that agree with it, in one sentence.

    A tag that ranks among the most suspicious ones does not look right, whatever its probability.
    """
    p = 0.0 if why.confidence is None else why.confidence
    share = f"the model gives it {'less than 1%' if p < 0.01 else f'{p:.0%}'}"
    impression = "is among the most suspicious 10%" if is_suspicious else "looks right"
    if p < LIKELY:
        impression = "is suspicious"
    is_against = why.verdict == "removed"
    is_against |= why.verdict == "kept" and impression != "looks right"
    verdict = {
        "removed": f"is removed ({share})",
        "kept": f"{impression} ({share})",
        "suggested": f"may be missing ({share})",
        "unjudged": "was not judged, because it is too rare or in every row",
        "not listed": "is not listed",
    }[why.verdict]
    reasons = ["its row has no features, so no row is similar"] if is_empty else []
    if why.n_near:
        carry = "carries" if why.near == 1 else "carry"
        similar = "most similar row" + ("s" if why.n_near != 1 else "")
        reasons.append(
            f"{why.near or 'none'} of the {why.n_near} {similar} {carry} it "
            f"({why.usual:.0%} of all rows do)"
        )
    sign = -1 if is_against else 1
    least = _LEAST * max((abs(word.contribution) for word in why.words), default=0)
    words = [f"“{word.name}”" for word in why.words if sign * word.contribution > least][:3]
    if words:
        speak = "speaks" if len(words) == 1 else "speak"
        several = " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
        reasons.append(f"{several} {speak} {'for' if sign > 0 else 'against'} it")
    return f"“{why.label}” {verdict}{': ' if reasons else ''}{'; '.join(reasons)}."


def _largest(values: Array, mask: Array, n: int) -> Array:
    """Return the indices of the largest values inside a mask, largest first, ties by index."""
    index = np.flatnonzero(mask)
    return index[np.argsort(-values[index], kind="stable")[:n]]


def _squares(Z: Any) -> Any:
    return Z.multiply(Z) if sp.issparse(Z) else Z * Z
