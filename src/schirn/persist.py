"""Model files: data, never code.

A model file is a zip archive: `header.json` says what the model is, and every array is an .npy
member. The header keeps the type, the shape and the SHA-256 sum of each array; the comment of the
archive keeps the sum of the header. The sums find damage; they do not prove who wrote the file.
"""

import hashlib
import json
import math
import os
import zipfile
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from schirn._arrays import DAMAGE
from schirn._atomic import atomic_write
from schirn._limits import MAX_BYTES as MAX_BYTES
from schirn._limits import brief, byte_limit, reason_of, too_large
from schirn._values import Decoder, Encoder
from schirn.arrays import is_device_array, to_numpy
from schirn.exceptions import InputError, ModelFileError
from schirn.methods import PartialMultiLabelClassifier, methods

Array = np.ndarray

FORMAT = "schirn-model"
VERSION = 1
TRAINING_ATTRIBUTES = ("noise_", "label_confidence_")

_HEADER = "header.json"
# A byte of JSON takes up to this many in memory.
_JSON_GROWTH = 32
_MOST_MEMBERS = 100_000
_DAMAGE = (*DAMAGE, LookupError, AttributeError, ArithmeticError)


def save(
    model: PartialMultiLabelClassifier,
    path: str | os.PathLike[str],
    *,
    include_training: bool = True,
    notes: dict[str, Any] | None = None,
) -> None:
    """Write a fitted model to one file, whole or not at all.

    Parameters
    ----------
    model : a fitted method of `schirn.methods()`
    path : path
        Any suffix; the program uses ``.schirn``. An existing file is replaced.
    include_training : bool
        False leaves out `noise_` and `label_confidence_`, what the model says about its training
        rows. They take n × l entries each and are not needed to predict; without them a linear
        model is as small as its (l, d) weights.
    notes : dict, optional
        Anything JSON can hold, read back by `read_notes`; the program keeps column names there.

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
    if methods().get(type(model).__name__) is not type(model):
        raise InputError(
            f"only methods of schirn can be saved ({', '.join(methods())}), "
            f"not {type(model).__name__}"
        )
    if not hasattr(model, "label_names_"):
        raise InputError(f"this {type(model).__name__} is not fitted; call fit before save")
    encoder = Encoder()
    entry = encoder.estimator(_in_memory(model), () if include_training else TRAINING_ATTRIBUTES)
    _write(Path(path), entry, encoder.arrays, notes or {})


def load(
    path: str | os.PathLike[str], *, max_bytes: int | None = None
) -> PartialMultiLabelClassifier:
    """Read a model that `save` wrote; a damaged or foreign file raises ModelFileError.

    Nothing in the file is executed: there is no pickle in it, and the class is looked up among
    `schirn.methods()` only.

    Parameters
    ----------
    path : path
    max_bytes : int, optional
        A file that would unpack to more than this is refused before memory is taken; by default
        ``SCHIRN_MAX_BYTES``, else 8 GiB.

    Examples
    --------
    See `save`.
    """
    path, limit = Path(path), byte_limit(max_bytes)
    with _damage_named(path), _open(path) as archive:
        header = _read_header(path, archive, limit)
        cls = _find_class(path, header)
        arrays = _read_arrays(path, archive, header["arrays"], limit)
        model: PartialMultiLabelClassifier = Decoder(arrays).estimator(
            header["model"], lambda _: cls
        )
        return model


def read_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the notes of a model file, without its arrays.

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
    with _damage_named(path), _open(path) as archive:
        return dict(_read_header(path, archive, byte_limit())["notes"])


def _in_memory(model: PartialMultiLabelClassifier) -> PartialMultiLabelClassifier:
    """The model, or a copy of it without arrays of a device."""
    found = {name: to_numpy(v) for name, v in vars(model).items() if is_device_array(v)}
    if found:
        model = copy(model)
        for name, value in found.items():
            setattr(model, name, value)
    return model


def _write(path: Path, entry: dict[str, Any], arrays: list[Array], notes: dict[str, Any]) -> None:
    """Write header and arrays; the same model gives the same bytes."""
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
        text = json.dumps(header, ensure_ascii=False, indent=1).encode()
        # Opened by name, a member gets no date, so equal models give equal files.
        with archive.open(_HEADER, "w") as member:
            member.write(text)
        archive.comment = _seal(text)


def _write_array(archive: zipfile.ZipFile, place: int, array: Array) -> dict[str, Any]:
    """Write one array; return its line in the header."""
    name = f"array_{place}.npy"
    with archive.open(name, "w", force_zip64=True) as stream:
        hashing = _Hashing(stream)
        np.lib.format.write_array(hashing, array, allow_pickle=False)
    return {
        "member": name,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "sha256": hashing.digest.hexdigest(),
    }


class _Hashing:
    """A stream that takes the SHA-256 sum of what passes through."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.digest = stream, hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return int(self._stream.write(data))

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        self.digest.update(data)
        return data


