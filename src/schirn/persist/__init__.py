"""Model files: data, never code.

A model file is a zip archive: `header.json` describes the model, and each array is an .npy member.
The header holds the type, shape and SHA-256 checksum of each array; the comment of the archive
holds the header's checksum. Checksums detect corruption, not tampering.
"""

import hashlib
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from schirn._files import (
    DAMAGE,
    atomic_write,
    brief,
    byte_limit,
    check_sparse,
    npy_header,
    read_array,
    reason_of,
    shortened,
    too_large,
)
from schirn._files import MAX_BYTES as MAX_BYTES
from schirn._input import Array, check_params
from schirn.estimators import PartialMultiLabelClassifier, method_named, methods
from schirn.exceptions import InputError, ModelFileError
from schirn.features import TagPipeline
from schirn.linalg.arrays import is_device_array, to_numpy
from schirn.persist._model import PIPELINE, all_records, check_model, class_of, final_step
from schirn.persist._model import RECORDS as RECORDS
from schirn.persist._onnx import to_onnx as to_onnx

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

FORMAT = "schirn-model"
# Versions before 0.4.0, which nobody has released, wrote the formats 1 and 2.
VERSION = 3
OLDEST_FORMAT = 3
OLDEST_RELEASE = (0, 4)
TRAINING_ATTRIBUTES = (
    "noise_",
    "label_confidence_",
    "training_influence_",
    "training_log_odds_",
    "training_rows_",
    "missing_",
    "pseudo_labels_",
)

_SPARSE = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
# Attributes set by scikit-learn for metadata routing and `set_output`, which belong to the caller's
# pipeline, and values that are recomputed when needed.
_NOT_STATE = {"_metadata_request", "_sklearn_output_config", "_remembered_terms"}

_HEADER = "header.json"
# Maximum number of bytes in memory per byte of JSON.
_JSON_GROWTH = 32
_MOST_MEMBERS = 100_000
# Kinds of arrays: booleans, integers and floats.
_NUMBERS = "biuf"


def save(
    model: "PartialMultiLabelClassifier | TagPipeline | Pipeline",
    path: str | os.PathLike[str],
    *,
    include_training: bool = True,
    notes: dict[str, Any] | None = None,
) -> None:
    """Write a fitted model to a file, completely or not at all.

    Parameters
    ----------
    model : PartialMultiLabelClassifier, TagPipeline or sklearn.pipeline.Pipeline
        A fitted method of `schirn.methods()`, or a pipeline whose last step is one. The other
        steps of a scikit-learn pipeline may be `TextFeatures`, scalers, `Normalizer`, `PCA` and
        `TruncatedSVD`; its options `memory` and `verbose` are not saved.
    path : path
        Any suffix; the program uses ``.schirn``. An existing file is replaced.
    include_training : bool, default=True
        Include `noise_` and `label_confidence_`, the verdicts on the training rows. They have n × l
        entries each and are not needed to predict; without them a linear model is as small as its
        (l, d) weights.
    notes : dict, optional
        Any JSON-serialisable values, returned by `read_notes`; the program stores column names.

    Examples
    --------
    >>> import tempfile
    >>> import schirn
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=100, n_labels=5, r=1, random_state=0)
    >>> model = schirn.CandidateRidge(lam=1.0).fit(data.X, data.candidates)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     schirn.save(model, f"{folder}/ridge.schirn")
    ...     same = schirn.load(f"{folder}/ridge.schirn")
    >>> bool((same.predict(data.X) == model.predict(data.X)).all())
    True
    """
    for part in (model, final_step(model)):
        if _model_class(type(part).__name__) is not type(part):
            raise InputError(
                f"only methods of schirn can be saved ({', '.join(_models())}), and pipelines "
                f"that end with one, not {type(part).__name__}"
            )
    if not hasattr(final_step(model), "label_names_"):
        raise InputError(f"this {type(model).__name__} is not fitted; call fit before save")
    encoder = Encoder(() if include_training else TRAINING_ATTRIBUTES)
    entry = encoder.estimator(model)
    try:
        check_model(Decoder(encoder.arrays).estimator(entry, lambda _: type(model)))
    except ValueError as error:
        raise InputError(f"this model cannot be saved: {reason_of(error)}") from error
    _write(Path(path), entry, encoder.arrays, notes or {})


