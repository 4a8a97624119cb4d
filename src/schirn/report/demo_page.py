"""The page of the demonstration: one HTML file that needs nothing else."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schirn.metrics import METRICS
from schirn.report.page import png_uri, render

if TYPE_CHECKING:
    from schirn.demo import Demo, DemoRow

Array = np.ndarray

_N_MISTAKES = 6
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_KIND = {
    # (struck out, really wrong)
    (False, False): "kept",
    (True, True): "found",
    (True, False): "mistake",
    (False, True): "missed",
}


class Tag(NamedTuple):
    """A tag of an image; kind is kept, found, mistake or missed."""

    name: str
    kind: str


class Card(NamedTuple):
    """One image with its tags."""

    title: str
    image: str
    tags: list[Tag]


def demo_page(demo: "Demo") -> str:
    """Return the page as HTML text.

    Examples
    --------
    >>> from schirn.demo import run_demo
    >>> from schirn.report import demo_page
    >>> demo_page(run_demo()).startswith("<!DOCTYPE html>")
    True
    """
    found = demo.schirn.noise
    kept = found["n_candidates"] - found["n_flagged"]
    wrong_kept = found["n_wrong"] - round(found["recall"] * found["n_wrong"])
    return render(
        "schirn.report",
        "demo.html",
        demo=demo,
        found=found,
        before=found["n_wrong"] / found["n_candidates"],
        after=wrong_kept / max(1, kept),
        wrong_kept=wrong_kept,
        kept=kept,
        sample=_cards(demo, _first_of_each_digit(demo)),
        mistakes=_cards(demo, _most_mistakes(demo)),
        table=[_line(row) for row in demo.rows],
        heads=[
            metric.label.replace(" ↑", "\u00a0↑").replace(" ↓", "\u00a0↓")
            for metric in METRICS.values()
        ],
    )


def _cards(demo: "Demo", rows: list[int]) -> list[Card]:
    return [_card(demo, row) for row in rows]


def _card(demo: "Demo", row: int) -> Card:
    data, noise = demo.train, demo.schirn.model.noise_
    tags = [
        Tag(data.label_names[j], _KIND[bool(noise[row, j]), not data.y_true[row, j]])
        for j in np.flatnonzero(data.candidates[row])
    ]
    images: Any = data.images
    return Card(_DIGITS[demo.digits[row]], png_uri(images[row] / 16), tags)


def _first_of_each_digit(demo: "Demo") -> list[int]:
    """The first training image of each digit: a choice in which the result has no say."""
    return [int(np.argmax(demo.digits == digit)) for digit in range(10)]


def _most_mistakes(demo: "Demo") -> list[int]:
    """The images with the most wrong verdicts."""
    wrong = (demo.train.candidates == 1) & (demo.train.y_true == 0)
    mistakes = (demo.schirn.model.noise_ != wrong).sum(axis=1)
    worst = np.argsort(-mistakes, kind="stable")[:_N_MISTAKES]
    return [int(row) for row in worst if mistakes[row]]


def _line(row: "DemoRow") -> dict[str, Any]:
    """One line of the table."""
    says = {
        "CandidateRidge": "takes every tag as true",
        "Schirn": "looks for wrong tags",
        "OracleRidge": "sees the truth: the ceiling",
    }
    noise = [] if row.name == "OracleRidge" else [row.noise[k] for k in _NOISE]
    return {
        "name": row.name,
        "says": says[row.name],
        "measures": list(row.measures.values()),
        "noise": noise,
        "params": ", ".join(f"{key} = {value:g}" for key, value in row.params.items()),
    }


_NOISE = ("precision", "recall", "auc")
