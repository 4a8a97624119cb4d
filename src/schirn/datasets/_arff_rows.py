"""Values of ARFF files: quoting, nominal values as numbers, dense and sparse rows."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._files import brief, too_large
from schirn.exceptions import DataError

YES = {"yes", "true", "t", "y"}
NO = {"no", "false", "f", "n"}
NUMERIC = {"numeric", "real", "integer"}

# Of one entry of a sparse row, in lists and then in arrays.
SPARSE_BYTES = 32


@dataclass(frozen=True)
class Attribute:
    """One column: its name, its type, and for a nominal one the number of each value."""

    name: str
    kind: str
    codes: dict[str, float] = field(default_factory=dict)

    @classmethod
    def nominal(cls, name: str, values: list[str]) -> Attribute:
        """Return a nominal attribute with a number for each declared value."""
        return cls(name, "nominal", _codes(values))

    @property
    def is_number(self) -> bool:
        """Whether values of this attribute have a number."""
        return self.kind in NUMERIC or bool(self.codes)

    @property
    def default(self) -> float:
        """The value of an entry that a sparse row leaves out: zero or the first one declared."""
        return next(iter(self.codes.values()), 0.0)

    def number(self, token: str) -> float:
        """Return the number of a token; ValueError for a foreign one."""
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
    """Return all columns as one array, or as CSR where the rows are sparse."""
    reader = _RowReader(path, attributes, fill, dropped)
    is_sparse = lines[0][1].startswith("{")
    # A sparse row may be empty in the file and full in memory, as may a line that is cut short.
    width = reader.n_defaults if is_sparse else len(attributes)
    needed = len(lines) * width * (SPARSE_BYTES if is_sparse else 8)
    if needed > limit:
        what = f"{len(lines):,} rows of {width:,} values need {needed:,} bytes"
        raise DataError(f"{path}: {too_large(what, limit)}")
    if is_sparse:
        return reader.sparse(lines)
    return reader.dense(lines)


class _RowReader:
    """Turns data lines into numbers; every error names the line."""

    def __init__(
        self, path: Path, attributes: list[Attribute], fill: float | None, dropped: set[str]
    ) -> None:
        self.path, self.attributes, self.fill, self.dropped = path, attributes, fill, dropped

    def dense(self, lines: list[tuple[int, str]]) -> np.ndarray:
        """Parse rows of comma separated values."""
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
            place, _, token = entry.partition(" ")
            known = place.isascii() and place.isdigit() and len(place) < 10
            if not known or int(place) >= len(self.attributes):
                raise DataError(
                    f"{self.path}, line {number}: no attribute {brief(place)} "
                    f"(there are {len(self.attributes)}, counted from 0)."
                )
            entries[int(place)] = self._value(number, int(place), token.strip())
        return entries

    @property
    def n_defaults(self) -> int:
        """How many columns are filled in every sparse row."""
        return len(self._defaults)

    @property
    def _defaults(self) -> dict[int, float]:
        """Return the columns whose left-out value is not zero."""
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


# Possessive, and blanks are stripped later: an open quote must not be tried in every way.
_VALUE = re.compile(r"""((?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[^,'"])*+)(?:,|$)""", re.DOTALL)


def split_values(text: str) -> list[str]:
    """Split at commas that are not inside quotes."""
    if "'" not in text and '"' not in text:
        return [value.strip() for value in text.split(",")]
    values: list[str] = []
    place = 0
    while True:
        match = _VALUE.match(text, place)
        if match is None:
            return [*values, text[place:].strip()]
        values.append(match[1].strip())
        place = match.end()
        if place == len(text) and not match[0].endswith(","):
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
    return {name: float(place) for place, name in enumerate(names)}


def _is_number(text: str) -> bool:
    """Tell whether a nominal value is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
