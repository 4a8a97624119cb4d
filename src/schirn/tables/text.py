"""What the readers share: suffixes, sizes, text packed with gzip or not, and cells as numbers."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import math
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from schirn._files import MAX_BYTES as MAX_BYTES
from schirn._files import brief, byte_limit, reason_of, too_large
from schirn._input import Array, is_missing
from schirn.exceptions import DataError, MissingExtraError

# Deflate cannot shrink data by more than this factor, so a small file need not be counted.
DEFLATE_RATIO = 1032
CHUNK = 1 << 20
LONGEST_LINE = 16 * 1024**2
_TEXTS_AT_ONCE = 100_000
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# A text without a number in a column of numbers; as a tag each of these is a word.
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


def read_text(path: Path, max_bytes: int | None = None) -> str:
    """Return the text of a file (UTF-8, else Latin-1) after checking its size."""
    raw = read_bytes(path, max_bytes)
    if b"\0" in raw:
        raise DataError(f"{path}: this is a binary file, not text.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def read_bytes(path: Path, max_bytes: int | None = None) -> bytes:
    """Return the content of a file, unpacked, after checking its size."""
    check_size(path, max_bytes)
    if not is_packed(path):
        return path.read_bytes()
    with _damage_named(path), gzip.open(path) as stream:
        raw = stream.read()
    if not raw:
        raise DataError(f"{path}: the file is empty.")
    return raw


def check_size(path: Path, max_bytes: int | None = None) -> None:
    """Raise DataError for a file that is missing, empty, or larger than the limit once unpacked."""
    limit = byte_limit(max_bytes)
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        raise DataError(f"{path}: there is no such file.") from None
    if size == 0:
        raise DataError(f"{path}: the file is empty.")
    if size > limit:
        what = too_large(f"has {size:,} bytes", limit)
        raise DataError(f"{path}: {what}", parameter="max_bytes")
    if not is_packed(path) or size * DEFLATE_RATIO <= limit:
        return
    unpacked = 0
    with _damage_named(path), gzip.open(path) as stream:
        while chunk := stream.read(CHUNK):
            unpacked += len(chunk)
            if unpacked > limit:
                what = too_large(f"unpacks to over {limit:,} bytes", limit)
                raise DataError(f"{path}: {what}", parameter="max_bytes")


@contextmanager
def open_text(path: Path, encoding: str, *, newline: str = "") -> Iterator[IO[str]]:
    """Open a text file, packed with gzip or not."""
    codec = _codec(encoding)
    try:
        with open_bytes(path) as raw:
            yield io.TextIOWrapper(raw, "utf-8-sig" if codec == "utf-8" else codec, newline=newline)
    except UnicodeError:
        raise _wrong_encoding(path, encoding) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: not a readable gzip file, or truncated ({error}).") from error


def text_blocks(path: Path, encoding: str) -> Iterator[str]:
    """Yield the text of a file without its byte order mark, for a copy that is the same in bytes.

    Raises
    ------
    DataError
        If the text would not be the same bytes again in this encoding.
    """
    mark, codec = byte_order_mark(path, encoding)
    decoder = codecs.getincrementaldecoder(codec)()
    encoder = codecs.getincrementalencoder(codec)()
    digest_before, digest_after = hashlib.blake2b(), hashlib.blake2b()
    with open_bytes(path) as raw:
        raw.read(len(mark))
        is_last = False
        while not is_last:
            block = raw.read(CHUNK)
            is_last = not block
            text = decoder.decode(block, is_last)
            digest_before.update(block)
            digest_after.update(encoder.encode(text, is_last))
            if text:
                yield text
    if digest_before.digest() != digest_after.digest():
        raise DataError(
            f"{path}: the encoding {encoding} does not give the same bytes again; save the table "
            f"as UTF-8",
            parameter="encoding",
        )


@contextmanager
def text_writer(stream: BinaryIO, source: Path, encoding: str) -> Iterator[Callable[[str], None]]:
    """Write text as it is in another file: with its encoding, byte order mark and packing."""
    mark, codec = byte_order_mark(source, encoding)
    encoder = codecs.getincrementalencoder(codec)()
    with pack(stream, Path(stream.name)) as packed:
        # Files that follow each other have one mark.
        packed.write(b"" if stream.tell() else mark)
        texts: list[str] = []

        def write(text: str) -> None:
            texts.append(text)
            if len(texts) > _TEXTS_AT_ONCE:
                flush()

        def flush(final: bool = False) -> None:
            try:
                packed.write(encoder.encode("".join(texts), final))
            except UnicodeEncodeError as error:
                raise lacking(source, encoding, error) from None
            texts.clear()

        yield write
        flush(final=True)


def lacking(path: Path, encoding: str, error: UnicodeEncodeError) -> DataError:
    """Return the error about a new cell with a character that the encoding of a table lacks."""
    sign = error.object[error.start]
    return DataError(f"{path}: the encoding {encoding} of the table lacks the character {sign!r}")


def pack(stream: BinaryIO, path: Path) -> Any:
    """Return a context with the stream, packed with gzip if the name ends in .gz."""
    if not is_packed(path):
        return nullcontext(stream)
    return gzip.GzipFile("", "wb", fileobj=stream, mtime=0)


def byte_order_mark(path: Path, encoding: str) -> tuple[bytes, str]:
    """Return the byte order mark of a file, and the encoding of the text after it."""
    with open_bytes(path) as stream:
        return mark_of(stream.read(4), encoding)


def mark_of(head: bytes, encoding: str) -> tuple[bytes, str]:
    """Return the byte order mark at the head of a text, and the encoding of the text after it."""
    codec = _codec(encoding)
    for mark, name in _MARKS:
        if name.startswith(codec) and head.startswith(mark):
            return mark, name
    # Without a mark, the byte order is that of the machine.
    end = "-le" if sys.byteorder == "little" else "-be"
    return b"", codec + end if codec in ("utf-16", "utf-32") else codec


def open_bytes(path: Path) -> Any:
    """Open a file, packed with gzip or not."""
    return gzip.open(path) if is_packed(path) else path.open("rb")


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


def _wrong_encoding(path: Path, encoding: str) -> DataError:
    with open_bytes(path) as stream:
        raw = stream.read()
    try:
        raw.decode(encoding)
    except UnicodeDecodeError as error:
        line, byte = raw[: error.start].count(b"\n") + 1, raw[error.start]
        return DataError(
            f"{path}: line {line} is not {encoding} text (byte 0x{byte:02x}); give the encoding of "
            f"the file, such as latin-1",
            parameter="encoding",
        )
    except UnicodeError as error:
        return DataError(f"{path}: not {encoding} text ({error})", parameter="encoding")
    return DataError(f"{path}: not {encoding} text", parameter="encoding")


def header_delimiter(path: str | os.PathLike[str]) -> str | None:
    """Return what separates the names in the first line of a CSV file."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as stream:
        head = stream.readline(4096)
    return next((mark for mark in ",;\t" if mark.encode() in head), None)


