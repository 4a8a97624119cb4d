"""Reader for ARFF files with several labels, as MULAN and MEKA write them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy import sparse

from schirn._files import brief, byte_limit, too_large
from schirn._input import repeated
from schirn.datasets._dataset import LARGE_LABELS, Dataset, dataset_from_file, label_matrix
from schirn.exceptions import DataError
from schirn.tables.text import is_packed, read_text

YES = {"yes", "true", "t", "y"}
NO = {"no", "false", "f", "n"}
NUMERIC = {"numeric", "real", "integer"}

# Memory of one entry of a sparse row, in lists and then in arrays.
SPARSE_BYTES = 32


def read_arff(
    path: str | os.PathLike[str],
    *,
    labels: int | Sequence[str] | None = None,
    label_side: str = "end",
    xml: str | os.PathLike[str] | None = None,
    missing: str | float = "error",
    ignore: Sequence[str] = (),
    max_bytes: int | None = None,
) -> Dataset:
    r"""Read a dense or sparse ARFF file with several labels.

    Nominal values become numbers: numeric values stay as they are, YES/NO, TRUE/FALSE and the
    like become 1/0, and other values become their position in the declaration.

    Parameters
    ----------
    path : path
    labels : int or list of str, optional
        Number of label columns, or their names. By default the names come from the XML file,
        else from ``-C`` in the relation name (MEKA: ``-C 6`` the first six, ``-C -6`` the last).
    label_side : {"end", "start"}
        Position of the label columns if `labels` is a number.
    xml : path, optional
        File with the label names; by default the file next to `path` with suffix ``.xml``, with
        or without a trailing ``-train`` or ``-test``.
    missing : "error", "zero" or a number
        Value for ``?``; "error" raises DataError.
    ignore : list of str
        Attributes to leave out, such as identifiers of type string.
    max_bytes : int, optional
        Larger files raise DataError; by default ``SCHIRN_MAX_BYTES``, else 8 GiB.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from schirn.datasets import read_arff
    >>> text = "@relation r\n@attribute a real\n@attribute b {0,1}\n@data\n0.5,1\n0.1,0\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tiny.arff")
    ...     _ = path.write_text(text)
    ...     read_arff(path, labels=1)
    Dataset('tiny', n=2, d=1, l=1, y_true)
    """
    path = Path(path)
    relation, attributes, lines = _header(path, read_text(path, max_bytes))
    names = _label_names(path, relation, attributes, labels, label_side, xml)
    dropped = set(ignore)
    _check_attributes(path, attributes, dropped)
    limit = byte_limit(max_bytes)
    matrix = parse_rows(path, attributes, lines, _fill(missing), dropped, limit)
    columns = {attribute.name: column for column, attribute in enumerate(attributes)}
    label_columns = [columns[name] for name in names]
    taken = set(label_columns) | {columns[name] for name in dropped if name in columns}
    feature_columns = [column for column in range(len(attributes)) if column not in taken]
    y_true: Any = matrix[:, label_columns]
    if sparse.issparse(y_true) and math.prod(y_true.shape) <= LARGE_LABELS:
        y_true = y_true.toarray()
    return dataset_from_file(
        path,
        max_bytes,
        X=matrix[:, feature_columns],
        y_true=label_matrix(y_true, f"{path}: the labels"),
        label_names=names,
        feature_names=[attributes[column].name for column in feature_columns],
        description=relation,
    )


def _header(path: Path, text: str) -> tuple[str, list[Attribute], list[tuple[int, str]]]:
    """Return the relation name, the attributes and the numbered data lines."""
    relation, attributes = "", []
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        keyword = line.split(None, 1)[0].lower() if line else ""
        if keyword == "@relation":
            relation = unquote(line[len("@relation") :].strip())
        elif keyword == "@attribute":
            attributes.append(_attribute(path, number, line))
        elif keyword == "@data":
            rows = ((at, row.strip()) for at, row in enumerate(lines[number:], start=number + 1))
            data = [(at, row) for at, row in rows if row and not row.startswith("%")]
            return relation, attributes, _checked(path, attributes, data)
        elif line and not line.startswith("%"):
            raise DataError(f"{path}, line {number}: not an ARFF header line: {line[:60]!r}.")
    raise DataError(f"{path}: no @data section; the file is not ARFF, or it is truncated.")


def _checked(
    path: Path, attributes: list[Attribute], data: list[tuple[int, str]]
) -> list[tuple[int, str]]:
    """Return the data lines after checking that there are attributes, distinct names and rows."""
    if not attributes or not data:
        raise DataError(f"{path}: the file has no {'data rows' if attributes else 'attributes'}.")
    twice = repeated(attribute.name for attribute in attributes)
    if twice is not None:
        raise DataError(f"{path}: the attribute {brief(twice)} is declared twice.")
    return data


_ATTRIBUTE = re.compile(
    r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)\s*(\{.*\}|\S+)""", re.I
)


