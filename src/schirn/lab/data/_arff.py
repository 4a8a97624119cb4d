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
from schirn._text import is_packed, read_text, reject_document_type
from schirn.datasets import Dataset
from schirn.exceptions import DataError
from schirn.lab.data._content import dataset_from_file, densified, errors_named, label_matrix

YES = {"yes", "true", "t", "y"}
NO = {"no", "false", "f", "n"}
NUMERIC = {"numeric", "real", "integer"}

# Memory of one entry of a sparse row, in lists and then in arrays.
SPARSE_BYTES = 32


def read_arff(
    path: str | os.PathLike[str],
    *,
    labels: int | Sequence[str] | None = None,
    missing: str = "error",
    max_bytes: int | None = None,
) -> Dataset:
    r"""Read a dense or sparse ARFF file with several labels.

    Nominal values become numbers: numeric values stay as they are, YES/NO, TRUE/FALSE and the
    like become 1/0, and other values become their position in the declaration.

    Parameters
    ----------
    path : path
    labels : int or list of str, optional
        Number of label columns, the last ones, or their names. By default the names come from the
        file next to `path` with suffix ``.xml``, with or without a trailing ``-train`` or
        ``-test``, else from ``-C`` in the relation name (MEKA: ``-C 6`` the first six, ``-C -6``
        the last).
    missing : {"error", "zero"}
        Value for ``?``; "error" raises DataError.
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
    with errors_named(path):
        relation, attributes, lines = _header(read_text(path, max_bytes))
        if missing not in ("error", "zero"):
            raise DataError(f'missing must be "error" or "zero", not {missing!r}.')
        names = _label_names(path, relation, attributes, labels)
        fill = 0.0 if missing == "zero" else None
        matrix = _parse(attributes, lines, fill, byte_limit(max_bytes))
        columns = {attribute.name: column for column, attribute in enumerate(attributes)}
        features = [name for name in columns if name not in set(names)]
        y_true = densified(matrix[:, [columns[name] for name in names]])
        return dataset_from_file(
            path,
            max_bytes,
            X=matrix[:, [columns[name] for name in features]],
            y_true=label_matrix(y_true, "the labels"),
            label_names=names,
            feature_names=features,
            description=relation,
        )


@dataclass(frozen=True)
class Attribute:
    """A column: its name, and the number of each value if it is nominal."""

    name: str
    codes: dict[str, float] = field(default_factory=dict)

    def number(self, token: str, fill: float | None) -> float:
        """Return the number of a token; raise DataError if it has none."""
        if token == "?":
            if fill is None:
                raise DataError(
                    f'the value of {brief(self.name)} is missing (?); pass missing="zero".'
                )
            return fill
        value = unquote(token)
        if value in self.codes:
            return self.codes[value]
        # The value 1.0 may stand for a declared 1, but not for the second of several words.
        number = _finite(value)
        are_words = _finite(next(iter(self.codes), "0")) is None
        if number is None or are_words or (self.codes and number not in self.codes.values()):
            raise DataError(f"{brief(token)} is not a value of {brief(self.name)}.")
        return number


_ATTRIBUTE = re.compile(
    r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)\s*(\{.*\}|\S+)""", re.I
)


def _header(text: str) -> tuple[str, list[Attribute], list[tuple[int, str]]]:
    """Return the relation name, the attributes and the numbered data lines."""
    relation = ""
    attributes = []
    lines = [(k, line.strip()) for k, line in enumerate(text.splitlines(), start=1)]
    lines = [(k, line) for k, line in lines if line and not line.startswith("%")]
    for position, (number, line) in enumerate(lines, start=1):
        keyword = line.split(None, 1)[0].lower()
        match = _ATTRIBUTE.match(line)
        if keyword == "@relation":
            relation = unquote(line[len("@relation") :].strip())
        elif keyword == "@attribute" and match is not None:
            codes = _codes(match[2]) if match[2].startswith("{") else {}
            attributes.append(Attribute(unquote(match[1]), codes))
            if not codes and match[2].lower() not in NUMERIC:
                name = brief(attributes[-1].name)
                raise DataError(f"the attribute {name} of type {match[2][:40]} is not a number.")
        elif keyword == "@data":
            data = lines[position:]
            if not attributes or not data:
                missing = "data rows" if attributes else "attributes"
                raise DataError(f"the file has no {missing}.")
            duplicate = repeated(attribute.name for attribute in attributes)
            if duplicate is not None:
                raise DataError(f"the attribute {brief(duplicate)} is declared twice.")
            return relation, attributes, data
        else:
            raise DataError(f"line {number}: not an ARFF header line: {line[:60]!r}.")
    raise DataError("no @data section; the file is not ARFF, or it is truncated.")