def check_lines(path: Path, encoding: str) -> None:
    """Raise DataError for a binary file or a very long line, before the file is in memory."""
    is_wide = _codec(encoding).startswith(("utf-16", "utf-32"))
    line, length = 1, 0
    with _damage_named(path), open_bytes(path) as stream:
        while block := stream.read(CHUNK):
            if line == 1 and not length and not is_wide and block.startswith(_UTF_16):
                raise DataError(
                    f"{path}: this is UTF-16 text; give its encoding, utf-16", parameter="encoding"
                )
            if b"\0" in block and not is_wide:
                raise DataError(f"{path}: this is a binary file, not text")
            if b"\n" not in block:
                block = block.replace(b"\r", b"\n")
            # A block is far shorter than the limit, so only lines that began before it count.
            first = block.find(b"\n")
            length += len(block) if first < 0 else first
            if length > LONGEST_LINE:
                raise DataError(
                    f"{path}: line {line:,} is longer than {LONGEST_LINE:,} bytes; is this a "
                    f"table with one row per line?"
                )
            if first >= 0:
                line, length = line + block.count(b"\n"), len(block) - 1 - block.rfind(b"\n")


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a readable gzip file, or truncated ({error}).") from error


@contextmanager
def unreadable_named(path: Path, what: str) -> Iterator[None]:
    """Turn any error while reading a damaged or foreign file into a DataError that names it."""
    try:
        yield
    except (DataError, MissingExtraError):
        raise
    except Exception as error:
        raise DataError(f"{path}: not a readable {what} ({reason_of(error)}).") from error


def check_columns(path: Path, columns: Sequence[str]) -> None:
    """Raise DataError if two columns have the same name."""
    name, times = Counter(columns).most_common(1)[0] if columns else ("", 0)
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