def _attribute(path: Path, number: int, line: str) -> Attribute:
    """Parse one @attribute line."""
    match = _ATTRIBUTE.match(line)
    if match is None:
        raise DataError(f"{path}, line {number}: cannot read the attribute {line[:60]!r}.")
    name, kind = unquote(match[1]), match[2]
    if kind.startswith("{"):
        return Attribute.nominal(name, split_values(kind[1:-1]))
    return Attribute(name, kind.lower())


def _check_attributes(path: Path, attributes: list[Attribute], dropped: set[str]) -> None:
    """Raise DataError for an attribute that cannot become a number."""
    unknown = dropped - {attribute.name for attribute in attributes}
    if unknown:
        raise DataError(f"{path}: ignore names {sorted(unknown)[0]!r}, which is not an attribute.")
    for attribute in attributes:
        if attribute.name not in dropped and not attribute.is_number:
            raise DataError(
                f"{path}: the attribute {brief(attribute.name)} of type {attribute.kind[:40]} is "
                f"not a number; leave it out with ignore=[{brief(attribute.name)}]."
            )


def _label_names(
    path: Path,
    relation: str,
    attributes: list[Attribute],
    labels: int | Sequence[str] | None,
    label_side: str,
    xml: str | os.PathLike[str] | None,
) -> list[str]:
    """Return the names of the label columns from the arguments, the XML file or the relation."""
    names = [attribute.name for attribute in attributes]
    if label_side not in ("end", "start"):
        raise DataError(f'label_side must be "end" or "start", not {label_side!r}.')
    if labels is None:
        xml_path = Path(xml) if xml is not None else _beside(path)
        if xml_path is not None:
            labels = _xml_names(xml_path)
        else:
            labels, label_side = _meka_count(path, relation)
    if isinstance(labels, (int, np.integer)):
        if not 0 < labels <= len(names):
            raise DataError(f"{path}: labels={labels}, but there are {len(names)} attributes.")
        return names[:labels] if label_side == "start" else names[-labels:]
    known = set(names)
    unknown = [name for name in labels if name not in known]
    if unknown:
        raise DataError(f"{path}: the label {brief(unknown[0])} is not an attribute of the file.")
    return list(labels)


def _meka_count(path: Path, relation: str) -> tuple[int, str]:
    """Return the number and the side of the labels from ``-C`` in the relation name."""
    match = re.search(r"-C\s+(-?[0-9]{1,9})(?![0-9])", relation)
    if match is None:
        raise DataError(
            f"{path}: which attributes are labels? There is no XML file next to it and no -C in "
            f"the relation name; pass labels= (a count or a list of names) or xml=.",
            parameter="labels",
        )
    count = int(match[1])
    return abs(count), "start" if count > 0 else "end"


