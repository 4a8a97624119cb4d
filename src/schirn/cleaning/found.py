"""The result of `find_noisy_labels`: a verdict on every tag, and summaries."""

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from schirn._files import atomic_write, csv_rows, spreadsheet_safe
from schirn._optional import optional
from schirn.cleaning.audit import Audit, AuditSample, Certificate, audit_sample, audited
from schirn.cleaning.ranker import Annotator
from schirn.cleaning.storage import Storage
from schirn.cleaning.threshold_curve import ThresholdCurve
from schirn.cleaning.trust import Trust
from schirn.cleaning.why import Reasons
from schirn.tables.changes import ChangeList, changes_of

if TYPE_CHECKING:
    from schirn.report import CleanReport
    from schirn.tables.checks import Finding

Array = np.ndarray

_MAX_WORST = 5
# A judged tag is a close call when its confidence is within this distance of the threshold.
CLOSE = 0.3


@dataclass(frozen=True)
class LabelSummary:
    """How often a label is listed and removed, and its estimated share of wrong tags.

    Attributes
    ----------
    name : str
    candidates, judged, removed : int
        Numbers of tags.
    noise_rate : float
        Mean probability that a judged tag is wrong; NaN if none was judged.
    worst : list of int
        Rows in which the label is least likely to be correct.
    """

    name: str
    candidates: int
    judged: int
    removed: int
    noise_rate: float
    worst: list[int]

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON; a share of NaN becomes None."""
        values = {**vars(self), "estimated_wrong_share": self.noise_rate if self.judged else None}
        del values["noise_rate"]
        return values


def _no_rows() -> Array:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MissingTags:
    """Tags that are probably correct although they are not listed, sorted by row.

    Attributes
    ----------
    row, column : (m,) int arrays
    confidence : (m,) float array
        Probability that the tag is correct.
    label_names : list of str
    label : (m,) object array
        Name of each tag.
    caught : float
        Share of the correct tags that would be suggested if they were not listed: a check of the
        suggestions as planted tags are one of the removals.
    accepted : (m,) bool array or None
        Tags that may be added, by an audit.
    audit : Audit or None
        What the answers of a person say, if the suggestions were audited.
    """

    row: Array = field(default_factory=_no_rows)
    column: Array = field(default_factory=_no_rows)
    confidence: Array = field(default_factory=lambda: np.zeros(0))
    label_names: list[str] = field(default_factory=list)
    caught: float = np.nan
    accepted: Array | None = None
    audit: Audit | None = None

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"MissingTags({len(self)} suggested)"

    @property
    def certificate(self) -> Certificate | None:
        """Lower bound on the share of correct tags among the accepted; None before an audit."""
        return None if self.audit is None else self.audit.certificate

    @property
    def label(self) -> Array:
        """Name of each suggested tag."""
        return np.array(self.label_names, dtype=object)[self.column]

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield one dictionary per suggested tag."""
        columns = (self.row, self.label, self.confidence)
        for row, label, confidence in zip(*(c.tolist() for c in columns), strict=True):
            yield {"row": row, "label": label, "confidence": confidence}


