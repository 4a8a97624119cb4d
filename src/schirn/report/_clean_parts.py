"""The parts of the report on cleaned tags: cards, confusions, histogram."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.report._png import png_uri

if TYPE_CHECKING:
    from schirn.cleaning.found import NoisyLabels

Array = np.ndarray

_BINS = 20
_MOST_TEXT = 400
_MOST_TAGS = 30
_MOST_IMAGE_BYTES = 300_000
_MAGIC = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}


class Tag(NamedTuple):
    """A tag of a row."""

    name: str
    removed: bool
    confidence: float


class Card(NamedTuple):
    """One doubtful tag and the row it stands in."""

    row: int
    id: str
    label: str
    confidence: float
    removed: bool
    text: str
    image: str
    tags: list[Tag]
    n_more: int


class Confusion(NamedTuple):
    """How often a tag was removed from rows that keep another one."""

    removed: str
    kept: str
    n_rows: int
    share: float
    """Of the removals of the first tag."""
    usual: float
    """Share of all rows that keep the second tag."""


class Bar(NamedTuple):
    """One bar; x and width in percent, height in percent of the highest."""

    x: float
    width: float
    height: float
    n_tags: int
    low: float
    high: float
    removed: bool


class Histogram(NamedTuple):
    """Bars of the confidences and the threshold."""

    bars: list[Bar]
    threshold: float


def cards(
    found: "NoisyLabels",
    most: int,
    *,
    texts: Sequence[Any] | None,
    images: Any,
    ids: Sequence[Any] | None,
) -> list[Card]:
    """The surest removals and the closest calls, half of each where there are enough."""
    ends = np.searchsorted(found.row, np.arange(found.n_rows + 1))
    return [_card(found, k, ends, texts, images, ids) for k in chosen(found, most).tolist()]


def chosen(found: "NoisyLabels", most: int) -> Array:
    """Places of the tags that get a card, the least likely first."""
    removed = np.flatnonzero(found.removed)
    surest = removed[np.argsort(found.confidence[removed], kind="stable")][: most // 2]
    judged = np.flatnonzero(found.judged)
    away = np.abs(found.confidence[judged] - found.threshold)
    closest = judged[np.argsort(away, kind="stable")]
    closest = closest[~np.isin(closest, surest)][: most - len(surest)]
    both = np.concatenate([surest, closest])
    return both[np.argsort(found.confidence[both], kind="stable")]


def confusions(found: "NoisyLabels", most: int) -> list[Confusion]:
    """Pairs of a removed and a kept tag in one row, the largest excess over chance first."""
    n_labels = len(found.label_names)

    def matrix(mask: Array) -> Any:
        places = (found.row[mask], found.column[mask])
        return sp.csr_array(
            (np.ones(int(mask.sum()), dtype=np.int64), places), shape=(found.n_rows, n_labels)
        )

    gone, kept = matrix(found.removed), matrix(~found.removed)
    together = sp.coo_array(gone.T @ kept)
    removals, rows_with = np.asarray(gone.sum(axis=0)), np.asarray(kept.sum(axis=0))
    excess = together.data - removals[together.row] * rows_with[together.col] / found.n_rows
    order = np.argsort(-excess, kind="stable")[:most]
    order = order[excess[order] > 0]
    return [
        Confusion(
            found.label_names[i],
            found.label_names[j],
            int(count),
            float(count / removals[i]),
            float(rows_with[j] / found.n_rows),
        )
        for i, j, count in zip(
            together.row[order].tolist(),
            together.col[order].tolist(),
            together.data[order].tolist(),
            strict=True,
        )
    ]


def histogram(found: "NoisyLabels") -> Histogram:
    """Bars of equal width over the confidences of the judged tags; heights are square roots."""
    edges = np.linspace(0, 1, _BINS + 1)
    values = found.confidence[found.judged]
    counts = np.histogram(values, edges)[0]
    highest = np.sqrt(max(1, int(counts.max(initial=0))))
    width = 100 / _BINS
    bars = [
        Bar(
            k * width,
            width,
            100 * float(np.sqrt(count) / highest),
            int(count),
            float(edges[k]),
            float(edges[k + 1]),
            bool(edges[k + 1] <= found.threshold + 1e-9),
        )
        for k, count in enumerate(counts.tolist())
    ]
    return Histogram(bars, found.threshold)


def _card(
    found: "NoisyLabels",
    k: int,
    ends: Array,
    texts: Sequence[Any] | None,
    images: Any,
    ids: Sequence[Any] | None,
) -> Card:
    row = int(found.row[k])
    places = range(int(ends[row]), int(ends[row + 1]))
    # The tag in question comes first in a row with very many tags.
    shown = sorted(sorted(places, key=lambda p: p != k)[:_MOST_TAGS])
    tags = [
        Tag(found.label_names[found.column[p]], bool(found.removed[p]), float(found.confidence[p]))
        for p in shown
    ]
    return Card(
        row=row,
        id=str(row + 1 if ids is None else ids[row]),
        label=found.label_names[found.column[k]],
        confidence=float(found.confidence[k]),
        removed=bool(found.removed[k]),
        text=_short("" if texts is None else str(texts[row])),
        image="" if images is None else _image(images[row]),
        tags=tags,
        n_more=len(places) - len(shown),
    )


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + " …"


def _image(image: Any) -> str:
    """A data URI of grey values or of a small image file; nothing where that cannot be."""
    if image is None:
        return ""
    if isinstance(image, np.ndarray):
        return png_uri(image / max(float(image.max(initial=0)), 1e-12)) if image.ndim == 2 else ""
    path = Path(image)
    try:
        if not path.is_file() or path.stat().st_size > _MOST_IMAGE_BYTES:
            return ""
        raw = path.read_bytes()
    except OSError:
        return ""
    kind = next((name for magic, name in _MAGIC.items() if raw.startswith(magic)), None)
    return f"data:image/{kind};base64,{base64.b64encode(raw).decode()}" if kind else ""
