"""Second opinions about tags, from a language model, a classifier or another annotator.

A *voice* is one source of opinions. Each voice is one more expert of the ranking: its log-odds,
standardised over the cells that it judges, are added to the normal score of the rank. Without
answers, the weight of a voice is close to 1 if it agrees with the ranking far more than by chance,
and 0 otherwise, because a voice with random opinions would only blur the ranking. Answers then
adjust the weights, and can also give weight to a voice that had none but agrees with them. Opinions
never count as answers: the share of wrong tags, limits and certificates rest on people.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv, logit

from schirn._files import brief
from schirn._input import Array, is_missing, suggest
from schirn.exceptions import InputError

# Probability of a plain "yes"; its size does not matter, because log-odds are standardised.
_YES = 0.9
_NO = 0.1
_LEAST = 0.02
# Agreement with the ranking or the answers, in standard errors, that exceeds chance.
_CHANCE = 3.0
_WORDS = {
    **dict.fromkeys(("yes", "y", "right", "correct", "true", "1", "1.0"), 1.0),
    **dict.fromkeys(("no", "n", "wrong", "incorrect", "false", "0", "0.0"), 0.0),
}
_IN_PROSE = {
    **dict.fromkeys(("yes", "right", "correct", "true", "applies"), 1.0),
    **dict.fromkeys(("no", "not", "wrong", "incorrect", "false"), 0.0),
}


class Voice(NamedTuple):
    """Agreement of one voice (source of opinions) with the answers.

    Attributes
    ----------
    who : str
        Name of the voice.
    n_opinions : int
        Number of ranked tags, listed or missing, that it has an opinion about.
    weight : float
        Its weight without answers, from 0 to 1.
    n_answered, n_agree : int
        Number of these tags that a person answered "right" or "wrong", and number of agreements.
    agreement : float
        Share of the answered tags on which voice and person agree; NaN without answers.
    agreement_interval : tuple of two floats
        90% interval of this share; (0, 1) without answers.
    is_heard : bool
        True if the voice changes ranks: it agrees with the ranking of listed tags, or with the
        answers about them, more than by chance.
    """

    who: str
    n_opinions: int
    weight: float
    n_answered: int
    n_agree: int
    agreement: float
    agreement_interval: tuple[float, float]
    is_heard: bool

    @property
    def sentence(self) -> str:
        """Sentence about the quality of the voice."""
        noun = "opinion" if self.n_opinions == 1 else "opinions"
        words = f"{self.who}: {self.n_opinions:,} {noun}"
        if self.n_answered:
            low, high = self.agreement_interval
            words += (
                f", {self.n_agree:,} of {self.n_answered:,} agree with your answers "
                f"({self.agreement:.0%}; 90% interval: {low:.0%} to {high:.0%})"
            )
        else:
            words += ", none about an answered tag yet"
        if not self.is_heard:
            rest = "the ranking and the answers" if self.n_answered else "the ranking"
            words += (
                f", without influence, since they agree with {rest} no more than chance explains"
            )
        return f"{words}."


class Opinions(NamedTuple):
    """Opinions of one voice about some cells.

    Attributes
    ----------
    who : str
        Name of the voice.
    cell : (k,) int array
        Cells as row * number of labels + column, sorted.
    log_odds : (k,) float array
        Log-odds that the tag is correct.
    """

    who: str
    cell: Array
    log_odds: Array

    def of(self, cells: Array) -> Array:
        """Return the log-odds of some cells, NaN where the voice has no opinion."""
        if not len(self.cell):
            return np.full(len(cells), np.nan)
        place = np.minimum(np.searchsorted(self.cell, cells), len(self.cell) - 1)
        return np.asarray(np.where(self.cell[place] == cells, self.log_odds[place], np.nan))

    def widened(self, n_labels: int, n_new: int) -> "Opinions":
        """Return the opinions for a table with more labels, appended after the present ones."""
        row, column = np.divmod(self.cell, n_labels)
        return self._replace(cell=row * n_new + column)


def standardised(log_odds: Array) -> Array:
    """Standardise log-odds over the cells with an opinion; 0 for the other cells."""
    has_opinion = ~np.isnan(log_odds)
    values = log_odds[has_opinion]
    z = np.zeros(len(log_odds))
    if len(values) and values.std() > 1e-12:
        z[has_opinion] = (values - values.mean()) / values.std()
    return z


def weight_without_answers(voice: Array, score: Array, column: Array) -> float:
    """Return the weight of a voice, from its agreement with the ranking within labels.

    Agreement between labels does not count: saying yes more often to labels that are more often
    right is no sign of judgement.

    Parameters
    ----------
    voice : (m,) float array
        Standardised log-odds; 0 without an opinion.
    score : (m,) float array
        Normal scores of the ranking, higher for tags that are more likely right.
    column : (m,) int array
        Label of each tag.

    Returns
    -------
    float
        max(0, 1 - (3 / t)²), where t is the correlation in standard errors; 0 if t < 3.
    """
    tags = np.flatnonzero(voice)
    x = _within(voice[tags], column[tags])
    y = _within(score[tags], column[tags])
    length = np.sqrt((x @ x) * (y @ y))
    if length < 1e-12 or len(tags) < 3:
        return 0.0
    t = float(x @ y / length) * np.sqrt(len(tags))
    return float(max(0.0, 1 - (_CHANCE / t) ** 2)) if t > 0 else 0.0


def agrees_with_answers(voices: Array, right: Array) -> Array:
    """Check which voices agree with the answers more than by chance.

    Parameters
    ----------
    voices : (k, v) float array
        Standardised log-odds about the answered tags; 0 without an opinion.
    right : (k,) bool array
        True for tags answered "right".

    Returns
    -------
    (v,) bool array
    """
    y = right - right.mean()
    lengths = np.sqrt((voices**2).sum(axis=0) * (y @ y))
    t = voices.T @ y / np.maximum(lengths, 1e-12) * np.sqrt(len(right))
    return np.asarray(t > _CHANCE)


def _within(values: Array, column: Array) -> Array:
    """Subtract from each value the mean of its label."""
    if not len(values):
        return values
    count = np.bincount(column)
    mean = np.bincount(column, values) / np.maximum(count, 1)
    return np.asarray(values - mean[column])


def read_opinions(
    opinions: Any, n_rows: int, label_names: list[str], who: str = "opinion"
) -> list[Opinions]:
    """Read opinions in any supported format.

    Parameters
    ----------
    opinions : array, dict, DataFrame, or iterable of (row, tag, opinion, who)
        Probabilities from 0 to 1, or True and False; NaN or None means no opinion.
    n_rows : int
        Number of rows of the table.
    label_names : list of str
        Name of each label.
    who : str, default="opinion"
        Name of the voice of an array.

    Returns
    -------
    list of Opinions
        One element per voice.
    """
    if isinstance(opinions, Mapping):
        names = [str(name) for name in opinions]
        return [
            _of_array(array, n_rows, label_names, name)
            for name, array in zip(names, opinions.values(), strict=True)
        ]
    columns = [str(name) for name in getattr(opinions, "columns", ())]
    if {"row", "tag", "opinion"} <= set(columns):
        cells = [opinions[name].to_numpy().tolist() for name in ("row", "tag", "opinion")]
        voices = opinions["who"].tolist() if "who" in columns else [who] * len(cells[0])
        return _of_records(zip(*cells, voices, strict=True), n_rows, label_names)
    if hasattr(opinions, "ndim") or hasattr(opinions, "iloc"):
        return [_of_array(opinions, n_rows, label_names, who)]
    return _of_records(opinions, n_rows, label_names)


def _of_array(array: Any, n_rows: int, label_names: list[str], who: str) -> Opinions:
    """Read one opinion per cell."""
    values = np.asarray(array, dtype=np.float64)
    shape = (n_rows, len(label_names))
    if values.shape != shape:
        raise InputError(
            f"the opinions of {who} have shape {values.shape}, but the tags have {shape}",
            parameter="opinions",
        )
    values = values.ravel()
    cell = np.flatnonzero(~np.isnan(values))
    return Opinions(who, cell, _log_odds(values[cell], who))


def _of_records(
    records: Iterable[tuple[Any, Any, Any, Any]], n_rows: int, label_names: list[str]
) -> list[Opinions]:
    """Read a table of opinions; the last one about a cell counts."""
    place = {name: j for j, name in enumerate(label_names)}
    voices: dict[str, dict[int, float]] = {}
    for number, record in enumerate(records, 1):
        if len(record) != 4:
            raise InputError(
                f"opinion {number} must be (row, tag, opinion, who), not {brief(record)}",
                parameter="opinions",
            )
        row, tag, opinion, who = record
        if is_missing(opinion):
            continue
        if not isinstance(row, int | np.integer) or not 0 <= row < n_rows:
            raise InputError(
                f"opinion {number}: row must be a number from 0 to {n_rows - 1}, not {row!r}",
                parameter="opinions",
            )
        if tag not in place:
            hint = suggest(str(tag), label_names)
            raise InputError(
                f"opinion {number}: there is no label {brief(str(tag))}; {hint}",
                parameter="opinions",
            )
        cell = int(row) * len(label_names) + place[tag]
        voices.setdefault(str(who), {})[cell] = _probability(opinion, number)
    result = []
    for who, values in voices.items():
        cells = np.array(sorted(values), dtype=np.int64)
        p = np.array([values[cell] for cell in cells.tolist()])
        result.append(Opinions(who, cells, _log_odds(p, who)))
    return result


def _probability(opinion: Any, number: int) -> float:
    """Return the probability of an opinion given as a number, or as yes or no."""
    if isinstance(opinion, str):
        word = opinion.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
    try:
        return float(opinion)
    except (TypeError, ValueError):
        raise InputError(
            f"opinion {number} must be yes, no or a probability, not {brief(str(opinion))}",
            parameter="opinions",
        ) from None


def _log_odds(p: Array, who: str) -> Array:
    """Return the log-odds of probabilities, which are finite even for yes and no."""
    if len(p) and (p.min() < 0 or p.max() > 1):
        raise InputError(
            f"the opinions of {who} must be probabilities from 0 to 1", parameter="opinions"
        )
    if np.isin(p, (0, 1)).all():
        return np.asarray(logit(np.where(p == 1, _YES, _NO)))
    return np.asarray(logit(np.clip(p, _LEAST, 1 - _LEAST)))


def agreement(n_agree: int, n_answered: int) -> tuple[float, tuple[float, float]]:
    """Return the share of answers that a voice agrees with, and its 90% Jeffreys interval."""
    if not n_answered:
        return np.nan, (0.0, 1.0)
    n_other = n_answered - n_agree
    low = betaincinv(n_agree + 0.5, n_other + 0.5, 0.05) if n_agree else 0.0
    high = betaincinv(n_agree + 0.5, n_other + 0.5, 0.95) if n_other else 1.0
    return n_agree / n_answered, (float(low), float(high))


def parse_opinion(text: str) -> float | None:
    """Read the reply of a language model as the probability that a tag is correct.

    Parameters
    ----------
    text : str
        The reply, such as "yes", "0.8", "No, it is a jacket." or "The tag is not correct".

    Returns
    -------
    float or None
        1 for yes, 0 for no, or the number; None if the reply is unclear.

    Examples
    --------
    >>> from schirn.cleaning import parse_opinion
    >>> [parse_opinion(text) for text in ("Yes.", "**No**, a jacket", "0.8", "I cannot tell")]
    [1.0, 0.0, 0.8, None]
    """
    plain = text.strip().strip("*_`\"'.!").lower()
    try:
        number = float(plain)
    except ValueError:
        number = -1.0
    if 0 <= number <= 1:
        return number
    words = re.findall(r"[a-z]+", plain)
    if words and words[0] in ("yes", "no"):
        return _IN_PROSE[words[0]]
    verdicts = {_IN_PROSE[word] for word in words if word in _IN_PROSE}
    if "not" in words or "no" in words:
        # "not correct" means no; "not wrong" is left to a person.
        return 0.0 if not {"wrong", "incorrect", "false"} & set(words) and 1.0 in verdicts else None
    return verdicts.pop() if len(verdicts) == 1 else None
