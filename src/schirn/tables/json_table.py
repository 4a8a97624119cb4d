"""JSON: one object per line, a list of objects, or an export of Label Studio."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from schirn._files import brief, reason_of, whole_folder
from schirn._input import whole_text
from schirn.exceptions import DataError
from schirn.tables.annotations import LabelStudioTasks, recognise
from schirn.tables.json_text import members, rewritten
from schirn.tables.table import Columns, Table, inexact, is_same
from schirn.tables.text import check_lines, check_size, open_text, text_blocks, text_writer

Row = dict[str, Any]


class JsonlTable(Table):
    """One JSON object per line."""

    lists = True

    def __init__(self, path: Path, encoding: str, max_bytes: int | None, empty: bool) -> None:
        self.path, self.encoding = path, encoding
        self._set(path, *_objects(path, encoding, max_bytes), empty)

    def _set(
        self, path: Path, rows: list[Row], broken: int | None, empty: bool, unit: str = "line"
    ) -> None:
        if not rows and not empty:
            raise DataError(f"{path}: the table has no rows")
        self.rows, self.n_rows = rows, len(rows)
        self._is_broken = broken is not None
        if self._is_broken:
            warnings.warn(
                f"{path}: {unit} {broken} holds half of a character (a lone surrogate); such "
                f"halves are read as \N{REPLACEMENT CHARACTER}",
                stacklevel=4,
            )
        # From the column to the key as it is in the file.
        self._keys = {whole_text(key): key for row in rows for key in row}
        self.columns = list(self._keys)

    def column(self, name: str) -> list[Any]:
        """Return the values of a key; None where an object lacks it."""
        cells = [row.get(self._keys[name]) for row in self.rows]
        return [_whole(cell) for cell in cells] if self._is_broken else cells

    def _new_rows(self, changed: Columns, added: Columns) -> Iterator[tuple[Row, Row]]:
        """Yield the changed and the new cells of each row, by the keys of the file."""
        columns = {name: self.column(name) for name in changed}
        for i in range(self.n_rows):
            edits = {
                self._keys[name]: cells[i]
                for name, cells in changed.items()
                if cells[i] != columns[name][i]
            }
            yield edits, {name: cells[i] for name, cells in added.items()}

    def _write_lines(
        self, stream: BinaryIO, source: Path, new_rows: Iterator[tuple[Row, Row]], end: str = ""
    ) -> None:
        """Write the lines of a file with changed and new cells, and the end of an open line."""
        line = ""
        with text_writer(stream, source, self.encoding) as write:
            for block in chain(text_blocks(source, self.encoding), [""]):
                *lines, ending = (line + block).split("\n")
                if not block:
                    lines, ending = [ending], ""
                for line in lines:
                    edits, new = next(new_rows) if line.strip() else ({}, {})
                    if edits or new:
                        line = self._rewritten(line, {**json.loads(line), **edits, **new})
                    write(f"{line}\n" if block else line and line + end)
                line = ending

    def _rewritten(self, text: str, value: Any) -> str:
        """Return the text of a changed value, with escapes if the file has nothing but ASCII."""
        changed = rewritten(text, value, ascii=self._is_ascii)
        try:
            changed.encode(self.encoding)
        except UnicodeEncodeError:
            # What the encoding lacks has no other form.
            return rewritten(text, value, ascii=True)
        return changed

    @cached_property
    def _is_ascii(self) -> bool:
        return all(
            text.isascii() for file in self.stamps for text in text_blocks(file, self.encoding)
        )

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns) -> None:
        self._write_lines(stream, self.path, self._new_rows(changed, added))

    def _compare(self, path: str, copy: Path, changed: Columns, added: Columns) -> None:
        rows, _ = _objects(copy, self.encoding, None)
        self._compare_rows(path, rows, changed, added)

    def _compare_rows(self, path: str, rows: list[Row], changed: Columns, added: Columns) -> None:
        new_rows = self._new_rows(changed, added)
        for i, (row, old, (edits, new)) in enumerate(zip(rows, self.rows, new_rows, strict=True)):
            intended = {**old, **edits, **new}
            for name in {**intended, **row}:
                if not is_same(row.get(name), intended.get(name)):
                    raise inexact(path, i + 1, name, row.get(name), intended.get(name))


class JsonlFolder(JsonlTable):
    """The .jsonl files of a folder, sorted by name, as one table."""

    def __init__(self, folder: Path, encoding: str, max_bytes: int | None) -> None:
        self.path, self.encoding = folder, encoding
        self._files = jsonl_files(folder)
        contents = [(path, *_objects(path, encoding, max_bytes)) for path in self._files]
        broken = [(path, line) for path, _, line in contents if line is not None]
        where, line = broken[0] if broken else (folder, None)
        self._set(where, [row for _, rows, _ in contents for row in rows], line, False)

    def write(self, path: str, changed: Columns, added: Columns) -> None:
        """Write a folder with files of the same names, or one file for a path in .jsonl."""
        if path.endswith(".jsonl"):
            super().write(path, changed, added)
            return
        self.check_unchanged()
        new_rows, rows = self._new_rows(changed, added), []
        with whole_folder(path) as folder:
            for source in self._files:
                copy = folder / source.relative_to(self.path)
                copy.parent.mkdir(parents=True, exist_ok=True)
                with copy.open("wb") as stream:
                    self._write_lines(stream, source, new_rows)
                rows += _objects(copy, self.encoding, None)[0]
            self.check_unchanged()
            self._compare_rows(path, rows, changed, added)

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns) -> None:
        new_rows = self._new_rows(changed, added)
        for source in self._files:
            self._write_lines(stream, source, new_rows, end="\n")


class JsonTable(JsonlTable):
    """A list of JSON objects: rows, or tasks of Label Studio."""

    def __init__(self, path: Path, encoding: str, empty: bool) -> None:
        self.path, self.encoding = path, encoding
        self.documents = json_documents(path, encoding)
        self.form = recognise(path, self.documents)
        rows = [self.form.row(document) for document in self.documents]
        broken = next((k + 1 for k, row in enumerate(rows) if _whole(row) != row), None)
        self._set(path, rows, broken, empty, unit="object")
        self.tag_columns = self.form.tag_columns

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns) -> None:
        new_rows = zip(self.documents, self._new_rows(changed, added), strict=True)
        self.write_documents(stream, [self.form.changed(doc, *cells) for doc, cells in new_rows])

    def write_documents(self, stream: BinaryIO, documents: Sequence[Row]) -> None:
        """Write other documents in the place of those of the file; equal values keep their text."""
        with open_text(self.path, self.encoding) as source:
            text = source.read()
        place = 0
        with text_writer(stream, self.path, self.encoding) as write:
            start = len(text) - len(text.lstrip())
            for member, document in zip(members(text, start), documents, strict=True):
                old = text[member.start : member.end]
                write(text[place : member.start] + self._rewritten(old, document))
                place = member.end
            write(text[place:])

    def _compare(self, path: str, copy: Path, changed: Columns, added: Columns) -> None:
        rows = [self.form.row(document) for document in json_documents(copy, self.encoding)]
        if isinstance(self.form, LabelStudioTasks):
            # New cells are where the tool puts them.
            added = {}
            pairs = zip(rows, self.rows, strict=True)
            rows = [{key: row.get(key) for key in old} for row, old in pairs]
        self._compare_rows(path, rows, changed, added)


def jsonl_files(folder: Path) -> list[Path]:
    """Return the .jsonl files of a folder, sorted; names that begin with . do not count."""
    return sorted(path for path in folder.rglob("*.jsonl") if not path.name.startswith("."))


def _objects(path: Path, encoding: str, max_bytes: int | None) -> tuple[list[Row], int | None]:
    check_size(path, max_bytes)
    check_lines(path, encoding)
    with open_text(path, encoding, newline="\n") as stream:
        return parse_lines(path, stream)


def parse_lines(path: Path, lines: Iterable[str], first: int = 1) -> tuple[list[Row], int | None]:
    """Return the objects of lines, and the first line with half of a surrogate pair."""
    rows, broken = [], None
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: line {number} is not JSON ({error})") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}: line {number} is not a JSON object: {line[:40]!r}")
        rows.append(row)
        if broken is None and ("\\ud" in line or "\\uD" in line) and _whole(row) != row:
            broken = number
    return rows, broken


def json_documents(path: Path, encoding: str) -> list[Row]:
    """Return the objects of a JSON list."""
    with open_text(path, encoding) as stream:
        text = stream.read()
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


def _whole(value: Any) -> Any:
    """Return a JSON value whose texts every file can hold."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {whole_text(key): _whole(item) for key, item in value.items()}
    return value