def _beside(path: Path) -> Path | None:
    """Return the XML file that belongs to an ARFF file, or None."""
    path = path.with_suffix("") if is_packed(path) else path
    stem = re.sub(r"-(train|test|sparse)$", "", path.stem)
    for candidate in (path.with_suffix(".xml"), path.with_name(f"{stem}.xml")):
        if candidate.is_file():
            return candidate
    return None


def _xml_names(path: Path) -> list[str]:
    """Return the label names of a MULAN XML file."""
    text = read_text(path)
    # Label files need no document type, and entities can grow without bound.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise DataError(f"{path}: document types and entities are not accepted.")
    try:
        root = ElementTree.fromstring(text.strip())
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: not a readable XML file ({error}).") from error
    elements: list[Any] = [node for node in root.iter() if node.tag.rpartition("}")[2] == "label"]
    names = [node.get("name") for node in elements]
    if not names or None in names:
        raise DataError(f"{path}: no <label name=...> entries.")
    return names


def _fill(missing: str | float) -> float | None:
    """Return the number for a missing value, or None if a missing value is an error."""
    if missing == "error":
        return None
    if missing == "zero":
        return 0.0
    if isinstance(missing, str):
        raise DataError(f'missing must be "error", "zero" or a number, not {missing!r}.')
    return float(missing)


@dataclass(frozen=True)
class Attribute:
    """A column: its name, its type, and the number of each value if it is nominal."""

    name: str
    kind: str
    codes: dict[str, float] = field(default_factory=dict)

    @classmethod
    def nominal(cls, name: str, values: list[str]) -> Attribute:
        """Return a nominal attribute with a number for each declared value."""
        return cls(name, "nominal", _codes(values))

    @property
    def is_number(self) -> bool:
        """Whether values of this attribute can become numbers."""
        return self.kind in NUMERIC or bool(self.codes)

    @property
    def default(self) -> float:
        """Value of an entry that a sparse row leaves out: zero, or the first one declared."""
        return next(iter(self.codes.values()), 0.0)

    def number(self, token: str) -> float:
        """Return the number of a token; raise ValueError for an undeclared one."""
        if self.codes:
            value = unquote(token)
            if value in self.codes:
                return self.codes[value]
            number = float(value)
            if number in self.codes.values() and _is_number(next(iter(self.codes))):
                return number
            raise ValueError(value)
        number = float(token)
        if not math.isfinite(number):
            raise ValueError(token)
        return number


def parse_rows(
    path: Path,
    attributes: list[Attribute],
    lines: list[tuple[int, str]],
    fill: float | None,
    dropped: set[str],
    limit: int,
) -> Any:
    """Return all columns as one array, or as CSR if the rows are sparse."""
    reader = _RowReader(path, attributes, fill, dropped)
    is_sparse = lines[0][1].startswith("{")
    # A sparse row may be short in the file and full in memory, as may a truncated line.
    width = reader.n_defaults if is_sparse else len(attributes)
    needed = len(lines) * width * (SPARSE_BYTES if is_sparse else 8)
    if needed > limit:
        what = f"{len(lines):,} rows of {width:,} values need {needed:,} bytes"
        raise DataError(f"{path}: {too_large(what, limit)}")
    if is_sparse:
        return reader.sparse(lines)
    return reader.dense(lines)


