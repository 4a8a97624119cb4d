"""Records as CSV and JSON lines; files written whole."""

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from schirn._files import atomic_write, csv_rows, spreadsheet_safe

Record = dict[str, Any]


def csv_lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield a header and one line per record; lists are joined, dictionaries get columns."""
    columns = (dict(_flat(record)) for record in records)
    for first in islice(columns, 1):
        yield from csv_rows([first, first.values()])
    yield from csv_rows(values.values() for values in columns)


def json_lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield one JSON document per record."""
    for record in records:
        yield json.dumps(record, ensure_ascii=False) + "\n"


def write_lines(content: Iterable[str] | dict[str, Any], path: str | None) -> None:
    """Write lines or arrays to a file, lines also to stdout."""
    if path is None:
        sys.stdout.writelines(content)
        return
    with atomic_write(path) as stream:
        if isinstance(content, dict):
            np.savez_compressed(stream, **content)
        else:
            stream.writelines(line.encode() for line in content)


def _flat(record: Record) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from ((f"{key} {name}", f"{number:.6g}") for name, number in value.items())
        elif isinstance(value, list):
            yield key, spreadsheet_safe(";".join(value))
        elif isinstance(value, float):
            yield key, f"{value:.6g}"
        else:
            yield key, spreadsheet_safe(value) if isinstance(value, str) else value
