"""Emotions in short texts, tagged by several people (BRIGHTER, SemEval-2025 task 11).

The files are read at fixed commits of the task's repository. The checksum covers what is read from
a file: the texts, who tagged them, and with which emotions.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from typing import NamedTuple

import numpy as np

from schirn.exceptions import DataError

_REPOSITORY = "https://raw.githubusercontent.com/emotion-analysis-project/SemEval2025-Task11"

# Annotators whose tags are the candidates: some texts have only three annotators.
WORKERS = 2


class _File(NamedTuple):
    """Commit and language of a file, and the SHA-256 checksum of its content."""

    commit: str
    language: str
    sha256: str

    @property
    def url(self) -> str:
        folder = f"{_REPOSITORY}/{self.commit}/individual_labels/{self.language}"
        return f"{folder}/{self.language}_individuals.csv"


BRIGHTER_SETS = {
    "brighter_ron": _File(
        "b2db023cfa4ed2b9966f2639c757a8a65bfa05ac",
        "ron",
        "dad1f6b4c25538f5307498027b12e0759a28fb0b9f7c0e49d274e3a09d844dd0",
    ),
    "brighter_ukr": _File(
        "87646fb7cff47870779110f16f48ebf2a5b3d1ff",
        "ukr",
        "830d06d853d68c80de4dbccce5501b215808aab6676d692788aa57884e9bc938",
    ),
}


def brighter_archive(name: str, content: bytes) -> bytes:
    """Return a file of the repository as an npz archive of votes.

    A line of the file holds a text, an emotion and the intensity that each annotator gave it; an
    intensity above 0 is a vote, and an empty cell means that the annotator did not see the text.
    """
    try:
        arrays = _votes(content.decode("utf-8-sig"))
    except (ValueError, LookupError, csv.Error) as error:
        raise DataError(f"{name}: not a file of individual labels ({error}).") from error
    lists = {key: array.tolist() for key, array in arrays.items()}
    sha256 = hashlib.sha256(json.dumps(lists, sort_keys=True).encode()).hexdigest()
    if sha256 != BRIGHTER_SETS[name].sha256:
        raise DataError(
            f"{name}: the content has the SHA-256 checksum {sha256}, expected "
            f"{BRIGHTER_SETS[name].sha256}; nothing was kept."
        )
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _votes(text: str) -> dict[str, np.ndarray]:
    """Texts, labels, and the numbers of (text, annotator) asked and (text, annotator, label)."""
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    annotators = [name for name in lines[0] if name not in ("text_id", "text", "emotion")]
    texts = {text: k for k, text in enumerate(dict.fromkeys(l["text"].strip() for l in lines))}
    labels = sorted({line["emotion"].lower() for line in lines})
    questions = set()
    votes = set()
    for line in lines:
        row = texts[line["text"].strip()]
        for worker, annotator in enumerate(annotators):
            if line[annotator]:
                questions.add((row, worker))
                if float(line[annotator]) > 0:
                    votes.add((row, worker, labels.index(line["emotion"].lower())))
    return {
        "texts": np.array(list(texts)),
        "label_names": np.array(labels),
        "asked": np.array(sorted(questions), dtype=np.int32),
        "votes": np.array(sorted(votes), dtype=np.int32),
    }
