"""Begin a review of a table: rank it, write the project folder, and open a session."""

import os

from schirn.app.review._project import Cell, write_project
from schirn.app.review._session import Session, open_session
from schirn.app.review._table import TableRoles
from schirn.app.workflow import RIGHT, TableCleaning


def begin_review(cleaning: TableCleaning, folder: str | os.PathLike[str]) -> Session:
    r"""Write a table and its ranking into a new project folder, and open it.

    Parameters
    ----------
    cleaning : TableCleaning
        The table. The review starts from its ranking without answers.
    folder : path
        An empty or new folder.

    Returns
    -------
    Session
        The open review; close it with ``session.journal.close()``.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.app.review import begin_review
    >>> from schirn.app.workflow import TableCleaning
    >>> base = tempfile.mkdtemp()
    >>> with open(f"{base}/items.csv", "w") as file:
    ...     print("title,tags", *["sand and waves,beach", "a dog,dog"] * 9, sep="\n", file=file)
    >>> session = begin_review(TableCleaning(f"{base}/items.csv", text="title"), f"{base}/review")
    >>> session.view()["current"]["label"] in ("beach", "dog")
    True
    >>> session.journal.close()
    """
    options = cleaning.options
    source = cleaning.source
    with cleaning.resources():
        ranking = cleaning.ranked
        roles = TableRoles(
            source.labels,
            source.separator,
            text=tuple(options.text or ()),
            image=options.image,
            image_root=options.image_root,
            vocabulary=tuple(source.vocabulary.to_records()),
            add_implied=options.implied == "add",
            id=cleaning.id_column,
            content=tuple(source.content_columns()),
        )
        write_project(
            os.fspath(folder),
            ranking,
            ids=cleaning.ids,
            texts=cleaning.texts,
            table=source.table,
            source=cleaning.path,
            roles=roles,
            accepted=_accepted(cleaning),
            opinions=cleaning.opinions(),
            command=options.ranking_words(),
        )
    return open_session(
        folder,
        name=options.name or "",
        image_root=options.image_root,
        decisions=options.decisions,
        # Columns left in their files are read when the page needs them.
        table=None if getattr(source.table, "unread", ()) else source.table,
    )


def _accepted(cleaning: TableCleaning) -> list[Cell]:
    """Return the tags that were answered "right" before, listed or not."""
    store = cleaning.decisions
    if store is None:
        return []
    valid = store.match(cleaning.content, cleaning.source.vocabulary).valid
    return [cell for cell, decision in valid.items() if decision.answer == RIGHT]
