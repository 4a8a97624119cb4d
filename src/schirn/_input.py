"""Input validation shared by all backends: parameters, features, names."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Protocol, TypeVar, dataclass_transform

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.exceptions import suggest as suggest

Array = np.ndarray
"""A NumPy array; `schirn.linalg.arrays.Array` is one of any library."""


_LARGEST_FLOAT = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Number:
    """A finite number of at least (or more than) `low` and at most `high`."""

    low: float = 0.0
    high: float = float("inf")
    open_low: bool = False
    integer: bool = False
    none: bool = False

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value is not allowed."""
        if value is None and self.none:
            return
        kind: Any = Integral if self.integer else Real
        if isinstance(value, kind) and not isinstance(value, bool):
            number = value.item() if isinstance(value, np.generic) else value
            above = number > self.low if self.open_low else number >= self.low
            if above and number <= min(self.high, _LARGEST_FLOAT):
                return
        raise self._error(name, value)

    def _error(self, name: str, value: Any) -> InputError:
        article = "an integer" if self.integer else "a number"
        bound = f"{'more than' if self.open_low else 'at least'} {self.low:g}"
        top = "" if self.high == float("inf") else f" and at most {self.high:g}"
        allowed = f"{self.low:g}" if self.low == self.high else f"{article} of {bound}{top}"
        none = " or None" if self.none else ""
        return InputError(f"{name} must be {allowed}{none}, got {value!r}", parameter=name)


@dataclass(frozen=True)
class OneOf:
    """One of a few values."""

    values: tuple[Any, ...]

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value is not allowed."""
        if not any(
            value is v or (isinstance(value, str | np.bool_) and value == v) for v in self.values
        ):
            allowed = ", ".join(map(repr, self.values))
            raise InputError(f"{name} must be one of {allowed}, got {value!r}", parameter=name)


@dataclass(frozen=True)
class Seed:
    """A whole number of at least 0, a `numpy.random.RandomState`, or None."""

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value is not allowed."""
        if isinstance(value, np.random.RandomState):
            return
        Number(high=2**32 - 1, integer=True, none=True).check(name, value)


