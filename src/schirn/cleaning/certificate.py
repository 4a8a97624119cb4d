"""Certificates that are valid whenever a person stops answering.

Fix a set of N tags, such as the tags to remove, and draw from it at random without replacement. An
answer that contradicts the claim, or "unsure", is a miss. H0: at least a share 1 - target of the
set are misses. Given H0, the next tag is a miss with a probability of at least

    m = (N (1 - target) - misses so far) / (N - answers so far),

so betting on a smaller share r < m multiplies a stake by r / m at each miss and by (1 - r)/(1 - m)
otherwise, and the stake does not grow on average. The e-value is the mean over seven bets. By
Ville's inequality, the probability that it ever reaches 1/alpha is at most alpha, whatever the
stopping rule.

The order of drawing follows from hashes of the table and of the set, so nobody gets a second chance
by asking again, and tags known to be right or wrong are no more likely to come first: whatever was
known when the set was fixed, its certificate is valid. Draws are numbered, and share alpha: 0.9
alpha for draw 0, and 0.1 alpha / (d (d + 1)) for draw d. A new set, drawn after answers about
another one, is a new draw, so that the probability that any of them is falsely certified is at
most alpha. All rankings that share a `DrawLedger`, and a file of decisions, count on.
"""

import datetime
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from schirn._files import atomic_write, brief
from schirn._input import Array, Number, OneOf, is_count, is_missing, repeated
from schirn.cleaning._arguments import ANSWER_WORDS
from schirn.cleaning.questions import LISTED, MISSING, UNSURE, Questions, cells_of
from schirn.exceptions import InputError

if TYPE_CHECKING:
    from schirn.cleaning.noisy_labels import NoisyLabels

Tag = tuple[int, str]

