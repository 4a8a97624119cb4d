"""Reader for ARFF files with several labels, as MULAN and MEKA write them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from schirn._files import brief, byte_limit
from schirn.datasets._arff_rows import Attribute, parse_rows, split_values, unquote
from schirn.datasets._dataset import LARGE_LABELS, Dataset, dataset_from_file, label_matrix
from schirn.datasets._text import is_packed, read_text
from schirn.exceptions import DataError


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
    like become 1/0, other values become their place in the declaration.

    Parameters
    ----------
    path : path
    labels : int or list of str, optional
        Number of label columns, or their names. Without it the names come from the XML file,
        else from ``-C`` in the relation name (MEKA: ``-C 6`` the first six, ``-C -6`` the last).
    label_side : {"end", "start"}
        Where an int count of label columns is.
    xml : path, optional
        The file with the label names; by default the one beside `path` with suffix ``.xml``,
        also without a trailing ``-train`` or ``-test``.
    missing : "error", "zero" or a number
        What to do with ``?``.
    ignore : list of str
        Attributes to leave out, such as identifiers of type string.
    max_bytes : int, optional
        Larger files are refused; by default ``SCHIRN_MAX_BYTES``, else 8 GiB.

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
    y_true = matrix[:, label_columns]
    return dataset_from_file(
        path,
        max_bytes,
        X=matrix[:, feature_columns],
        y_true=label_matrix(_dense_if_small(y_true), f"{path}: labels"),
        label_names=names,
        feature_names=[attributes[column].name for column in feature_columns],
        description=relation,
    )


def _dense_if_small(labels: Any) -> Any:
    """Return labels as an array unless they are sparse and many."""
    size = labels.shape[0] * labels.shape[1]
    return labels if isinstance(labels, np.ndarray) or size > LARGE_LABELS else labels.toarray()


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
    raise DataError(f"{path}: no @data section; the file is not ARFF or was cut short.")


def _checked(
    path: Path, attributes: list[Attribute], data: list[tuple[int, str]]
) -> list[tuple[int, str]]:
    """Return the data lines of a file that has attributes, distinct names and rows."""
    if not attributes or not data:
        raise DataError(f"{path}: the file has no {'data rows' if attributes else 'attributes'}.")
    names = [attribute.name for attribute in attributes]
    if len(set(names)) < len(names):
        seen: set[str] = set()
        double = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(f"{path}: the attribute {brief(double)} is declared twice.")
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
    """Raise for an attribute that cannot become a number."""
    unknown = dropped - {attribute.name for attribute in attributes}
    if unknown:
        raise DataError(f"{path}: ignore names {sorted(unknown)[0]!r}, which is no attribute.")
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
            raise DataError(f"{path}: {labels} labels asked for, of {len(names)} attributes.")
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
            f"{path}: which attributes are labels? There is no XML file beside it and no -C in "
            f"the relation name; pass labels= (a count or a list of names) or xml=.",
            parameter="labels",
        )
    count = int(match[1])
    return abs(count), "start" if count > 0 else "end"


def _beside(path: Path) -> Path | None:
    """Return the XML file that belongs to an ARFF file, if there is one."""
    path = path.with_suffix("") if is_packed(path) else path
    stem = re.sub(r"-(train|test|sparse)$", "", path.stem)
    for candidate in (path.with_suffix(".xml"), path.with_name(f"{stem}.xml")):
        if candidate.is_file():
            return candidate
    return None


def _xml_names(path: Path) -> list[str]:
    """Return the label names of a MULAN XML file."""
    text = read_text(path)
    # Label files need no document type; entities could blow up in memory.
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
    """Return the number that stands for a missing value, or None where it is an error."""
    if missing == "error":
        return None
    if missing == "zero":
        return 0.0
    if isinstance(missing, str):
        raise DataError(f'missing must be "error", "zero" or a number, not {missing!r}.')
    return float(missing)
