"""Data cards: sizes, noise and ranks of a data set at a glance."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from schirn.datasets import Dataset
from schirn.exceptions import InputError
from schirn.lab.rank.exact import RankReport, rank_report

# A dense remainder of this size has some 8,000 labels and takes a minute or two.
MAX_RANK_BYTES = 2**29


@dataclass(frozen=True)
class DataCard:
    """Facts about a data set; None for a fact that cannot be determined from it.

    Attributes
    ----------
    name : str
    n_samples, n_features, n_labels : int
    sparse : bool
        Whether X is sparse.
    feature_density : float or None
        Share of non-zero features.
    true_cardinality, candidate_cardinality : float or None
        Mean number of labels per row.
    label_density : float or None
        Cardinality of the true labels (else of the candidates) divided by the number of labels.
    noise_rate : float or None
        Share of the candidates that are wrong.
    noisy_per_row : float or None
        Mean number of wrong candidates per row.
    missed_truth : int or None
        Number of true labels that are not candidates.
    rows_without_truth, rows_without_candidates : int or None
    empty_labels, full_labels : int or None
        Number of labels of no row or of every row (true labels, else candidates).
    rank_true, rank_candidates : int or None
        Exact ranks of the two label matrices (see `schirn.lab.rank`).
    rank_certainty : str
        "proven", or a bound on the probability that a modular rank is too low.
    rank_note : str
        Why a rank is missing.
    ratio : float or None
        Smallest column sum of the candidates divided by n × l.
    rows_dropped : int
        Number of rows of the source that were left out.
    description : str
        What the source says about itself.
    """

    name: str
    n_samples: int
    n_features: int
    n_labels: int
    sparse: bool
    feature_density: float | None
    true_cardinality: float | None
    candidate_cardinality: float | None
    label_density: float | None
    noise_rate: float | None
    noisy_per_row: float | None
    missed_truth: int | None
    rows_without_truth: int | None
    rows_without_candidates: int | None
    empty_labels: int | None
    full_labels: int | None
    rank_true: int | None
    rank_candidates: int | None
    rank_certainty: str
    rank_note: str
    ratio: float | None
    rows_dropped: int
    description: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a dictionary, ready for JSON."""
        return asdict(self)

    def to_text(self) -> str:
        """Return the facts that apply as lines of text."""
        lines = [self.name]
        for key, value in self.to_dict().items():
            if key in ("name", "description") or value is None or value == "":
                continue
            lines.append(f"  {key.replace('_', ' '):<24}{_show(key, value)}")
        lines += textwrap.wrap(self.description, 76, initial_indent="  ", subsequent_indent="  ")
        return "\n".join(lines)


def data_card(dataset: Dataset, *, max_rank_bytes: int = MAX_RANK_BYTES) -> DataCard:
    """Return the data card of a data set.

    Parameters
    ----------
    dataset : Dataset
    max_rank_bytes : int
        A rank that needs more memory is left out; `rank_note` gives the memory it needs. Structure
        matters more than size: hundreds of thousands of sparse labels need very little.

    Returns
    -------
    DataCard

    Examples
    --------
    >>> from schirn.lab.data import data_card
    >>> from schirn.datasets import load
    >>> card = data_card(load("digits_attributes"))
    >>> card.n_labels, card.noisy_per_row, card.rank_true
    (10, 2.0, 9)
    """
    truth, candidates = dataset.y_true, dataset.candidates
    main = truth if truth is not None else candidates
    per_label = None if main is None else _sum(main, 0)
    rank_true, note_true = _rank(truth, "truth", max_rank_bytes)
    rank_candidates, note_candidates = _rank(candidates, "candidates", max_rank_bytes)
    reports = [("truth", rank_true), ("candidates", rank_candidates)]
    wrong, missed = _disagreement(truth, candidates)
    density = None if main is None else _cardinality(main) / max(1, dataset.n_labels)
    return DataCard(
        name=dataset.name,
        n_samples=dataset.n_samples,
        n_features=dataset.n_features,
        n_labels=dataset.n_labels,
        sparse=bool(sparse.issparse(dataset.X)),
        feature_density=_feature_density(dataset.X),
        true_cardinality=None if truth is None else _cardinality(truth),
        candidate_cardinality=None if candidates is None else _cardinality(candidates),
        label_density=density,
        noise_rate=None if wrong is None else wrong / max(1, int(_sum(candidates, 0).sum())),
        noisy_per_row=None if wrong is None else wrong / max(1, dataset.n_samples),
        missed_truth=missed,
        rows_without_truth=None if truth is None else int((_sum(truth, 1) == 0).sum()),
        rows_without_candidates=(
            None if candidates is None else int((_sum(candidates, 1) == 0).sum())
        ),
        empty_labels=None if per_label is None else int((per_label == 0).sum()),
        full_labels=None if per_label is None else int((per_label == dataset.n_samples).sum()),
        rank_true=None if rank_true is None else rank_true.rank,
        rank_candidates=None if rank_candidates is None else rank_candidates.rank,
        rank_certainty=_certainty(reports),
        rank_note="; ".join(note for note in (note_true, note_candidates) if note),
        ratio=_ratio(candidates),
        rows_dropped=dataset.n_dropped,
        description=dataset.description,
    )


def _rank(labels: Any, what: str, max_bytes: int) -> tuple[RankReport | None, str]:
    """Return the rank, or None and the reason why it was not computed."""
    if labels is None:
        return None, ""
    try:
        return rank_report(labels, max_bytes=max_bytes), ""
    except InputError as error:
        return None, f"{what}: {error}"


def _certainty(reports: list[tuple[str, RankReport | None]]) -> str:
    """Return "proven", or how likely the ranks are too low."""
    known = [(what, report) for what, report in reports if report is not None]
    doubts = [
        f"{what}: modulo {len(report.primes)} primes, too low with a probability below "
        f"{report.risk:.0e}"
        for what, report in known
        if not report.proven
    ]
    return "; ".join(doubts) or ("proven" if known else "")


def _sum(labels: Any, axis: int) -> np.ndarray:
    """Return column (axis 0) or row (axis 1) sums as a flat int array."""
    return np.asarray(labels.sum(axis=axis)).ravel().astype(np.int64)


def _cardinality(labels: Any) -> float:
    """Return the mean number of labels per row."""
    return float(_sum(labels, 0).sum() / max(1, labels.shape[0]))


def _disagreement(truth: Any, candidates: Any) -> tuple[int | None, int | None]:
    """Return the number of wrong candidates and of true labels that are not candidates."""
    if truth is None or candidates is None:
        return None, None
    common = sparse.csr_array(truth).multiply(sparse.csr_array(candidates)).sum()
    wrong = int(_sum(candidates, 0).sum()) - int(common)
    return wrong, int(_sum(truth, 0).sum()) - int(common)


def _feature_density(X: Any) -> float | None:
    """Return the share of non-zero features, or None without features."""
    cells = X.shape[0] * X.shape[1]
    if not cells:
        return None
    return float((X.count_nonzero() if sparse.issparse(X) else np.count_nonzero(X)) / cells)


def _ratio(candidates: Any) -> float | None:
    """Return the smallest candidate column sum divided by the number of cells."""
    if candidates is None or not candidates.shape[0] * candidates.shape[1]:
        return None
    return float(_sum(candidates, 0).min() / (candidates.shape[0] * candidates.shape[1]))


def _show(key: str, value: Any) -> str:
    """Format one value: shares in percent, means with three digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key in ("ratio", "noise_rate", "feature_density", "label_density"):
        return f"{100 * value:.3f} %"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
