"""The next question of a review, and estimates from the answers so far.

Two steps of questions come first: along all ranks, then around the limit up to which the answers of
the first step would remove tags. After that the person chooses the order, and every fifth question
about listed tags is a spot check (a *check* below): it comes from a random order of all tags, so
the answers to the checks estimate the share of wrong tags, however the other questions were chosen.
All tags are ranked again after every answer.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from schirn._input import Array
from schirn.app.review._project import Project
from schirn.cleaning import Round, Vocabulary
from schirn.cleaning.certificate import Certificate, Tag
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.policy import KEEP as ALL_KEPT
from schirn.cleaning.questions import (
    FIRST_STEP,
    LIKELY,
    LIMIT,
    LISTED,
    MISSING,
    SPREAD,
    SPREAD_EVERY,
    UNSURE,
    Questions,
)

OPEN, KEEP, DROP, SKIP = range(4)
ORDERS = ("first", "suspicious", "tag", "suggested", "swaps", "certify")
FIRST, SUSPICIOUS, TAG, SUGGESTED, SWAPS, CERTIFY = ORDERS
_ANSWER = np.array([np.nan, 1, 0, UNSURE])
# Number of the round of all checks, which follows the first two steps.
_CHECK_ROUND = 3
_RIGHT = {KEEP: True, DROP: False, SKIP: None}
_SUREST = 20
_FEW = 5
_NEXT = 100
_WORDS = {
    LISTED: (
        "Your answers will show how many tags are wrong, and which can be removed.",
        *("most suspicious tags", "wrong", "suspects"),
    ),
    MISSING: (
        "Your answers will show which missing tags can be added.",
        *("likeliest missing tags", "correct", "missing tags"),
    ),
}


class Interview:
    """The tags of a project in the order in which they are asked, given the status of each.

    Parameters
    ----------
    project : Project
        Tags, and their ranking by `schirn clean`.

    Attributes
    ----------
    tags : dict
        Numbers of the listed and of the missing tags, in ranking order.
    drawn : (m,) bool array
        Tags that were answered for a certificate.
    precision : float
        Target precision of removals and additions; it may be changed at any time.
    rules : dict from str to {"keep", "drop"}
        Labels whose tags are all kept or all removed; they may be changed at any time.
    fixed : frozenset of str
        Labels that the vocabulary of the project keeps.
    """

    def __init__(self, project: Project):
        self._project = project
        vocabulary = Vocabulary.from_records(project.table.vocabulary)
        self.fixed = vocabulary.keeps.intersection(project.labels)
        self.rules: dict[str, str] = {}
        self._without_answers = project.ranking()
        for label in sorted(self.fixed):
            self._without_answers = self._without_answers.with_rule(label, ALL_KEPT)
        is_listed = project.listed
        self.drawn = np.zeros(len(is_listed), dtype=bool)
        # The second step keeps asking the questions of the first target.
        self.precision = self._without_answers.precision
        self.tags = {LISTED: np.flatnonzero(is_listed), MISSING: np.flatnonzero(~is_listed)}
        cells = zip(project.row.tolist(), project.column.tolist(), strict=True)
        self._number = {cell: tag for tag, cell in enumerate(cells)}
        self._column_of = {name: j for j, name in enumerate(project.labels)}
        # Cached, because the page asks for the state every few seconds.
        self._cached_ranking = lru_cache(4)(self._rank)
        self._cached_steps = lru_cache(4)(self._draw_steps)
        self._cached_first = lru_cache(2)(self._draw_first)
        self._cached_second = lru_cache(4)(self._draw_second)
        self._cached_trade_off = lru_cache(4)(self._describe_trade_off)
        self._cached_swaps = lru_cache(4)(self._pair_swaps)
        self._cached_check = lru_cache(4)(self._find_check)
        listed = self.tags[LISTED][self._without_answers.worklist.usable]
        # Any order works that does not depend on the tags.
        self._random_order = np.random.default_rng(0).permutation(listed)

    def ranking(self, status: Array) -> NoisyLabels:
        """Return the ranking with all answers.

        Parameters
        ----------
        status : (m,) array
            Status of each tag of the project.

        Returns
        -------
        NoisyLabels
        """
        key = (status.tobytes(), self.drawn.tobytes(), self.precision, self._rule_key)
        return self._cached_ranking(*key)

    @property
    def _rule_key(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self.rules.items()))

    def by_rule(self) -> Array:
        """Return 1 for tags that a rule keeps, -1 for tags that a rule drops, 0 for the others.

        Returns
        -------
        (m,) int array
        """
        project = self._project
        verdict = np.zeros(len(project.labels), dtype=np.int8)
        for label in self.fixed:
            verdict[self._column_of[label]] = 1
        for label, rule in self.rules.items():
            verdict[self._column_of[label]] = 1 if rule == ALL_KEPT else -1
        # A rule that keeps a label says nothing about rows where it may be missing.
        of_tag = verdict[project.column]
        return np.where(project.listed, of_tag, np.minimum(of_tag, 0))

    def steps(self, kind: str, status: Array) -> list[int]:
        """Return the tags of the first step and, once these are answered, of the second.

        Parameters
        ----------
        kind : {"listed", "missing"}
            Kind of the tags.
        status : (m,) array
            Status of each tag of the project.

        Returns
        -------
        list of int
            Numbers of the tags.
        """
        return self._cached_steps(kind, status.tobytes(), self._rule_key)

    def swaps(self, status: Array) -> dict[int, int]:
        """Return listed tags that look wrong, each with the missing tag to list instead.

        Parameters
        ----------
        status : (m,) array
            Status of each tag of the project.

        Returns
        -------
        dict from int to int
        """
        return self._cached_swaps(status.tobytes(), self._rule_key)

    def size(self, kind: str, status: Array) -> int:
        """Return the number of questions in both steps.

        Parameters
        ----------
        kind : {"listed", "missing"}
            Kind of the tags.
        status : (m,) array
            Status of each tag of the project.

        Returns
        -------
        int
        """
        steps = self.steps(kind, status)
        if self.rules and all(status[tag] != OPEN for tag in steps):
            # Rules may decide questions of the second step, which is only known once it is drawn.
            return len(steps)
        ranking = self._without_answers
        first = self._cached_first(kind)
        by_rule = self.by_rule()
        n_ruled = sum(int(by_rule[tag] != 0) for tag in self._numbers(first))
        work = ranking.worklist if kind == LISTED else ranking.missing.worklist
        n_free = int((by_rule[self.tags[kind]][work.order] == 0).sum())
        n_first = len(first) - n_ruled
        if self.rules and len(steps) > n_first:
            return len(steps)
        return min(2 * FIRST_STEP - n_ruled, n_free)

    def in_order(self, order: str, status: Array, last: int | None) -> Iterator[int]:
        """Yield tags to ask about in the given order, then all others.

        Parameters
        ----------
        order : {"first", "suspicious", "tag", "suggested", "swaps"}
            "tag" stays with one label as long as one of its unanswered tags is probably wrong.
        status : (m,) array
            Status of each tag of the project.
        last : int or None
            The tag that was decided last, unless it was a check.
        """
        ranking = self.ranking(status)
        tags = self.tags[LISTED]
        missing = self.tags[MISSING]
        suspects = ranking.worklist.order
        suggestions = ranking.missing.worklist.order
        if order == FIRST:
            yield from self.steps(LISTED, status)
        elif order == TAG:
            column = -1 if last is None else int(self._project.column[last])
            yield from tags[_of_one_label(ranking, suspects, column)].tolist()
        elif order == SWAPS:
            for pair in self.swaps(status).items():
                yield from pair
        elif order == SUGGESTED:
            yield from self.steps(MISSING, status)
            yield from missing[suggestions].tolist()
        yield from tags[suspects].tolist()
        yield from missing[suggestions].tolist()
        yield from range(len(self._project.row))

    def checks(self, status: Array) -> Array:
        """Return the answered tags of the spot check.

        These are the start of a random order, up to the first tag without an answer.

        Parameters
        ----------
        status : (m,) array
            Status of each tag of the project.

        Returns
        -------
        array of int
            Numbers of the tags.
        """
        free = self._free_to_check(status)
        is_open = status[free] == OPEN
        return free[: int(is_open.argmax()) if is_open.any() else len(free)]

    def next_check(self, status: Array) -> int | None:
        """Return the next tag of the spot check if it is due.

        Parameters
        ----------
        status : (m,) array
            Status of each tag of the project.

        Returns
        -------
        int or None
            Number of a tag; None before the first steps are complete, and until four other
            questions have been answered since the last check.
        """
        return self._cached_check(status.tobytes(), self.drawn.tobytes(), self._rule_key)

    def _find_check(self, status_bytes: bytes, drawn: bytes, rules: Any) -> int | None:
        """Implement `next_check`."""
        status = np.frombuffer(status_bytes, dtype=np.uint8)
        steps = self.steps(LISTED, status)
        if len(steps) < self.size(LISTED, status) or (status[steps] == OPEN).any():
            return None
        free = self._free_to_check(status)
        n_checks = len(self.checks(status))
        n_others = int(((status[free] != OPEN) & ~self.drawn[free]).sum()) - n_checks
        if n_checks == len(free) or n_checks >= n_others // (SPREAD_EVERY - 1):
            return None
        return int(free[n_checks])

    def _free_to_check(self, status: Array) -> Array:
        """Return tags in random order, without tags of the first steps and of rules."""
        is_free = self.by_rule()[self._random_order] == 0
        is_free &= ~np.isin(self._random_order, self.steps(LISTED, status))
        return self._random_order[is_free]

    def _check_round(self, status: Array) -> Questions:
        """Return the checks so far as one round, which follows the first steps."""
        checks = self.checks(status)
        questions = self._without_answers.questions_about(self._cells(checks))
        n_open = len(self._free_to_check(status))
        design = Round(_CHECK_ROUND, "checks", len(checks), n_open)
        inclusion = np.full(len(checks), len(checks) / max(n_open, 1))
        return replace(questions, round=design, inclusion=inclusion)

    def confidence(self, status: Array) -> Array:
        """Return the probability that each tag of the project is correct.

        Parameters
        ----------
        status : (m,) array
            Status of each tag of the project.

        Returns
        -------
        (m,) float array
        """
        ranking = self.ranking(status)
        p = np.empty(len(self._project.row))
        p[self.tags[LISTED]] = ranking.confidence
        p[self.tags[MISSING]] = ranking.missing.confidence
        return p

    def ready(self, kind: str, status: Array) -> Array:
        """Return the tags that the answers allow removing or adding; none in the first step.

        Parameters
        ----------
        kind : {"listed", "missing"}
            Kind of the tags.
        status : (m,) array
            Status of each tag of the project.

        Returns
        -------
        array of int
            Numbers of the tags.
        """
        ranking = self.ranking(status)
        steps = self.steps(kind, status)
        first = self._without_answers.questions(FIRST_STEP, kind=kind, order=SPREAD)
        if any(status[tag] == OPEN for tag in steps[: len(self._free(first, kind))]):
            return np.zeros(0, dtype=int)
        chosen = self.tags[kind][ranking.removed if kind == LISTED else ranking.added]
        is_open = (status[chosen] == OPEN) & (self.by_rule()[chosen] == 0)
        return np.asarray(chosen[is_open])

    def begin_certificate(self, tags: Array, status: Array, draw: int) -> Certificate:
        """Begin a certificate that these tags are wrong.

        Parameters
        ----------
        tags : array of int
            Numbers of the removed tags.
        status : (m,) array
            Status of each tag before the certificate.
        draw : int
            Number of the draw.

        Returns
        -------
        Certificate
        """
        ordered = np.isin(self.tags[LISTED], tags)
        return self.ranking(status).with_orders(ordered).certify(random_state=draw)

    def certificate(self, begun: Certificate, status: Array, changed: set[int]) -> Certificate:
        """Return a certificate with the answers given since it was begun.

        Decisions about tags outside its set count as earlier answers, because the set is fixed.

        Parameters
        ----------
        begun : Certificate
            The certificate without these answers.
        status : (m,) array
            Status of each tag of the project.
        changed : set of int
            Tags whose answers were changed.

        Returns
        -------
        Certificate
        """
        ranking = begun.ranking
        project = self._project
        if ranking is None or begun.order is None:
            raise ValueError("the certificate was read from a file")
        members = set(begun.order)
        answered = [tag for tag in begun.order if status[self.number(tag)] != OPEN]
        right = [_RIGHT[int(status[self.number(tag)])] for tag in answered]
        decided = self.tags[LISTED][status[self.tags[LISTED]] != OPEN].tolist()
        pairs = {(int(project.row[k]), project.labels[project.column[k]]): k for k in decided}
        later = {tag: _RIGHT[int(status[k])] for tag, k in pairs.items() if tag not in members}
        n_changed = sum(self.number(tag) in changed for tag in answered)
        begun = replace(begun, earlier={**begun.earlier, **later}, n_changed=n_changed)
        return begun.answered(ranking.questions_about(answered), right)

    def number(self, tag: Tag) -> int:
        """Return the number of a tag, given its row and label name.

        Parameters
        ----------
        tag : tuple of int and str
            Row and label name.

        Returns
        -------
        int
        """
        return self._number[tag[0], self._column_of[tag[1]]]

    def trade_off(self, status: Array) -> list[dict[str, Any]]:
        """Return the effect of each target precision, for the page.

        Parameters
        ----------
        status : (m,) array
            Status of each tag of the project.

        Returns
        -------
        list of dict
            With the keys "precision", "removed", "right" and "left" (bounds of the number of wrong
            tags left); None for values that the answers do not allow estimating. Tags that only a
            rule removes are not counted.
        """
        return self._cached_trade_off(status.tobytes(), self._rule_key)

    def _describe_trade_off(self, status: bytes, rules: Any) -> list[dict[str, Any]]:
        ranking = self.ranking(np.frombuffer(status, dtype=np.uint8))
        return [
            {
                "precision": line.precision,
                "removed": line.removed,
                "right": None if np.isnan(line.right_share) else line.right_share,
                "left": None if np.isnan(line.wrong_left) else line.wrong_left_interval,
            }
            for line in ranking.trade_off()
        ]

    def _rank(self, status: bytes, drawn: bytes, precision: float, rules: Any) -> NoisyLabels:
        answer = _ANSWER[np.frombuffer(status, dtype=np.uint8)]
        ranking = self._without_answers
        for kind in (LISTED, MISSING):
            for questions in self._rounds(kind, status):
                ranking = self._with_answers(ranking, questions, answer)
            if kind == LISTED and len(checks := self._check_round(np.frombuffer(status, np.uint8))):
                ranking = self._with_answers(ranking, checks, answer)
            tags = self.tags[kind]
            # Answers about tags that a person picked say nothing about other tags.
            other = ranking.answer if kind == LISTED else ranking.missing.answer
            chosen = tags[np.isnan(other) & ~np.isnan(answer[tags])]
            questions = ranking.questions_about(self._cells(chosen), kind)
            ranking = self._with_answers(ranking, questions, answer)
        for label, rule in rules:
            ranking = ranking.with_rule(label, rule)
        return ranking.at(precision=precision)

    def _with_answers(
        self, ranking: NoisyLabels, questions: Questions, answer: Array
    ) -> NoisyLabels:
        """Return the ranking with the answers to a round so far."""
        tags = np.array(self._numbers(questions), dtype=int)
        values = answer[tags]
        has_answer = ~np.isnan(values)
        right = [None if value == UNSURE else bool(value) for value in values[has_answer].tolist()]
        return ranking.answered(questions.part(has_answer), right)

    def _cells(self, tags: Array) -> list[Tag]:
        """Return row and label name of some tags."""
        project = self._project
        rows = project.row[tags].tolist()
        names = [project.labels[j] for j in project.column[tags].tolist()]
        return list(zip(rows, names, strict=True))

    def _pair_swaps(self, status: bytes, rules: Any) -> dict[int, int]:
        swaps = self.ranking(np.frombuffer(status, dtype=np.uint8)).swaps()
        rows = swaps.row.tolist()
        pairs = zip(rows, swaps.wrong_column.tolist(), swaps.right_column.tolist(), strict=True)
        return {self._number[i, j]: self._number[i, k] for i, j, k in pairs}

    def _draw_steps(self, kind: str, status: bytes, rules: Any) -> list[int]:
        return [tag for questions in self._rounds(kind, status) for tag in self._numbers(questions)]

    def _rounds(self, kind: str, status: bytes) -> list[Questions]:
        """Return the questions of the first step and, once these are answered, of the second."""
        current = np.frombuffer(status, dtype=np.uint8)
        first = self._cached_first(kind)
        free = self._free(first, kind)
        if any(current[tag] == OPEN for tag in self._numbers(free)):
            return [free]
        answered = current[self._numbers(first)].tobytes()
        second = self._cached_second(kind, answered, self._rule_key)
        return [free, second] if len(second) else [free]

    def _draw_first(self, kind: str) -> Questions:
        return self._without_answers.questions(FIRST_STEP, kind=kind, order=SPREAD)

    def _draw_second(self, kind: str, answered: bytes, rules: Any) -> Questions:
        """Draw the questions of the second step, which depend only on the answers to the first."""
        first = self._cached_first(kind)
        answer = np.full(len(self._project.row), np.nan)
        answer[self._numbers(first)] = _ANSWER[np.frombuffer(answered, dtype=np.uint8)]
        after = self._with_answers(self._without_answers, first, answer)
        second = after.questions(FIRST_STEP, kind=kind, order=LIMIT)
        return self._free(second, kind, after)

    def _free(
        self, questions: Questions, kind: str, ranking: NoisyLabels | None = None
    ) -> Questions:
        """Return the questions that no rule decides, as if drawn from such tags only."""
        by_rule = self.by_rule()
        is_free = by_rule[np.array(self._numbers(questions), dtype=int)] == 0
        if is_free.all():
            return questions
        ranking = self._without_answers if ranking is None else ranking
        work = ranking.worklist if kind == LISTED else ranking.missing.worklist
        is_free_open = by_rule[self.tags[kind]][work.order] == 0
        free = questions.part(is_free)
        design = questions.round
        n_open = int(is_free_open.sum())
        n_drawn = int(is_free.sum())
        n_spread = n_drawn
        if design.n_even:
            n_spread = min(n_drawn, max(1, round(design.n_spread * n_open / design.n_open)))
        design = design._replace(
            n_spread=n_spread,
            n_open=n_open,
            n_even=n_drawn - n_spread,
            n_ranks=int(is_free_open[: design.n_ranks].sum()),
        )
        return replace(free, round=design)

    def _numbers(self, questions: Questions) -> list[int]:
        """Return the numbers of the tags of some questions."""
        cells = zip(questions.row.tolist(), questions.column.tolist(), strict=True)
        return [self._number[cell] for cell in cells]


def _of_one_label(ranking: NoisyLabels, suspects: Array, column: int) -> Array:
    """Return the suspects of one label that are probably wrong."""
    wrong = suspects[ranking.confidence[suspects] < LIKELY]
    if not len(wrong):
        return wrong
    columns = ranking.column[wrong]
    worst = int(np.bincount(columns).argmax())
    return np.asarray(wrong[columns == (column if column in columns else worst)])


def say_what_is_known(ranking: NoisyLabels, kind: str, at_once: Array) -> str:
    """Return one line: answers so far, share of wrong tags, and a forecast for the next tags.

    Parameters
    ----------
    ranking : NoisyLabels
        The ranking with all answers.
    kind : {"listed", "missing"}
        Kind of the tags.
    at_once : array of bool
        Tags of this kind that were removed or added at once.

    Returns
    -------
    str
    """
    tags: Any = ranking if kind == LISTED else ranking.missing
    work = tags.worklist
    begin, surest_tags, hit, suspects = _WORDS[kind]
    forecast = ranking.expected_wrong if kind == LISTED else ranking.missing.expected_right
    answered = work.answered
    parts: list[str] = []
    if not len(answered):
        return begin
    surest = answered[np.argsort(work.normal_score[answered], kind="stable")]
    surest = surest[: min(_SUREST, len(answered) // 2)]
    if len(surest) >= _FEW:
        hits = int((work.answer[surest] == work.hit).sum())
        were = "was" if hits == 1 else "were"
        parts.append(f"of the {len(surest)} {surest_tags} answered, {hits} {were} {hit}")
    if kind == LISTED and not np.isnan(ranking.wrong_share) and not ranking.is_share_vague:
        low, high = ranking.wrong_share_interval
        about = f"about {ranking.wrong_share:.0%} of {ranking.tags_in_share} are wrong"
        parts.append(f"{about} (90% interval: {low:.0%} to {high:.0%})")
    ahead = work.order[~at_once[work.order]][:_NEXT]
    # No forecast is made if the answers contradict it.
    if len(ahead) and not np.isnan(forecast(len(ahead))):
        hits = np.abs(1 - work.hit - work.probability[ahead]).sum()
        low, high = work.posterior.hits_interval(work.normal_score[ahead])
        about = f"about {hits:.0f} of the next {len(ahead)} {suspects} are {hit}"
        parts.append(f"{about} (90% interval: {low:.0f} to {high:.0f})")
    if kind == LISTED and (sentence := ranking.trade_off_sentence):
        # The page itself explains how to choose another target.
        words = sentence.partition(" (")[0].removesuffix(".")
        parts.append(f"{words[0].lower()}{words[1:]}")
    if not parts:
        return begin if len(work.order) else f"No {kind} tag is left to ask about."
    line = "; ".join(parts)
    return f"{line[0].upper()}{line[1:]}."