def load(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Any:
    """Read a model written by `save`.

    Nothing in the file is executed: it contains no pickle, and its class is looked up in
    `schirn.methods()`, or is `TagPipeline` or scikit-learn's `Pipeline`.

    Parameters
    ----------
    path : path
        The model file.
    max_bytes : int, optional
        Files that would unpack to more raise ModelFileError before memory is allocated; by default
        ``SCHIRN_MAX_BYTES`` or 8 GiB.

    Returns
    -------
    PartialMultiLabelClassifier, TagPipeline or sklearn.pipeline.Pipeline
        The saved model: a `TagPipeline` if it learns from the columns of a table.

    Raises
    ------
    ModelFileError
        If the file is damaged, was not written by `save`, or needs a newer version.

    Examples
    --------
    See `save`.
    """
    path = Path(path)
    limit = byte_limit(max_bytes)
    with damage_named(path), _open(path) as archive:
        header = _read_header(path, archive, limit)
        name = header["model"]["class"]
        cls = _model_class(name)
        if cls is None:
            raise ModelFileError(
                f"{path}: holds a model of the class {brief(name)}, which this version of schirn "
                f"({', '.join(_models())}) does not have"
            )
        arrays = _read_arrays(path, archive, header["arrays"], limit)
        with damage_named(path, header["schirn"]):
            model = Decoder(arrays).estimator(header["model"], lambda _: cls)
            check_model(model)
        return model


def read_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the notes of a model file without reading its arrays.

    Parameters
    ----------
    path : path
        The model file.

    Returns
    -------
    dict from str to JSON value

    Examples
    --------
    >>> import tempfile
    >>> import schirn
    >>> from schirn.persist import read_notes
    >>> model = schirn.CandidateRidge().fit([[0.0], [1.0]], [[0, 1], [1, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     schirn.save(model, f"{folder}/ridge.schirn", notes={"data": "two rows"})
    ...     read_notes(f"{folder}/ridge.schirn")
    {'data': 'two rows'}
    """
    path = Path(path)
    with damage_named(path), _open(path) as archive:
        return dict(_read_header(path, archive, byte_limit())["notes"])


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Check whether a file has the header of a model file; its arrays are not read.

    Parameters
    ----------
    path : path
        Any path.

    Returns
    -------
    bool

    Examples
    --------
    >>> from schirn.persist import is_model_file
    >>> is_model_file("pyproject.toml")
    False
    """
    try:
        read_notes(path)
    except (InputError, OSError):
        return False
    return True


def _models() -> list[str]:
    """Return the names of all schirn classes that may be the model of a file."""
    return [*methods(), "TagPipeline"]


def _model_class(name: str) -> Any:
    """Return the class of this name that may be the model of a file, or None."""
    if name == PIPELINE:
        return class_of(name)
    return TagPipeline if name == "TagPipeline" else method_named(name)


def _record_name(cls: type) -> str | None:
    """Return the name of a named tuple in model files, or None."""
    names = {record: name for name, record in RECORDS.items()}
    return names.get(cls) or {record: name for name, record in all_records().items()}.get(cls)


def _write(path: Path, entry: dict[str, Any], arrays: list[Array], notes: dict[str, Any]) -> None:
    """Write header and arrays; equal models give equal bytes."""
    import schirn

    packed: dict[str, Any] = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w", **packed) as archive:
        members = [_write_array(archive, k, array) for k, array in enumerate(arrays)]
        header = {
            "format": FORMAT,
            "version": VERSION,
            "schirn": schirn.__version__,
            "model": entry,
            "arrays": members,
            "notes": notes,
        }
        # Unpaired surrogates, as in file names that are not UTF-8, become JSON escapes.
        document = json.dumps(header, ensure_ascii=False, indent=1)
        text = document.encode("utf-8", "backslashreplace")
        # A member opened by name gets a fixed date, so equal models give equal files.
        with archive.open(_HEADER, "w") as member:
            member.write(text)
        archive.comment = _seal(text)


def _write_array(archive: zipfile.ZipFile, number: int, array: Array) -> dict[str, Any]:
    """Write one array; return its entry in the header."""
    name = _member_name(number)
    with archive.open(name, "w", force_zip64=True) as stream:
        hashing = _Hashing(stream)
        np.lib.format.write_array(hashing, array, allow_pickle=False)
    return {
        "member": name,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "sha256": hashing.digest.hexdigest(),
    }


def _member_name(number: int) -> str:
    return f"array_{number}.npy"


class _Hashing:
    """A stream that computes the SHA-256 checksum of its data."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return int(self._stream.write(data))

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        self.digest.update(data)
        return data


@contextmanager
def damage_named(path: Path, written_by: Any = None) -> Iterator[None]:
    """Turn any error that a damaged file causes into a ModelFileError that names it.

    What was written by a newer version of schirn, and is not understood, is not damaged.
    """
    import schirn

    try:
        yield
    except ModelFileError:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        reason = reason_of(error)
        if _release(written_by) > _release(schirn.__version__):
            raise ModelFileError(
                f"{path}: written by schirn {written_by}, which is newer than this version "
                f"({schirn.__version__}: {reason}); update schirn"
            ) from error
        raise ModelFileError(f"{path}: the model file is damaged ({reason})") from error


def _open(path: Path) -> zipfile.ZipFile:
    """Open the archive; raise ModelFileError if it is missing or not an archive."""
    if not path.exists():
        raise ModelFileError(f"{path}: there is no such file")
    if path.is_fifo():
        raise ModelFileError(f"{path}: a named pipe, but a model is read from a file")
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ModelFileError(
            f"{path}: not a model file of schirn, or a truncated one; save the model again"
        ) from error


def _read_header(path: Path, archive: zipfile.ZipFile, limit: int) -> dict[str, Any]:
    """Return the header after checking its size, checksum and version."""
    if len(archive.infolist()) > _MOST_MEMBERS:
        raise ModelFileError(f"{path}: more than {_MOST_MEMBERS:,} members; not written by schirn")
    if _HEADER not in archive.namelist() or not archive.comment.startswith(FORMAT.encode()):
        raise ModelFileError(f"{path}: a zip archive, but not a model file of schirn")
    size = archive.getinfo(_HEADER).file_size
    if size * _JSON_GROWTH > limit:
        raise ModelFileError(f"{path}: {too_large(f'a header of {size:,} bytes', limit)}")
    with archive.open(_HEADER) as stream:
        text = stream.read()
    if archive.comment != _seal(text):
        raise ModelFileError(
            f"{path}: the header does not match its checksum; the file was changed or truncated"
        )
    header: dict[str, Any] = json.loads(text)
    check_version(path, header, VERSION)
    if not isinstance(header.get("notes"), dict):
        raise ModelFileError(
            f"{path}: its notes are {brief(header.get('notes'))}, not a dictionary; the file was "
            f"changed"
        )
    return header


def check_version(path: Path, header: dict[str, Any], newest: int) -> None:
    """Raise ModelFileError if the format of a file is newer than the newest one known, or too old.

    The header says which version of schirn wrote the file; those before 0.4.0 were never released.
    """
    version = header.get("version")
    written_by = header.get("schirn")
    if type(version) is not int or version > newest:
        raise ModelFileError(
            f"{path}: written by a newer version of schirn (file format {brief(version)}, this "
            f"version reads up to {newest}); update schirn"
        )
    if version < OLDEST_FORMAT or _release(written_by) < OLDEST_RELEASE:
        raise ModelFileError(
            f"{path}: written by schirn {shortened(str(written_by or 'before 0.4'), 30)}, whose "
            f"files this version cannot read (file format {version}); train the model again"
        )


def _release(version: Any) -> tuple[int, ...]:
    """Return the numbers of a version: (0, 4, 0) of "0.4.0.dev0"; nothing if there are none."""
    found = re.match(r"\d{1,9}(\.\d{1,9})*", str(version))
    return tuple(map(int, found[0].split("."))) if found else ()


def _read_arrays(
    path: Path, archive: zipfile.ZipFile, members: list[dict[str, Any]], limit: int
) -> list[Array]:
    """Read the arrays after checking every declared size."""
    names = [member["member"] for member in members]
    is_numbered = names == [_member_name(k) for k in range(len(names))]
    if not is_numbered or sorted([_HEADER, *names]) != sorted(archive.namelist()):
        raise ModelFileError(f"{path}: members are missing or were added; the file was changed")
    total = sum(archive.getinfo(member["member"]).file_size for member in members)
    if total > limit:
        raise ModelFileError(f"{path}: {too_large(f'unpacks to {total:,} bytes', limit)}")
    return [_read_array(path, archive, member) for member in members]


def _read_array(path: Path, archive: zipfile.ZipFile, member: dict[str, Any]) -> Array:
    """Read one array; its size, type, shape and checksum must match the header."""
    name = member["member"]
    with archive.open(name) as stream:
        header = npy_header(stream)
    # A single item of a string or record type could take any amount of memory.
    if header.dtype.kind not in _NUMBERS:
        raise ValueError(f"an array of type {brief(member['dtype'])}, not of numbers")
    agrees = [*header.shape] == member["shape"] and header.dtype.str == member["dtype"]
    if not agrees or header.n_bytes != archive.getinfo(name).file_size:
        raise ModelFileError(f"{path}: the array {brief(name)} does not fit the header")
    with archive.open(name) as stream:
        hashing = _Hashing(stream)
        array = read_array(hashing)
    if hashing.digest.hexdigest() != member["sha256"]:
        raise ModelFileError(f"{path}: the array {brief(name)} does not match its checksum")
    return array


def _seal(text: bytes) -> bytes:
    return f"{FORMAT} sha256:{hashlib.sha256(text).hexdigest()}".encode()


class Encoder:
    """Convert values into JSON; arrays are collected in `arrays` and referenced by number.

    Attributes of estimators named in `leave_out` are left out.
    """

    def __init__(self, leave_out: tuple[str, ...] = ()) -> None:
        self.arrays: list[Array] = []
        self._leave_out = leave_out

    def estimator(self, model: Any) -> dict[str, Any]:
        """Return class name, parameters and fitted attributes."""
        params = model.get_params(deep=False)
        excluded = {*params, *_NOT_STATE, *self._leave_out}
        attributes = {k: v for k, v in vars(model).items() if k not in excluded}
        name = type(model).__name__
        saved = params
        if "checkpoint" in params:
            # A folder on this machine, from a fit that is complete.
            saved = {**params, "checkpoint": None}
        elif name == PIPELINE:
            # The other options only affect fitting, and differ between versions of scikit-learn.
            saved = {"steps": model.steps}
        return {
            "class": name,
            "params": {k: self.value(v, f"{name}.{k}") for k, v in saved.items()},
            "attributes": {k: self.value(v, f"{name}.{k}") for k, v in attributes.items()},
        }

    def value(self, value: Any, where: str) -> Any:
        """Return JSON for one value; `where` names it in errors."""
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if is_device_array(value):
            value = to_numpy(value)
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
        if class_of(type(value).__name__) is type(value):
            return {"estimator": self.estimator(value)}
        raise InputError(
            f"{where} is of type {type(value).__module__}.{type(value).__qualname__}, which a "
            f"model file cannot hold; it holds numbers, text, arrays and lists of these"
        )

    def _array(self, value: Any, where: str) -> dict[str, Any]:
        if value.dtype.kind in _NUMBERS:
            kind = "array" if isinstance(value, np.ndarray) else "number"
            self.arrays.append(np.asanyarray(value))
            return {kind: len(self.arrays) - 1}
        if value.ndim == 1 and all(type(item) is str for item in value):
            return {"names": value.tolist()}
        raise InputError(f"{where} is an array of {value.dtype}, which a model file cannot hold")

    def _sparse(self, value: Any, where: str) -> dict[str, Any]:
        name = type(value).__name__
        if name not in _SPARSE:
            raise InputError(f"{where} is a {name}; a model file holds CSR and CSC matrices only")
        arrays = [self._array(array, where) for array in (value.data, value.indices, value.indptr)]
        return {"sparse": {"type": name, "shape": list(value.shape), "parts": arrays}}

    def _record(self, value: Any, where: str) -> dict[str, Any]:
        name = _record_name(type(value))
        if name is None:
            raise InputError(
                f"{where} is a {type(value).__name__}, a named tuple that a model file cannot hold"
            )
        fields = {k: self.value(v, f"{where}.{k}") for k, v in value._asdict().items()}
        return {"record": {"name": name, "fields": fields}}


class Decoder:
    """Restore the values; raise ValueError, KeyError or TypeError for anything unknown."""

    def __init__(self, arrays: list[Array]) -> None:
        self._arrays = arrays

    def estimator(self, entry: dict[str, Any], find: Callable[[str], Any]) -> Any:
        """Return an estimator; `find` maps a name to its class."""
        cls = find(entry["class"])
        if cls is None:
            raise ValueError(f"{entry['class']!r} is not a class that a model file may hold")
        params = {key: self.value(value) for key, value in entry["params"].items()}
        model = cls(**params)
        constraints = getattr(cls, "_constraints", {})
        check_params(params, {key: constraints[key] for key in constraints if key in params})
        for key, value in entry["attributes"].items():
            if not key.isidentifier() or key.startswith("__") or hasattr(cls, key):
                raise ValueError(f"{key!r} is not the name of a fitted attribute")
            setattr(model, key, self.value(value))
        return model

    def value(self, entry: Any) -> Any:
        """Return the value of one JSON entry."""
        if not isinstance(entry, dict):
            return entry
        ((kind, body),) = entry.items()
        match kind:
            case "float":
                return float(body)
            case "array":
                return self._array(body)
            case "number":
                return self._array(body)[()]
            case "names":
                return np.array([str(name) for name in body], dtype=object)
            case "list":
                return [self.value(item) for item in body]
            case "tuple":
                return tuple(self.value(item) for item in body)
            case "dict":
                return {key: self.value(value) for key, value in body.items()}
            case "sparse":
                shape = tuple(int(side) for side in body["shape"])
                parts = tuple(self.value(part) for part in body["parts"])
                matrix = getattr(sp, _SPARSE[_SPARSE.index(body["type"])])(parts, shape=shape)
                check_sparse(matrix)
                return matrix
            case "record":
                return self._record(body)
            case "estimator":
                return self.estimator(body, class_of)
        raise ValueError(f"{kind!r} is not a known kind of value")

    def _array(self, number: int) -> Array:
        if type(number) is not int or not 0 <= number < len(self._arrays):
            raise ValueError(f"there is no array {number!r}")
        return self._arrays[number]

    def _record(self, body: dict[str, Any]) -> Any:
        name = body["name"]
        record = RECORDS.get(name) or all_records().get(name)
        if record is None:
            raise ValueError(f"{body['name']!r} is not a record of schirn")
        fields = {key: self.value(value) for key, value in body["fields"].items()}
        return record(**fields)