FORMAT = "schirn-certificate"
VERSION = 3
REMOVED, SUSPECTS, REMAINING, ADDED = KINDS = ("removed", "suspects", "remaining", "added")
_WORDS = {
    REMOVED: "removed tags are wrong",
    SUSPECTS: "most suspicious tags are wrong",
    REMAINING: "remaining tags are right",
    ADDED: "added tags are right",
}
_NOTHING = {
    REMOVED: "no tag is to be removed",
    SUSPECTS: "there is no suspect",
    ADDED: "no tag is to be added",
}
# Minimum number of answers before the number of further answers is extrapolated.
_FEW_ANSWERS = 20
_BETS = np.array([0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75])
_CONFIDENCE = 0.95
_FIRST_DRAW = 0.9
# Numbers of misses for which the bound is computed.
_GRID = 400
_MOST_PLANNED = 3000
_MOST_TAGS = 10**9
MAX_DRAW = 10**6
"""The highest number of a draw."""
_ENTRIES: dict[str, Any] = {
    **dict.fromkeys(("of", "table_sha256", "tags_sha256", "date"), str),
    **dict.fromkeys(("draw", "n_tags", "n_changed"), int),
    **dict.fromkeys(("target", "confidence"), int | float),
    "options": dict,
}
_DERIVED = ("certified", "e_value", "precision_at_least")


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """A claim about a set of tags and the answers that support it.

    `NoisyLabels.certify` begins one. `questions` and `answered` work as in `NoisyLabels`.

    Attributes
    ----------
    of : {"removed", "suspects", "remaining", "added"}
        The set. Removed tags and suspects are claimed to be wrong, the others to be right.
    target : float
        Share of the set for which this is claimed.
    confidence : float
        One minus the probability of a false certificate.
    draw : int
        Number of the draw, from 0: at least the number of earlier sets that have answers.
    n_tags : int
        Size of the set. Tags that were answered before it was fixed do not belong to it.
    answers : dict from (row, label) to bool or None
        The answers since the set was fixed: True for right, False for wrong, None for unsure.
    earlier : dict from (row, label) to bool or None
        The answers given before.
    n_answers : int
        Number of `answers` that count: in the order of drawing, up to the first gap.
    n_changed : int
        Number of `answers` that a person changed, on the review page or in a file of decisions.
    changes : dict from (row, label) to bool
        Tags that were removed (False) and added (True), if the cleaned copy has no columns that
        list them.
    options : dict
        Method and options of the ranking.
    table_sha256, tags_sha256 : str
        Hashes of the tags of the table, and of the set.
    date : str
        Date on which the certificate was begun.
    certified : bool
        True if the answers support the claim.
    e_value : float
        Evidence against the opposite of the claim, the largest so far; see `needed`.
    needed : float
        The smallest e-value that certifies the claim.
    precision_at_least : float
        The largest share that is certified, at least `target` exactly if `certified`; 0 at the
        beginning.
    more_answers : int or None
        Expected number of further answers until the claim is certified; None if out of reach.
    fewest_answers : int or None
        Number of further answers needed if none of them is a miss; None if out of reach.
    order : sequence of (row, label), or None
        The set in the order of drawing; not part of the file.
    ranking : NoisyLabels or None
        The ranking with these answers and a fixed set; not part of the file.
    """

    of: str
    target: float
    confidence: float
    draw: int
    n_tags: int
    table_sha256: str
    tags_sha256: str
    options: Mapping[str, Any]
    answers: Mapping[Tag, bool | None]
    earlier: Mapping[Tag, bool | None]
    date: str
    order: Sequence[Tag] | None = None
    ranking: "NoisyLabels | None" = None
    n_changed: int = 0
    changes: Mapping[Tag, bool | None] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Certificate({self.sentence})"

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """The claim, and whether it is certified, in words."""
        if not self.n_tags:
            return self.problem
        unsure = sum(right is None for right in self._counted.values())
        answers = f"{self.n_answers:,} answer{'' if self.n_answers == 1 else 's'}"
        if unsure:
            answers += f", {unsure} of them unsure, which count against it"
        if self.n_changed:
            answers += f", {self.n_changed} of them changed"
        tags = f"of {self.n_tags:,} {_WORDS[self.of]} ({answers})"
        if not self.certified:
            return f"Not certified that at least {_short(self.target)} {tags}"
        share = _rounded_down(self.precision_at_least)
        return f"With {_short(self.confidence)} confidence, at least {share} {tags}"

    @property
    def problem(self) -> str:
        """Reason why there is nothing to certify; "" if there is something."""
        if self.n_tags:
            return ""
        if self.of == REMOVED and self.ranking is not None:
            other_target = self.ranking.trade_off_sentence
            if self.ranking.n_answers and other_target:
                return f"There is nothing to certify. {other_target}"
        if self.of == REMAINING:
            return "There is nothing to certify: every remaining tag has an answer of its own."
        return (
            f"There is nothing to certify: {_NOTHING[self.of]} without an answer of its own. "
            f"Answer more questions, or choose another target."
        )

    @property
    def progress(self) -> str:
        """The certified claim, or the progress towards it, in words."""
        if not self.n_tags:
            return self.problem
        if self.certified:
            return f"The certificate holds. {self}."
        answers = "no answers about these yet"
        needed = "needed"
        known = ""
        if n := self.n_answers:
            answers = f"{n:,} answer{'' if n == 1 else 's'} so far"
            needed = "more needed"
            known = f" The answers certify {_rounded_down(self.precision_at_least)}."
        n_more = self.more_answers
        ahead = "it is probably out of reach"
        if n_more is not None:
            ahead = f"probably {n_more:,} {needed}"
        if n < _FEW_ANSWERS and (fewest := self.fewest_answers) is not None:
            ahead = f"at least {fewest:,} {needed}"
        claim = f"at least {_short(self.target)} of the {self.n_tags:,} {_WORDS[self.of]}"
        return f"Not yet certified that {claim}: {answers}; {ahead}.{known}"

    def questions(self, n: int = 10) -> Questions:
        """Return the next tags of the draw that have no answer.

        Parameters
        ----------
        n : int, default=10
            Number of questions; fewer are returned at the end of the draw.

        Returns
        -------
        Questions
        """
        Number(1, integer=True).check("n", n)
        if self.order is None or self.ranking is None:
            raise InputError("a certificate that was read from a file asks no questions")
        tags = [tag for tag in self.order if tag not in self.answers][:n]
        kind = MISSING if self.of == ADDED else LISTED
        return replace(self.ranking.questions_about(tags, kind), draw=self.draw)

    def answered(self, questions: Questions, right: Any) -> "Certificate":
        """Return the certificate with more answers; see `NoisyLabels.answered`.

        Answers count in the order of drawing, up to the first tag without an answer. With the
        first one that counts, the draw is recorded in the `ledger` of all rankings of these tags.

        Parameters
        ----------
        questions : Questions
            Questions from `questions`.
        right : sequence of bool or None
            True for tags that are right, False for wrong tags, None if unsure.

        Returns
        -------
        Certificate

        Raises
        ------
        InputError
            If a tag is not in the set, or the certificate was read from a file.
        """
        if self.order is None or self.ranking is None:
            raise InputError("a certificate that was read from a file takes no answers")
        names = self.ranking.label_names
        members = set(self.order)
        answers = dict(self.answers)
        ranking = self.ranking.answered(questions, right)
        right = as_answers(right, len(questions))
        rows = questions.row.tolist()
        columns = questions.column.tolist()
        for row, column, is_right in zip(rows, columns, right, strict=True):
            tag = row, names[column]
            if tag not in members:
                raise InputError(f"{brief(tag[1])} of row {row} is not in the certified set")
            # A definite answer replaces "unsure".
            answers[tag] = answers.get(tag) if is_right is None else is_right
        certificate = replace(self, answers=answers, ranking=ranking)
        if certificate.n_answers:
            self.ranking.ledger.record(self.tags_sha256, self.draw)
        return certificate

    @cached_property
    def _counted(self) -> dict[Tag, bool | None]:
        """Answers in the order of drawing, up to the first gap."""
        if self.order is None:
            return dict(self.answers)
        return {tag: self.answers[tag] for tag in takewhile(self.answers.__contains__, self.order)}

    @property
    def n_answers(self) -> int:
        """Number of answers that count: in the order of drawing, up to the first gap."""
        return len(self._counted)

    @cached_property
    def _is_miss(self) -> Array:
        should_be_right = self.of in (REMAINING, ADDED)
        return np.array([right is not should_be_right for right in self._counted.values()], bool)

    @property
    def needed(self) -> float:
        """The smallest e-value that certifies the claim."""
        # 1 / (d (d + 1)) sums to 1, so all later draws together use the rest of alpha.
        share = _FIRST_DRAW if not self.draw else (1 - _FIRST_DRAW) / self.draw / (self.draw + 1)
        return 1 / ((1 - self.confidence) * share)

    @cached_property
    def e_value(self) -> float:
        """Evidence for the claim: the largest e-value so far."""
        return float(e_values(self._is_miss, self.n_tags, self._most_misses).max(initial=1))

    @property
    def _most_misses(self) -> float:
        return self.n_tags * (1 - self.target)

    @property
    def certified(self) -> bool:
        """True if the answers support the claim."""
        return self.n_tags > 0 and self.e_value >= self.needed

    @cached_property
    def precision_at_least(self) -> float:
        """The largest share that is certified, at least `target` exactly if `certified`."""
        misses = np.unique(np.linspace(1, self.n_tags, min(_GRID, self.n_tags)).astype(int))
        e_value = e_values(self._is_miss, self.n_tags, misses).max(axis=1, initial=0)
        # All larger numbers of misses must be rejected as well.
        n_rejected = int(np.cumprod(e_value[::-1] >= self.needed).sum())
        if not n_rejected:
            return self.target if self.certified else 0.0
        fewest = misses[-n_rejected]
        share = float(1 - (fewest - 1) / self.n_tags)
        if self.certified:
            return max(share, self.target)
        # The claim must also hold against sets that only just reach the target.
        return share if share < self.target else float(1 - fewest / self.n_tags)

    @cached_property
    def more_answers(self) -> int | None:
        """Expected number of further answers until certified; None if out of reach."""
        if self.certified:
            return 0
        # The prior is worth two answers, with half of the share of misses that the claim allows.
        rate = (self._is_miss.sum() + 1 - self.target) / (len(self._is_miss) + 2)
        return self._answers_until_certified(rate)

    @property
    def fewest_answers(self) -> int | None:
        """Number of further answers needed if none is a miss; None if out of reach."""
        return self._answers_until_certified(0)

    def _answers_until_certified(self, rate: float) -> int | None:
        """Return the number of further answers, with misses at this rate, that certify the claim.

        None if the claim stays uncertified.
        """
        n = min(self.n_tags - len(self._is_miss), _MOST_PLANNED)
        future = np.diff(np.floor(rate * np.arange(n + 1))) > 0
        values = e_values(np.r_[self._is_miss, future], self.n_tags, self._most_misses)
        reached = np.flatnonzero(values[len(self._is_miss) :] >= self.needed)
        return int(reached[0]) + 1 if len(reached) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as a dictionary for JSON.

        Returns
        -------
        dict
        """
        return {
            "format": FORMAT,
            "version": VERSION,
            **{name: getattr(self, name) for name in (*_ENTRIES, *_DERIVED, "sentence")},
            "answers": [[*tag, right] for tag, right in self._counted.items()],
            "earlier_answers": [[*tag, right] for tag, right in self.earlier.items()],
            "changes": [[*tag, is_added] for tag, is_added in self.changes.items()],
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the certificate as JSON, and write it to `path` if given.

        Parameters
        ----------
        path : path-like, optional
            File to write; an existing file is replaced.

        Returns
        -------
        str
        """
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        if path is not None:
            with atomic_write(path) as stream:
                stream.write(text.encode())
        return text

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate from JSON; raise InputError if it is invalid.

        The e-value and the bound are computed again and must agree with the file.

        Parameters
        ----------
        text : str
            JSON from `to_json`.

        Returns
        -------
        Certificate
            It can be checked and printed, but asks no more questions.
        """
        try:
            values = json.loads(text, object_pairs_hook=_without_repeated_keys)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the certificate is not JSON ({error})") from None
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InputError("this is not a certificate")
        if values.get("version") != VERSION:
            raise InputError(
                f"the certificate has version {brief(values.get('version'))}, whose order of "
                f"drawing differs from that of version {VERSION}; certify the removals again"
            )
        for name, kind in _ENTRIES.items():
            if not isinstance(values.get(name), kind) or isinstance(values[name], bool):
                raise InputError(f"the certificate has {brief(values.get(name))} for {name}")
        OneOf(KINDS).check("of", values["of"])
        Number(0, high=1, open_low=True).check("target", values["target"])
        Number(_CONFIDENCE, high=_CONFIDENCE).check("confidence", values["confidence"])
        if not _is_date(values["date"]):
            raise InputError(f"the certificate has {brief(values['date'])} for date")
        for name in ("draw", "n_tags", "n_changed"):
            Number(0, high=_MOST_TAGS, integer=True).check(name, values[name])
        certificate = cls(
            **{name: values[name] for name in _ENTRIES},
            answers=_tags_of(values.get("answers"), "answers"),
            earlier=_tags_of(values.get("earlier_answers"), "earlier_answers"),
            changes=_tags_of(values.get("changes", []), "changes"),
        )
        if len(certificate.answers) > certificate.n_tags:
            raise InputError("the certificate has more answers than tags")
        if certificate.n_changed > len(certificate.answers):
            raise InputError("the certificate has more changed answers than answers")
        for name in _DERIVED:
            value = values.get(name)
            computed = getattr(certificate, name)
            is_number = isinstance(value, int | float)
            # Written so that NaN is rejected.
            if not (is_number and abs(value - computed) <= 1e-6 * max(1, abs(computed))):
                raise InputError(
                    f"the certificate says {name} {brief(value)}, but its answers give {computed!r}"
                )
        sentence = values.get("sentence")
        # That of an empty set depends on the ranking, which the file does not hold.
        if certificate.n_tags and sentence != certificate.sentence:
            raise InputError(
                f"the certificate says {brief(sentence)}, but its answers give: "
                f"{certificate.sentence}"
            )
        return certificate

    def verify(
        self,
        table_sha256: str,
        listed: Iterable[Tag],
        removed: Iterable[Tag],
        added: Iterable[Tag] = (),
    ) -> None:
        """Check the certificate against a table and its changes.

        Parameters
        ----------
        table_sha256 : str
            Result of `tags_digest` for the table before the changes.
        listed, removed, added : collections of (row, label)
            Tags before the changes, and tags that were removed and added.

        Raises
        ------
        InputError
            If the claim is not certified, or is about another table or other changes.
        """
        if not self._counted:
            raise InputError("no question of the certificate is answered")
        if not self.certified:
            raise InputError(
                f"{self.n_answers} answers do not certify the claim (e-value "
                f"{self.e_value:.3g}, needed {self.needed:.3g})"
            )
        if table_sha256 != self.table_sha256:
            raise InputError("the table does not hold the tags that the certificate is about")
        listed = set(listed)
        removed = set(removed)
        added = set(added)
        for row, label in {**self.earlier, **self.answers}:
            if ((row, label) in listed) == (self.of == ADDED):
                raise InputError(
                    f"{brief(label)} of row {row + 1:,} has an answer, but is "
                    f"{'' if self.of == ADDED else 'not '}in the table"
                )
        members = self._members(listed, removed, added)
        if len(members) != self.n_tags or tags_hash(members) != self.tags_sha256:
            changed = "added" if self.of == ADDED else "removed"
            raise InputError(f"other tags were {changed} than those that were certified")
        questions = list(self._counted)
        order = drawn_order(members, self.table_sha256, self.tags_sha256, self.draw)
        if order[: len(questions)] != questions:
            raise InputError("answers are missing or were not drawn by this program")

    def _members(self, tags: set[Tag], removed: set[Tag], added: set[Tag]) -> set[Tag]:
        """Rebuild the certified set from the changes to the table."""
        suspects = self._suspects() if self.of == SUSPECTS else set()
        for row, label in sorted(suspects - tags)[:1]:
            raise InputError(
                f"the certificate is about {brief(label)} of row {row + 1:,}, which the table "
                f"does not have"
            )
        if suspects and not removed:
            # The table was not cleaned, so nothing can contradict the answers.
            return suspects
        changed, acts_on = (added, True) if self.of == ADDED else (removed, False)
        for tag, right in {**self.earlier, **self.answers}.items():
            if (tag in changed) != (right is acts_on):
                raise InputError(f"{brief(tag[1])} of row {tag[0] + 1} contradicts its answer")
        if self.of == SUSPECTS:
            return suspects
        members = tags - removed if self.of == REMAINING else changed
        return (members - set(self.earlier)) | set(self.answers)

    def _suspects(self) -> set[Tag]:
        """Return the certified suspects, which the file lists."""
        values = self.options.get("tags")
        if not isinstance(values, list):
            raise InputError(f"the certificate has {brief(values)} for the tags of its options")
        cells = [[*value, None] if isinstance(value, list) else value for value in values]
        return set(_tags_of(cells, "options"))


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise ValueError if a key occurs twice, so that readers may differ."""
    name = repeated(key for key, _ in pairs)
    if name is not None:
        raise ValueError(f"the key {brief(name)} occurs twice")
    return dict(pairs)