class Constraint(Protocol):
    """The allowed values of a parameter."""

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value is not allowed."""


def check_params(values: dict[str, Any], constraints: dict[str, Constraint]) -> None:
    """Check every parameter that has a constraint."""
    for name, constraint in constraints.items():
        constraint.check(name, values[name])


Estimator = TypeVar("Estimator")


def parameter(default: Any, constraint: Constraint) -> Any:
    """Default and allowed values of a parameter, in a class with `declare_parameters`."""
    return field(default=default, metadata={"constraint": constraint})


@dataclass_transform(kw_only_default=True, eq_default=False)
def declare_parameters(cls: type[Estimator]) -> type[Estimator]:
    """Make the annotated attributes of a class the keyword-only parameters of its `__init__`.

    The allowed values of `parameter` are collected in `_constraints`. Subclasses inherit both.

    >>> @declare_parameters
    ... class Ridge:
    ...     lam: float = parameter(1.0, Number(open_low=True))
    ...     verbose: bool = False
    >>> Ridge(verbose=True).lam, list(Ridge._constraints)
    (1.0, ['lam'])
    """
    model: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    model._constraints = {f.name: f.metadata["constraint"] for f in fields(model) if f.metadata}
    return cls


# Far below the square root of the largest double, to leave room for products of many squares.
_LARGEST_DOUBLE = 1e140
_ROWS: Any = {
    "accept_sparse": "csr",
    "ensure_all_finite": False,
    "dtype": (np.float64, np.float32),
}
# Where the types of other packages keep their rows.
_LOCATIONS = {
    "torch": "device",
    "cupy": "device",
    "dask.array": "dask",
    "dask.delayed": "dask",
    "distributed": "dask",
    "schirn.scale.row_file": "files",
}


def location(X: Any) -> str:
    """Return where the rows of X live: "memory", "device", "dask" or "files".

    A list is lazy if all its blocks are.

    >>> location(np.zeros((2, 2))), location([[1, 2]])
    ('memory', 'memory')
    """
    if isinstance(X, list | tuple):
        return "dask" if X and all(location(block) == "dask" for block in X) else "memory"
    module = f"{type(X).__module__}."
    places = (place for name, place in _LOCATIONS.items() if module.startswith(f"{name}."))
    return next(places, "memory")


def check_values(X: Any, names: Array | None = None) -> None:
    """Raise InputError at the first NaN, infinity or too large value in an array or CSR matrix."""
    if not are_usable(X):
        raise bad_value(*first_bad(X), names=names)


def are_usable(X: Any) -> bool:
    """Whether all values of X are finite and small enough."""
    values = X.data if sp.issparse(X) else X
    # With a NaN among the values both extremes are NaN, and no comparison with NaN is true.
    largest = max(values.max(initial=0), -values.min(initial=0))
    return bool(largest < largest_value(values.dtype, X.shape[0]))


def validated_rows(estimator: Any, X: Any, reset: bool = False) -> "Array | sp.csr_array":
    """Return X as a float array or CSR matrix after checking its columns and values.

    `reset` makes the columns of X those of the estimator. Single precision is kept.
    """
    if isinstance(X, np.ndarray):
        X = validate_data(estimator, X, reset=reset, **_ROWS)
    else:
        X = _rows_of_container(estimator, as_plain(X), reset)
    check_values(X, getattr(estimator, "feature_names_in_", None))
    return canonical(X) if sp.issparse(X) else X


def _rows_of_container(estimator: Any, X: Any, reset: bool) -> Any:
    """Rows of a table, a sparse matrix or lists, with their columns checked."""
    if not (hasattr(X, "column_names") or hasattr(X, "to_arrow")):
        return validate_data(estimator, X, reset=reset, **_ROWS)
    # scikit-learn knows the names of these columns, but not their precision.
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return check_array(np.asarray(X), estimator=estimator, input_name="X", **_ROWS)


def largest_value(dtype: Any, n_rows: int) -> float:
    """Values of X must be smaller, because methods sum their squares over all rows."""
    single = float(np.sqrt(np.finfo(np.float32).max / n_rows))
    return single if np.dtype(dtype) == np.float32 else _LARGEST_DOUBLE


def canonical(X: Any) -> sp.csr_array:
    """A CSR matrix with sorted indices and no duplicate cells; X is not modified."""
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def as_plain(data: Any) -> Any:
    """Return a column of polars or Arrow as a list, and a `datasets.Dataset` as an Arrow table.

    Anything else is returned as it is. Containers are known by their methods, since none of these
    packages needs to be installed.
    """
    if hasattr(data, "with_format") and hasattr(data, "column_names"):
        return _arrow_table(data)
    if hasattr(data, "to_pylist") and not hasattr(data, "column_names"):
        return data.to_pylist()
    # Series of pandas have no `to_arrow`; NumPy and scikit-learn take them.
    if hasattr(data, "to_arrow") and hasattr(data, "to_list"):
        return data.to_list()
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):
        raise InputError("X is a lazy frame; call collect() first")
    return data


def _arrow_table(data: Any) -> Any:
    """The rows of a `datasets.Dataset`."""
    if isinstance(data, Mapping):
        raise InputError(f"choose one of the splits {', '.join(map(str, data))}")
    if not hasattr(data, "__len__"):
        raise InputError(
            f"the rows of {type(data).__name__} come as a stream; make a Dataset of them first"
        )
    return data.with_format("arrow")[:]


def is_missing(value: Any) -> bool:
    """Return True for None, NaN, and the NA and NaT of pandas."""
    if isinstance(value, str):
        return False
    # By name, because pandas may not be installed.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def is_count(value: Any) -> bool:
    """Whether a value read from JSON is a whole number of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_share(value: Any) -> bool:
    """Whether a value read from JSON is a number from 0 to 1.

    >>> [is_share(value) for value in (0.5, 1, 1.5, float("nan"), True, "0.5")]
    [True, True, False, False, False, False]
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def whole_text(text: str) -> str:
    r"""Return text that every file can hold: half of a surrogate pair becomes U+FFFD.

    JSON can hold such halves, for instance where a program cut an emoji in two; UTF-8 cannot.

    >>> whole_text("half \ud83d"), whole_text("dog")
    ('half \ufffd', 'dog')
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def repeated(names: Iterable[str]) -> str | None:
    """The first name that occurs twice, or None."""
    known: set[str] = set()
    for name in names:
        if name in known:
            return name
        known.add(name)
    return None


def find_name(text: str, known: Iterable[str]) -> str | None:
    """Return the known name that a text means, ignoring case and hyphens, or None.

    >>> find_name("pml-ma", ["PMLMA", "Sieve"])
    'PMLMA'
    """
    return {name.lower(): name for name in known}.get(text.lower().replace("-", ""))


