"""The vocabulary part of the page: lines, their effects, and example rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from schirn._files import Record, brief, shortened
from schirn._input import Array, OneOf, is_count
from schirn.app.review._vocabulary import PROPOSE, STATUSES, LineKey
from schirn.cleaning import VocabularyLine
from schirn.exceptions import InputError

if TYPE_CHECKING:
    from schirn.app.review._session import Session

OPEN = "open"
ALL = "all"
SHOWN = (*STATUSES, ALL)
"""Selections of lines that the page can list."""

_MOST_LINES = 200
_MOST_NAMES = 20
_LONGEST_TEXT = 240
_MOST_CELLS = 3
_QUESTIONS = {
    "merge": "Are these two names of one thing?",
    "imply": "Does the first tag imply the second?",
    "exclude": "Can no row have both tags?",
    "drop": "Should this tag go?",
    "split": "Does this tag have two meanings?",
    "keep": "Should this tag always stay?",
}


def describe_room(
    session: Session, *, show: str, find: str, line: int | None, after: int | None
) -> dict[str, Any]:
    """Return lines, counts and the line in question; see `Session.vocabulary_view`.

    Parameters
    ----------
    session : Session
        The review.
    show : {"open", "accepted", "rejected", "settled", "all"}
        Lines to list.
    find : str
        Only list lines about tags that contain this string.
    line, after : int or None
        Number of the line to show, or of the line before it.

    Returns
    -------
    dict
    """
    OneOf(SHOWN).check("show", show)
    room = session.room
    part = find.casefold()
    lines = [
        line
        for line in room.current
        if show in (ALL, room.status(line))
        and (part in line.tag.casefold() or part in line.target.casefold())
    ]
    current = _choose(session, line, after)
    rows = [
        room.changed_rows(line)
        for line in room.current.accepted
        # A later merge can extend an earlier implication to more rows.
        if line.action == "imply" or not room.is_applied(line)
    ]
    return {
        "counts": {**room.counts(), "more": session.n_more_proposals},
        "rows_changed": len(np.unique(np.concatenate(rows))) if rows else 0,
        "applied": sum(map(room.is_applied, room.current)),
        "lines": [_describe_line(session, line) for line in lines[:_MOST_LINES]],
        "hidden": max(0, len(lines) - _MOST_LINES),
        "current": None if current is None else _describe_current(session, current),
    }


def _choose(session: Session, number: int | None, after: int | None) -> VocabularyLine | None:
    """Return the line with this number, the first open line after a number, or the first."""
    room = session.room
    lines = room.current.lines
    for name, value in (("line", number), ("after", after)):
        if value is not None and not is_count(value):
            raise InputError(f"{name} must be a whole number, not {brief(value)}")
    if number is not None:
        chosen = next((line for line in lines if line.number == number), None)
        if chosen is None:
            raise InputError(f"the vocabulary has no line {number}")
        return chosen
    pending = [line for line in lines if room.status(line) == OPEN]
    first = next(iter(pending), None)
    return next((line for line in pending if line.number > (after or 0)), first)


def _describe_line(session: Session, line: VocabularyLine) -> dict[str, Any]:
    """Return a line as the page lists it."""
    room = session.room
    return {
        "number": line.number,
        "action": line.action,
        "tag": line.tag,
        "target": line.target,
        "rows": line.rows,
        "rows_target": line.rows_target,
        "both": line.both,
        "evidence": line.evidence,
        "confidence": line.confidence or None,
        "sure": line.is_sure,
        "status": room.status(line),
        "applied": room.is_applied(line),
    }


def _describe_current(session: Session, line: VocabularyLine) -> dict[str, Any]:
    """Return a line with its question, the effect of accepting it, and examples."""
    return {
        **_describe_line(session, line),
        "question": _QUESTIONS[line.action],
        "effect": _effect(session, line),
        "examples": [
            {"title": title, "rows": [_describe_row(session, i, line) for i in sample]}
            for title, sample in _examples(session, line)
        ],
    }


def _effect(session: Session, line: VocabularyLine) -> str:
    """Return a sentence about the effect of accepting a line."""
    room = session.room
    if room.is_applied(line):
        return (
            "This line was applied before the tags were ranked; to change it, edit the file and "
            "start the review again from the table."
        )
    n = len(room.changed_rows(line))
    tag = f"“{line.tag}”"
    target = f"“{line.target}”"
    if line.action == "merge":
        return f"{tag} becomes {target} in {_rows(n)}."
    if line.action == "imply" and not session.project.table.add_implied:
        return f"{tag} implies {target}; rows without it are only counted (--implied suggest)."
    if line.action == "imply":
        return f"{target} is added to {_rows(n)} with {tag}."
    if line.action == "exclude":
        n_both = len(np.intersect1d(room.rows(line.tag), room.rows(line.target)))
        verb = "has" if n_both == 1 else "have"
        return f"No row changes; {_rows(n_both)} {verb} both tags, and are left to you."
    if line.action == "drop":
        return f"{tag} is removed from {_rows(n)}, unless you keep it in a row."
    if line.action == "split":
        return f"No row changes; the line is a note that {tag} needs two names."
    return f"{tag} is never removed, and no line about it is proposed."


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _examples(session: Session, line: VocabularyLine) -> list[tuple[str, list[int]]]:
    """Return titles and rows, spread over the table."""
    room = session.room
    tag = room.rows(line.tag)
    target = room.rows(line.target)
    intersection = np.intersect1d(tag, target)
    tag_only = np.setdiff1d(tag, target)
    target_only = np.setdiff1d(target, tag)
    groups: list[tuple[str, Array, int]]
    if line.action in ("merge", "exclude"):
        groups = [
            (f"Rows with {line.tag} only", tag_only, 3),
            (f"Rows with {line.target} only", target_only, 3),
            ("Rows with both", intersection, 2),
        ]
    elif line.action == "imply":
        groups = [
            (f"Rows with {line.tag}, without {line.target}", tag_only, 4),
            ("Rows with both", intersection, 2),
        ]
    else:
        groups = [(f"Rows with {line.tag}", tag, 6)]
    return [
        (f"{title} ({len(rows):,})", _spread(rows, n)) for title, rows, n in groups if len(rows)
    ]


def _spread(rows: Array, count: int) -> list[int]:
    """Return some evenly spaced rows."""
    places = np.linspace(0, len(rows) - 1, min(count, len(rows)))
    return [int(row) for row in rows[places.astype(int)]]


def _describe_row(session: Session, row: int, line: VocabularyLine) -> dict[str, Any]:
    """Return a row as an example."""
    project = session.project
    text = shortened(project.texts[row], _LONGEST_TEXT)
    cells = [] if text else list(session.table.others(row))[:_MOST_CELLS]
    tags = [session.name(k) for k in project.tags_of_row(row) if project.listed[k]]
    return {
        "row": row,
        "item": project.ids[row],
        "text": text,
        "others": [(name, shortened(cell, _LONGEST_TEXT)) for name, cell in cells],
        "has_image": session.table.image_file(row) is not None,
        "tags": [{"label": tag, "current": tag in (line.tag, line.target)} for tag in tags],
    }


def find_names(session: Session, part: str) -> list[str]:
    """Return the tags whose names contain a string, names that begin with it first.

    Parameters
    ----------
    session : Session
        The review.
    part : str
        The string; case does not matter.

    Returns
    -------
    list of str
    """
    part = part.casefold()
    names = [name for name in session.project.labels if part in name.casefold()]
    names.sort(key=lambda name: (not name.casefold().startswith(part), len(name), name))
    return names[:_MOST_NAMES]


def words_of(record: Record) -> str:
    """Describe a vocabulary record in a few words.

    Parameters
    ----------
    record : dict
        With the action "vocabulary" or "propose".

    Returns
    -------
    str
    """
    if record["action"] == PROPOSE:
        count = len(record["lines"])
        return "1 proposal" if count == 1 else f"{count:,} proposals"
    return f"answer to {LineKey.from_record(record)}"
