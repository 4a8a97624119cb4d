"""Tables in JSON: one object per line, or a list of objects."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from schirn._files import brief, reason_of
from schirn._input import whole_text
from schirn._text import open_text, text_writer
from schirn.app.tables._json_text import members, rewritten
from schirn.app.tables._table import Columns, RawCells, Table, inexact, is_same
from schirn.exceptions import DataError

Row = dict[str, Any]


class JsonlTable(Table):
    """One JSON object per line."""

    lists = True

    def __init__(self, path: Path, encoding: str) -> None:
        self.path = path
        self.encoding = encoding
        with open_text(path, encoding) as text:
            self._read(text.lines("\n"))

    def _read(self, lines: Iterable[str], first: int = 1) -> None:
        # New values are escaped if the text is pure ASCII.
        self._is_ascii = True
        rows = []
        broken = None
        for number, line in enumerate(lines, start=first):
            self._is_ascii &= line.isascii()
            if line.strip():
                rows.append(_parsed(self.path, line, number))
                if broken is None and _is_broken(line, rows[-1]):
                    broken = number
        self._set(rows, f"line {broken}" if broken else "")

    def _set(self, rows: list[Row], broken: str) -> None:
        self.rows = rows
        self.n_rows = len(rows)
        self._is_broken = bool(broken)
        if broken:
            warnings.warn(
                f"{self.path}: {broken} holds half of a character (a lone surrogate); such halves "
                f"are read as \N{REPLACEMENT CHARACTER}",
                stacklevel=5,
            )
        # From each column to its key in the file.
        self._keys = {whole_text(key): key for row in self.rows for key in row}
        self.columns = list(self._keys)

    def column(self, name: str) -> list[Any]:
        """Return the values of a key; None if an object lacks it."""
        cells = [row.get(self._keys[name]) for row in self.rows]
        return [_whole(cell) for cell in cells] if self._is_broken else cells

    def raw_cells(self, name: str, rows: Sequence[int]) -> dict[int, str]:
        """Return the text of values; empty if an object lacks the key."""
        chosen = set(rows)
        key = self._keys[name]
        raw = {}
        for i, text in enumerate(self._objects()):
            if i in chosen:
                start = len(text) - len(text.lstrip())
                places = {k: (first, end) for k, _, _, first, end in members(text, start)}
                first, end = places.get(key, (0, 0))
                raw[i] = text[first:end]
        return raw

    def _objects(self) -> Iterator[str]:
        """Yield the text of each object."""
        with open_text(self.path, self.encoding) as text:
            yield from (line for line in text.lines("\n") if line.strip())

    def parsed_cell(self, raw: str) -> Any:
        """Return the value with this text; None for "", which means that the key is absent."""
        return _whole(json.loads(raw)) if raw else None

    def _new_rows(self, changed: Columns, added: Columns) -> Iterator[Row]:
        """Yield the changed and new cells of each row, under the keys of the file."""
        columns = {name: self.column(name) for name in changed}
        for i in range(self.n_rows):
            edits = {
                self._keys[name]: cells[i]
                for name, cells in changed.items()
                if cells[i] != columns[name][i]
            }
            yield {**edits, **{name: cells[i] for name, cells in added.items()}}

    def _rewritten(self, text: str, cells: Row, raw: RawCells, i: int) -> str:
        """Return the text of the object in row i with changed and new cells."""
        if not cells:
            return text
        texts = {self._keys[name]: rows[i] for name, rows in raw.items() if i in rows}
        changed = rewritten(text, cells, ascii=self._is_ascii, raw=texts)
        try:
            changed.encode(self.encoding)
        except UnicodeEncodeError:
            # Escape characters that the encoding cannot represent.
            return rewritten(text, cells, ascii=True, raw=texts)
        return changed

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns, raw: RawCells) -> None:
        with (
            open_text(self.path, self.encoding) as text,
            text_writer(stream, Path(stream.name), text) as write,
        ):
            for line in self._rewritten_lines(text.lines("\n"), changed, added, raw):
                write(line)

    def _rewritten_lines(
        self, lines: Iterable[str], changed: Columns, added: Columns, raw: RawCells
    ) -> Iterator[str]:
        new_rows = enumerate(self._new_rows(changed, added))
        for line in lines:
            if line.strip():
                i, cells = next(new_rows)
                yield self._rewritten(line, cells, raw, i)
            else:
                yield line

    def _reopened(self, copy: Path) -> JsonlTable:
        return type(self)(copy, self.encoding)

    def _compare(self, path: str, copy: Any, changed: Columns, added: Columns) -> None:
        triples = zip(copy.rows, self.rows, self._new_rows(changed, added), strict=True)
        for i, (row, old, cells) in enumerate(triples, start=1):
            intended = {**old, **cells}
            # The text of a new cell may hold half of a character, as the cell that it restores.
            read_back = {**row, **{name: _whole(row.get(name)) for name in cells}}
            for name in {**intended, **read_back}:
                if not is_same(read_back.get(name), intended.get(name)):
                    raise inexact(path, i, name, read_back.get(name), intended.get(name))


class JsonlBlock(JsonlTable):
    """Some JSON lines.

    Parameters
    ----------
    path : Path
        Name of the table in error messages.
    encoding : str
        Encoding of the text.
    lines : list of str
        The lines.
    first : int
        Number of the first line.
    """

    def __init__(self, path: Path, encoding: str, lines: list[str], first: int) -> None:
        self.path = path
        self.encoding = encoding
        self._lines = lines
        self._read(lines, first)

    def copy(self, added: Columns) -> str:
        """Return the text of the rows with new keys; raise DataError if reading it differs."""
        lines = list(self._rewritten_lines(self._lines, {}, added, {}))
        self._compare(str(self.path), JsonlBlock(self.path, self.encoding, lines, 1), {}, added)
        return "".join(lines)


class JsonTable(JsonlTable):
    """A list of JSON objects."""

    def __init__(self, path: Path, encoding: str) -> None:
        self.path = path
        self.encoding = encoding
        with open_text(path, encoding) as text:
            content = "".join(text.blocks())
        self._is_ascii = content.isascii()
        rows = _documents(path, content)
        broken = next((k for k, row in enumerate(rows, 1) if _is_broken(content, row)), None)
        self._set(rows, f"object {broken}" if broken else "")

    def _objects(self) -> Iterator[str]:
        """Yield the text of each object."""
        with open_text(self.path, self.encoding) as source:
            text = "".join(source.blocks())
        for _, _, _, start, end in members(text, len(text) - len(text.lstrip())):
            yield text[start:end]

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns, raw: RawCells) -> None:
        new_rows = enumerate(self._new_rows(changed, added))
        with (
            open_text(self.path, self.encoding) as source,
            text_writer(stream, Path(stream.name), source) as write,
        ):
            text = "".join(source.blocks())
            place = 0
            for _, _, _, start, end in members(text, len(text) - len(text.lstrip())):
                i, cells = next(new_rows)
                write(text[place:start] + self._rewritten(text[start:end], cells, raw, i))
                place = end
            write(text[place:])


def _parsed(path: Path, line: str, number: int) -> Row:
    """Return the object of a line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: line {number} is not JSON ({error})") from None
    if not isinstance(row, dict):
        raise DataError(f"{path}: line {number} is not a JSON object: {line[:40]!r}")
    return row


def _documents(path: Path, text: str) -> list[Row]:
    """Return the objects of a JSON list."""
    try:
        documents = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{") and "Extra data" in str(error):
            raise DataError(
                f"{path}: one JSON object per line; such a file must be called .jsonl"
            ) from None
        raise DataError(f"{path}: not JSON, or truncated ({reason_of(error)})") from None
    if not isinstance(documents, list):
        raise DataError(f"{path}: must be a list of objects, one per row, not {brief(documents)}")
    wrong = next((k for k, row in enumerate(documents) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise DataError(f"{path}: entry {wrong + 1} is not an object: {brief(documents[wrong])}")
    return documents


def _is_broken(text: str, row: Row) -> bool:
    """Check whether a row contains an unpaired surrogate."""
    return ("\\ud" in text or "\\uD" in text) and _whole(row) != row


def _whole(value: Any) -> Any:
    """Return a JSON value without unpaired surrogates, which files cannot hold."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {whole_text(key): _whole(item) for key, item in value.items()}
    return value
