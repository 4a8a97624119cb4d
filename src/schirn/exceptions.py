"""Errors and warnings; each message says what is wrong, where, and what to do."""

import difflib
from collections.abc import Iterable

# There can be thousands of labels and columns.
_MAX_NAMES = 30
# Names less similar than this are not suggested as typing errors; the limit is lower for short
# names, in which two swapped letters matter more.
_CLOSE = 0.7
_CLOSE_SHORT = 0.6
_SHORT = 4


class InputError(ValueError):
    """The data or arguments are invalid.

    Parameters
    ----------
    message : str
        What is wrong, where, and what to do.
    parameter : str, tuple of str or None
        Name of the argument to change, or names of several, for callers that know them under other
        names.
    """

    def __init__(self, message: str = "", *, parameter: str | tuple[str, ...] | None = None):
        super().__init__(message)
        self.parameter = parameter


class DataError(InputError):
    """A data file or data set cannot be read, found or understood.

    Parameters
    ----------
    message : str
        What is wrong, where, and what to do.
    parameter : str or sequence of str, optional
        The parameters that the error is about.
    """


class ModelFileError(InputError):
    """A model file is damaged, foreign, or written by a newer version.

    Parameters
    ----------
    message : str
        What is wrong, where, and what to do.
    parameter : str or sequence of str, optional
        The parameters that the error is about.
    """


class MissingExtraError(ImportError):
    """An optional package is needed but not installed."""


class EmptyCandidatesWarning(UserWarning):
    """Some rows have no candidate label; all their labels count as false."""


class CentredFeaturesWarning(UserWarning):
    """Centred features and no intercept: the scores cannot represent label frequencies."""


class ApproximationWarning(UserWarning):
    """The data are too large for the exact method; an approximation is used."""


def _known_names(known: list[str]) -> str:
    """List known names, the first of them if there are many."""
    names = ", ".join(known[:_MAX_NAMES]) or "none"
    n_more = len(known) - _MAX_NAMES
    return f"choose from {names}" + (f" and {n_more:,} more" if n_more > 0 else "")


def suggest(name: str, known: Iterable[str], hint: str | None = None) -> str:
    """Return a hint for an unknown name: the closest known one, and else the known names.

    `hint` replaces "choose from ..." and also follows the closest name.

    >>> suggest("Shirn", ["Schirn", "Sieve"]), suggest("x", ["a", "b"])
    ("did you mean 'Schirn'?", 'choose from a, b')
    >>> suggest("x", [f"tag {j}" for j in range(40)])[-18:]
    'tag 29 and 10 more'
    """
    known = list(known)
    cutoff = _CLOSE if len(name) > _SHORT else _CLOSE_SHORT
    close = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    if not close:
        return _known_names(known) if hint is None else hint
    return " ".join(filter(None, (f"did you mean {close[0]!r}?", hint)))
