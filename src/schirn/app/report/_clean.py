"""The report on cleaned tags: one HTML page."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schirn._files import shortened
from schirn.app.report._trade_off import TradeOffPlot
from schirn.program.output import percent
from schirn.program.page import image_type, png_uri, render

if TYPE_CHECKING:
    from schirn.app.tables import Finding
    from schirn.cleaning.noisy_labels import NoisyLabels
    from schirn.cleaning.why import Neighbour, Reasons


MAX_CARDS = 20
MAX_SUGGESTIONS = 10
MAX_LABELS = 100
_MAX_TEXT = 400
_MAX_TAGS = 30
_MAX_NEIGHBOURS = 3
_MAX_NEIGHBOUR_TEXT = 90
_MAX_WORDS = 6
# Smaller contributions would be displayed as zero.
_LEAST_SHOWN = 0.0005
_MAX_IMAGE_BYTES = 300_000


# A tag and its row, for the template.
Card = dict[str, Any]


class CleanReport:
    """Report on the most suspicious, missing and removed tags.

    Parameters
    ----------
    ranking : NoisyLabels
        Result of `find_noisy_labels`.
    texts : sequence of str, optional
        Text of each row.
    images : (n, height, width) array or sequence of paths, optional
        Grey values, or one image file (or None) per row.
    ids : sequence, optional
        Names of the rows; by default they are numbered from 1.
    title : str
        Name of the data.
    findings : list of Finding
        Findings of `look_at_table`.
    reasons : Reasons, optional
        Explanations of the verdicts.
    commands : sequence of str
        Recommended next commands.

    Examples
    --------
    >>> from schirn import CandidateRidge, find_noisy_labels
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=100, n_labels=4, r=1, random_state=0)
    >>> ranking = find_noisy_labels(data.X, data.candidates, method=CandidateRidge())
    >>> report = ranking.report(title="synthetic")
    >>> report.html().splitlines()[0]
    '<!DOCTYPE html>'
    """

    def __init__(
        self,
        ranking: "NoisyLabels",
        *,
        texts: Sequence[Any] | None = None,
        images: Any = None,
        ids: Sequence[Any] | None = None,
        title: str = "",
        findings: "Sequence[Finding]" = (),
        reasons: "Reasons | None" = None,
        commands: Sequence[str] = ("schirn review TABLE --labels COLUMN --text COLUMN",),
    ) -> None:
        self.ranking = ranking
        self.title = title
        self.reasons = reasons
        self.commands = list(commands)
        self.findings = list(findings)
        self.texts = texts
        self.images = images
        self.ids = ids

    def __repr__(self) -> str:
        return f"CleanReport({self.ranking!r})"

    def html(self) -> str:
        """Return the report as a self-contained HTML page.

        Returns
        -------
        str
        """
        whole = self.ranking.summary()
        is_ruled = whole["removed_by_rule"] > 0
        labels = self.ranking.labels()
        cards = self.cards()
        suggestions = self.suggestions()
        if self.reasons is not None:
            cards = self._explained(cards)
            suggestions = self._explained(suggestions)
        return render(
            "schirn.app.report",
            "clean.html",
            title=self.title,
            whole=whole,
            is_checked=self.ranking.is_checked,
            by_rule=f", {whole['removed_by_rule']:,} of them by a rule" if is_ruled else "",
            removed_share=percent(whole["removed_share"]),
            findings=self.findings,
            sentence=self.ranking.sentence,
            idle=self.ranking.trade_off_sentence,
            missing_sentence=self.ranking.missing.sentence,
            voices=[voice.sentence for voice in self.ranking.voices()],
            labels=labels[:MAX_LABELS],
            n_labels=len(labels),
            swaps=self.swaps(),
            explained=self.reasons is not None,
            named=any(card["why"] and card["why"]["words"] for card in cards + suggestions),
            cards=cards,
            suggestions=suggestions,
            commands=self.commands,
            trade_off=TradeOffPlot.of(self.ranking),
        )

    def _repr_html_(self) -> str:
        # In a frame, so that the page's style does not affect the notebook.
        page = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:40rem;border:0"></iframe>'

    def cards(self) -> list[Card]:
        """Return the most suspicious tags without an answer, the most suspicious first.

        Returns
        -------
        list of dict
        """
        ranking = self.ranking
        suspects = ranking.worklist.order[:MAX_CARDS]
        return [self._card(ranking, k, removed=bool(ranking.removed[k])) for k in suspects]

    def suggestions(self) -> list[Card]:
        """Return the tags that are most likely to be missing, the likeliest first.

        Returns
        -------
        list of dict
        """
        missing = self.ranking.missing.above()
        order = np.argsort(-missing.confidence, kind="stable")[:MAX_SUGGESTIONS]
        return [self._card(missing, k, suggested=True) for k in order]

    def swaps(self) -> list[dict[str, Any]]:
        """Return the most certain swaps of two labels, with the id and text of an example.

        Returns
        -------
        list of dict
        """
        return [
            {**swap._asdict(), "id": self._id(swap.row), "text": self._text(swap.row, _MAX_TEXT)}
            for swap in self.ranking.swaps().by_labels()[:MAX_SUGGESTIONS]
        ]

    def _explained(self, cards: list[Card]) -> list[Card]:
        """Return the cards with the reasons for their verdicts."""
        reasons: Any = self.reasons
        whys = (
            {
                "explanation": why,
                "words": [w for w in why.words[:_MAX_WORDS] if abs(w.contribution) >= _LEAST_SHOWN],
                "with_tag": self._similar(why.with_tag),
                "without_tag": self._similar(why.without_tag),
            }
            for why in reasons.explain_all((card["row"], card["label"]) for card in cards)
        )
        return [{**card, "why": why} for card, why in zip(cards, whys, strict=True)]

    def _similar(self, neighbours: "list[Neighbour]") -> list[dict[str, Any]]:
        return [
            {
                "id": self._id(n.row),
                "similarity": n.similarity,
                "text": self._text(n.row, _MAX_NEIGHBOUR_TEXT) or self._tags(n.row),
            }
            for n in neighbours[:_MAX_NEIGHBOURS]
        ]

    def _id(self, row: int) -> str:
        return str(row + 1 if self.ids is None else self.ids[row])

    def _text(self, row: int, size: int) -> str:
        return shortened("" if self.texts is None else str(self.texts[row]), size)

    def _tags(self, row: int) -> str:
        """Return the tags that a row keeps, as one string."""
        ranking = self.ranking
        start, end = np.searchsorted(ranking.row, (row, row + 1)).tolist()
        columns = ranking.column[start:end][~ranking.removed[start:end]]
        return shortened(", ".join(ranking.label_names[j] for j in columns), _MAX_NEIGHBOUR_TEXT)

    def _card(self, tags: Any, k: int, *, removed: bool = False, suggested: bool = False) -> Card:
        ranking = self.ranking
        row = int(tags.row[k])
        column = int(tags.column[k])
        of_row = range(*np.searchsorted(ranking.row, (row, row + 1)).tolist())
        # In a row with very many tags, the tag in question must be among the visible ones.
        visible = sorted(sorted(of_row, key=lambda j: ranking.column[j] != column)[:_MAX_TAGS])
        names = [ranking.label_names[ranking.column[j]] for j in visible]
        flags = ranking.removed[visible].tolist()
        return {
            "row": row,
            "id": self._id(row),
            "label": ranking.label_names[column],
            "confidence": float(tags.confidence[k]),
            "removed": removed,
            "text": self._text(row, _MAX_TEXT),
            "image": "" if self.images is None else _image(self.images[row]),
            "tags": [{"name": n, "removed": r} for n, r in zip(names, flags, strict=True)],
            "n_more": len(of_row) - len(visible),
            "suggested": suggested,
            "why": None,
        }


def _image(image: Any) -> str:
    """Return grey values or a small image file as a data URI, "" if that is impossible."""
    if image is None:
        return ""
    if isinstance(image, np.ndarray):
        return png_uri(image / max(float(image.max(initial=0)), 1e-12)) if image.ndim == 2 else ""
    path = Path(image)
    try:
        if not path.is_file() or path.stat().st_size > _MAX_IMAGE_BYTES:
            return ""
        raw = path.read_bytes()
    except OSError:
        return ""
    kind = image_type(raw)
    return "" if kind is None else f"data:{kind};base64,{base64.b64encode(raw).decode()}"
