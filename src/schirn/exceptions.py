"""Errors and warnings of schirn; the message of each says what is wrong, where, and what to do."""


class InputError(ValueError):
    """The data or arguments are invalid.

    Parameters
    ----------
    message : str
        What is wrong, where, and what to do.
    parameter : str or None
        Name of the argument to change, for callers that know it under another name.
    """

    def __init__(self, message: str = "", *, parameter: str | None = None):
        super().__init__(message)
        self.parameter = parameter


class DataError(InputError):
    """A data file or data set cannot be read, found or understood."""


class ModelFileError(InputError):
    """A model file is damaged, foreign, or written by a newer version."""


class MissingExtraError(ImportError):
    """An optional package is needed for what was asked."""


class EmptyCandidatesWarning(UserWarning):
    """Some rows carry no candidate label; they count as rows whose labels are all false."""


class CentredFeaturesWarning(UserWarning):
    """The features are centred and the model has no intercept: it cannot hold label frequencies."""


class ApproximationWarning(UserWarning):
    """The data are too large for the method as it is written; a cheaper form of it is used."""
