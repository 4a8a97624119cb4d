"""The report on cleaned tags: one object, as a page, as Markdown, as JSON."""

import json
import tempfile
import webbrowser
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schirn._optional import optional
from schirn.report._clean_parts import Card, Confusion, Histogram, cards, confusions, histogram

if TYPE_CHECKING:
    from schirn.cleaning.found import NoisyLabels

Array = np.ndarray

MOST_CARDS = 240
MOST_LABELS = 100
MOST_CONFUSIONS = 12


class CleanReport:
    """What was removed, how sure that is, and the tags to look at first.

    Parameters
    ----------
    found : what `find_noisy_labels` returned
    texts : the text of each row
    images : (n, height, width) grey values, or one path of an image file (or None) per row
    ids : names of the rows; by default they are counted from 1
    title : name of the data

    Examples
    --------
    >>> from schirn import CandidateRidge, find_noisy_labels
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=100, n_labels=4, r=1, random_state=0)
    >>> found = find_noisy_labels(data.X, data.candidates, method=CandidateRidge())
    >>> report = found.report(title="synthetic")
    >>> report.markdown().splitlines()[0]
    '# Tags of synthetic'
    """

    def __init__(
        self,
        found: "NoisyLabels",
        *,
        texts: Sequence[Any] | None = None,
        images: Any = None,
        ids: Sequence[Any] | None = None,
        title: str = "",
    ) -> None:
        self.found, self.title = found, title
        self.texts, self.images, self.ids = texts, images, ids

    def __repr__(self) -> str:
        return f"CleanReport({self.found!r})"

    def html(self) -> str:
        """One page that needs no network."""
        jinja2 = optional("jinja2", "cli", "Writing the report")
        source = files("schirn.report").joinpath("templates/clean.html").read_text(encoding="utf-8")
        environment = jinja2.Environment(
            autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        labels = self.found.labels()
        return str(
            environment.from_string(source).render(
                title=self.title,
                whole=self.found.summary(),
                labels=labels[:MOST_LABELS],
                n_labels=len(labels),
                confusions=self.confusions(),
                histogram=self.histogram(),
                cards=self.cards(),
            )
        )

    def markdown(self) -> str:
        """The figures as Markdown."""
        whole, rate = self.found.summary(), self.found.noise_rate
        lines = [
            f"# Tags of {_plain(self.title) or 'a table'}",
            "",
            f"{whole['removed']:,} of {whole['tags']:,} tags were removed from "
            f"{whole['rows_changed']:,} of {whole['rows']:,} rows "
            f"({whole['method']}, threshold {whole['threshold']:g}).",
            "" if np.isnan(rate) else f"About {rate:.1%} of the judged tags are wrong.",
            "",
            "| tag | listed | removed | about wrong |",
            "|---|--:|--:|--:|",
        ]
        for label in self.found.labels()[:MOST_LABELS]:
            share = f"{label.noise_rate:.1%}" if label.judged else "not judged"
            lines.append(
                f"| {_plain(label.name)} | {label.candidates:,} | {label.removed:,} | {share} |"
            )
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """Summary, labels, confusions and histogram as one JSON document."""
        document = {
            "title": self.title,
            "summary": self.found.summary(),
            "labels": [
                {**vars(label), "noise_rate": label.noise_rate if label.judged else None}
                for label in self.found.labels()
            ],
            "confusions": [pair._asdict() for pair in self.confusions()],
            "histogram": [bar.n_tags for bar in self.histogram().bars],
        }
        return json.dumps(document, ensure_ascii=False, allow_nan=False)

    def open(self) -> Path:
        """Write the page to a temporary file and show it in the browser."""
        with tempfile.NamedTemporaryFile(suffix=".html", delete=False) as stream:
            stream.write(self.html().encode("utf-8", "replace"))
        webbrowser.open(Path(stream.name).as_uri())
        return Path(stream.name)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style stays inside."""
        from html import escape

        page = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:40rem;border:0"></iframe>'

    def cards(self) -> list[Card]:
        """The tags to look at: the surest removals and the closest calls."""
        return cards(self.found, MOST_CARDS, texts=self.texts, images=self.images, ids=self.ids)

    def confusions(self) -> list[Confusion]:
        """Which kept tag stands beside which removed one more often than by chance."""
        return confusions(self.found, MOST_CONFUSIONS)

    def histogram(self) -> Histogram:
        """How sure the verdicts are."""
        return histogram(self.found)


def _plain(text: str) -> str:
    """Text that stays inside a Markdown cell and starts no HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
