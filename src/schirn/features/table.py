"""Features of a table: texts, pictures, columns of numbers, or a column of embeddings."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from schirn._files import brief, brief_list
from schirn._input import Array, as_plain, canonical, is_missing, suggest
from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.features.encoders import Encoder
from schirn.linalg.arrays import is_device_array
from schirn.scale.input import location
from schirn.tables.arrow import ArrowTable
from schirn.tables.text import to_numbers

TFIDF = "tf-idf"
_MAX_WORDS = 50_000


class TextFeatures(TransformerMixin, BaseEstimator):
    """Turn texts into tf-idf weights of their words and pairs of words, in rows of unit length.

    The weights need no further scaling: use them with ``Sieve(features="none")``.

    Parameters
    ----------
    max_words : int
        Number of words and pairs to keep, the most frequent ones.

    Attributes
    ----------
    words_ : ndarray of str
        Words and pairs of words, one per feature.
    idf_ : ndarray
        Inverse document frequency of each.

    Examples
    --------
    >>> from schirn.features import TextFeatures
    >>> texts = ["a red pan", "a red chair"]
    >>> TextFeatures().fit(texts).get_feature_names_out().tolist()
    ['chair', 'pan', 'red', 'red chair', 'red pan']
    """

    def __init__(self, *, max_words: int = _MAX_WORDS) -> None:
        self.max_words = max_words

    def fit(self, X: Iterable[Any], y: Any = None) -> "TextFeatures":
        """Learn the words.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as empty.
        y : ignored
        """
        arrays_of(self, X, learn=True)
        return self

    def fit_transform(self, X: Iterable[Any], y: Any = None) -> "sp.csr_array":
        """Learn the words and return the weights of the same texts."""
        vectorizer, texts = _vectorizer(max_features=self.max_words), _clean(X)
        try:
            weights = sp.csr_array(vectorizer.fit_transform(texts))
        except ValueError:
            raise InputError(
                "the texts have no words of two or more letters, so there is nothing to learn from"
            ) from None
        self.words_ = vectorizer.get_feature_names_out()
        self.idf_ = vectorizer.idf_
        weights.sort_indices()
        return as_output(self, weights, X)

    def transform(self, X: Iterable[Any]) -> "sp.csr_array":
        """Return the weights (n, words) of texts; words that are not known are left out."""
        check_is_fitted(self)
        vectorizer = _vectorizer(vocabulary=self.words_.tolist())
        vectorizer.idf_ = self.idf_
        weights = sp.csr_array(vectorizer.transform(_clean(X)))
        weights.sort_indices()
        return as_output(self, weights, X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the words."""
        check_is_fitted(self)
        return np.asarray(self.words_, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class TableFeatures(TransformerMixin, BaseEstimator):
    """Turn columns of a table into features for a method.

    Give one of the first four parameters.

    Parameters
    ----------
    text : str or list of str, optional
        Columns of text; `TextFeatures` of the texts of a row, one after the other.
    columns : list of str, optional
        Columns of numbers.
    vectors : str, optional
        A column of lists of numbers, such as the output of an encoder.
    image : str, optional
        A column of image files, which needs an encoder.
    encoder : str, optional
        Name of an `Encoder` of texts or pictures. Its vectors stand beside the words of texts;
        "tf-idf" means the words alone.

    Attributes
    ----------
    text_ : TextFeatures or None
    encoder_ : Encoder or None
    n_features_ : int

    Examples
    --------
    >>> from schirn.features import TableFeatures
    >>> table = {"title": ["red pan", "red chair"], "price": ["12.5", "80"]}
    >>> TableFeatures(columns=["price"]).fit_transform(table).tolist()
    [[12.5], [80.0]]
    >>> TableFeatures(text="title").fit(table).transform({"title": ["a blue pan"]}).toarray()
    array([[0., 1., 0., 0., 0.]])
    """

    def __init__(
        self,
        *,
        text: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        vectors: str | None = None,
        image: str | None = None,
        encoder: str | None = None,
    ) -> None:
        self.text = text
        self.columns = columns
        self.vectors = vectors
        self.image = image
        self.encoder = encoder

    def fit(self, X: Any, y: Any = None) -> "TableFeatures":
        """Learn the words of texts, and the number of features.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
        y : ignored
        """
        arrays_of(self, X, learn=True)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> "Array | sp.csr_array":
        """Learn from a table and return the features of its rows."""
        self._check_choice()
        self.text_ = None if self.text is None else TextFeatures()
        self.encoder_ = None
        if self.encoder not in (None, TFIDF):
            self.encoder_ = Encoder(self.encoder, of="image" if self.image else "text").fit()
        features = self._features(X, learn=True)
        self.n_features_ = features.shape[1]
        return as_output(self, features, X)

    def transform(self, X: Any) -> "Array | sp.csr_array":
        """Return the features (n, d) of the rows of a table with the same columns."""
        check_is_fitted(self)
        features = self._features(X)
        if features.shape[1] != self.n_features_:
            raise InputError(
                f"the column {self.vectors!r} holds lists of {features.shape[1]} numbers, but "
                f"lists of {self.n_features_} in training",
                parameter="features",
            )
        return as_output(self, features, X)

    @property
    def is_scaled(self) -> bool:
        """Whether rows have unit length, so that they need no scaling."""
        return self.text is not None or self.image is not None

    def texts(self, X: Any) -> list[str]:
        """Return the text of each row: its cells of text, one after the other."""
        table = as_columns(X)
        names = [self.text] if isinstance(self.text, str) else list(self.text or ())
        cells = [table.column(name) for name in names]
        return [
            " ".join(str(cell) for cell in row if not is_missing(cell) and cell != "")
            for row in zip(*cells, strict=True)
        ]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return words, columns, or numbered names of the vectors."""
        check_is_fitted(self)
        if self.columns is not None:
            return np.array(list(self.columns), dtype=object)
        if self.vectors is not None:
            return np.array([f"{self.vectors}{j}" for j in range(self.n_features_)], dtype=object)
        parts = [each.get_feature_names_out() for each in (self.text_, self._encoder) if each]
        return np.concatenate(parts)

    def source(self) -> str:
        """Return in words what the features are made of."""
        if self.is_scaled:
            named = self.text if self.text is not None else self.image
            names = named if isinstance(named, str) else ", ".join(named or ())
            if self.encoder in (None, TFIDF):
                return names
            beside = f"{TFIDF} and " if self.text is not None else ""
            return f"{names} with {beside}{self.encoder}"
        return self.vectors or brief_list(list(self.columns or ()), 6)

    def _check_choice(self) -> None:
        """Raise InputError unless it is clear what to learn from."""
        names = ("text", "columns", "vectors", "image")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise InputError(
                f"give one of text, columns, vectors and image, not {' and '.join(given) or 'none'}"
            )
        if self.encoder is not None and not self.is_scaled:
            raise InputError(
                f"an encoder turns texts or pictures into vectors, not {given[0]}",
                parameter="encoder",
            )
        if self.image is not None and self.encoder in (None, TFIDF):
            raise InputError(
                "learning from pictures needs an encoder, such as torchvision:resnet50 or "
                'sentence-transformers:clip-ViT-B-32 (pip install "schirn[networks]")',
                parameter="encoder",
            )

    @property
    def _encoder(self) -> Encoder | None:
        # Files of earlier versions do not have it.
        found: Encoder | None = getattr(self, "encoder_", None)
        return found

    def _features(self, X: Any, learn: bool = False) -> "Array | sp.csr_array":
        if self.image is not None:
            assert self._encoder is not None
            return arrays_of(self._encoder, as_columns(X).column(self.image))
        if self.text_ is None:
            return self._numbers(as_columns(X))
        texts = self.texts(X)
        words = arrays_of(self.text_, texts, learn=learn)
        if self._encoder is None:
            return words
        both = sp.csr_array(sp.hstack([words, arrays_of(self._encoder, texts)]))
        lengths = np.sqrt(both.multiply(both).sum(axis=1))
        return sp.csr_array(both / np.where(lengths > 0, lengths, 1)[:, None])

    def _numbers(self, table: "Columns") -> Array:
        if self.vectors is not None:
            found = None if table.vectors is None else table.vectors(table.known(self.vectors))
            return _stacked(table.column(self.vectors), self.vectors) if found is None else found
        names = [self.columns] if isinstance(self.columns, str) else list(self.columns or ())
        if not names:
            raise InputError("columns is empty, so there is nothing to learn from")
        return np.column_stack([_column_of_numbers(table.column(name), name) for name in names])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


def as_output(transformer: Any, features: Any, X: Any) -> Any:
    """Return sparse features as `set_output` asks: for pandas, a DataFrame of sparse columns.

    Dense features are returned as they are, since scikit-learn makes the DataFrame.
    """
    chosen = getattr(transformer, "_sklearn_output_config", {}).get("transform")
    kind = chosen or get_config()["transform_output"]
    if kind == "default" or not sp.issparse(features):
        return features
    if kind != "pandas":
        raise InputError(
            f"the weights of words are sparse, and a DataFrame of {kind} would need room for every "
            f"zero; use set_output(transform='pandas') or set_output(transform='default')"
        )
    pandas = optional("pandas", "table", "A DataFrame of features")
    names = transformer.get_feature_names_out()
    # Lists have a method of this name.
    index = None if callable(getattr(X, "index", None)) else getattr(X, "index", None)
    return pandas.DataFrame.sparse.from_spmatrix(features, index=index, columns=names)


def arrays_of(transformer: Any, X: Any, *, learn: bool = False) -> "Array | sp.csr_array":
    """Return features as an array or CSR matrix, whatever output scikit-learn is set to."""
    with config_context(transform_output="default"):
        found: Any = transformer.fit_transform(X) if learn else transformer.transform(X)
        return found


def read_features(X: Any) -> tuple[Any, list[str] | None, bool]:
    """Return the features of a user, their names, and whether they were texts.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or DataFrame of numbers, or sequence of n texts
        Rows on a device, in files or on Dask workers are returned as they are.

    Returns
    -------
    (array or CSR matrix, list of str or None, bool)
    """
    X = X if location(X) == "dask" else as_plain(X)
    # The columns of an Arrow table are arrays; those of a DataFrame are names.
    columns = getattr(X, "column_names", getattr(X, "columns", None))
    names = None if columns is None else list(map(str, columns))
    if is_device_array(X) or location(X) in ("dask", "files"):
        return X, None, False
    if sp.issparse(X):
        return canonical(X), None, False
    if names is None:
        X = X if hasattr(X, "shape") else list(X)
        cells = X if getattr(X, "ndim", 1) == 1 else ()
        if isinstance(next((cell for cell in cells if not is_missing(cell)), None), str):
            transformer = TextFeatures()
            rows = arrays_of(transformer, X, learn=True)
            return rows, transformer.get_feature_names_out().tolist(), True
    X = X if isinstance(X, np.memmap) else np.asarray(X)
    if X.dtype.kind not in "biuf":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"X must hold numbers, or one text per row ({error})") from None
    return X, names, False


class Columns(NamedTuple):
    """Columns of a table in any of its forms."""

    names: dict[str, None]
    """A dictionary, since looking up a name in a list of thousands takes long."""
    cells: Any
    """Function from a name to its list of cells."""
    vectors: Any = None
    """Function from a name to the matrix of its lists, or None; None if there is no fast one."""

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column."""
        return list(self.cells(self.known(name)))

    def known(self, name: str) -> str:
        """Return the name of a column after checking that it exists."""
        if name not in self.names:
            raise InputError(f"there is no column {brief(name)}; {suggest(name, self.names)}")
        return name


def as_columns(X: Any) -> Columns:
    """Return the columns of a table in memory, or of a `Table`.

    A table in memory is a DataFrame of pandas or polars, an Arrow table, a `datasets.Dataset`, a
    dict of columns or a list of dicts.
    """
    X = as_plain(X)
    if hasattr(X, "column_names"):
        table = ArrowTable(Path("X"), X)
        return Columns(dict.fromkeys(table.columns), table.column, table.vectors)
    if hasattr(X, "column") and hasattr(X, "columns"):
        return Columns(dict.fromkeys(X.columns), X.column, getattr(X, "vectors", None))
    if isinstance(X, Mapping):
        return Columns(dict.fromkeys(str(name) for name in X), X.__getitem__)
    if hasattr(X, "columns"):
        return Columns(dict.fromkeys(map(str, X.columns)), lambda name: X[name].to_list())
    if isinstance(X, list) and X and all(isinstance(row, Mapping) for row in X):
        names = dict.fromkeys(str(key) for row in X for key in row)
        return Columns(names, lambda name: [row.get(name) for row in X])
    raise InputError(
        f"a table is a DataFrame, an Arrow table, a Dataset, a dict of columns or a list of dicts, "
        f"not {type(X).__name__}"
    )


def _column_of_numbers(cells: list[Any], name: str) -> Array:
    values = to_numbers(cells)
    if values is None:
        row = next(i for i, cell in enumerate(cells) if to_numbers([cell]) is None)
    elif not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
    else:
        return values
    raise InputError(
        f"row {row + 1}, column {name!r}: {brief(str(cells[row]))} is not a number; fill it in, or "
        f"choose other columns",
        parameter="columns",
    )


def _stacked(cells: list[Any], name: str) -> Array:
    """Return a column of lists of numbers as a matrix."""
    cells = [cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in cells]
    sizes = {len(cell) if isinstance(cell, list | tuple) else -1 for cell in cells}
    try:
        if len(sizes) == 1 and min(sizes) > 0:
            return np.array(cells, dtype=object).astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(
        f"the column {name!r} must hold lists of numbers, all of the same length and not empty",
        parameter="features",
    )


def _vectorizer(**options: Any) -> Any:
    # Loaded on use: it takes longer than all of this package.
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), strip_accents="unicode", **options
    )


def _clean(texts: Iterable[Any]) -> list[str]:
    if isinstance(texts, str):
        raise InputError("texts must be a sequence of texts, not one text")
    return ["" if is_missing(text) else str(text) for text in texts]