def check_same_length(rows: int, labels: int) -> None:
    """Raise InputError if X and the candidates differ in their number of rows."""
    if rows != labels:
        raise InputError(
            f"X has {rows} rows but the candidates have {labels}; "
            f"inconsistent numbers of samples cannot be matched"
        )


def first_bad(X: Any) -> tuple[int, int, float]:
    """Row, column and value of the first entry that is not finite or too large."""
    values = X.data if sp.issparse(X) else X
    highest = largest_value(values.dtype, X.shape[0])
    row, column, value = entry(X, int(np.flatnonzero(~(np.abs(values) < highest))[0]))
    return row, column, float(value)


def entry(X: Any, k: int) -> tuple[int, int, Any]:
    """Row, column and value of the k-th stored entry of an array or CSR matrix."""
    if sp.issparse(X):
        return int(np.searchsorted(X.indptr, k, side="right")) - 1, int(X.indices[k]), X.data[k]
    row, column = divmod(k, X.shape[1])
    return row, column, X[row, column]


def bad_value(row: int, column: int, value: float, names: Array | None = None) -> InputError:
    """The error for an entry of X that is not finite or too large."""
    place = f"at row {row}, column {column if names is None else repr(names[column])}"
    if not np.isfinite(value):
        kind = "NaN" if np.isnan(value) else "inf"
        return InputError(f"X contains {kind} {place}; impute or remove such values first")
    double = abs(value) >= _LARGEST_DOUBLE
    remedy = "rescale the feature" if double else "pass X in double precision"
    return InputError(
        f"X holds {value:g} {place}, too large for {'double' if double else 'single'} precision, "
        f"because its square overflows; is it a code for a missing value? Remove it, or {remedy}"
    )


def check_same_order(first: tuple[str, Any], *others: tuple[str, Any]) -> None:
    """Raise InputError if an argument has the rows of the first in another order, by their index.

    Rows are matched by position. Only an index with the same values in another order is evidently
    a mistake; arguments with other values, or without an index, pass.

    Parameters
    ----------
    first : tuple of str and object
        Name and value of the argument whose order counts.
    *others : tuple of str and object
        Names and values of the arguments to compare with it.
    """
    name, value = first
    index = _index(value)
    if index is None:
        return
    for other_name, other in others:
        other_index = _index(other)
        if other_index is None or len(other_index) != len(index) or index.equals(other_index):
            continue
        if Counter(index.tolist()) == Counter(other_index.tolist()):
            raise InputError(
                f"{other_name} has the index of {name} in another order, but rows are matched by "
                f"position; {_remedy(name, index, other_name, other_index)}",
                parameter=other_name,
            )


def _remedy(name: str, index: Any, other_name: str, other_index: Any) -> str:
    """Return what to do about an index in another order."""
    plain = f"{other_name}.to_numpy()"
    aligned = f"{other_name}.loc[{name}.index]"
    if not index.is_unique:
        return f"pass {plain} if the positions are right, and otherwise sort both alike"
    if any(_is_default(each) for each in (index, other_index)):
        # A new index numbers the rows of a table as they stand: positions are probably right.
        return f"pass {plain} if the positions are right, or {aligned} if the index is"
    return f"pass {aligned}, or {plain} if the positions are right"


def _is_default(index: Any) -> bool:
    """Return whether an index is that of a pandas object made without one."""
    parts = [getattr(index, name, None) for name in ("start", "step", "stop")]
    return parts == [0, 1, len(index)]


def _index(value: Any) -> Any:
    """Return the index of a pandas object, or of a ranking of one; None for anything else."""
    # A list has an `index` too, which is a method.
    index = getattr(value, "index", None)
    return index if hasattr(index, "get_indexer") else None


def stacked_lists(column: Any) -> Array | None:
    """Return an Arrow column of lists of numbers as a matrix, without an object per number.

    Parameters
    ----------
    column : Arrow column

    Returns
    -------
    ndarray or None
        In the precision of the column; None unless all cells are lists of as many numbers.
    """
    types = optional("pyarrow", "table", "Reading this table").types
    if not types.is_nested(column.type):
        return None
    compute = optional("pyarrow.compute", "table", "Reading this table")
    sizes = compute.unique(compute.list_value_length(column)).to_pylist()
    numbers = compute.list_flatten(column)
    if len(sizes) != 1 or not sizes[0] or numbers.null_count:
        return None
    values = numbers.to_numpy()
    if values.dtype.kind not in "biuf":
        return None
    values = values.reshape(-1, sizes[0])
    return values if values.dtype == np.float32 else values.astype(np.float64)
