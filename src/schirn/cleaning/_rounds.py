"""Rounds of questions, and the answers to them.

A round knows how likely it was to ask about each tag, so that its answers speak for the tags that
nobody was asked about, however they were ranked. Three parts make up a round:

- tags *spread* evenly over everything without an answer,
- tags drawn *evenly* from the first ranks,
- *chosen* tags, such as the most suspicious ones or those of one name. Nothing was left to chance
  here, so their answers say nothing about other tags.

Every round but the first spreads a fifth of its questions, so that it also checks the rest.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from schirn._input import Array

SPREAD_EVERY = 5
"""One in this many questions of a later round is spread over all unanswered tags."""


class Round(NamedTuple):
    """How the tags of one round of questions were chosen.

    Attributes
    ----------
    number : int
        Larger than that of every round that had answers when this one was drawn; from 1.
    name : str
        Hash of the tags that were asked.
    n_spread, n_open : int
        Number of tags that were spread, and of all tags without an answer.
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
        """Whether every tag without an answer could have been asked."""
        return self.n_spread > 0

    @property
    def n_drawn(self) -> int:
        """Number of tags that were drawn, not chosen, and are still there."""
        return self.n_spread + self.n_even - self.n_gone

    def inclusion(self, is_in_ranks: Array, response: float = 1.0) -> Array:
        """Probability that the round asked about each tag.

        Parameters
        ----------
        is_in_ranks : bool array
            Whether each tag is among the first `n_ranks`.
        response : float, default=1
            Share of the drawn questions that were answered.

        Returns
        -------
        float array
        """
        spread = response * self.n_spread / max(self.n_open, 1)
        # The second draw is from the tags that the first one has left.
        n_left = self.n_ranks * (1 - self.n_spread / max(self.n_open, 1))
        even = response * min(self.n_even / n_left, 1.0) if n_left > 0 else 0.0
        union = 1 - (1 - spread) * (1 - even)
        return np.asarray(np.where(is_in_ranks, union, spread))


class Sample(NamedTuple):
    """The tags that one round asked about and that have an answer.

    Attributes
    ----------
    round : Round
    tags : (k,) int array
        Positions of the tags, sorted.
    inclusion : (k,) float array
        Probability that the round asked about each of them; 1 for chosen ones.
    """

    round: Round
    tags: Array
    inclusion: Array

    @property
    def is_drawn(self) -> Array:
        """Whether chance decided to ask about each tag."""
        asks_all = 0 < self.round.n_open <= self.round.n_spread
        return np.asarray((self.inclusion < 1) | asks_all)

    def joined(self, other: "Sample") -> "Sample":
        """Return the tags of both samples of one round.

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
        """Return the answers at the beginning.

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
        """Return all answers after those to one sample.

        Parameters
        ----------
        value : (m,) float array
            Values of all answers.
        sample : Sample

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
        """Return the answers of a longer list of tags.

        Parameters
        ----------
        place : (m,) int array
            Where each tag is in the longer list, in ascending order.
        n_tags : int

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
    """Short hash of the tags that a round asks about."""
    return hashlib.sha256(json.dumps(sorted(cells)).encode()).hexdigest()[:8]


def even_positions(n: int, size: int, rng: np.random.Generator) -> Array:
    """Draw n of `size` positions, one from each of n equal parts that are at least one wide."""
    n = min(n, size)
    position = (np.arange(n) + rng.random(n)) * size / max(n, 1)
    position = np.unique(np.minimum(position.astype(int), size - 1))
    spare = np.setdiff1d(np.arange(size), position)
    extra = rng.choice(spare, n - len(position), replace=False)
    return np.sort(np.r_[position, extra].astype(int))


def mixed(chosen: Array, spread: Array) -> Array:
    """Put one of the spread tags after every four chosen ones."""
    step = SPREAD_EVERY - 1
    parts = []
    for k in range(max(len(spread), -(-len(chosen) // step))):
        parts += [chosen[k * step : (k + 1) * step], spread[k : k + 1]]
    return np.concatenate(parts) if parts else chosen
