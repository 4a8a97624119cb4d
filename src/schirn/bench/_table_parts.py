"""Cells and notes that several tables share."""

import math
from collections.abc import Iterable, Sequence

from schirn.bench._grid import (
    MEASURES,
    ORACLE_MARK,
    Contender,
    Grid,
    Row,
    default_reference,
    grid,
    value_of,
)
from schirn.bench._render import Cell
from schirn.metrics import METRICS

AUTO = "auto"
MISSING = "–"


def measured(rows: Iterable[Row]) -> list[str]:
    """The measures of which at least one row has a value, in the order of the tables."""
    rows = list(rows)
    return [name for name in MEASURES if any(value_of(row, name) is not None for row in rows)]


def compared(rows: Iterable[Row]) -> list[str]:
    """The measures that ranks and tests compare: the five of the papers, where there are any.

    How well noise is found is shown but not counted: precision and recall trade off.
    """
    found = measured(rows)
    return [name for name in found if name in METRICS] or found


def reference_of(rows: Sequence[Row], cells: Grid, reference: str | None) -> Contender | None:
    """The contender others are tested against."""
    name = default_reference(rows) if reference == AUTO else reference
    return None if name is None else cells.find(name)


def mark_notes(rows: Sequence[Row], *, ceiling: bool = True) -> list[str]:
    """Notes on what saw true labels, for the rows that did."""
    contenders = grid(rows, next(iter(MEASURES))).contenders
    notes = []
    if any(c.oracle for c in contenders):
        notes.append(
            f"{ORACLE_MARK} oracle-tuned: parameters chosen on the true labels of the test rows."
        )
    if ceiling and (seen := [c.label for c in contenders if c.ceiling]):
        text = " and ".join(seen)
        notes.append(f"{text}: trained on the true labels; a reference, no contender.")
    return notes


def note_on_test(alpha: float, test: str) -> str:
    """Which test over folds was used."""
    name = "paired t-test" if test == "paired" else "corrected resampled t-test"
    return f"{capital(name)} over the folds of each setting at level {alpha:g}."


def number(value: float, form: str, *, note: str = "") -> Cell:
    """A number, or the dash with its reason."""
    return Cell(MISSING, note=note) if math.isnan(value) else Cell(form.format(value), value)


def signed(share: float) -> str:
    """A difference in points with its sign; what rounds to nothing has none."""
    text = f"{abs(100 * share):.1f}"
    return text if text == "0.0" else ("+" if share > 0 else "−") + text


def capital(text: str) -> str:
    """Text with a capital first letter."""
    return text[:1].upper() + text[1:]
