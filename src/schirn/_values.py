"""Python values as JSON plus a list of plain arrays, and back; nothing in between is code."""

import math
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._arrays import check_sparse
from schirn.exceptions import InputError

Array = np.ndarray

_SPARSE: dict[str, Any] = {
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
}
# Transformers whose fitted state is numbers and arrays.
_TRANSFORMERS: dict[str, str] = {
    "MaxAbsScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "Normalizer": "sklearn.preprocessing",
    "StandardScaler": "sklearn.preprocessing",
    "PCA": "sklearn.decomposition",
    "TruncatedSVD": "sklearn.decomposition",
}
# Set by scikit-learn for routing; it belongs to the caller's pipeline, not to the model.
_NOT_STATE = {"_metadata_request"}


class Encoder:
    """Turns values into JSON; arrays are put aside in `arrays` and referred to by number."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def estimator(self, model: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return class name, parameters and fitted attributes."""
        params = model.get_params(deep=False)
        kept = {k: v for k, v in vars(model).items() if k not in {*params, *leave_out, *_NOT_STATE}}
        name = type(model).__name__
        return {
            "class": name,
            "params": {k: self.value(v, f"{name}.{k}") for k, v in params.items()},
            "attributes": {k: self.value(v, f"{name}.{k}") for k, v in kept.items()},
        }

    def value(self, value: Any, where: str) -> Any:
        """Return JSON for one value; `where` names it in errors."""
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value, where)
        if sp.issparse(value):
            return self._sparse(value, where)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._record(value, where)
        if type(value) in (list, tuple):
            items = [self.value(item, f"{where}[{k}]") for k, item in enumerate(value)]
            return {type(value).__name__: items}
        if type(value) is dict and all(type(key) is str for key in value):
            return {"dict": {k: self.value(v, f"{where}[{k!r}]") for k, v in value.items()}}
        if _class_of(type(value).__name__) is type(value):
            return {"estimator": self.estimator(value)}
        raise InputError(
            f"{where} is of type {type(value).__module__}.{type(value).__qualname__}, which a "
            f"model file cannot hold; it holds numbers, text, arrays and lists of these"
        )

    def _array(self, value: Any, where: str) -> dict[str, Any]:
        if not value.dtype.hasobject:
            kind = "array" if isinstance(value, np.ndarray) else "number"
            self.arrays.append(np.asanyarray(value))
            return {kind: len(self.arrays) - 1}
        if value.ndim == 1 and all(type(item) is str for item in value):
            return {"names": value.tolist()}
        raise InputError(f"{where} is an array of Python objects, which a model file cannot hold")

    def _sparse(self, value: Any, where: str) -> dict[str, Any]:
        name = type(value).__name__
        if name not in _SPARSE:
            raise InputError(f"{where} is a {name}; a model file holds CSR and CSC matrices only")
        parts = [self._array(part, where) for part in (value.data, value.indices, value.indptr)]
        return {"sparse": {"type": name, "shape": list(value.shape), "parts": parts}}

    def _record(self, value: Any, where: str) -> dict[str, Any]:
        cls = type(value)
        if _record_class(cls.__module__, cls.__name__) is not cls:
            raise InputError(f"{where} is a {cls.__name__}, a named tuple from outside schirn")
        fields = {k: self.value(v, f"{where}.{k}") for k, v in value._asdict().items()}
        return {"record": {"module": cls.__module__, "name": cls.__name__, "fields": fields}}


class Decoder:
    """Builds the values again; raises ValueError, KeyError or TypeError on anything unknown."""

    def __init__(self, arrays: list[Array]) -> None:
        self._arrays = arrays

    def estimator(self, entry: dict[str, Any], find: Callable[[str], Any]) -> Any:
        """Return an estimator of the class that `find` knows under the name."""
        cls = find(entry["class"])
        model = cls(**{key: self.value(value) for key, value in entry["params"].items()})
        for key, value in entry["attributes"].items():
            if not key.isidentifier() or key.startswith("__") or callable(getattr(cls, key, None)):
                raise ValueError(f"{key!r} is not the name of a fitted attribute")
            setattr(model, key, self.value(value))
        return model

    def value(self, entry: Any) -> Any:
        """Return the value of one JSON entry."""
        if not isinstance(entry, dict):
            return entry
        ((kind, body),) = entry.items()
        if kind not in _DECODE:
            raise ValueError(f"{kind!r} is not a known kind of value")
        return _DECODE[kind](self, body)

    def _array(self, place: int) -> Array:
        if type(place) is not int or not 0 <= place < len(self._arrays):
            raise ValueError(f"there is no array {place!r}")
        return self._arrays[place]

    def _number(self, place: int) -> Any:
        return self._array(place)[()]

    def _names(self, names: list[str]) -> Array:
        return np.array([str(name) for name in names], dtype=object)

    def _items(self, items: list[Any]) -> list[Any]:
        return [self.value(item) for item in items]

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(self._items(items))

    def _dict(self, items: dict[str, Any]) -> dict[str, Any]:
        return {key: self.value(value) for key, value in items.items()}

    def _sparse(self, body: dict[str, Any]) -> Any:
        data, indices, indptr = self._items(body["parts"])
        shape = tuple(int(side) for side in body["shape"])
        matrix = _SPARSE[body["type"]]((data, indices, indptr), shape=shape)
        check_sparse(matrix)
        return matrix

    def _record(self, body: dict[str, Any]) -> Any:
        cls = _record_class(body["module"], body["name"])
        if cls is None:
            raise ValueError(f"{body['name']!r} is not a named tuple of schirn")
        return cls(**self._dict(body["fields"]))

    def _nested(self, body: dict[str, Any]) -> Any:
        return self.estimator(body, _known_class)


_DECODE: dict[str, Callable[[Decoder, Any], Any]] = {
    "float": lambda _, text: float(text),
    "array": Decoder._array,
    "number": Decoder._number,
    "names": Decoder._names,
    "list": Decoder._items,
    "tuple": Decoder._tuple,
    "dict": Decoder._dict,
    "sparse": Decoder._sparse,
    "record": Decoder._record,
    "estimator": Decoder._nested,
}


def _record_class(module: str, name: str) -> Any:
    """Return a named tuple of an already imported module of schirn, or None."""
    # Never an import by a name from a file: the modules of a method come with the method.
    loaded = sys.modules.get(module) if module.startswith("schirn.") else None
    cls = getattr(loaded, name, None)
    own = isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")
    return cls if own else None


def _class_of(name: str) -> Any:
    """Return the method or transformer of this name, or None."""
    from schirn.methods import methods

    if name in _TRANSFORMERS:
        return getattr(import_module(_TRANSFORMERS[name]), name)
    return methods().get(name)


def _known_class(name: str) -> Any:
    """Return the method or transformer of this name."""
    cls = _class_of(name)
    if cls is None:
        raise ValueError(f"{name!r} is not a class that a model file may hold")
    return cls
