"""What the readers share: suffixes, sizes, text packed with gzip or not, and cells as numbers."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

import numpy as np

from schirn._files import NO_FILE, brief, byte_limit, check_limit, unreadable_named
from schirn._input import Array, is_missing
from schirn.exceptions import DataError

# Deflate cannot shrink data by more than this factor, so a small file need not be counted.
DEFLATE_RATIO = 1032
CHUNK = 1 << 20
_GZIP = "gzip file, or truncated"
LONGEST_LINE = 16 * 1024**2
# Encodings in which any text is encoded to the same bytes that it was decoded from.
EXACT = ("utf-8", "ascii", "iso8859-1")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Cells that are missing values in a column of numbers; in a column of tags, they are tags.
_EMPTY = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}
_TRUTH_WORDS = {"true": 1.0, "false": 0.0}


def format_suffix(path: Path) -> str:
    """Return the suffix of the format: ".csv" for photos.csv and photos.csv.gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


def base_name(path: Path) -> str:
    """Return the name of a file without its suffixes: "photos" for photos.csv.gz."""
    return Path(path.stem).stem if is_packed(path) else path.stem


def is_packed(path: Path) -> bool:
    """Whether a file is packed with gzip, by its name."""
    return path.suffix.lower() == ".gz"


def _open(path: Path) -> Any:
    return gzip.open(path) if is_packed(path) else path.open("rb")


