"""Data sets of a benchmark: sources, checksums, noise and folds."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import KFold

from schirn._input import Array
from schirn._text import base_name, format_suffix
from schirn.datasets import Dataset, add_noise, load
from schirn.exceptions import InputError
from schirn.lab.data import READERS

Split = tuple[Array, Array]
Level = int | float | None

HOLDOUT = 5
"""Number of parts of the rows with a single fold; one part tests, the others train."""


class Source(NamedTuple):
    """A data set and how to load it."""

    name: str
    where: str
    """Name or path; empty for a data set in memory."""
    options: dict[str, Any]
    dataset: Dataset | None = None

    def load(self) -> Dataset:
        """Load the data set."""
        return self.dataset if self.dataset is not None else load(self.where, **self.options)


class Prepared(NamedTuple):
    """Arrays of one data set at one noise level."""

    X: Any
    truth: Array
    candidates: list[Array]
    """Candidates of the training rows of each fold."""
    splits: list[Split]
    candidates_sha256: list[str]
    """Checksum of the candidates of each fold."""
    folds_sha256: str


def parse_datasets(
    items: Iterable[Any], levels: Sequence[Level], options: Mapping[str, Any]
) -> list[tuple[Source, Level]]:
    """Turn `name:r`, `path:r`, (name, r) and Dataset objects into pairs of source and level."""
    pairs: dict[tuple[str, Level], Source] = {}
    origins: dict[str, Any] = {}
    for item in items:
        source, own_level = _source(item, options)
        origin = source.where or id(source.dataset)
        if origins.setdefault(source.name, origin) != origin:
            raise InputError(f"two data sets are called {source.name!r}; rename one of them")
        for level in levels if own_level is ... else (own_level,):
            pairs[source.name, level] = source
    if not pairs:
        raise InputError("no data set was given; name at least one, such as birds:3")
    return [(source, level) for (_, level), source in pairs.items()]


def _source(item: Any, options: Mapping[str, Any]) -> tuple[Source, Any]:
    """Return a source and its noise level, which is `...` if the item names none."""
    level: Any = ...
    if isinstance(item, tuple):
        item, level = item
    if isinstance(item, Dataset):
        return Source(item.name, "", {}, item), level
    text = str(item).strip()
    match = re.fullmatch(r"(.+):(own|\d+(?:\.\d+)?)", text) if level is ... else None
    if match:
        text = match[1]
        level = parse_level(match[2])
    path = Path(text)
    is_file = format_suffix(path) in READERS or path.name != text
    name = base_name(path) if is_file else text
    if not name:
        raise InputError(f"{item!r} is not a data set; give a name or a file, such as birds:3")
    return Source(name, text, dict(options) if is_file else {}), level


def parse_level(text: str) -> Level:
    """Parse a noise level: a number, or "own" for the candidates that come with the data set."""
    if text == "own":
        return None
    try:
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else float(text)
    except ValueError:
        raise InputError(f"a noise level is a number or 'own', not {text!r}") from None


def checksum(data: Dataset) -> str:
    """Return the SHA-256 of features, true labels and candidates."""
    digest = hashlib.sha256()
    for matrix in (data.X, data.y_true, data.candidates):
        if matrix is None:
            digest.update(b"none")
        elif sp.issparse(matrix):
            csr = sp.csr_array(matrix)
            digest.update(f"csr {csr.shape} {csr.dtype}".encode())
            for values in (csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data):
                digest.update(np.ascontiguousarray(values).tobytes())
        else:
            dense = np.ascontiguousarray(matrix)
            digest.update(f"dense {dense.shape} {dense.dtype}".encode())
            digest.update(dense.tobytes())
    return digest.hexdigest()


def candidates_checksum(candidates: Array) -> str:
    """Return the SHA-256 of the shape and the bits of the candidates, whatever their type."""
    digest = hashlib.sha256("{} {}\n".format(*candidates.shape).encode())
    digest.update(np.packbits(candidates.astype(bool), axis=1).tobytes())
    return digest.hexdigest()


def folds_checksum(splits: Sequence[Split]) -> str:
    """Return the SHA-256 of the row numbers of all folds."""
    digest = hashlib.sha256()
    for rows in splits:
        for name, numbers in zip(("train", "test"), rows, strict=True):
            digest.update(name.encode() + np.asarray(numbers).astype("<i8").tobytes())
    return digest.hexdigest()


def unusable(data: Dataset, level: Level) -> str | None:
    """Explain why a data set cannot be benchmarked, or return None."""
    if not data.n_features:
        return f"{data.name} has no features"
    if data.y_true is None:
        return f"{data.name} has no true labels to score on"
    if level is None and data.candidates is None:
        raise InputError(
            f"{data.name} has no candidates of its own; give the number of wrong labels to add per "
            f"row, as in {data.name}:2",
            parameter="r",
        )
    return None


def prepare(
    data: Dataset, level: Level, noise: str, noise_seed: int | None, splits: list[Split]
) -> Prepared:
    """Convert to floating-point features and dense labels, and draw the candidates."""
    X = data.X if data.X.dtype.kind == "f" else data.X.astype(np.float64)
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    if level is None:
        candidates = _of_training_rows(data.candidates, splits)
    elif noise == "legacy":
        # The published sets are drawn for all rows at once, each row independently of the others.
        published = add_noise(data.y_true, int(level), kind=noise, random_state=noise_seed)
        candidates = _of_training_rows(published, splits)
    else:
        candidates = [_draw(data, rows, level, noise, noise_seed) for rows, _ in splits]
    checksums = [candidates_checksum(matrix) for matrix in candidates]
    truth = to_dense(data.y_true)
    return Prepared(X, truth, candidates, splits, checksums, folds_checksum(splits))


def _of_training_rows(candidates: Any, splits: Sequence[Split]) -> list[Array]:
    """Select the candidates of the training rows of each fold from the candidates of all rows."""
    dense = to_dense(candidates)
    return [dense[rows] for rows, _ in splits]


def _draw(data: Dataset, rows: Array, level: Level, noise: str, noise_seed: int | None) -> Array:
    """Draw the candidates of training rows from these rows alone.

    Noise that depends on features or labels is learned from the true labels, so candidates drawn
    from all rows would leak the true labels of the test rows.
    """
    amount: dict[str, Any] = {"rate": level} if noise == "rate" else {"r": level}
    truth = data.y_true[rows]
    candidates = add_noise(truth, kind=noise, X=data.X[rows], random_state=noise_seed, **amount)
    return to_dense(candidates)


def make_splits(data: Dataset, folds: int, seed: int, stored: bool) -> list[Split]:
    """Return the stored folds if requested and available, otherwise shuffled ones."""
    if stored and data.folds:
        return list(data.folds)
    if folds > data.n_samples:
        raise InputError(f"{data.name} has {data.n_samples} rows, too few for {folds} folds")
    splitter = KFold(HOLDOUT if folds == 1 else folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(data.n_samples)))[:folds]


def to_dense(matrix: Any) -> Array:
    """Return a dense or sparse matrix as an array."""
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
