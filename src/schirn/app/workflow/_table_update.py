"""The nightly update of a table as a Python object: judge new rows, and keep decisions."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from schirn._files import brief, check_writable, file_hash, lock
from schirn._progress import stage
from schirn.app.tables import keyed_changes, open_table
from schirn.app.workflow._answers import (
    read_answers_by_id,
    tasks_by_id,
    write_questions_by_id,
)
from schirn.app.workflow._columns import TagTable, check_new_columns, image_files
from schirn.app.workflow._decisions import Decisions, RowContent, ask_again
from schirn.app.workflow._label_studio import LabelStudio
from schirn.app.workflow._label_tools import Task, is_task_file, read_tasks, write_tasks
from schirn.app.workflow._nightly import Update, update_tags
from schirn.app.workflow._options import CleaningOptions
from schirn.app.workflow._tag_state import TagState, state_path
from schirn.app.workflow._vocabulary import read_vocabulary
from schirn.cleaning import ChangeList, NoisyLabels, Questions
from schirn.cleaning.questions import LISTED, MISSING
from schirn.exceptions import InputError
from schirn.features import TagPipeline
from schirn.persist import load, read_notes


class TableUpdate:
    """The current version of a table, judged by a stored model.

    Rows that are new or have changed since the last update are judged; earlier answers, and
    verdicts on other rows, are kept. Nothing is stored before `save`.

    Parameters
    ----------
    path : path
        The table.
    model : path
        A model trained by ``schirn fit --id`` on an earlier version of the table.
    options : CleaningOptions, optional
        Only options for reading, asking and removing are used; `id` is required.
    **changes
        Single options, such as ``id="sku"``.

    Attributes
    ----------
    path, model_path : str
        Paths of the table and of the model.
    options : CleaningOptions
        The options, including `changes`.
    state_path : str
        File with the state between updates, next to the model.
    notes : list of str
        Notes about the files.
    last : TagState or None
        The state that the last update saved.

    Raises
    ------
    InputError
        If there is no column of ids, or the model was not trained on columns of a table.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: str | os.PathLike[str],
        options: CleaningOptions | None = None,
        **changes: Any,
    ) -> None:
        self.path = os.fspath(path)
        self.model_path = os.fspath(model)
        self.options = replace(CleaningOptions() if options is None else options, **changes)
        if self.options.id is None:
            raise InputError("an update finds rows by id; choose the column of ids", parameter="id")
        if self.options.answers and self.options.decisions is None:
            raise InputError(
                "answers are kept in a file of decisions; choose one",
                parameter=("answers", "decisions"),
            )
        self.state_path = state_path(self.model_path)
        self.notes: list[str] = []
        self._exports: tuple[str, ...] = ()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Context manager that raises InputError while another update with this model runs.

        Yields
        ------
        None
        """
        with open(self.model_path, "rb") as file:
            if lock(file) is False:
                raise InputError(f"{self.model_path}: another update with this model is running")
            check_writable(self.state_path)
            yield

    @cached_property
    def model(self) -> TagPipeline:
        """The stored model."""
        stage("reading the model")
        model = load(self.model_path)
        if not isinstance(model, TagPipeline):
            raise InputError(
                f"{self.model_path}: was not trained on columns of a table; train with schirn fit "
                f"TABLE"
            )
        return model

    @cached_property
    def last(self) -> TagState | None:
        """State saved by the last update; None if there is none."""
        path = self.state_path
        return TagState.read(path) if Path(path).exists() else None

    @cached_property
    def source(self) -> TagTable:
        """The table, read as in training."""
        options = self.options
        model = self.model
        stage("reading the table")
        opened = open_table(
            self.path,
            encoding=options.encoding,
            delimiter=options.delimiter,
            query=options.query,
        )
        vocabulary = read_vocabulary(options.vocabulary) if options.vocabulary else None
        notes = read_notes(self.model_path)
        source = TagTable(
            opened,
            self.path,
            labels=options.labels or notes.get("labels"),
            separator=model.separator,
            id=options.id,
            vocabulary=vocabulary,
            add_implied=options.implied == "add",
        )
        if vocabulary is None:
            source.apply_as_in_training(notes)
        source.check_as_in_training(model.label_names_)
        return source

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns that the model learned from."""
        features = self.model.features_
        table = self.source.table
        names = [name for kind in features.kinds for name in features.names_of(kind)]
        absent = [name for name in names if name not in table.columns]
        if absent:
            raise InputError(
                f"{self.path}: there is no column {brief(absent[0])}, which {self.model_path} "
                f"learned from"
            )
        columns: dict[str, Any] = {name: table.column(name) for name in names}
        if features.image is not None:
            root = self.options.image_root
            columns[features.image] = image_files(table, features.image, self.path, root)
        return columns

    @cached_property
    def rows(self) -> RowContent:
        """Ids of the rows, and checksums of their content."""
        source = self.source
        return RowContent(source.ids(), source.table, list(self.columns))

    @cached_property
    def texts(self) -> list[str]:
        """Text of each row."""
        features = self.model.features_
        source = self.source
        if features.text is None:
            return source.texts()
        texts: list[str] = features.texts(source.table)
        return texts

    @cached_property
    def decisions(self) -> Decisions | None:
        """The answers of all updates, including the files of answers."""
        options = self.options
        if options.decisions is None:
            return None
        store = Decisions(options.decisions)
        if store.repaired:
            self.notes.append(f"{options.decisions}: {store.repaired}")
        for path in (*options.answers, *self._exports):
            answers = read_answers_by_id(path, options.name or "")
            if is_task_file(path):
                store.merge(answers)
            else:
                store.add(answers)
        return store

    @cached_property
    def update(self) -> Update:
        """New rows, changed rows, and the verdicts."""
        # The table is read first, so that errors in it are reported before answers are stored.
        columns = self.columns
        rows = self.rows
        model_hash = file_hash(self.model_path)
        self.notes += self._notes_on_state(model_hash)
        return update_tags(
            self.model,
            columns,
            self.source.tags(),
            rows,
            last=self.last,
            decisions=self.decisions,
            model_hash=model_hash,
            precision=self.options.precision,
            keep_one=not self.options.allow_empty,
            vocabulary=self.source.vocabulary,
            tag_column=self.source.labels,
        )

    def _notes_on_state(self, model_hash: str) -> list[str]:
        """Add a note if the state belongs to another model."""
        last = self.last
        if last is not None and last.model in ("", model_hash):
            return []
        notes = [f"all rows are new: there is no {self.state_path}"]
        if last is not None:
            notes = [
                f"{self.state_path} was written for another model: all rows are judged again, and "
                f"drift since training is not known; schirn fit --id writes a new state"
            ]
        if getattr(self.model.method_, "training_rows_", None) is None:
            notes.append(
                f"{self.model_path} does not contain its training rows, so they are judged by a "
                f"model that has seen their tags, and look more likely than they are; schirn fit "
                f"--id judges each by the others"
            )
        return notes

    @property
    def ranking(self) -> NoisyLabels:
        """All tags of the table with their verdicts."""
        return self.update.ranking

    def questions(self, n: int | None = None) -> Questions:
        """Return the next tags to ask about, starting with the tags of changed rows.

        Parameters
        ----------
        n : int, optional
            Number of questions; by default `options.number`.

        Returns
        -------
        Questions
        """
        options = self.options
        n = options.number if n is None else n
        kind = MISSING if options.suggest else LISTED
        questions = self.ranking.questions(n, kind=kind, random_state=options.seed)
        carried = self.update.carried
        # Nothing can be seen in a row without features, so nobody is asked about it.
        empty = {*self.update.featureless}
        changed = {cell: x for cell, x in carried.changed.items() if cell[0] not in empty}
        return ask_again(self.ranking, carried._replace(changed=changed), questions, n)

    def write_questions(
        self,
        path: str | os.PathLike[str],
        n: int | None = None,
        *,
        tool: str | None = None,
        show_predictions: bool = False,
    ) -> None:
        """Write the next questions to a .csv file that names rows by their ids.

        Parameters
        ----------
        path : path
            File to write.
        n : int, optional
            Number of questions; by default `options.number`.
        tool : {"label-studio", "argilla"}, optional
            Write a .json file for this labeling tool instead.
        show_predictions : bool, default=False
            Let the tool show the likelier answer and its probability, which biases people.
        """
        if tool is not None:
            write_tasks(path, self.tasks(n), tool, show_predictions=show_predictions)
            return
        write_questions_by_id(path, self.questions(n), self.rows, **self._asked_with)

    def tasks(self, n: int | None = None) -> list[Task]:
        """Return the next questions as tasks of a labeling tool.

        Parameters
        ----------
        n : int, optional
            Number of questions; by default `options.number`.

        Returns
        -------
        list of Task
        """
        return tasks_by_id(self.questions(n), self.rows, **self._asked_with)

    @property
    def _asked_with(self) -> dict[str, Any]:
        """Content of the questions in addition to the tag."""
        return {"texts": self.texts, "earlier": self.update.carried.changed}

    def send_questions(
        self, server: LabelStudio, n: int | None = None, *, show_predictions: bool = False
    ) -> int:
        """Send the next questions to a Label Studio project, except tasks already open there.

        Parameters
        ----------
        server : LabelStudio
            The project.
        n : int, optional
            Number of questions; by default `options.number`.
        show_predictions : bool, default=False
            Show the likelier answer and its probability, which biases people.

        Returns
        -------
        int
            Number of tasks that were sent.
        """
        export = server.export(self.path)
        return server.send_new(self.tasks(n), export, show_predictions=show_predictions)

    def fetch_answers(self, server: LabelStudio) -> int:
        """Fetch the answers of a Label Studio project, and add them to the decisions.

        Parameters
        ----------
        server : LabelStudio
            The project.

        Returns
        -------
        int
            Number of answers.

        Raises
        ------
        InputError
            If there is no file of decisions.
        """
        if self.options.decisions is None:
            raise InputError(
                "answers of a project are kept in a file of decisions; name one",
                parameter="decisions",
            )
        export = server.export(self.path)
        self._exports = (export,)
        # Both are computed again, with the new answers.
        for name in ("decisions", "update"):
            self.__dict__.pop(name, None)
        return len(read_tasks(export))

    def changes(self) -> ChangeList:
        """List the changes of the vocabulary, removals and additions, with the id of each row.

        Returns
        -------
        ChangeList
        """
        source = self.source
        return keyed_changes(source.changes(self.ranking), source.table, self.options.id)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the table with the clean tags.

        Parameters
        ----------
        path : path
            File to write; its suffix determines the format.

        Raises
        ------
        InputError
            If the table already has one of the columns that the copy adds.
        """
        source = self.source
        suggest = self.options.suggest
        names = source.new_columns(suggest, add=True, note=True)
        check_new_columns(self.path, source.table, names)
        source.write_clean(os.fspath(path), self.ranking, suggest=suggest)

    def save(self) -> None:
        """Store the state for the next update."""
        self.update.state.write(self.state_path)
