"""The page of the demonstration: one self-contained HTML file."""

from typing import TYPE_CHECKING, Any

import numpy as np

from schirn.metrics import METRICS
from schirn.report.page import png_uri, render

if TYPE_CHECKING:
    from schirn.demo import Demo, DemoResult

_N_MISTAKES = 6
_METHODS = ("Sieve", "Schirn")
_NOISE = ("precision", "recall", "auc")
_SUMMARIES = {
    "CandidateRidge": "treats every tag as true",
    "Schirn": "the method of the paper",
    "Sieve": "the default: nothing to tune",
    "OracleRidge": "a ridge trained on the true tags",
}
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_KIND = {
    # (removed, wrong)
    (False, False): "kept",
    (True, True): "found",
    (True, False): "mistake",
    (False, True): "missed",
}


def demo_page(demo: "Demo") -> str:
    """Render the demonstration as one HTML page.

    Parameters
    ----------
    demo : Demo
        What `schirn.demo.run_demo` returns.

    Returns
    -------
    str

    Examples
    --------
    >>> from schirn.demo import run_demo
    >>> from schirn.report import demo_page
    >>> demo_page(run_demo()).startswith("<!DOCTYPE html>")
    True
    """
    found = demo.result("Sieve").noise
    first_of_each = [int(np.argmax(demo.digits == digit)) for digit in range(10)]
    return render(
        "schirn.report",
        "demo.html",
        demo=demo,
        found=found,
        before=found["n_wrong"] / found["n_candidates"],
        after=[_remaining(demo.result(name)) for name in _METHODS],
        sample=[_card(demo, row) for row in first_of_each],
        mistakes=[_card(demo, row) for row in _most_mistakes(demo)],
        results=[_line(result) for result in demo.results],
        heads=[
            metric.label.replace(" ↑", "\u00a0↑").replace(" ↓", "\u00a0↓")
            for metric in METRICS.values()
        ],
    )


def _remaining(result: "DemoResult") -> dict[str, Any]:
    """How many of the tags that a method keeps are wrong."""
    found = result.noise
    kept = found["n_candidates"] - found["n_flagged"]
    wrong = found["n_wrong"] - round(found["recall"] * found["n_wrong"])
    return {"name": result.name, "kept": kept, "wrong": wrong, "share": wrong / max(1, kept)}


def _card(demo: "Demo", row: int) -> dict[str, Any]:
    """One image with the verdicts of each method on its tags."""
    data = demo.train
    images: Any = data.images
    verdicts = []
    for method in _METHODS:
        removed = demo.result(method).model.noise_[row]
        tags = [
            {
                "name": data.label_names[j],
                "kind": _KIND[bool(removed[j]), not data.y_true[row, j]],
            }
            for j in np.flatnonzero(data.candidates[row])
        ]
        verdicts.append((method, tags))
    image = png_uri(images[row] / 16)
    return {"title": _DIGITS[demo.digits[row]], "image": image, "verdicts": verdicts}


def _most_mistakes(demo: "Demo") -> list[int]:
    """The images on which Sieve makes the most mistakes; then those on which Schirn does."""
    wrong = (demo.train.candidates == 1) & (demo.train.y_true == 0)
    sieve, schirn = ((demo.result(name).model.noise_ != wrong).sum(axis=1) for name in _METHODS)
    worst = np.lexsort((-schirn, -sieve))[:_N_MISTAKES]
    return [int(row) for row in worst if sieve[row] or schirn[row]]


def _line(result: "DemoResult") -> dict[str, Any]:
    """One line of the table."""
    is_oracle = result.name == "OracleRidge"
    return {
        "name": result.name,
        "summary": _SUMMARIES[result.name],
        "measures": list(result.measures.values()),
        "noise": [] if is_oracle else [result.noise[key] for key in _NOISE],
        "params": ", ".join(f"{key} = {value:g}" for key, value in result.params.items()),
    }
