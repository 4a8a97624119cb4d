"""The notebook view of a fitted model: scikit-learn's diagram and a summary of the verdicts."""

from html import escape
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import to_numpy

Array = np.ndarray

_MOST = 5
_STYLE = (
    "font-family:sans-serif;font-size:13px;line-height:1.5;margin:.4em 0 .8em;max-width:44em;"
    "color:inherit"
)
_TABLE = "border-collapse:collapse;margin:.3em 0 0;border:0;font-size:inherit;color:inherit"
_CELL = "padding:1px 12px 1px 0;border:0;text-align:left;background:none"
_BAR = "display:inline-block;height:.7em;background:#c2410c;border-radius:2px;vertical-align:middle"


class Found(NamedTuple):
    """Number of rows, and candidates and wrong candidates of every label."""

    n_rows: int
    candidates: Array
    wrong: Array


class NotebookView:
    """Mixin in front of `BaseEstimator`; `sklearn.set_config(display="text")` switches it off."""

    @property
    def _repr_html_(self) -> Any:
        # scikit-learn raises AttributeError here if there is no HTML to show.
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + summary(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += summary(self)
        return bundle


def summary(model: Any) -> str:
    """HTML summary of the verdicts on the training rows; empty before `fit`."""
    found = _found(model)
    if found is None:
        return ""
    listed, wrong = int(found.candidates.sum()), int(found.wrong.sum())
    share = f"{wrong / listed:.1%}" if listed else "none"
    lines = [
        f"<b>{found.n_rows:,}</b> rows, <b>{len(found.wrong):,}</b> labels, "
        f"<b>{listed:,}</b> candidates; <b>{wrong:,}</b> of them ({share}) were judged wrong."
    ]
    if wrong:
        lines.append(_worst(found, model.label_names_))
    return f'<div class="schirn-summary" style="{_STYLE}">{"".join(lines)}</div>'


def _found(model: Any) -> Found | None:
    """Verdicts that the model keeps about its training rows; None if it keeps none."""
    noise, confidence = (getattr(model, name, None) for name in ("noise_", "label_confidence_"))
    if noise is None or confidence is None:
        return None
    noise, confidence = (m if sp.issparse(m) else to_numpy(m) for m in (noise, confidence))
    # A candidate is a cell that was judged wrong, or that may be true.
    listed = (noise != 0) + (confidence > 0)
    return Found(noise.shape[0], _column_sums(listed), _column_sums(noise != 0))


def _column_sums(matrix: Any) -> Array:
    return np.asarray(matrix.sum(axis=0)).ravel().astype(int)


def _worst(found: Found, names: Any) -> str:
    """A small table of the labels with the most wrong candidates."""
    most = np.argsort(-found.wrong, kind="stable")[:_MOST]
    rows = []
    for k in most[found.wrong[most] > 0]:
        share = found.wrong[k] / found.candidates[k]
        bar = f'<span style="{_BAR};width:{share * 6:.2f}em"></span>'
        cells = (escape(str(names[k])), f"{found.wrong[k]:,} of {found.candidates[k]:,}", bar)
        row = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in (*cells, f"{share:.0%}"))
        rows.append(f'<tr style="background:none">{row}</tr>')
    head = "".join(
        f'<th style="{_CELL};font-weight:600">{title}</th>'
        for title in ("most often wrong", "candidates", "share", "")
    )
    return (
        f'<table style="{_TABLE}">'
        f'<thead><tr style="background:none">{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