class _damage_named:
    """Turns whatever a damaged file causes into one sentence that names the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ModelFileError) or not isinstance(error, _DAMAGE):
            return
        if isinstance(error, OSError) and error.filename is not None:
            return
        reason = reason_of(error)
        raise ModelFileError(f"{self._path}: the model file is damaged ({reason})") from error


def _open(path: Path) -> zipfile.ZipFile:
    """Open the archive; say so where there is none."""
    if not path.exists():
        raise ModelFileError(f"{path}: there is no such file")
    with path.open("rb") as stream:
        head = stream.read(4)
    if head[:2] != b"PK":
        raise ModelFileError(f"{path}: not a model file of schirn")
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ModelFileError(
            f"{path}: the model file is damaged or was cut short; save the model again"
        ) from error


def _read_header(path: Path, archive: zipfile.ZipFile, limit: int) -> dict[str, Any]:
    """Return the checked header."""
    if len(archive.infolist()) > _MOST_MEMBERS:
        raise ModelFileError(f"{path}: more than {_MOST_MEMBERS:,} members; not written by schirn")
    if _HEADER not in archive.namelist() or not archive.comment.startswith(FORMAT.encode()):
        raise ModelFileError(f"{path}: a zip archive, but not a model file of schirn")
    size = archive.getinfo(_HEADER).file_size
    if size * _JSON_GROWTH > limit:
        raise ModelFileError(_too_large(path, f"a header of {size:,} bytes", limit))
    with archive.open(_HEADER) as stream:
        text = stream.read()
    if archive.comment != _seal(text):
        raise ModelFileError(
            f"{path}: the header does not match its checksum; the file was changed or cut short"
        )
    header: dict[str, Any] = json.loads(text)
    version = header["version"]
    if type(version) is not int or version > VERSION:
        raise ModelFileError(
            f"{path}: written by a newer version of schirn (file format {brief(version)}, this "
            f"version reads up to {VERSION}); update schirn"
        )
    return header


def _find_class(path: Path, header: dict[str, Any]) -> type[PartialMultiLabelClassifier]:
    name = header["model"]["class"]
    cls = methods().get(name)
    if cls is None:
        raise ModelFileError(
            f"{path}: holds a model of the class {brief(name)}, which this version of schirn "
            f"({', '.join(methods())}) does not have"
        )
    return cls


def _read_arrays(
    path: Path, archive: zipfile.ZipFile, members: list[dict[str, Any]], limit: int
) -> list[Array]:
    """Read the arrays after checking every declared size."""
    listed = sorted([_HEADER, *(member["member"] for member in members)])
    if listed != sorted(archive.namelist()):
        raise ModelFileError(f"{path}: members are missing or were added; the file was changed")
    total = sum(_n_bytes(member) for member in members)
    if total > limit:
        raise ModelFileError(_too_large(path, f"unpacks to {total:,} bytes", limit))
    return [_read_array(path, archive, member) for member in members]


def _too_large(path: Path, what: str, limit: int) -> str:
    return f"{path}: {too_large(what, limit).removesuffix('.')}"


def _n_bytes(member: dict[str, Any]) -> int:
    shape = [int(side) for side in member["shape"]]
    if min(shape, default=0) < 0:
        raise ValueError("negative array side")
    return math.prod(shape) * np.dtype(member["dtype"]).itemsize


def _read_array(path: Path, archive: zipfile.ZipFile, member: dict[str, Any]) -> Array:
    """Read one array whose size, type, shape and sum are those of the header."""
    name, dtype, shape = member["member"], np.dtype(member["dtype"]), tuple(member["shape"])
    with archive.open(name) as stream:
        found_shape, found_dtype, start = _array_header(stream)
    size = archive.getinfo(name).file_size
    agrees = found_shape == shape and found_dtype == dtype and not dtype.hasobject
    if not agrees or start + _n_bytes(member) != size:
        raise ModelFileError(f"{path}: the array {brief(name)} does not fit the header")
    with archive.open(name) as stream:
        hashing = _Hashing(stream)
        array = np.asarray(np.lib.format.read_array(hashing, allow_pickle=False))
    if hashing.digest.hexdigest() != member["sha256"]:
        raise ModelFileError(f"{path}: the array {brief(name)} does not match its checksum")
    return array


def _array_header(stream: Any) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and place of the first byte of an .npy member."""
    form = np.lib.format
    readers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    shape, _, dtype = readers[form.read_magic(stream)](stream)
    return tuple(shape), dtype, stream.tell()


def _seal(text: bytes) -> bytes:
    return f"{FORMAT} sha256:{hashlib.sha256(text).hexdigest()}".encode()