@dataclass(frozen=True, eq=False, repr=False)
class NoisyLabels:
    """Verdicts on all tags, as parallel arrays sorted by row.

    Attributes
    ----------
    n_rows : int
    label_names : list of str
    row, column : (m,) int arrays
        Row and label of each tag.
    confidence : (m,) float array
        Probability that the tag is correct.
    removed, judged : (m,) bool arrays
        A tag that is too rare to be judged is kept.
    label, verdict : (m,) object arrays
        Name of the label; "kept", "removed" or "unjudged".
    threshold : float
    method : str
        Name of the method that judged the tags.
    missing : MissingTags
        Tags that are probably correct although they are not listed; found by `Sieve` from one fit.
    wrong_share : float or None
        Share of wrong tags that `Sieve` claims, before `prior`.
    largest_wrong_share : float or None
        The largest share of wrong tags that the data allow.
    missing_rate : float or None
        Estimated share of the correct tags that are not listed; 0 unless it is clear.
    annotators : list of Annotator or None
        Quality of every annotator, if `Votes` were given.
    trust : Trust or None
        How far the removals can be trusted, by planted wrong tags.
    held_back : int
        Number of tags below the threshold that are kept because their removal cannot be trusted.
    max_remove_per_row : int or None
    keep_one : bool
        Limits to what a row may lose; an audit keeps them.
    audit : Audit or None
        What the answers of a person say, if the verdicts were `audited`.
    threshold_curve : ThresholdCurve or None
        Expected precision and recall of the removals against the threshold, with bands.
    storage : Storage or None
        Where the features and what was computed from them were stored, and why.
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
    missing: MissingTags = field(default_factory=MissingTags)
    wrong_share: float | None = None
    largest_wrong_share: float | None = None
    missing_rate: float | None = None
    annotators: list[Annotator] | None = None
    trust: Trust | None = None
    held_back: int = 0
    max_remove_per_row: int | None = None
    keep_one: bool = False
    audit: Audit | None = None
    threshold_curve: ThresholdCurve | None = None
    storage: Storage | None = None

    def __repr__(self) -> str:
        return (
            f"NoisyLabels({self.n_rows} rows, {len(self.label_names)} labels, "
            f"{len(self.row)} tags, {int(self.removed.sum())} removed)"
        )

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    @property
    def road(self) -> Storage | None:
        """Deprecated name of `storage`."""
        warnings.warn("road is now called storage", DeprecationWarning, stacklevel=2)
        return self.storage

    @property
    def label(self) -> Array:
        """Label name of each tag."""
        return np.array(self.label_names, dtype=object)[self.column]

    @property
    def verdict(self) -> Array:
        """Verdict on each tag: "kept", "removed" or "unjudged"."""
        names = np.where(self.removed, "removed", np.where(self.judged, "kept", "unjudged"))
        return names.astype(object)

    @property
    def noise_rate(self) -> float:
        """Estimated share of wrong tags among those that were judged."""
        return float(np.mean(1 - self.confidence[self.judged])) if self.judged.any() else np.nan

    def matrix(self, values: Any = None) -> Array:
        """Return one value per tag as an (n, l) array that is 0 elsewhere.

        The values are the confidences by default.
        """
        values = self.confidence if values is None else np.asarray(values)
        out = np.zeros((self.n_rows, len(self.label_names)), dtype=values.dtype)
        out[self.row, self.column] = values
        return out

    @property
    def clean(self) -> Array:
        """Tags that were not removed, as an (n, l) 0/1 array."""
        return self.matrix((~self.removed).astype(np.uint8))

    @property
    def clean_sparse(self) -> sp.csr_array:
        """Tags that were not removed, as an (n, l) 0/1 CSR array: for very many labels."""
        row, column = self.row[~self.removed], self.column[~self.removed]
        ones, shape = np.ones(len(row), dtype=np.uint8), (self.n_rows, len(self.label_names))
        return sp.csr_array((ones, (row, column)), shape=shape)

    def clean_lists(self) -> list[list[str]]:
        """Return the names of the tags that were not removed, one list per row."""
        lists: list[list[str]] = [[] for _ in range(self.n_rows)]
        for k in np.flatnonzero(~self.removed).tolist():
            lists[self.row[k]].append(self.label_names[self.column[k]])
        return lists

    def suggestions(self, confidence: float = 0.0) -> MissingTags:
        """Return the missing tags with at least this confidence; none if `missing_rate` is 0.

        After an audit of the suggestions, those that it accepts are returned.

        Parameters
        ----------
        confidence : float, default=0
        """
        found = self.missing
        enough = found.confidence >= confidence
        if found.accepted is not None:
            enough = enough & found.accepted
        elif not self.missing_rate:
            enough = np.zeros(len(found), dtype=bool)
        return replace(
            found,
            row=found.row[enough],
            column=found.column[enough],
            confidence=found.confidence[enough],
            accepted=None if found.accepted is None else found.accepted[enough],
        )

    @property
    def missing_sentence(self) -> str:
        """How many tags are suggested and how far they can be trusted, in words."""
        suggested = self.suggestions()
        if self.missing.certificate is not None:
            return (
                f"{len(suggested):,} of {len(self.missing):,} suggested tags are accepted. "
                f"{self.missing.certificate}."
            )
        if self.missing_rate is None:
            return f"{self.method} did not look for missing tags, so none is suggested."
        if not self.missing_rate:
            return "Nothing shows that correct tags are missing, so none is suggested."
        rate = f"About {self.missing_rate:.1%} of the correct tags are not listed"
        if not len(suggested):
            return f"{rate}, but none is sure enough to be suggested."
        tags = "1 tag is" if len(suggested) == 1 else f"{len(suggested):,} tags are"
        expected = float(suggested.confidence.mean())
        text = f"{rate}. {tags} suggested, of which about {expected:.0%} should be right."
        if np.isnan(self.missing.caught):
            return text
        return f"{text} Of the tags that are missing, about {self.missing.caught:.0%} are found."

    def changes(
        self,
        cells: Iterable[Any] | None = None,
        *,
        add: float | None = None,
        column: str = "tags",
        separator: str = ";",
    ) -> ChangeList:
        """List every removal as a change that can be looked at, applied and undone.

        Parameters
        ----------
        cells : sequence, optional
            The column of tags that was judged, such as texts "beach;dog"; by default lists of the
            names in `label_names`.
        add : float, optional
            Also list the addition of missing tags with at least this confidence.
        column : str, default="tags"
            Name of the column.
        separator : str, default=";"
            Text between the tags of a cell.
        """
        return changes_of(self, cells, add=add, column=column, separator=separator)

    def labels(self) -> list[LabelSummary]:
        """Return one summary per label, the label with the most removed tags first."""
        # The tags of each label, least likely first.
        order = np.lexsort((self.confidence, self.column))
        ends = np.searchsorted(self.column[order], np.arange(len(self.label_names) + 1))
        summaries = []
        for j, name in enumerate(self.label_names):
            tags = order[ends[j] : ends[j + 1]]
            judged = tags[self.judged[tags]]
            rate = float(np.mean(1 - self.confidence[judged])) if len(judged) else np.nan
            worst = self.row[judged[:_MAX_WORST]].tolist()
            removed = int(self.removed[tags].sum())
            summaries.append(LabelSummary(name, len(tags), len(judged), removed, rate, worst))
        return sorted(summaries, key=lambda label: (-label.removed, -label.candidates, label.name))

    def summary(self) -> dict[str, Any]:
        """Return the figures of the whole table."""
        n_tags, removed = len(self.row), int(self.removed.sum())
        close = np.abs(self.confidence - self.threshold) < CLOSE
        suggested = self.suggestions()
        trust = None if self.trust is None else self.trust.to_dict()
        if trust is not None:
            del trust["labels"], trust["curve"]
        return {
            "rows": self.n_rows,
            "labels": len(self.label_names),
            "tags": n_tags,
            "removed": removed,
            "removed_share": removed / max(1, n_tags),
            "held_back": self.held_back,
            "trust": trust,
            "unjudged": int((~self.judged).sum()),
            "close_calls": int((self.judged & close).sum()),
            "estimated_wrong_share": None if not self.judged.any() else self.noise_rate,
            "claimed_wrong_share": self.wrong_share,
            "largest_wrong_share": self.largest_wrong_share,
            "missing_rate": self.missing_rate,
            "suggestions": len(suggested),
            "expected_right_suggestions": float(suggested.confidence.mean())
            if len(suggested)
            else None,
            "rows_changed": len(np.unique(self.row[self.removed])),
            "rows_without_tags": self.n_rows - len(np.unique(self.row)),
            "rows_left_without_tags": len(np.unique(self.row))
            - len(np.unique(self.row[~self.removed])),
            "threshold": self.threshold,
            "method": self.method,
        }

    def to_pandas(self) -> Any:
        """Return a DataFrame with the columns row, label, confidence and verdict."""
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
        """Yield one dictionary per tag."""
        columns = (self.row, self.label, self.confidence, self.verdict)
        for row, label, confidence, verdict in zip(*(c.tolist() for c in columns), strict=True):
            yield {"row": row, "label": label, "confidence": confidence, "verdict": verdict}

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write one line per tag.

        A label that a spreadsheet would run as a formula gets an apostrophe in front.
        """
        rows: list[Any] = [("row", "label", "confidence", "verdict")]
        for record in self.records():
            label, confidence = spreadsheet_safe(record["label"]), f"{record['confidence']:.6g}"
            rows.append((record["row"], label, confidence, record["verdict"]))
        with atomic_write(path) as stream:
            stream.writelines(line.encode() for line in csv_rows(rows))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return summary, labels, verdicts, suggestions, trust and audit as one JSON document.

        It is also written to `path`, if given.
        """
        document: dict[str, Any] = {
            "summary": self.summary(),
            "labels": [label.to_dict() for label in self.labels()],
            "tags": list(self.records()),
            "suggestions": list(self.suggestions().records()),
        }
        if self.trust is not None:
            document["trust"] = self.trust.to_dict()
        if self.audit is not None:
            document["audit"] = self.audit.to_dict()
        if self.threshold_curve is not None:
            document["threshold_curve"] = list(self.threshold_curve.records())
        if self.annotators is not None:
            document["annotators"] = [
                {**annotator._asdict(), "name": str(annotator.name)}
                for annotator in self.annotators
            ]
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        if path is not None:
            with atomic_write(path) as stream:
                stream.write(text.encode())
        return text

    def audit_sample(
        self, n: int = 50, *, of: str = "tags", random_state: int | None = 0
    ) -> AuditSample:
        """Draw tags at random for a person to check.

        Four in ten are drawn from all judged tags, for calibration; the others, for the
        certificate, from the tags that are removed, or would be if the verdicts could be trusted.
        Unless `trust` is "good", that is the less likely half of all tags at least.
        Tags with confidence 0 or 1 are known and not drawn.

        Parameters
        ----------
        n : int, default=50
            Number of tags. There are fewer if the table has fewer, or if fewer would be removed.
        of : {"tags", "missing"}, default="tags"
            "missing" draws from the suggestions in `missing` instead of the listed tags.
        random_state : int, default=0
        """
        return audit_sample(self, n, of=of, random_state=random_state)

    def audited(
        self,
        cells: AuditSample | None,
        right: Any,
        *,
        extra: tuple[Any, Any, Any] | None = None,
        votes: Any = None,
        precision: float | None = 0.9,
        confidence: float = 0.95,
        date: Any = None,
    ) -> "NoisyLabels":
        """Return verdicts that are calibrated on the answers of a person.

        The answers are the final verdicts on their own tags. The result has an `audit` and a
        `certificate`. If the cells are suggestions, only `missing` changes: it gets calibrated
        confidences, `accepted`, and an `audit` and `certificate` of its own.

        Parameters
        ----------
        cells : AuditSample or None
            What `audit_sample` returned.
        right : sequence of bool or None
            Whether each of these tags is correct. None or NaN, if a person cannot tell, leaves the
            tag out.
        extra : (rows, columns, right), optional
            Answers about other tags, such as the most doubtful ones. They improve the confidences,
            but do not count for the certificate, nor for the set that it is about.
        votes : Votes or (counts, voters), optional
            Used for calibration from 100 answers on, as are the frequency of the tag and the number
            of tags in the row.
        precision : float or None, default=0.9
            The wanted precision of the removals. Tags below the threshold are kept if their removal
            cannot be expected to reach it, by the calibrated confidences and by the planted tags.
            None removes every tag below the threshold.
        confidence : float, default=0.95
            Confidence of the certificate.
        date : str or datetime.date, optional
            Date of the certificate; today by default.
        """
        return audited(
            self,
            cells,
            right,
            extra=extra,
            votes=votes,
            precision=precision,
            confidence=confidence,
            date=date,
        )

    @property
    def certificate(self) -> Certificate | None:
        """Lower bound on the precision of the removals; None before an audit."""
        return None if self.audit is None else self.audit.certificate

    def reasons(
        self,
        X: Any,
        *,
        feature_names: Sequence[str] | None = None,
        scaled: bool | None = None,
    ) -> Reasons:
        """Return an object that explains single verdicts.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame of numbers, or sequence of n texts
            The features that the tags were judged by.
        feature_names : sequence of str, optional
            Names of the columns of X.
        scaled : bool, optional
            Whether the tags were judged by X as it is, as with ``Sieve(features="none")``; by
            default only texts and sparse rows of unit length are taken as they are.
        """
        return Reasons(X, self, feature_names=feature_names, scaled=scaled)

    def report(
        self,
        *,
        texts: Sequence[Any] | None = None,
        images: Any = None,
        ids: Sequence[Any] | None = None,
        title: str = "",
        findings: "Sequence[Finding]" = (),
        reasons: Reasons | None = None,
    ) -> "CleanReport":
        """Return a report to look at, with the text or image of each row.

        Parameters
        ----------
        texts : sequence of str, optional
            Text of each row.
        images : (n, height, width) array or sequence of paths, optional
            Grey values, or one image file (or None) per row.
        ids : sequence, optional
            Names of the rows; by default they are numbered from 1.
        title : str
            Name of the data.
        findings : list of Finding
            What `look_at_table` returned.
        reasons : Reasons, optional
            What `reasons` returned: every verdict shown can be opened to see why.
        """
        # Here, since most programs that import the library write no report.
        from schirn.report import CleanReport

        return CleanReport(
            self,
            texts=texts,
            images=images,
            ids=ids,
            title=title,
            findings=findings,
            reasons=reasons,
        )
