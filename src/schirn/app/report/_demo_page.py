"""The page of the demonstration: one self-contained HTML file."""

from typing import TYPE_CHECKING, Any

import numpy as np

from schirn.metrics import METRICS
from schirn.program.page import png_uri, render

if TYPE_CHECKING:
    from schirn.app.demo import Demo, DemoResult

_N_IMAGES = 10
_N_MISTAKES = 6
_NOISE = ("precision", "recall", "auc")
_SUMMARIES = {
    "CandidateRidge": "trusts every tag",
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
        Result of `schirn.app.demo.run_demo`.

    Returns
    -------
    str

    Examples
    --------
    >>> from schirn.app.demo import run_demo
    >>> from schirn.app.report import demo_page
    >>> demo_page(run_demo()).startswith("<!DOCTYPE html>")
    True
    """
    first_of_each = [int(np.argmax(demo.digits == digit)) for digit in range(10)]
    suspicious = list(dict.fromkeys(demo.suspects.row.tolist()))[:_N_IMAGES]
    removed = demo.answered.removed
    return render(
        "schirn.app.report",
        "demo.html",
        demo=demo,
        n_removed=int(removed.sum()),
        n_right=int(demo.wrong[removed].sum()),
        n_wrong=int(demo.wrong.sum()),
        suspicious=[_card(demo, row, _suspicion(demo, row)) for row in suspicious],
        sample=[_card(demo, row, _verdicts(demo, row)) for row in first_of_each],
        mistakes=[_card(demo, row, _verdicts(demo, row)) for row in _most_mistakes(demo)],
        results=[_line(result) for result in demo.results],
        # A no-break space keeps the arrow with the word before it.
        heads=["\u00a0".join(metric.label.rsplit(" ", 1)) for metric in METRICS.values()],
    )


def _card(demo: "Demo", row: int, kinds: dict[int, str]) -> dict[str, Any]:
    """Return an image and its tags, each with its kind."""
    images: Any = demo.train.images
    return {
        "title": _DIGITS[demo.digits[row]],
        "image": png_uri(images[row] / 16),
        "tags": [{"name": demo.train.label_names[j], "kind": kind} for j, kind in kinds.items()],
    }


def _suspicion(demo: "Demo", row: int) -> dict[int, str]:
    """Return the kinds of the tags of an image before the answers."""
    suspects = demo.suspects.column[demo.suspects.row == row]
    columns = np.flatnonzero(demo.train.candidates[row]).tolist()
    return {j: "suspect" if j in suspects else "kept" for j in columns}


def _verdicts(demo: "Demo", row: int) -> dict[int, str]:
    """Return the kinds of the tags of an image after the answers."""
    tags = np.flatnonzero(demo.answered.row == row)
    columns = (demo.answered.column[tags], demo.answered.removed[tags], demo.wrong[tags])
    return {
        j: _KIND[is_removed, is_wrong]
        for j, is_removed, is_wrong in zip(*(c.tolist() for c in columns), strict=True)
    }


def _most_mistakes(demo: "Demo") -> list[int]:
    """Return the images with the most mistakes after the answers."""
    mistakes = demo.answered.row[demo.answered.removed != demo.wrong]
    counts = np.bincount(mistakes, minlength=demo.answered.n_rows)
    worst = np.argsort(-counts, kind="stable")[:_N_MISTAKES]
    return [int(row) for row in worst if counts[row]]


def _line(result: "DemoResult") -> dict[str, Any]:
    """Return one line of the table."""
    return {
        "name": result.name,
        "summary": _SUMMARIES.get(result.name, ""),
        "measures": list(result.measures.values()),
        "noise": [result.noise[key] for key in _NOISE] if result.noise else [],
        "params": ", ".join(f"{key} = {value:g}" for key, value in result.params.items()),
    }