def _is_date(text: str) -> bool:
    """Check whether a text is a day such as 2026-11-19."""
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _short(share: float) -> str:
    """Return a share as a percentage, rounded down, without decimals if it needs none."""
    return f"{math.floor(1000 * share + 1e-9) / 10:g}%"


def _rounded_down(share: float) -> str:
    """Return a share as a percentage, rounded down."""
    # Less than rounding errors of a share such as 0.9.
    return f"{math.floor(1000 * share + 1e-9) / 1000:.1%}"


def e_values(is_miss: Array, n_tags: int, misses: float | Array) -> Array:
    """Return the e-value after each answer against H0: the set has at least `misses` misses.

    Parameters
    ----------
    is_miss : (t,) bool array
        The answers in the order of drawing, True for misses.
    n_tags : int
        Size of the set.
    misses : float or (k,) array
        Number of misses under H0.

    Returns
    -------
    (t,) or (k, t) float array
    """
    misses = np.asarray(misses, dtype=np.float64)[..., None]
    earlier_misses = np.cumsum(is_miss) - is_miss
    m = np.clip((misses - earlier_misses) / (n_tags - np.arange(len(is_miss))), 1e-9, 1 - 1e-9)
    total = np.zeros(m.shape)
    for bet in _BETS:
        r = np.minimum(bet * misses / max(n_tags, 1), 0.999 * m)
        steps = np.where(is_miss, np.log(np.maximum(r, 1e-12) / m), np.log((1 - r) / (1 - m)))
        # Capped at e^300, which avoids overflow and is beyond any limit.
        total += np.exp(np.minimum(np.cumsum(steps, axis=-1), 300))
    return np.asarray(total / len(_BETS))