class _RowReader:
    """Turn data lines into numbers; every error names the line."""

    def __init__(
        self, path: Path, attributes: list[Attribute], fill: float | None, dropped: set[str]
    ) -> None:
        self.path, self.attributes, self.fill, self.dropped = path, attributes, fill, dropped

    def dense(self, lines: list[tuple[int, str]]) -> np.ndarray:
        """Parse rows of comma-separated values."""
        matrix = np.empty((len(lines), len(self.attributes)))
        for row, (number, line) in enumerate(lines):
            tokens = split_values(line)
            if len(tokens) != len(self.attributes):
                raise DataError(
                    f"{self.path}, line {number}: {len(tokens)} values for "
                    f"{len(self.attributes)} attributes."
                )
            matrix[row] = [
                self._value(number, column, token) for column, token in enumerate(tokens)
            ]
        return matrix

    def sparse(self, lines: list[tuple[int, str]]) -> sparse.csr_array:
        """Parse rows of the form {index value, index value}."""
        indptr = [0]
        indices: list[int] = []
        data: list[float] = []
        for number, line in lines:
            entries = self._entries(number, line)
            indices.extend(entries)
            data.extend(entries.values())
            indptr.append(len(indices))
        shape = (len(lines), len(self.attributes))
        matrix = sparse.csr_array((np.array(data, dtype=np.float64), indices, indptr), shape=shape)
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return matrix

    def _entries(self, number: int, line: str) -> dict[int, float]:
        """Return column -> value of one sparse row."""
        if not (line.startswith("{") and line.endswith("}")):
            raise DataError(f"{self.path}, line {number}: a sparse row must end with '}}'.")
        # Values left out are the first declared one, which is not always 0.
        entries = dict(self._defaults)
        for entry in split_values(line[1:-1]) if line[1:-1].strip() else []:
            index, _, token = entry.partition(" ")
            known = index.isascii() and index.isdigit() and len(index) < 10
            if not known or int(index) >= len(self.attributes):
                raise DataError(
                    f"{self.path}, line {number}: no attribute {brief(index)} "
                    f"(there are {len(self.attributes)}, counted from 0)."
                )
            entries[int(index)] = self._value(number, int(index), token.strip())
        return entries

    @property
    def n_defaults(self) -> int:
        """Number of columns that are filled in every sparse row."""
        return len(self._defaults)

    @property
    def _defaults(self) -> dict[int, float]:
        """Columns whose default is not zero, and their defaults."""
        if not hasattr(self, "_nonzero"):
            self._nonzero = {
                column: attribute.default
                for column, attribute in enumerate(self.attributes)
                if attribute.default and attribute.name not in self.dropped
            }
        return self._nonzero

    def _value(self, number: int, column: int, token: str) -> float:
        """Return the number of one token."""
        attribute = self.attributes[column]
        if attribute.name in self.dropped:
            return 0.0
        if token == "?":
            if self.fill is None:
                raise DataError(
                    f"{self.path}, line {number}: the value of {brief(attribute.name)} is missing "
                    f'(?); pass missing="zero" or missing=<number>.'
                )
            return self.fill
        try:
            return attribute.number(token)
        except ValueError:
            raise DataError(
                f"{self.path}, line {number}: {brief(token)} is not a value of "
                f"{brief(attribute.name)}."
            ) from None


# Possessive, with blanks stripped later, so that an open quote causes no backtracking.
_VALUE = re.compile(r"""((?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[^,'"])*+)(?:,|$)""", re.DOTALL)


def split_values(text: str) -> list[str]:
    """Split at commas that are not inside quotes."""
    if "'" not in text and '"' not in text:
        return [value.strip() for value in text.split(",")]
    values: list[str] = []
    start = 0
    while True:
        match = _VALUE.match(text, start)
        if match is None:
            return [*values, text[start:].strip()]
        values.append(match[1].strip())
        start = match.end()
        if start == len(text) and not match[0].endswith(","):
            return values


def unquote(token: str) -> str:
    """Remove one pair of quotes and the backslashes inside them."""
    token = token.strip()
    if len(token) >= 2 and token[0] == token[-1] and token[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return token


def _codes(values: list[str]) -> dict[str, float]:
    """Return the number of each nominal value."""
    names = [unquote(value) for value in values]
    if all(_is_number(name) for name in names):
        return {name: float(name) for name in names}
    words = {name: name.lower() for name in names}
    yes = [word in YES for word in words.values()]
    if sorted(yes) == [False, True] and all(word in YES | NO for word in words.values()):
        return {name: float(word in YES) for name, word in words.items()}
    return {name: float(k) for k, name in enumerate(names)}


def _is_number(text: str) -> bool:
    """Whether a nominal value is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
