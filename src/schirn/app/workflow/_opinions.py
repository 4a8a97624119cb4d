"""Opinions of language models and other sources as files: prompts out, opinions in.

Nothing here calls a model: prompts are written to a file with one JSON object per line, and
opinions are read from another file. A *voice* is one source of opinions.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schirn._files import atomic_write
from schirn._input import is_missing
from schirn._text import header_delimiter
from schirn.app.tables import open_table
from schirn.cleaning import Questions, parse_opinion
from schirn.exceptions import InputError

ALLOWED = ("yes", "no", "unsure")
# Possible names of the columns of opinions and of voices; the first one in the table counts.
_OPINION = ("opinion", "answer", "response", "output", "right")
_WHO = ("who", "model", "annotator")


OpinionRecord = tuple[int, str, float, str]
"""Row from 0, tag, probability that the tag is correct, and voice."""


class OpinionFile(NamedTuple):
    """The opinions in a file.

    Attributes
    ----------
    records : list of (row, tag, opinion, who)
        Input of `NoisyLabels.with_opinions`.
    n_unreadable : int
        Number of lines whose opinion is neither yes, no nor a probability.
    n_unknown : int
        Number of lines about rows or tags that the table does not have.
    """

    records: list[OpinionRecord]
    n_unreadable: int
    n_unknown: int

    @property
    def sentence(self) -> str:
        """Sentence about the opinions that were read, and about ignored lines."""
        sentence = f"{len(self.records):,} opinions"
        if self.n_unreadable:
            sentence += f"; {self.n_unreadable:,} say neither yes nor no"
        if self.n_unknown:
            sentence += f"; {self.n_unknown:,} are about rows or tags that the table lacks"
        return sentence


def write_prompts(
    path: str | os.PathLike[str],
    questions: Questions,
    texts: Sequence[str],
    *,
    ids: Sequence[str] | None = None,
    meanings: Mapping[str, str] | None = None,
) -> None:
    """Write questions for a language model as JSON lines.

    Each line has the row (from 1), the id if there is one, the text, the tag, a prompt, and the
    allowed answers.

    Parameters
    ----------
    path : path
        File to write.
    questions : Questions
        The tags to ask about.
    texts : sequence of str
        Text of each row.
    ids : sequence of str, optional
        Name of each row.
    meanings : dict from tag to str, optional
        Explanations of some tags.
    """
    lines = []
    for i, tag in zip(questions.row.tolist(), questions.label.tolist(), strict=True):
        meaning = (meanings or {}).get(tag, "")
        line: dict[str, Any] = {"row": i + 1}
        if ids is not None:
            line["id"] = ids[i]
        line |= {
            "tag": tag,
            "text": texts[i],
            "prompt": _prompt(texts[i], tag, meaning),
            "answers": list(ALLOWED),
        }
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    with atomic_write(path) as stream:
        stream.write("".join(lines).encode("utf-8", "replace"))


def _prompt(text: str, tag: str, meaning: str) -> str:
    """Return a prompt: question, text and instructions."""
    explained = f" ({meaning})" if meaning else ""
    return (
        f"Is the tag {json.dumps(tag, ensure_ascii=False)}{explained} correct for this text?\n\n"
        f"{text}\n\n"
        f"Answer with one word: {', '.join(ALLOWED[:-1])} or {ALLOWED[-1]}."
    )


def read_opinion_file(
    path: str | os.PathLike[str],
    n_rows: int,
    label_names: Sequence[str],
    *,
    ids: Sequence[str] | None = None,
) -> OpinionFile:
    """Read opinions from a .csv, .tsv, .jsonl or .parquet file.

    Parameters
    ----------
    path : path
        A table with the columns "row" (from 1) or "id"; "tag"; and "opinion", "answer", "response"
        or "output", which holds yes, no, a probability, or prose that says yes or no. A column
        "who" or "model" names the voice; by default it is the name of the file.
    n_rows : int
        Number of rows of the table.
    label_names : sequence of str
        Name of each label.
    ids : sequence of str, optional
        Name of each row.

    Returns
    -------
    OpinionFile

    Raises
    ------
    InputError
        If a column is absent.
    """
    table = open_table(path, delimiter=header_delimiter(path))
    opinion = _column(table, _OPINION)
    key = "id" if ids is not None and "id" in table.columns else "row"
    for name in (key, "tag", opinion):
        if name not in table.columns:
            raise InputError(
                f"{path}: there is no column {name!r}; opinions have the columns row or id, tag, "
                f"and opinion",
                parameter="opinions",
            )
    who = _column(table, _WHO)
    n_lines = len(table.column("tag"))
    voices = table.column(who) if who in table.columns else [Path(path).stem] * n_lines
    place = {str(name): i for i, name in enumerate(ids or ())}
    known = set(label_names)
    records = []
    n_unreadable = 0
    n_unknown = 0
    columns = [table.column(name) for name in (key, "tag", opinion)]
    for line in zip(*columns, voices, strict=True):
        row, tag, value, voice = line
        i = place.get(str(row)) if key == "id" else _row_number(row, n_rows)
        p = None if is_missing(value) else parse_opinion(str(value))
        if i is None or str(tag) not in known:
            n_unknown += 1
        elif p is None:
            n_unreadable += 1
        else:
            records.append((i, str(tag), p, str(voice)))
    return OpinionFile(records, n_unreadable, n_unknown)


def _column(table: Any, names: Sequence[str]) -> str:
    """Return the first of some names that is a column of a table, or else the first name."""
    return next((name for name in names if name in table.columns), names[0])


def _row_number(value: Any, n_rows: int) -> int | None:
    """Return the row, from 0, for a number from 1; None if there is no such row."""
    text = str(value).strip().removesuffix(".0")
    if not text.isdigit() or not 1 <= int(text) <= n_rows:
        return None
    return int(text) - 1