def begin(
    ranking: "NoisyLabels", *, of: str, k: int | None, target: float, random_state: int
) -> Certificate:
    """Begin a certificate; see `NoisyLabels.certify`."""
    Number(0, high=1, open_low=True).check("target", target)
    about: Any = ranking.missing if of == ADDED else ranking
    answer = about.worklist.answer
    known = ranking.known
    if of != ADDED:
        answer = np.where(np.isnan(answer) & (known != 0), known > 0, answer)
    if of == SUSPECTS:
        members = np.zeros(len(answer), dtype=bool)
        members[about.worklist.order[:k]] = True
    else:
        removed = ranking.removed
        added = ranking.added
        members = {REMOVED: removed, REMAINING: ~removed, ADDED: added}[of]
    has_answer = ~np.isnan(answer)
    tags = cells_of(about, members & ~has_answer)
    values = [None if value == UNSURE else bool(value) for value in answer[has_answer].tolist()]
    names = ("method", "precision", "keep_one")
    options = {name: getattr(ranking, name) for name in names} | {"checked": ranking.is_checked}
    if of == SUSPECTS:
        options["tags"] = [list(tag) for tag in tags]
    table = tags_digest(ranking.n_rows, ranking.label_names, ranking.row, ranking.column)
    tags_sha256 = tags_hash(tags)
    draw = ranking.ledger.next_for(tags_sha256, random_state)
    return Certificate(
        of=of,
        target=float(target),
        confidence=_CONFIDENCE,
        draw=draw,
        n_tags=len(tags),
        table_sha256=table,
        tags_sha256=tags_sha256,
        options=options,
        answers={},
        earlier=dict(zip(cells_of(about, has_answer), values, strict=True)),
        date=str(datetime.date.today()),
        order=drawn_order(tags, table, tags_sha256, draw),
        ranking=ranking.with_orders(ranking.removed, ranking.added),
    )


