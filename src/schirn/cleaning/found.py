"""What `find_noisy_labels` found: one verdict per row and tag, and summaries."""

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schirn._files import atomic_write, spreadsheet_safe
from schirn._optional import optional

Array = np.ndarray

_WORST = 5
# A verdict whose confidence is this near the threshold is a close call.
CLOSE = 0.3


@dataclass(frozen=True)
class LabelSummary:
    """One label: how often it is listed, removed, and about how often it is wrong."""

    name: str
    candidates: int
    judged: int
    removed: int
    noise_rate: float
    """Mean probability that the judged tags are wrong; nan where none was judged."""
    worst: list[int]
    """Rows where the label is least likely right."""


@dataclass(frozen=True, eq=False, repr=False)
class NoisyLabels:
    """Verdicts on all tags, as parallel arrays sorted by row.

    Attributes
    ----------
    row, column : indices of the tags
    confidence : probability that the tag is right
    removed, judged : truth values; a tag that is too rare to be judged is kept
    label, verdict : names; a verdict is "kept", "removed" or "unjudged"
    n_rows, label_names, threshold, method
    """

    n_rows: int
    label_names: list[str]
    row: Array
    column: Array
    confidence: Array
    removed: Array
    judged: Array
    threshold: float
    method: str

    def __repr__(self) -> str:
        return (
            f"NoisyLabels({self.n_rows} rows, {len(self.label_names)} labels, "
            f"{len(self.row)} tags, {int(self.removed.sum())} removed)"
        )

    def _repr_html_(self) -> str:
        return str(self.report()._repr_html_())

    @property
    def label(self) -> Array:
        """Name of the label of each tag."""
        return np.array(self.label_names, dtype=object)[self.column]

    @property
    def verdict(self) -> Array:
        """Kept, removed or unjudged."""
        names = np.where(self.removed, "removed", np.where(self.judged, "kept", "unjudged"))
        return names.astype(object)

    @property
    def _distance(self) -> Array:
        return np.abs(self.confidence - self.threshold)

    @property
    def noise_rate(self) -> float:
        """Estimated share of wrong tags among those that were judged."""
        return float(np.mean(1 - self.confidence[self.judged])) if self.judged.any() else np.nan

    def matrix(self, values: Any = None) -> Array:
        """Values of the tags as an (n, l) array, 0 elsewhere; by default the confidences."""
        values = self.confidence if values is None else np.asarray(values)
        out = np.zeros((self.n_rows, len(self.label_names)), dtype=values.dtype)
        out[self.row, self.column] = values
        return out

    @property
    def clean(self) -> Array:
        """The tags that were not removed, (n, l) 0/1."""
        return self.matrix((~self.removed).astype(np.uint8))

    def clean_lists(self) -> list[list[str]]:
        """The names of the tags that were not removed, one list per row."""
        lists: list[list[str]] = [[] for _ in range(self.n_rows)]
        for k in np.flatnonzero(~self.removed).tolist():
            lists[self.row[k]].append(self.label_names[self.column[k]])
        return lists

    def labels(self) -> list[LabelSummary]:
        """One summary per label, the label with the most removed tags first."""
        order = np.lexsort((self.confidence, self.column))
        ends = np.searchsorted(self.column[order], np.arange(len(self.label_names) + 1))
        found = [
            self._summary_of(j, order[ends[j] : ends[j + 1]]) for j in range(len(self.label_names))
        ]
        return sorted(found, key=lambda label: (-label.removed, -label.candidates, label.name))

    def _summary_of(self, column: int, places: Array) -> LabelSummary:
        """Summary of one label from the places of its tags, the least likely first."""
        judged = places[self.judged[places]]
        return LabelSummary(
            name=self.label_names[column],
            candidates=len(places),
            judged=len(judged),
            removed=int(self.removed[places].sum()),
            noise_rate=float(np.mean(1 - self.confidence[judged])) if len(judged) else np.nan,
            worst=self.row[judged[:_WORST]].tolist(),
        )

    def summary(self) -> dict[str, Any]:
        """The whole data set in numbers."""
        n_tags, removed = len(self.row), int(self.removed.sum())
        return {
            "rows": self.n_rows,
            "labels": len(self.label_names),
            "tags": n_tags,
            "removed": removed,
            "removed_share": removed / max(1, n_tags),
            "unjudged": int((~self.judged).sum()),
            "close_calls": int((self.judged & (self._distance < CLOSE)).sum()),
            "estimated_noise_rate": None if not self.judged.any() else self.noise_rate,
            "rows_changed": len(np.unique(self.row[self.removed])),
            "rows_without_tags": self.n_rows - len(np.unique(self.row)),
            "rows_left_without_tags": len(np.unique(self.row))
            - len(np.unique(self.row[~self.removed])),
            "threshold": self.threshold,
            "method": self.method,
        }

    def to_pandas(self) -> Any:
        """A tidy table with the columns row, label, confidence, verdict."""
        pandas = optional("pandas", "table", "Making a table")
        return pandas.DataFrame(
            {
                "row": self.row,
                "label": self.label,
                "confidence": self.confidence,
                "verdict": self.verdict,
            }
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """One dictionary per tag."""
        columns = (self.row, self.label, self.confidence, self.verdict)
        for row, label, confidence, verdict in zip(*(c.tolist() for c in columns), strict=True):
            yield {"row": row, "label": label, "confidence": confidence, "verdict": verdict}

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the tidy table; a label that a spreadsheet would run gets an apostrophe."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(("row", "label", "confidence", "verdict"))
        for record in self.records():
            label, confidence = spreadsheet_safe(record["label"]), f"{record['confidence']:.6g}"
            writer.writerow((record["row"], label, confidence, record["verdict"]))
        with atomic_write(path) as stream:
            stream.write(buffer.getvalue().encode())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Summary, labels and all verdicts as one JSON document; also written to `path`."""
        labels = [
            {**vars(label), "noise_rate": label.noise_rate if label.judged else None}
            for label in self.labels()
        ]
        document = {"summary": self.summary(), "labels": labels, "tags": list(self.records())}
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        if path is not None:
            with atomic_write(path) as stream:
                stream.write(text.encode())
        return text

    def report(
        self,
        *,
        texts: Sequence[Any] | None = None,
        images: Any = None,
        ids: Sequence[Any] | None = None,
        title: str = "",
    ) -> Any:
        """A page to look at, with the text or image of each row (see `schirn.report`)."""
        from schirn.report.clean import CleanReport

        return CleanReport(self, texts=texts, images=images, ids=ids, title=title)