def _label_names(
    path: Path,
    relation: str,
    attributes: list[Attribute],
    labels: int | Sequence[str] | None,
) -> list[str]:
    """Return the names of the label columns from the arguments, the XML file or the relation."""
    names = [attribute.name for attribute in attributes]
    at_start = False
    if labels is None:
        xml_path = _beside(path)
        match = re.search(r"-C\s+(-?[0-9]{1,9})(?![0-9])", relation)
        if xml_path is not None:
            labels = _xml_names(xml_path)
        elif match is not None:
            labels = abs(int(match[1]))
            at_start = not match[1].startswith("-")
        else:
            raise DataError(
                "which attributes are labels? There is no XML file next to it and no -C in the "
                "relation name; pass labels= (a count or a list of names).",
                parameter="labels",
            )
    if isinstance(labels, (int, np.integer)):
        if not 0 < labels <= len(names):
            raise DataError(f"labels={labels}, but there are {len(names)} attributes.")
        return names[:labels] if at_start else names[-labels:]
    unknown = [name for name in labels if name not in set(names)]
    if unknown:
        raise DataError(f"the label {brief(unknown[0])} is not an attribute of the file.")
    return list(labels)


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
    reject_document_type(path, [text.strip()])
    try:
        root = ElementTree.fromstring(text.strip())
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: not a readable XML file ({error}).") from error
    names: list[Any] = [node.get("name") for node in root.findall(".//{*}label")]
    if not names or None in names:
        raise DataError(f"{path}: no <label name=...> entries.")
    return names


def _parse(
    attributes: list[Attribute], lines: list[tuple[int, str]], fill: float | None, limit: int
) -> Any:
    """Return all columns as one array, or as CSR if the rows are sparse."""
    is_sparse = lines[0][1].startswith("{")
    # A value left out of a sparse row is the first one declared, which is not always 0.
    firsts = [next(iter(attribute.codes.values()), 0.0) for attribute in attributes]
    defaults = {column: value for column, value in enumerate(firsts) if value}
    # A sparse row may be short in the file and full in memory, as may a truncated line.
    width = len(defaults) if is_sparse else len(attributes)
    needed = len(lines) * width * (SPARSE_BYTES if is_sparse else 8)
    if needed > limit:
        what = f"{len(lines):,} rows of {width:,} values need {needed:,} bytes"
        raise DataError(too_large(what, limit))
    shape = len(lines), len(attributes)
    dense = np.empty((0, 0) if is_sparse else shape)
    indptr = [0]
    indices = list[int]()
    data = list[float]()
    for row, (number, line) in enumerate(lines):
        with errors_named(f"line {number}"):
            if is_sparse:
                entries = defaults | _sparse_row(attributes, line, fill)
                indices.extend(entries)
                data.extend(entries.values())
                indptr.append(len(indices))
            else:
                dense[row] = _dense_row(attributes, line, fill)
    if not is_sparse:
        return dense
    matrix = sparse.csr_array((np.array(data, dtype=np.float64), indices, indptr), shape=shape)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _dense_row(attributes: list[Attribute], line: str, fill: float | None) -> list[float]:
    """Parse a row of comma-separated values."""
    tokens = split_values(line)
    if len(tokens) != len(attributes):
        raise DataError(f"{len(tokens)} values for {len(attributes)} attributes.")
    return [
        attribute.number(token, fill) for attribute, token in zip(attributes, tokens, strict=True)
    ]


def _sparse_row(attributes: list[Attribute], line: str, fill: float | None) -> dict[int, float]:
    """Parse a row of the form {index value, index value}."""
    if not (line.startswith("{") and line.endswith("}")):
        raise DataError("a sparse row must end with '}'.")
    entries = {}
    for entry in split_values(line[1:-1]) if line[1:-1].strip() else []:
        index, _, token = entry.partition(" ")
        is_index = index.isascii() and index.isdigit() and len(index) < 10
        if not is_index or int(index) >= len(attributes):
            raise DataError(
                f"no attribute {brief(index)} (there are {len(attributes)}, counted from 0)."
            )
        entries[int(index)] = attributes[int(index)].number(token.strip(), fill)
    return entries


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


def _codes(declaration: str) -> dict[str, float]:
    """Return the number of each value of a declaration such as {no, yes}."""
    names = [unquote(value) for value in split_values(declaration[1:-1])]
    numbers = {name: number for name in names if (number := _finite(name)) is not None}
    if len(numbers) == len(set(names)):
        return numbers
    words = {name: name.lower() for name in names}
    yes = [word in YES for word in words.values()]
    if sorted(yes) == [False, True] and all(word in YES | NO for word in words.values()):
        return {name: float(word in YES) for name, word in words.items()}
    return {name: float(k) for k, name in enumerate(names)}


def _finite(text: str) -> float | None:
    """Return a finite number, or None if a text is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