def drawn_order(tags: Iterable[Tag], table_sha256: str, tags_sha256: str, draw: int) -> list[Tag]:
    """Return tags in the order of drawing, which follows from the table, the set and the draw."""

    def key(tag: Tag) -> bytes:
        text = json.dumps([table_sha256, tags_sha256, draw, *tag])
        return hashlib.sha256(text.encode()).digest()

    return sorted(tags, key=key)


def tags_hash(tags: Iterable[Tag]) -> str:
    """Return the hash of a set of tags."""
    # Contains the version: answers to questions drawn in the order of another version are rejected.
    return hashlib.sha256(json.dumps([VERSION, *sorted(tags)]).encode()).hexdigest()


def tags_digest(n_rows: int, names: Sequence[str], row: Array, column: Array) -> str:
    """Return the hash of a table of tags; the order of tags within a row does not matter."""
    used = sorted({str(names[j]) for j in np.unique(column).tolist()})
    place = {name: k for k, name in enumerate(used)}
    rank = np.array([place.get(str(name), -1) for name in names], dtype="<i8")[column]
    order = np.lexsort((rank, row))
    value = hashlib.sha256(json.dumps([n_rows, used]).encode())
    for array in (np.asarray(row), rank):
        value.update(np.ascontiguousarray(array[order], dtype="<i8").tobytes())
    return value.hexdigest()


