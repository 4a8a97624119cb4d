"""Features from the columns of a table: texts, numbers, categories and vectors, or pictures."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from sklearn.utils.validation import check_is_fitted

from schirn._files import brief, brief_list
from schirn._input import (
    Array,
    as_plain,
    canonical,
    declare_parameters,
    is_missing,
    location,
    stacked_lists,
    suggest,
)
from schirn._sklearn import BaseEstimator, TransformerMixin
from schirn._text import check_columns
from schirn._text_features import TextFeatures
from schirn.exceptions import InputError
from schirn.features._weights import choose_weights
from schirn.features.columns import (
    CategoryColumns,
    NumberColumns,
    is_category,
    is_text,
    read_numbers,
)
from schirn.features.encoders import PIXELS, Encoder
from schirn.labels.tags import read_tags
from schirn.linalg.arrays import is_device_array
from schirn.linalg.features import moments
from schirn.scale.cluster import gather_blocks, kind_of_blocks, lazy_texts

TFIDF = "tf-idf"
KINDS = ("text", "columns", "categories", "vectors", "image")


@declare_parameters
class ColumnChoice(BaseEstimator):
    """Common parameters of estimators that learn from columns of a table."""

    text: str | Sequence[str] | None = None
    columns: Sequence[str] | None = None
    categories: str | Sequence[str] | None = None
    vectors: str | None = None
    image: str | None = None
    encoder: str | None = None


@declare_parameters
class TableFeatures(TransformerMixin, ColumnChoice):
    """Turn columns of a table into features for a method.

    Each kind of column becomes one block of features. Numbers alone, or vectors alone, are returned
    unscaled. Given several kinds, each block is scaled to the same variance, so that none dominates
    the others. If tags are passed, `fit` then chooses the weight of each block by how well the
    tags of left-out rows are predicted.

    Parameters
    ----------
    text : str or list of str, optional
        Columns of text, which are concatenated and converted by `TextFeatures`.
    columns : list of str, optional
        Columns of numbers. Missing values are replaced by the median and marked by an additional
        feature; decimal commas are recognised.
    categories : str or list of str, optional
        Columns of categories, with one 0/1 feature for each category of at least two rows.
    vectors : str, optional
        A column of lists of numbers, such as the output of an encoder.
    image : str, optional
        A column of image files, which cannot be combined with other columns.
    encoder : str, optional
        Name of an `Encoder` of texts or pictures. For texts, its vectors are added to the words;
        "tf-idf" uses only the words. For pictures, the default is "pixels", which describes colours
        and edges.

    Attributes
    ----------
    text_ : TextFeatures or None
    numbers_ : NumberColumns or None
    categories_ : CategoryColumns or None
    encoder_ : Encoder or None
    scales_ : ndarray or None
        Factor of each block, if there are several.
    n_features_ : int

    Examples
    --------
    >>> from schirn.features import TableFeatures
    >>> table = {"title": ["red pan", "red chair"], "price": ["12,5", "80"]}
    >>> TableFeatures(columns=["price"]).fit_transform(table).tolist()
    [[12.5], [80.0]]
    >>> both = TableFeatures(text="title", columns=["price"]).fit(table)
    >>> both.transform({"title": ["a blue pan"], "price": [20]}).shape
    (1, 12)
    """

    def fit(self, X: Any, y: Any = None) -> "TableFeatures":
        """Learn words, medians, categories and scales.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
        y : sequence of texts or of lists, or (n, l) 0/1 matrix, optional
            Tags of the rows, which determine the weight of each kind of column.

        Returns
        -------
        TableFeatures
            The fitted transformer.
        """
        arrays_of(self, X, y, learn=True)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> "Array | sp.csr_array":
        """Learn from a table and return the features of its rows.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
        y : sequence of texts or of lists, or (n, l) 0/1 matrix, optional
            Tags of the rows, which determine the weight of each kind of column.

        Returns
        -------
        (n, d) array or CSR array
        """
        self._check_choice()
        several = len(self.kinds) > 1
        self.text_ = None if self.text is None else TextFeatures()
        self.numbers_ = None if self.columns is None else NumberColumns(squash=several)
        self.categories_ = None if self.categories is None else CategoryColumns()
        self.encoder_ = None
        name = PIXELS if self.image is not None and self.encoder is None else self.encoder
        if name is not None and not (name == TFIDF and self.text is not None):
            self.encoder_ = Encoder(name, of="image" if self.image else "text").fit()
        blocks = self._blocks(as_columns(X), learn=True)
        self.scales_ = None
        n = blocks[0].shape[0]
        tags = None if y is None else read_tags(y, None)
        if tags is not None and tags.n_rows != n:
            raise InputError(f"the table has {n} rows, but there are tags for {tags.n_rows}")
        if several:
            variances = np.array([moments(block)[1].sum() / n for block in blocks])
            self.scales_ = 1 / np.sqrt(np.where(variances > 0, variances, 1))
            if tags is not None:
                self.scales_ *= choose_weights(self._scaled(blocks), tags)
        features = _joined(self._scaled(blocks))
        self.n_features_ = features.shape[1]
        return features

    def transform(self, X: Any) -> "Array | sp.csr_array":
        """Return the features (n, d) of the rows of a table with the same columns.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
            Rows of a table with the columns of training.

        Returns
        -------
        (n, d) array or CSR array
        """
        check_is_fitted(self)
        features = _joined(self._scaled(self._blocks(as_columns(X))))
        if features.shape[1] != self.n_features_:
            change = features.shape[1] - self.n_features_
            n = len(self._names().get("vectors", ()))
            raise InputError(
                f"the column {self.vectors!r} holds lists of {n + change} numbers, but lists of "
                f"{n} in training",
                parameter="features",
            )
        return features

    @property
    def kinds(self) -> list[str]:
        """Parameters that name columns and are set."""
        return [kind for kind in KINDS if getattr(self, kind) is not None]

    @property
    def is_scaled(self) -> bool:
        """Whether the features are already scaled: all except numbers alone and vectors alone."""
        return self.kinds not in (["columns"], ["vectors"])

    def names_of(self, kind: str) -> list[str]:
        """Return the columns of a kind, such as "text".

        Parameters
        ----------
        kind : {"text", "columns", "categories", "vectors", "image"}

        Returns
        -------
        list of str
        """
        names = getattr(self, kind)
        return [names] if isinstance(names, str) else list(names or ())

    def texts(self, X: Any) -> list[str]:
        """Return the text of each row, the concatenation of its text cells.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
            Rows of a table with the columns of training.

        Returns
        -------
        list of str
        """
        cells = self._cells(as_columns(X), "text").values()
        if len(cells) == 1:
            return ["" if is_missing(cell) else str(cell) for cell in next(iter(cells))]
        return [
            " ".join(str(cell) for cell in row if not is_missing(cell) and cell != "")
            for row in zip(*cells, strict=True)
        ]

    def notes(self, X: Any) -> list[str]:
        """Return sentences about cells that are not taken literally.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
            Rows of a table with the columns of training.

        Returns
        -------
        list of str
        """
        check_is_fitted(self)
        numbers = self._part("numbers_")
        notes = [] if numbers is None else numbers.notes(self._cells(as_columns(X), "columns"))
        if self.image is not None and self.encoder is None:
            notes.append(
                f"{self.image}: the pictures are described by their colours and edges; a trained "
                f"network sees more, such as the encoder sentence-transformers:clip-ViT-B-32 "
                f'(pip install "schirn[networks]")'
            )
        return notes

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the words, columns, categories and numbered vector components as names.

        Parameters
        ----------
        input_features : ignored
            For scikit-learn.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.array([name for block in self._names().values() for name in block], dtype=object)

    def readable_names(self) -> list[str]:
        """Return the names of words, columns and categories, and "" for all other features.

        Returns
        -------
        list of str
            One name per feature.
        """
        check_is_fitted(self)
        names = self._names()
        for kind in set(names) - {"words", "columns", "categories"}:
            names[kind] = [""] * len(names[kind])
        return [name for block in names.values() for name in block]

    def source(self) -> str:
        """Describe in words what the features are made of.

        Returns
        -------
        str
        """
        sources = [brief_list(self.names_of(kind), 6) for kind in self.kinds]
        if self.encoder not in (None, TFIDF):
            beside = f"{TFIDF} and " if self.text is not None else ""
            sources[0] += f" with {beside}{self.encoder}"
        return ", ".join(sources)

    def _check_choice(self) -> None:
        """Raise InputError unless the choice of columns is valid."""
        if not self.kinds:
            raise InputError(f"give columns to learn from: {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        for kind in self.kinds:
            if not self.names_of(kind):
                raise InputError(f"{kind} is empty, so there is nothing to learn from")
        if self.image is not None and len(self.kinds) > 1:
            raise InputError(
                "pictures cannot be combined with other columns; encode them first, and give their "
                "column of vectors",
                parameter="image",
            )
        if self.encoder is not None and self.text is None and self.image is None:
            raise InputError(
                f"an encoder turns texts or pictures into vectors, not {self.kinds[0]}",
                parameter="encoder",
            )

    def _part(self, name: str) -> Any:
        # Model files of earlier versions lack some of these attributes.
        return getattr(self, name, None)

    def _cells(self, table: "Columns", kind: str) -> dict[str, list[Any]]:
        return {name: table.column(name) for name in self.names_of(kind)}

    def _blocks(self, table: "Columns", learn: bool = False) -> list[Any]:
        """Return the features of each kind of column."""
        blocks: list[Any] = []
        if self.text_ is not None:
            texts = self.texts(table)
            words = arrays_of(self.text_, texts, learn=learn)
            if (encoder := self._part("encoder_")) is not None:
                words = sp.csr_array(sp.hstack([words, arrays_of(encoder, texts)]))
                # Imported on use because it is slow.
                from sklearn.preprocessing import normalize

                words = normalize(words, copy=False)
            blocks.append(words)
        if self.columns is not None:
            cells = self._cells(table, "columns")
            numbers = self._part("numbers_")
            blocks.append((numbers.fit(cells) if learn else numbers).transform(cells))
        if (categories := self._part("categories_")) is not None:
            cells = self._cells(table, "categories")
            blocks.append((categories.fit(cells) if learn else categories).transform(cells))
        if self.vectors is not None:
            blocks.append(_vectors(table, self.vectors))
        if self.image is not None:
            blocks.append(arrays_of(self.encoder_, table.column(self.image)))
        return blocks

    def _scaled(self, blocks: list[Any]) -> list[Any]:
        scales = self._part("scales_")
        if scales is None:
            return blocks
        return [block * block.dtype.type(k) for block, k in zip(blocks, scales, strict=True)]

    def _names(self) -> dict[str, list[str]]:
        """Names of the features, block by block."""
        names: dict[str, list[str]] = {}
        if self.text_ is not None:
            every = self.text_.get_feature_names_out().tolist()
            n_words = len(every) - self.text_.n_characters
            names |= {"words": every[:n_words], "characters": every[n_words:]}
        if (encoder := self._part("encoder_")) is not None:
            names["encoder"] = encoder.get_feature_names_out().tolist()
        if self.columns is not None:
            columns = self.names_of("columns")
            numbers = self._part("numbers_")
            names["columns"] = columns if numbers is None else numbers.names(columns)
        if (categories := self._part("categories_")) is not None:
            names["categories"] = categories.names()
        if self.vectors is not None:
            n = self.n_features_ - sum(map(len, names.values()))
            names["vectors"] = [f"{self.vectors}{j}" for j in range(n)]
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


def arrays_of(
    transformer: Any, X: Any, y: Any = None, *, learn: bool = False
) -> "Array | sp.csr_array":
    """Return features as an array or CSR matrix, whatever `set_output` is configured."""
    with config_context(transform_output="default"):
        features: Any = transformer.fit_transform(X, y) if learn else transformer.transform(X)
        return features


def _joined(blocks: list[Any]) -> "Array | sp.csr_array":
    """Concatenate blocks of features; the result is sparse if one of them is."""
    if len(blocks) == 1:
        features: Array | sp.csr_array = blocks[0]
        return features
    if not any(map(sp.issparse, blocks)):
        return np.hstack(blocks)
    return sp.csr_array(sp.hstack([sp.csr_array(block, dtype=np.float32) for block in blocks]))


def _vectors(table: "Columns", name: str) -> Array:
    matrix = None if table.vectors is None else table.vectors(table.known(name))
    return _stacked(table.column(name), name) if matrix is None else matrix


def read_features(X: Any) -> tuple[Any, list[str] | None, bool]:
    """Read the X of a user; return the features, their names, and whether they are scaled.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or DataFrame of numbers, sequence of n texts, or table
        Rows on a device, in files or on Dask workers are returned unchanged. Texts are converted by
        `TextFeatures`; texts on Dask workers are fetched once to learn the words. The columns of a
        table with texts or categories are converted by `TableFeatures`.

    Returns
    -------
    (array or CSR matrix, list of str or None, bool)
        A feature without a meaningful name has the name "".
    """
    X = X if location(X) == "dask" else as_plain(X)
    # The columns of an Arrow table are arrays; those of a DataFrame are names.
    columns = getattr(X, "column_names", getattr(X, "columns", None))
    names = None if columns is None else list(map(str, columns))
    if location(X) == "dask" and kind_of_blocks(X) == "texts":
        features = TextFeatures().fit(chain.from_iterable(gather_blocks(X)))
        return lazy_texts(X, features.transform), None, True
    if is_device_array(X) or location(X) in ("dask", "files"):
        return X, None, False
    if sp.issparse(X):
        return canonical(X), None, False
    if isinstance(X, Mapping):
        return _read_table(X)
    if names is None:
        X = X if hasattr(X, "shape") else list(X)
        cells = X if getattr(X, "ndim", 1) == 1 else ()
        first = next((cell for cell in cells if not is_missing(cell)), None)
        if isinstance(first, str):
            return _read_table({"text": list(X)}, text="text")
        if isinstance(first, Mapping):
            return _read_table(X)
    matrix = X if isinstance(X, np.memmap) else np.asarray(X)
    if matrix.dtype.kind not in "biuf":
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError) as error:
            if names is not None:
                return _read_table(X)
            raise InputError(f"X must hold numbers, or one text per row ({error})") from None
    return matrix, names, False


def _read_table(X: Any, **kinds: Any) -> tuple[Any, list[str], bool]:
    transformer = TableFeatures(**(kinds or column_kinds(as_columns(X))))
    return arrays_of(transformer, X, learn=True), transformer.readable_names(), True


def column_kinds(table: "Columns") -> dict[str, Any]:
    """Detect the kinds of the columns of a table; return parameters of `TableFeatures`.

    A column that holds neither numbers nor categories is text.
    """
    kinds: dict[str, Any] = {}
    for name in table.names:
        cells = table.column(name)
        values = read_numbers(cells)
        if any(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
            if "vectors" in kinds:
                raise InputError(
                    f"both {kinds['vectors']!r} and {name!r} hold lists; give one column of vectors"
                )
            kinds["vectors"] = name
        elif values is not None and np.isnan(values).all():
            continue
        elif values is not None:
            kinds.setdefault("columns", []).append(name)
        elif is_category(cells) and not is_text(cells):
            kinds.setdefault("categories", []).append(name)
        else:
            kinds.setdefault("text", []).append(name)
    return kinds


class Columns(NamedTuple):
    """Access to the columns of a table of any type."""

    names: dict[str, None]
    """A dictionary, because looking up a name among thousands in a list is slow."""
    cells: Any
    """Function from a name to its list of cells."""
    vectors: Any = None
    """Function from a name to the matrix of its lists or None; None if there is no fast way."""

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column."""
        return list(self.cells(self.known(name)))

    def known(self, name: str) -> str:
        """Return the name of a column; raise InputError if it does not exist."""
        if name not in self.names:
            raise InputError(f"there is no column {brief(name)}; {suggest(name, self.names)}")
        return name


def as_columns(X: Any) -> Columns:
    """Return access to the columns of a table in memory, or of a `Table`.

    A table in memory is a DataFrame of pandas or polars, an Arrow table, a `datasets.Dataset`, a
    dict of columns or a list of dicts.
    """
    if isinstance(X, Columns):
        return X
    X = as_plain(X)
    if hasattr(X, "column_names"):
        check_columns(Path("X"), list(X.column_names))
        return Columns(
            dict.fromkeys(X.column_names),
            lambda name: list(X.column(name).to_pylist()),
            lambda name: stacked_lists(X.column(name)),
        )
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


def _stacked(cells: list[Any], name: str) -> Array:
    """Stack a column of lists of numbers into a matrix."""
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