def read_text(path: Path, max_bytes: int | None = None) -> str:
    """Return the text of a file (UTF-8, else Latin-1), unpacked, after checking its size."""
    check_size(path, max_bytes)
    with unreadable_named(path, _GZIP), _open(path) as stream:
        raw = stream.read()
    if not raw:
        raise DataError(f"{path}: the file is empty.")
    if b"\0" in raw:
        raise DataError(f"{path}: this is a binary file, not text.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def check_size(path: Path, max_bytes: int | None = None) -> None:
    """Raise DataError unless this is a file with content, within the limit once unpacked."""
    limit = byte_limit(max_bytes)
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        raise DataError(f"{path}: there is no such file.") from None
    if size == 0:
        raise DataError(f"{path}: {'the file is empty' if path.is_file() else NO_FILE}.")
    check_limit(path, "has", size, limit)
    if not is_packed(path) or size * DEFLATE_RATIO <= limit:
        return
    unpacked = 0
    with unreadable_named(path, _GZIP), gzip.open(path) as stream:
        while chunk := stream.read(CHUNK):
            unpacked += len(chunk)
            check_limit(path, "unpacks to at least", unpacked, limit)


class Text:
    """The text of a stream: its byte order mark, its encoding, and its lines.

    Parameters
    ----------
    stream : binary stream with `peek`
        The unpacked bytes.
    path : Path
        Name of the text in error messages.
    encoding : str
    """

    def __init__(self, stream: Any, path: Path, encoding: str) -> None:
        self._stream = stream
        self.path = path
        self.encoding = encoding
        with unreadable_named(path, _GZIP):
            head = stream.peek(4)[:4]
        self.mark, self.codec = _mark_of(head, encoding)
        self._is_wide = self.codec.startswith(("utf-16", "utf-32"))
        if head.startswith(_UTF_16) and not self._is_wide:
            raise DataError(
                f"{path}: this is UTF-16 text; give its encoding, utf-16", parameter="encoding"
            )

    def blocks(self) -> Iterator[str]:
        """Yield the text without its byte order mark, for a copy that is the same in bytes.

        Raises
        ------
        DataError
            If this is no text, or would not be the same bytes again in this encoding.
        """
        decoder = codecs.getincrementaldecoder(self.codec)()
        encoder = codecs.getincrementalencoder(self.codec)()
        read_hash = hashlib.blake2b()
        copy_hash = hashlib.blake2b()
        is_last = False
        line = 1
        with unreadable_named(self.path, _GZIP):
            self._stream.read(len(self.mark))
        while not is_last:
            with unreadable_named(self.path, _GZIP):
                block = self._stream.read(CHUNK)
            is_last = not block
            if b"\0" in block and not self._is_wide:
                raise DataError(f"{self.path}: this is a binary file, not text")
            try:
                text = decoder.decode(block, is_last)
                if self.codec not in EXACT:
                    read_hash.update(block)
                    copy_hash.update(encoder.encode(text, is_last))
            except UnicodeError as error:
                raise self._wrong_encoding(error, line) from None
            line += text.count("\n")
            yield text
        if read_hash.digest() != copy_hash.digest():
            raise DataError(
                f"{self.path}: writing the file in the encoding {self.encoding} would change its "
                f"bytes; save the table as UTF-8",
                parameter="encoding",
            )

    def lines(self, newline: str) -> Iterator[str]:
        """Yield lines with their ends; any line break is one if `newline` is empty."""
        open_line = ""
        number = 1
        for block in chain(self.blocks(), [None]):
            open_line = open_line + (block or "")
            lines = []
            if not block or "\n" in block or "\r" in block:
                lines = io.StringIO(open_line, newline=newline).readlines()
                # An open line, or one whose \r may be followed by \n.
                open_line = lines.pop() if lines and block is not None else ""
            if len(open_line) > LONGEST_LINE:
                raise DataError(
                    f"{self.path}: line {number + len(lines):,} is longer than {LONGEST_LINE:,} "
                    f"characters; is this a table with one row per line?"
                )
            yield from lines
            number += len(lines)

    def _wrong_encoding(self, error: UnicodeError, line: int) -> DataError:
        reason = f"not {self.encoding} text ({error})"
        if isinstance(error, UnicodeDecodeError):
            line += error.object[: error.start].count(b"\n")
            byte = error.object[error.start]
            reason = (
                f"line {line} is not {self.encoding} text (byte 0x{byte:02x}); give the encoding "
                f"of the file, such as latin-1"
            )
        return DataError(f"{self.path}: {reason}", parameter="encoding")


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[Text]:
    """Open a text file, packed with gzip or not."""
    with _open(path) as stream:
        yield Text(stream, path, encoding)


@contextmanager
def text_writer(stream: BinaryIO, path: Path, text: Text) -> Iterator[Callable[[str], Any]]:
    """Write with the encoding and byte order mark of `text`, compressed as `path` is named."""
    with pack(stream, path) as packed:
        packed.write(text.mark)
        writer = io.TextIOWrapper(packed, text.codec, newline="")
        try:
            yield writer.write
        except UnicodeEncodeError as error:
            raise DataError(
                f"{text.path}: the encoding {text.encoding} of the table lacks the character "
                f"{error.object[error.start]!r}"
            ) from None
        finally:
            writer.detach()


def pack(stream: BinaryIO, path: Path) -> Any:
    """Return a context with the stream, packed with gzip if the name ends in .gz."""
    if not is_packed(path):
        return nullcontext(stream)
    return gzip.GzipFile("", "wb", fileobj=stream, mtime=0)


def _mark_of(head: bytes, encoding: str) -> tuple[bytes, str]:
    """Return the byte order mark at the head of a text, and the encoding of the text after it."""
    codec = _codec(encoding)
    for mark, name in _MARKS:
        if name.startswith(codec) and head.startswith(mark):
            return mark, name
    # Without a mark, the byte order is that of the machine.
    end = "-le" if sys.byteorder == "little" else "-be"
    return b"", codec + end if codec in ("utf-16", "utf-32") else codec


def _codec(encoding: str) -> str:
    """Return the usual name of an encoding."""
    try:
        name = codecs.lookup(encoding).name
        # Python also has codecs that are no encodings of text.
        io.TextIOWrapper(io.BytesIO(), encoding)
    except (LookupError, ValueError):
        raise DataError(
            f"there is no encoding {brief(encoding)}; try utf-8 or latin-1", parameter="encoding"
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


def header_delimiter(path: str | os.PathLike[str]) -> str | None:
    """Return what separates the names in the first line of a CSV file."""
    if not os.path.isfile(path) or is_packed(Path(path)):
        return None
    with open(path, "rb") as stream:
        head = stream.readline(4096)
    return next((mark for mark in ",;\t" if mark.encode() in head), None)


def check_columns(path: Path, columns: Sequence[str]) -> None:
    """Raise DataError if two columns have the same name."""
    name, times = Counter(columns).most_common(1)[0] if columns else ("", 0)
    if times > 1 and not name.strip():
        raise DataError(
            f"{path}: {times:,} columns have no name; name them, or, if the header is in another "
            f"row, remove the rows above it"
        )
    if times > 1:
        raise DataError(f"{path}: {times:,} columns are called {brief(name)}; rename them")


def to_numbers(cells: Sequence[Any]) -> Array | None:
    """Return cells as floats, NaN for a missing one; None if a cell is not a number.

    >>> to_numbers(["1.5", "NA", "true"]), to_numbers(["1.5", "dog"])
    (array([1.5, nan, 1. ]), None)
    """
    try:
        # float reads "1_000", which is an identifier rather than a number.
        if "_" not in "".join(cells):
            return np.fromiter(map(float, cells), np.float64, len(cells))
    except (TypeError, ValueError):
        pass
    values = np.empty(len(cells))
    for i, cell in enumerate(cells):
        value = _number(cell)
        if value is None:
            return None
        values[i] = value
    return values


def _number(cell: Any) -> float | None:
    if is_missing(cell):
        return math.nan
    if isinstance(cell, str):
        word = cell.strip()
        if word in _EMPTY or word.lower() in _TRUTH_WORDS or "_" in word:
            return math.nan if word in _EMPTY else _TRUTH_WORDS.get(word.lower())
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None


class _Root(Exception):
    """The root element begins, so no document type can follow."""


def reject_document_type(where: object, chunks: Iterable[str | bytes]) -> None:
    """Raise DataError if XML declares a document type, and so may define entities.

    No format that is read here needs one, and entities can grow without bound or name other files.
    Whatever else is wrong with the XML is left to its reader.

    >>> reject_document_type("a.xml", ["<!-- <!DOCTYPE a> --><a/>"])
    >>> reject_document_type("a.xml", ["<!DOCTYPE a><a/>"])
    Traceback (most recent call last):
    ...
    schirn.exceptions.DataError: a.xml: document types and entities are not accepted
    """

    def reject(*_: object) -> None:
        raise DataError(f"{where}: document types and entities are not accepted")

    def stop(*_: object) -> None:
        raise _Root

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reject
    parser.StartElementHandler = stop
    try:
        for chunk in chunks:
            parser.Parse(chunk)
    except (_Root, expat.ExpatError):
        # Only the beginning matters, and not every part of an archive is XML.
        return