def as_answers(right: Any, n: int) -> list[bool | None]:
    """Return answers as True (the tag is right), False (wrong) and None (unsure)."""
    if np.ndim(right) != 1 or len(right) != n:
        raise InputError(
            f"right must hold one answer for each of {n} questions, got {brief(right)}",
            parameter="right",
        )
    answers = [None if is_missing(value) else value for value in right]
    for k, answer in enumerate(answers):
        if isinstance(answer, str) and (word := answer.strip().lower()) in ANSWER_WORDS:
            answers[k] = ANSWER_WORDS[word]
        elif isinstance(answer, str) or answer not in (0, 1, None):
            raise InputError(
                f"right must hold True, False or None, or yes, no or ?, but answer {k} is "
                f"{answer!r}",
                parameter="right",
            )
    return [None if answer is None else bool(answer) for answer in answers]


def _tags_of(values: Any, name: str) -> dict[Tag, bool | None]:
    """Return the answers of a certificate file, checked."""
    if not isinstance(values, list):
        raise InputError(f"the certificate has {brief(values)} for {name}")
    answers: dict[Tag, bool | None] = {}
    for value in values:
        fits = isinstance(value, list) and len(value) == 3 and is_count(value[0])
        if not fits or not isinstance(value[1], str) or value[2] not in (True, False, None):
            raise InputError(f"the certificate has {brief(value)} among its {name}")
        if (value[0], value[1]) in answers:
            raise InputError(f"the certificate has {brief(value)} twice")
        answers[value[0], value[1]] = value[2]
    return answers
