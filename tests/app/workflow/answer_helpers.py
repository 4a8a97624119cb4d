"""Reading answers in one step, as `TableCleaning` does."""

from schirn.app.workflow import RowIdentity
from schirn.app.workflow import read_answers as read_files
from schirn.labels.tags import Tags


def file_answers(paths, ranking, *, on_note=None, **identity):
    """The answers of files about a ranking."""
    tags = Tags(ranking.row, ranking.column, ranking.n_rows, ranking.label_names)
    return read_files(paths, tags, RowIdentity(**identity), on_note=on_note)


def read_answers(paths, ranking, *, draw_again=False, counts=None, on_note=None, **identity):
    """A ranking with the answers of files, and the certificate that they continue."""
    answers = file_answers(paths, ranking, on_note=on_note, **identity)
    return answers.apply(ranking, draw_again=draw_again, counts=counts, on_note=on_note)
