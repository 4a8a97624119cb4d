"""From a folder to a session."""

import os
from pathlib import Path

from schirn.review._journal import Journal
from schirn.review._project import read_project
from schirn.review._session import Session
from schirn.review._trainer import read_confidence


def open_session(folder: str | os.PathLike[str], *, write: bool = True) -> Session:
    """Read a project folder with its decisions and the confidences of its last training.

    Parameters
    ----------
    folder : path
    write : False takes no decisions and changes nothing in the folder

    Examples
    --------
    >>> from schirn.review import open_session
    >>> open_session("/nowhere")
    Traceback (most recent call last):
    ...
    schirn.exceptions.DataError: /nowhere: not a review project (there is no project.json); \
make one with: schirn clean DATA --project /nowhere
    """
    project = read_project(folder)
    journal = Journal(Path(folder, "journal.jsonl"), project.fingerprint, write=write)
    try:
        session = Session(project, journal)
        stored = read_confidence(project, session.sequence)
        if stored is not None:
            session.use_confidence(*stored)
    except BaseException:
        journal.close()
        raise
    return session
