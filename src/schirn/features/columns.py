"""Features from columns of numbers and categories, and detection of the kind of a column."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._files import brief
from schirn._input import Array, declare_parameters, is_missing
from schirn._sklearn import BaseEstimator
from schirn._text import to_numbers
from schirn.exceptions import InputError

_WORDS_OF_A_TEXT = 3
_MAX_CATEGORIES = 50
_ROWS_PER_CATEGORY = 5
# Values beyond about this many standard deviations from the median are compressed.
_FAR = 3.0
# In a normal distribution, 90% of the values span 3.29 standard deviations.
_MIDDLE = (5, 95)
_DEVIATIONS = 3.29
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")

Cells = Mapping[str, Sequence[Any]]
"""Cells by the name of their column."""


@declare_parameters
class NumberColumns(BaseEstimator):
    """Features from columns of numbers; missing values are replaced by the median of the column.

    A column with missing values in training also gets an indicator feature for missing values.

    Parameters
    ----------
    squash : bool
        Whether to centre each column at its median, divide it by the spread of its middle values,
        and compress outliers.
    fill : bool
        Whether to fill missing values; otherwise they raise InputError.

    Attributes
    ----------
    medians_, spreads_ : ndarray of shape (columns,)
    has_missing_, has_commas_ : ndarray of bool of shape (columns,)
        Whether each column had missing values and decimal commas in training.
    """

    squash: bool = False
    fill: bool = True

    def fit(self, columns: Cells) -> "NumberColumns":
        """Learn medians and spreads; raise InputError for a cell that is not a number."""
        self.has_commas_ = np.array([_has_commas(cells) for cells in columns.values()], bool)
        values = self._values(columns)
        for name, column in zip(columns, values, strict=True):
            if np.isnan(column).all():
                raise InputError(f"the column {name!r} holds no numbers", parameter="columns")
        self.has_missing_ = np.array([np.isnan(column).any() for column in values])
        self.medians_ = np.array([np.nanmedian(column) for column in values])
        self.spreads_ = np.array([_spread(column) if self.squash else 1.0 for column in values])
        return self

    def transform(self, columns: Cells) -> Array:
        """Return the numbers, and the indicators for missing values."""
        values = np.column_stack(self._values(columns))
        missing = np.isnan(values)
        values = np.where(missing, self.medians_, values)
        if self.squash:
            values = (values - self.medians_) / self.spreads_
            values /= np.sqrt(1 + (values / _FAR) ** 2)
        return np.hstack([values, missing[:, self.has_missing_]])

    def names(self, columns: Sequence[str]) -> list[str]:
        """Return the names of the features."""
        pairs = zip(columns, self.has_missing_, strict=True)
        return [*columns, *(f"{name} is missing" for name, is_missing in pairs if is_missing)]

    def notes(self, columns: Cells) -> list[str]:
        """Return one sentence per column whose cells were not taken literally."""
        notes = []
        for (name, cells), is_comma in zip(columns.items(), self.has_commas_, strict=True):
            if is_comma and (example := next(filter(_is_decimal_comma, cells), None)):
                notes.append(f"{name}: commas were read as decimal points, as in {example.strip()}")
            n = int(np.isnan(_numbers(name, cells, is_comma)).sum())
            if n:
                values = "1 missing value was" if n == 1 else f"{n:,} missing values were"
                notes.append(f"{name}: {values} filled with the median")
        return notes

    def _values(self, columns: Cells) -> list[Array]:
        pairs = zip(columns.items(), self.has_commas_, strict=True)
        return [_numbers(name, cells, is_comma, self.fill) for (name, cells), is_comma in pairs]


class CategoryColumns(BaseEstimator):
    """One 0/1 feature for each category that occurs in at least two rows.

    Attributes
    ----------
    categories_ : dict from str to list of str
        Categories of each column; other and missing values have no feature.
    """

    def fit(self, columns: Cells) -> "CategoryColumns":
        """Learn the categories."""
        self.categories_ = {}
        for name, cells in columns.items():
            counts = Counter(filter(None, map(_category, cells)))
            self.categories_[name] = sorted(word for word, n in counts.items() if n > 1)
        if not any(self.categories_.values()):
            raise InputError(
                f"no category of {' and '.join(map(repr, columns))} occurs twice, so there is "
                f"nothing to learn from",
                parameter="categories",
            )
        return self

    def transform(self, columns: Cells) -> "sp.csr_array":
        """Return the 0/1 features."""
        blocks = []
        for name, cells in columns.items():
            place = {word: j for j, word in enumerate(self.categories_[name])}
            column = np.array([place.get(_category(cell), -1) for cell in cells], dtype=np.int64)
            row = np.flatnonzero(column >= 0)
            ones = np.ones(len(row), dtype=np.float32)
            shape = (len(column), len(place))
            blocks.append(sp.csr_array((ones, (row, column[row])), shape=shape))
        return sp.csr_array(sp.hstack(blocks))

    def names(self) -> list[str]:
        """Return the names of the features, such as "brand=Acme"."""
        return [f"{name}={word}" for name, words in self.categories_.items() for word in words]


def read_numbers(cells: Sequence[Any]) -> Array | None:
    """Return cells as floats, with NaN for missing cells; None if a cell is not a number.

    Commas are read as decimal points if all cells with a comma allow it.

    >>> read_numbers(["12,50", "3", ""]), read_numbers(["1,250", "3"])
    (array([12.5,  3. ,  nan]), None)
    """
    return to_numbers([*map(_with_point, cells)] if _has_commas(cells) else cells)


def is_text(cells: Sequence[Any]) -> bool:
    """Whether cells are texts of at least three words on average."""
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    return bool(texts) and sum(len(t.split()) for t in texts) >= _WORDS_OF_A_TEXT * len(texts)


def is_category(cells: Sequence[Any]) -> bool:
    """Whether cells are a few texts that occur repeatedly."""
    if any(isinstance(cell, list | tuple | dict | np.ndarray) for cell in cells):
        return False
    counts = Counter(filter(None, map(_category, cells)))
    often = _ROWS_PER_CATEGORY * len(counts) <= sum(counts.values())
    return 2 <= len(counts) <= _MAX_CATEGORIES and often


def _spread(values: Array) -> float:
    """Return a standard deviation that is robust to outliers and never 0."""
    low, high = np.nanpercentile(values, _MIDDLE)
    return float((high - low) / _DEVIATIONS or np.nanstd(values) or 1.0)


def _numbers(name: str, cells: Sequence[Any], has_commas: bool, fill: bool = True) -> Array:
    # New tables may use decimal points although training used commas, or the reverse.
    is_comma = has_commas or _has_commas(cells)
    numbers = [*map(_with_point, cells)] if is_comma else cells
    values = to_numbers(numbers)
    if values is None:
        # Report a cell that is not a number in either notation first.
        with_points = [*map(_with_point, cells)]
        places = [i for i, cell in enumerate(with_points) if to_numbers([cell]) is None]
        places += [i for i, cell in enumerate(numbers) if to_numbers([cell]) is None]
        row = places[0]
    elif not (valid := np.isfinite(values) | (np.isnan(values) if fill else False)).all():
        row = int(np.argmin(valid))
    else:
        return values
    raise InputError(
        f"row {row + 1}, column {name!r}: {brief(str(cells[row]))} is not a number; correct it, or "
        f"leave the cell empty",
        parameter="columns",
    )


def _has_commas(cells: Sequence[Any]) -> bool:
    """Whether all numbers can be read with decimal commas, and some only that way."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and "," in cell]
    if not texts or not all(map(_DECIMAL_COMMA.fullmatch, texts)):
        return False
    return not all(map(_THOUSANDS.fullmatch, texts))


def _is_decimal_comma(cell: Any) -> bool:
    return isinstance(cell, str) and "," in cell and bool(_DECIMAL_COMMA.fullmatch(cell.strip()))


def _with_point(cell: Any) -> Any:
    return cell.replace(".", "").replace(",", ".") if _is_decimal_comma(cell) else cell


def _category(cell: Any) -> str:
    return "" if is_missing(cell) else str(cell).strip()
