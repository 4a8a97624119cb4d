"""What the page lists: found rows, tags with their counts, batches and people."""

from typing import Any

import numpy as np

from schirn._files import brief
from schirn._input import Array
from schirn.cleaning.questions import LIKELY
from schirn.exceptions import InputError
from schirn.review._questions import DROP, KEEP, SKIP
from schirn.review._state import DECISION
from schirn.review.session import Session

PAGE = 50
SHOWN = ("suspicious", "removed", "suggested", "decided", "all")
SCOPES = ("all", "text", "id", "tag")
_MAX_DISAGREEMENTS = 200


def search(session: Session, words: str, scope: str, offset: int) -> dict[str, Any]:
    """Return the rows in which every word occurs, in the text, the id or a tag.

    Parameters
    ----------
    session : Session
    words : str
        Upper and lower case are the same.
    scope : {"all", "text", "id", "tag"}
        Where to look.
    offset : int
        Number of rows to leave out, for the next page.
    """
    if scope not in SCOPES:
        raise InputError(f"the scope must be one of {', '.join(SCOPES)}, not {brief(scope)}")
    items = session.project.items
    terms = words.casefold().split()
    is_match = np.ones(len(items), dtype=bool)
    for word in terms:
        hit = np.zeros(len(items), dtype=bool)
        if scope in ("all", "text"):
            hit |= np.fromiter((word in item.text.casefold() for item in items), bool, len(items))
        if scope in ("all", "id"):
            hit |= np.fromiter((word in item.id.casefold() for item in items), bool, len(items))
        if scope in ("all", "tag"):
            columns = [j for j, name in enumerate(session.names) if word in name.casefold()]
            hit[session.row[np.isin(session.column, columns) & _visible(session)]] = True
        is_match &= hit
    rows = np.flatnonzero(is_match) if terms else np.zeros(0, dtype=int)
    final = session.final()
    return {
        "total": len(rows),
        "offset": offset,
        "rows": [
            {**session.about_row(i), "tags": session.chips(i, final)}
            for i in rows[offset : offset + PAGE].tolist()
        ],
    }


def tag_counts(session: Session) -> list[dict[str, Any]]:
    """Return how often each tag is listed, suspicious, removed and decided, worst first."""
    final = session.final()
    counts: dict[str, dict[str, Any]] = {}
    visible = _visible(session)
    for name in session.names:
        counts[name] = {"label": name, **dict.fromkeys(("listed", *SHOWN[:4]), 0)}
    place = {name: k for k, name in enumerate(counts)}
    index = np.array([place[name] for name in session.names])[session.column]
    totals = list(counts.values())
    masks = {"listed": session.listed & visible}
    masks |= {show: _mask(session, show, final) & visible for show in SHOWN[:4]}
    for key, mask in masks.items():
        for j, n in enumerate(np.bincount(index[mask], minlength=len(totals)).tolist()):
            totals[j][key] = n
    known = [count for count in totals if any(count[key] for key in masks)]
    return sorted(known, key=lambda count: (-count["suspicious"], count["label"]))


def batch(session: Session, label: str, show: str, offset: int) -> dict[str, Any]:
    """Return the items that have a tag, as far as they are suspicious, removed, decided or so.

    Parameters
    ----------
    session : Session
    label : str
        Name of the tag.
    show : {"suspicious", "removed", "suggested", "decided", "all"}
    offset : int
        Number of items to leave out, for the next page.
    """
    if show not in SHOWN:
        raise InputError(f"show must be one of {', '.join(SHOWN)}, not {brief(show)}")
    columns = [j for j, name in enumerate(session.names) if name == label]
    if not columns:
        raise InputError(f"there is no tag {brief(label)}")
    final = session.final()
    mask = _mask(session, show, final) & _visible(session) & np.isin(session.column, columns)
    tags = np.flatnonzero(mask)
    tags = tags[np.argsort(session.confidence[tags], kind="stable")]
    cells = []
    for k in tags[offset : offset + PAGE].tolist():
        i = int(session.row[k])
        chips = session.chips(i, final, k)
        cells.append(
            {**session.about_row(i), **next(c for c in chips if c["current"]), "tags": chips}
        )
    return {"label": label, "show": show, "total": len(tags), "offset": offset, "cells": cells}


def people(session: Session) -> dict[str, Any]:
    """Return the names of all who decided, and the tags about which they disagree."""
    disagreements, final = session.disagreements(), session.final()
    return {
        "people": sorted({who for votes in session.votes.values() for who in votes}),
        "total": len(disagreements),
        "disagreements": [
            {
                **session.about_row(int(session.row[k])),
                "label": session.name(k),
                "votes": {
                    who: DECISION[vote] for who, vote in session.votes[k].items() if vote != SKIP
                },
                "kept": bool(final[k]),
            }
            for k in disagreements[:_MAX_DISAGREEMENTS]
        ],
    }


def _visible(session: Session) -> Array:
    visible = np.ones(len(session.row), dtype=bool)
    n = len(session.project.row)
    for k in (*session.merged, *range(n, len(visible))):
        visible[k] = session.is_visible(k)
    return visible


def _mask(session: Session, show: str, final: Array) -> Array:
    """Return the tags that are suspicious, removed, suggested or decided."""
    decided = (session.status == KEEP) | (session.status == DROP)
    known = np.arange(len(session.row)) < len(session.project.row)
    if show == "suspicious":
        return session.listed & ~decided & (session.confidence < LIKELY)
    if show == "removed":
        return session.listed & ~final
    if show == "suggested":
        return known & ~session.listed & ~decided
    return decided if show == "decided" else np.ones(len(session.row), dtype=bool)
