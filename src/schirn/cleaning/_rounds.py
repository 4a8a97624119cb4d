"""Rounds of questions, and the answers to them.

A round records the probability that it asked about each tag, so its answers allow estimates for
tags that nobody was asked about, however they were ranked. A round has three parts:

- tags *spread* evenly over all tags without an answer,
- tags drawn *evenly* from the first ranks,
- *chosen* tags, such as the most suspicious tags or the tags of one name. They are not drawn at
  random, so answers about them say nothing about other tags.

After the first round, a fifth of the questions of a round are spread, as a spot check of all tags.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from schirn._input import Array

SPREAD_EVERY = 5
"""After the first round, one question in this many is spread over all unanswered tags."""


class Round(NamedTuple):
    """Design of one round of questions: how its tags were chosen.

    Attributes
    ----------
    number : int
        Number of the round, from 1; larger than the numbers of all rounds answered before.
    name : str
        Hash of the tags that were asked.
    n_spread, n_open : int
        Number of spread tags, and number of all tags without an answer.
    n_even, n_ranks : int
        Number of tags drawn evenly from the first `n_ranks` tags without an answer.
    n_gone : int
        Number of drawn tags that have left the table since, with all tags of their name.
    """

    number: int
    name: str = ""
    n_spread: int = 0
    n_open: int = 0
    n_even: int = 0
    n_ranks: int = 0
    n_gone: int = 0

    @property
    def reaches_all(self) -> bool:
        """True if every tag without an answer could have been asked."""
        return self.n_spread > 0

    @property
    def n_drawn(self) -> int:
        """Number of tags that were drawn, not chosen, and are still there."""
        return self.n_spread + self.n_even - self.n_gone

    def inclusion(self, is_in_ranks: Array, response: float = 1.0) -> Array:
        """Return the probability that the round asked about each tag.

        Parameters
        ----------
        is_in_ranks : bool array
            True for tags among the first `n_ranks`.
        response : float, default=1
            Share of the drawn questions that were answered.

        Returns
        -------
        float array
        """
        spread = response * self.n_spread / max(self.n_open, 1)
        # The second draw is from the tags that the first draw left.
        n_left = self.n_ranks * (1 - self.n_spread / max(self.n_open, 1))
        even = response * min(self.n_even / n_left, 1.0) if n_left > 0 else 0.0
        union = 1 - (1 - spread) * (1 - even)
        return np.asarray(np.where(is_in_ranks, union, spread))


class Sample(NamedTuple):
    """The tags that one round asked about and that have an answer.

    Attributes
    ----------
    round : Round
        The design of the round.
    tags : (k,) int array
        Positions of the tags, sorted.
    inclusion : (k,) float array
        Probability that the round asked about each of them; 1 for chosen tags.
    """

    round: Round
    tags: Array
    inclusion: Array

    @property
    def is_drawn(self) -> Array:
        """True for tags that were drawn at random."""
        asks_all = 0 < self.round.n_open <= self.round.n_spread
        return np.asarray((self.inclusion < 1) | asks_all)

    def joined(self, other: "Sample") -> "Sample":
        """Merge two samples of the same round.

        Parameters
        ----------
        other : Sample
            More tags of the same round.

        Returns
        -------
        Sample
        """
        tags = np.r_[self.tags, other.tags]
        inclusion = np.r_[self.inclusion, other.inclusion]
        tags, first = np.unique(tags, return_index=True)
        return Sample(self.round, tags, inclusion[first])


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers about tags, and the rounds that asked for them.

    Attributes
    ----------
    value : (m,) float array
        1 for "right", 0 for "wrong", 0.5 for "unsure", NaN without an answer.
    number : (m,) int array
        Number of the first round that brought each answer; 0 without one.
    samples : tuple of Sample
        The answered tags of every round, sorted by number and name.
    """

    value: Array
    number: Array
    samples: tuple[Sample, ...] = ()

    @classmethod
    def none(cls, n_tags: int) -> "Answers":
        """Return empty answers.

        Parameters
        ----------
        n_tags : int
            Number of tags that can be answered.

        Returns
        -------
        Answers
        """
        return cls(np.full(n_tags, np.nan), np.zeros(n_tags, dtype=np.int32))

    @property
    def next_number(self) -> int:
        """Number of the next round."""
        return 1 + max((sample.round.number for sample in self.samples), default=0)

    def joined(self, value: Array, sample: Sample) -> "Answers":
        """Return the answers with a new sample.

        Parameters
        ----------
        value : (m,) float array
            Values of all answers, including the new ones.
        sample : Sample
            The new sample.

        Returns
        -------
        Answers
        """
        number = self.number.copy()
        earlier = number[sample.tags]
        current = np.int32(sample.round.number)
        number[sample.tags] = np.where(earlier == 0, current, np.minimum(earlier, current))
        samples = {(s.round.number, s.round.name): s for s in self.samples}
        key = (sample.round.number, sample.round.name)
        samples[key] = samples[key].joined(sample) if key in samples else sample
        in_order = tuple(samples[key] for key in sorted(samples))
        return Answers(value, number, in_order)

    def placed(self, place: Array, n_tags: int) -> "Answers":
        """Return the answers for a longer list of tags.

        Parameters
        ----------
        place : (m,) int array
            Position of each tag in the longer list, in ascending order.
        n_tags : int
            Length of the longer list.

        Returns
        -------
        Answers
        """
        longer = Answers.none(n_tags)
        longer.value[place] = self.value
        longer.number[place] = self.number
        samples = tuple(s._replace(tags=place[s.tags]) for s in self.samples)
        return replace(longer, samples=samples)


def round_name(cells: Sequence[tuple[int, int]]) -> str:
    """Return a short hash of the tags that a round asks about."""
    return hashlib.sha256(json.dumps(sorted(cells)).encode()).hexdigest()[:8]


def even_positions(n: int, size: int, rng: np.random.Generator) -> Array:
    """Draw n of `size` distinct positions, about one from each of n equal parts."""
    n = min(n, size)
    position = (np.arange(n) + rng.random(n)) * size / max(n, 1)
    position = np.unique(np.minimum(position.astype(int), size - 1))
    spare = np.setdiff1d(np.arange(size), position)
    extra = rng.choice(spare, n - len(position), replace=False)
    return np.sort(np.r_[position, extra].astype(int))


def mixed(chosen: Array, spread: Array) -> Array:
    """Insert one spread tag after every four chosen tags."""
    step = SPREAD_EVERY - 1
    parts = []
    for k in range(max(len(spread), -(-len(chosen) // step))):
        parts += [chosen[k * step : (k + 1) * step], spread[k : k + 1]]
    return np.concatenate(parts) if parts else chosen
