"""A table to clean as a Python object: rank, ask, act, and show the results."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._checkpoint import kept_in
from schirn._files import brief, shortened
from schirn._input import location, repeated
from schirn._optional import optional
from schirn._progress import stage
from schirn.app.tables import Finding, keyed_changes, look_at_table, open_table
from schirn.app.workflow._answers import (
    Counts,
    FileAnswers,
    RowIdentity,
    question_tasks,
    read_answers,
    write_questions,
)
from schirn.app.workflow._columns import Features, TagTable, check_new_columns, columns_to_stream
from schirn.app.workflow._decisions import Carried, Decision, Decisions, RowContent, ask_again
from schirn.app.workflow._label_studio import LabelStudio
from schirn.app.workflow._label_tools import Task, read_tasks, write_tasks
from schirn.app.workflow._models import make_model, to_device
from schirn.app.workflow._opinions import OpinionRecord, read_opinion_file, write_prompts
from schirn.app.workflow._options import CleaningOptions
from schirn.app.workflow._ranking_store import RankingStore, StoredRanking, content_key, stamp
from schirn.app.workflow._vocabulary import (
    read_vocabulary,
    with_kept_tags,
    write_vocabulary,
)
from schirn.cleaning import (
    Certificate,
    ChangeList,
    MissingTags,
    NoisyLabels,
    Questions,
    Reasons,
    find_noisy_labels,
)
from schirn.cleaning.certificate import ADDED, REMOVED
from schirn.cleaning.policy import DROP, KEEP
from schirn.cleaning.questions import LISTED, MISSING, cells_of
from schirn.exceptions import InputError
from schirn.labels.tags import Tags, read_tags
from schirn.scale.cluster import connected
from schirn.scale.memory import memory_limit

# Maximum length of a text in questions and on pages.
_MAX_TEXT = 2000
_SPREAD_PROMPTS_EVERY = 4


class TableCleaning:
    r"""A table whose tags are ranked, asked about, changed and exported.

    The table is read once and ranked once. The ranking is stored next to the table, in the folder
    `.schirn`, and reused as long as the table, the options that determine the ranks and the version
    of this program stay the same. The table itself is never changed.

    Parameters
    ----------
    path : path
        A .csv, .tsv, .jsonl, .json, .xlsx or .parquet file, or a folder of .parquet files.
    options : CleaningOptions, optional
        Options for reading, ranking and cleaning; the defaults if not given.
    **changes
        Single options, such as ``labels="tags"``; see `CleaningOptions`.

    Attributes
    ----------
    path : str
        Path of the table.
    options : CleaningOptions
        The options, including `changes`.
    notes : list of str
        Notes about how the table was read and ranked.
    on_note : callable or None
        Called with each note as soon as it is made.
    about : dict
        Source of the ranks, with the keys "source", "left_out", "encoder" and "in_files".
    is_stored : bool
        True if the ranking was stored by an earlier run.
    carried : Carried
        Decisions of earlier runs, matched to the rows of the table.
    decisions : Decisions or None
        The file of `options.decisions`.
    certificate : Certificate or None
        The certificate that the answers continue.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.app.workflow import TableCleaning
    >>> path = f"{tempfile.mkdtemp()}/items.csv"
    >>> words = {"beach": "sand and waves", "dog": "a tail and a bark"}
    >>> lines = [f"{words[tag]} {i},{tag}" for i in range(40) for tag in words]
    >>> with open(path, "w") as file:
    ...     print("title,tags", "sand and waves,dog", *lines, sep="\n", file=file)
    >>> cleaning = TableCleaning(path, labels="tags", text="title")
    >>> cleaning.ranking
    NoisyLabels(81 rows, 2 labels, 81 tags, 0 answers, 0 removed)
    >>> worst = cleaning.ranking.suspects(1)
    >>> int(worst.row[0]), worst.label[0]
    (0, 'dog')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: CleaningOptions | None = None,
        **changes: Any,
    ) -> None:
        self.path = os.fspath(path)
        base = CleaningOptions() if options is None else options
        self.options = replace(base, **changes)
        self.notes: list[str] = []
        self.on_note: Callable[[str], None] | None = None
        self.is_stored = False
        self.about: dict[str, Any] = {}
        self.carried = Carried({}, {}, 0)
        self.certificate: Certificate | None = None
        self._ranking: NoisyLabels | None = None
        # Answers of labeling tools that the file of decisions may lack.
        self._unsaved: list[Decision] = []
        self._is_saved = False
        # State of the file when it was read.
        self._stamp: Any = None
        self._exports: tuple[str, ...] = ()
        # The draw of the certificate that asked about each answered tag.
        self._draws = dict[tuple[int, str], int | None]()
        self._has_resources = False

    def __repr__(self) -> str:
        ranking = "not ranked" if self._ranking is None else repr(self._ranking)
        return f"TableCleaning({self.path!r}, {ranking})"

    def _repr_html_(self) -> str:
        return str(self._report({})._repr_html_())

    def _note(self, sentence: str) -> None:
        if sentence in self.notes:
            return
        self.notes.append(sentence)
        if self.on_note is not None:
            self.on_note(sentence)

    @contextmanager
    def resources(self) -> Iterator[None]:
        """Context manager for the checkpoint, memory limit and workers of the options.

        Ranking enters it automatically. Steps inside one context share a connection.

        Yields
        ------
        None
        """
        options = self.options
        if self._has_resources:
            yield
            return
        with ExitStack() as stack:
            stack.enter_context(kept_in(options.checkpoint))
            stack.enter_context(memory_limit(options.max_memory))
            if options.scheduler is not None:
                self._check_scheduler()
                stage("connecting to the scheduler")
                stack.enter_context(connected(options.scheduler, "--scheduler"))
            self._has_resources = True
            try:
                yield
            finally:
                self._has_resources = False

    def _check_scheduler(self) -> None:
        """Raise InputError for options that Dask workers do not support."""
        options = self.options
        refused: dict[str, Any] = {
            "categories": options.categories,
            "encoder": options.encoder,
            "device": options.device,
        }
        refused["an .npy file"] = (options.features or "").endswith(".npy")
        for name, value in refused.items():
            if value:
                raise InputError(
                    f"{name} cannot be used with a scheduler", parameter=("scheduler", name)
                )
        if bool(options.text) == bool(options.features or options.columns):
            raise InputError(
                "with a scheduler, give one of text, features and columns",
                parameter=("scheduler", "text", "features", "columns"),
            )
        if not options.text and not Path(self.path).is_dir():
            raise InputError(
                f"{self.path}: with a scheduler, columns of numbers must be in a folder of "
                f".parquet files that all workers see under the same path",
                parameter="scheduler",
            )

    # Read.

    @cached_property
    def source(self) -> TagTable:
        """The table with the roles of its columns."""
        stage("reading the table")
        options = self.options
        self._stamp = stamp(self.path)
        table = open_table(
            self.path,
            encoding=options.encoding,
            delimiter=options.delimiter,
            unread=self._unread(),
            query=options.query,
        )
        lists = {
            name: None if value is None else list(value)
            for name, value in (
                ("text", options.text),
                ("columns", options.columns),
                ("categories", options.categories),
            )
        }
        source = TagTable(
            table,
            self.path,
            labels=options.labels,
            separator=options.separator,
            **lists,
            features=options.features,
            vocabulary=read_vocabulary(options.vocabulary) if options.vocabulary else None,
            add_implied=options.implied == "add",
            encoder=options.encoder,
            id=options.id,
            image=options.image,
            group=options.group,
            known_clean=options.known_clean,
            image_root=options.image_root,
        )
        source.check_chosen_separator()
        return source

    @cached_property
    def tags(self) -> Tags:
        """The tags of the rows, after the vocabulary."""
        return read_tags(self.source.tags(), None)

    @cached_property
    def features(self) -> Features:
        """Features to learn from, computed when first needed."""
        source = self.source
        stage("making features")
        features = source.features("files" if self.options.scheduler is None else "dask", self.tags)
        for sentence in features.notes(source.table):
            self._note(sentence)
        return features

    @cached_property
    def texts(self) -> list[str]:
        """Text of each row."""
        return [shortened(text, _MAX_TEXT) for text in self.source.texts()]

    @cached_property
    def ids(self) -> list[str]:
        """Name of each row: its id if all ids differ, otherwise its number from 1."""
        if self.id_column is None:
            return [str(i + 1) for i in range(self.tags.n_rows)]
        return self.source.ids()

    @cached_property
    def id_column(self) -> str | None:
        """Name of the column of ids, if each row has a distinct one."""
        name = repeated(self.source.ids())
        if name is not None:
            self._note(f"the id {name!r} occurs more than once; rows are numbered from 1 instead")
        return self.options.id if name is None else None

    @cached_property
    def findings(self) -> list[Finding]:
        """Problems of the table that can be found without ranking it."""
        source = self.source
        stage("checking the table")
        transformer = source.transformer()
        texts = None
        if transformer is not None and transformer.text is not None:
            texts = transformer.texts(source.table)
        return look_at_table(
            self.tags,
            texts=texts,
            separator=source.separator,
            former_names=source.vocabulary.merges,
        )

    def _unread(self) -> list[str]:
        """Return the columns of numbers to leave unread in their files."""
        options = self.options
        is_here = options.scheduler is None
        if (options.text or options.categories) and is_here:
            return []
        names = [options.features] if options.features else list(options.columns or ())
        if not is_here:
            return names
        several = [name.strip() for name in (options.features or "").split(",")]
        return columns_to_stream(self.path, names) or columns_to_stream(self.path, several)

    # Rank.

    @property
    def ranking(self) -> NoisyLabels:
        """The ranking with all requested changes, decisions and answers so far.

        Reading it stores no decisions; `act` and the methods that ask, answer, apply or export do.
        """
        if self._ranking is None:
            self._ranking = self._acted()
            self._is_saved = False
        return self._ranking

    @cached_property
    def ranked(self) -> NoisyLabels:
        """The ranking without answers; a new ranking is stored."""
        options = self.options
        stored = self._stored_ranking()
        self.about = stored.about
        keep_one = not options.allow_empty
        ranking = stored.ranking.at(precision=options.precision, keep_one=keep_one)
        return with_kept_tags(ranking, self.source.vocabulary)

    def _stored_ranking(self) -> StoredRanking:
        """Return the ranking of an earlier run; if there is none, rank the tags and store it."""
        # Read first, so that errors in the table are reported before anything else happens.
        tags = self.tags
        store = RankingStore(self.path)
        key = self._key()
        if key is not None and not self.options.fresh:
            stored = store.read(key, tags)
            if stored is not None:
                self.is_stored = True
                for sentence in stored.about["notes"]:
                    self._note(sentence)
                self._note(
                    f"uses the ranking stored in {store.folder.name}, since table, options and "
                    f"version are the same; --fresh ranks again"
                )
                return stored
        with self.resources():
            stored = StoredRanking(self._rank(), self._describe_features())
        if key is not None:
            store.write(key, stored)
        return stored

    def _rank(self) -> NoisyLabels:
        """Rank the tags; the library chooses the method unless an option asks for one."""
        options = self.options
        features = self.features
        X = features.X
        if options.device is not None:
            X = to_device(X, options.device)
        is_chosen = options.method or options.param or options.device
        is_chosen = is_chosen or (options.scheduler and not options.text)
        model = None
        if is_chosen:
            settings = {"scaled": features.is_scaled, "sparse": sp.issparse(features.X)}
            model = make_model(options.method or "Sieve", options.param, **settings)
        return find_noisy_labels(
            X,
            self.tags,
            method=model,
            known_clean=self.source.known_clean(),
            groups=features.groups,
            vocabulary=self.source.vocabulary if options.vocabulary else None,
            min_count=options.min_count,
            scaled=features.is_scaled,
            max_memory=options.max_memory,
            random_state=options.seed,
        )

    def _key(self) -> dict[str, Any] | None:
        """Return everything that the ranking depends on; None if that cannot be determined."""
        key = self.options.ranking_key()
        content = content_key(self.path)
        if key is None or content is None:
            return None
        key["table"] = content
        images = self.source.images() if self.source.learns_from_images else None
        if images is not None:
            key["images"] = [None if file is None else content_key(file) for file in images]
        # If the table was replaced while it was read, its content may differ.
        return key if stamp(self.path) == self._stamp else None

    def _describe_features(self) -> dict[str, Any]:
        features = self.features
        return {
            "source": features.source,
            "left_out": list(features.left_out),
            "encoder": features.encoder,
            "in_files": location(features.X) == "files",
            "notes": features.notes(self.source.table),
        }

    @cached_property
    def reasons(self) -> Reasons | None:
        """Explanations of verdicts; None if no tag is ranked, or the features are on workers."""
        if self.options.scheduler is not None or not self.ranking.judged.any():
            return None
        features = self.features
        stage("explaining the ranks")
        names = features.feature_names
        return self.ranking.reasons(features.X, feature_names=names, scaled=features.is_scaled)

    # Ask.

    @property
    def kind(self) -> str:
        """Kind of tags that the questions are about: "listed" or "missing"."""
        return MISSING if self.options.suggest else LISTED

    def questions(self, n: int | None = None) -> Questions:
        """Return the next tags to ask a person about.

        Tags of rows that have changed since they were answered come first.

        Parameters
        ----------
        n : int, optional
            Number of questions; by default `options.number`.

        Returns
        -------
        Questions

        Raises
        ------
        InputError
            If no tag is left to ask about, or if there is nothing to certify (`options.certify`).
        """
        self._save_decisions()
        n = self.options.number if n is None else n
        if self.options.certify:
            questions = self._certificate_questions(n)
        else:
            seed = self.options.seed
            questions = self.ranking.questions(n, kind=self.kind, random_state=seed)
            questions = ask_again(self.ranking, self.carried, questions, n)
        if not len(questions):
            raise InputError(f"there is no {self.kind} tag left to ask about")
        if questions.reason:
            self._note(questions.reason)
        return questions

    def _certificate_questions(self, n: int) -> Questions:
        """Return questions of the certificate; the first ones begin it."""
        # First, because the answers of the options may continue a certificate.
        ranking = self.ranking
        if self.certificate is None:
            of = ADDED if self.options.suggest else REMOVED
            self.certificate = ranking.certify(of=of)
        if problem := self.certificate.problem:
            raise InputError(f"{problem[0].lower()}{problem[1:].removesuffix('.')}")
        return self.certificate.questions(n)

    def write_questions(
        self,
        path: str | os.PathLike[str],
        n: int | None = None,
        *,
        tool: str | None = None,
        show_predictions: bool = False,
    ) -> None:
        """Write the next questions to a .csv file, with an empty column `right`.

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
        separator = self.source.separator
        questions = self.questions(n)
        write_questions(path, questions, self.ranking, separator=separator, **self._asked_with)

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
        questions = self.questions(n)
        return question_tasks(questions, self.ranking, **self._asked_with)

    @property
    def _asked_with(self) -> dict[str, Any]:
        """Content of the questions in addition to the tag."""
        is_certificate = self.options.certify
        return {
            "certificate": self.certificate if is_certificate else None,
            "texts": self.texts if any(self.texts) else None,
            "ids": self.ids if self.options.id else None,
            "content": self._row_content,
            "columns": self.source.text_columns(),
            "earlier": None if is_certificate else self.carried.changed,
        }

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
        """Fetch the answers of a Label Studio project; the ranking is updated with them.

        The export is stored next to the ranking, in the folder `.schirn`, and the answers in the
        file of decisions, if there is one.

        Parameters
        ----------
        server : LabelStudio
            The project.

        Returns
        -------
        int
            Number of answers.
        """
        if self._ranking is not None:
            self._save_decisions()
        export = server.export(self.path)
        n_answers = len(read_tasks(export))
        self._exports = (export,) if n_answers else ()
        self._ranking = None
        if n_answers:
            self._save_decisions()
        return n_answers

    def write_prompts(self, path: str | os.PathLike[str], n: int | None = None) -> None:
        """Write suspicious tags as JSON lines with prompts for a language model.

        Three quarters of the tags are the most suspicious ones, and a quarter is spread over all
        others: how well the opinions about these agree with the ranking shows how far the model can
        be trusted before anybody has answered. Pass the model's replies, in a column "answer", as
        opinions (`options.opinions`).

        Parameters
        ----------
        path : path
            File to write.
        n : int, optional
            Number of tags; by default `options.number`.
        """
        self._save_decisions()
        n = self.options.number if n is None else n
        tags: Any = self.ranking if self.kind == LISTED else self.ranking.missing
        order = tags.worklist.order
        n = min(n, len(order))
        n_spread = n // _SPREAD_PROMPTS_EVERY
        first, others = np.split(order, [n - n_spread])
        spread = others[np.linspace(0, len(others), n_spread, endpoint=False).astype(int)]
        chosen = np.r_[first, spread]
        cells = zip(tags.row[chosen].tolist(), tags.label[chosen].tolist(), strict=True)
        questions = self.ranking.questions_about(cells, self.kind)
        ids = self.ids if self.options.id else None
        write_prompts(path, questions, self.texts, ids=ids)

    def answer(self, questions: Questions, right: Sequence[bool | None]) -> "TableCleaning":
        """Add answers and update the ranking; all answers add up.

        Parameters
        ----------
        questions : Questions
            Questions from `questions`.
        right : sequence of bool or None
            True for tags that are right, False for wrong tags, None if unsure.

        Returns
        -------
        TableCleaning
            This object.
        """
        ranking = self.ranking
        self._draws |= dict.fromkeys(cells_of(questions), questions.draw)
        if questions.draw is not None and self.certificate is not None:
            self.certificate = self.certificate.answered(questions, right)
            self._ranking = self.certificate.ranking or ranking.answered(questions, right)
        else:
            self._ranking = ranking.answered(questions, right)
        self._is_saved = False
        self._save_decisions()
        return self

    def read_answers(self, *paths: str | os.PathLike[str]) -> "TableCleaning":
        """Add the answers in files from `write_questions` that a person filled in.

        Parameters
        ----------
        *paths : path
            Files of answers.

        Returns
        -------
        TableCleaning
            This object.
        """
        self._save_decisions()
        ranking = self.ranking
        answers = self._read_answers(paths)
        store = self.decisions
        if store is not None:
            store.merge(answers.decisions(self.content))
        counts = self._counts(store)
        self._draws |= answers.tags(counts)
        self._ranking, self.certificate = self._with_answers(ranking, answers, counts)
        self._is_saved = False
        self._save_decisions()
        return self

    def _read_answers(self, paths: Sequence[str | os.PathLike[str]]) -> FileAnswers:
        """Return the answers of files; raise InputError if they are about another table."""
        identity = RowIdentity(
            ids=None if self.id_column is None else self.ids,
            content=self._row_content,
            vocabulary=self.source.vocabulary,
            columns=self.source.text_columns(),
            content_of=self._content_of,
        )
        return read_answers(paths, self.tags, identity, on_note=self._note)

    def _with_answers(
        self, ranking: NoisyLabels, answers: FileAnswers, counts: Counts | None
    ) -> tuple[NoisyLabels, Certificate | None]:
        """Return the ranking with the answers of files, and the certificate that they continue."""
        draw_again = self.options.certify
        return answers.apply(ranking, draw_again=draw_again, counts=counts, on_note=self._note)

    def _counts(self, store: Decisions | None) -> Counts | None:
        """Return a function that tells whether a labeling tool's answer is the latest."""
        if store is None:
            return None
        ids = self.content.ids

        def is_latest(row: int, tag: str, answer: str) -> bool:
            latest = store.latest(ids[row], tag)
            return latest is not None and latest.answer == answer

        return is_latest

    @cached_property
    def _row_content(self) -> list[str]:
        """Content of each row: its whole text or, without text, a hash of its other cells."""
        return self._with_hashes(self.source.texts())

    def _content_of(self, columns: Sequence[str]) -> list[str] | None:
        """Return the content of each row in some columns of text; None if one is absent."""
        texts = self.source.texts_of(columns)
        return None if texts is None else self._with_hashes(texts)

    def _with_hashes(self, texts: list[str]) -> list[str]:
        """Return texts, with a hash of the other cells in place of empty ones."""
        if all(texts):
            return texts
        hashes = self.source.row_hashes()
        return [text or row_hash for text, row_hash in zip(texts, hashes, strict=True)]

    @cached_property
    def decisions(self) -> Decisions | None:
        """Answers by row id, shared by all runs; None without `options.decisions`."""
        path = self.options.decisions
        if path is None:
            return None
        store = Decisions(path)
        if store.repaired:
            self._note(f"{path}: {store.repaired}")
        return store

    @cached_property
    def content(self) -> RowContent:
        """Row ids and checksums of cells, used to match stored decisions to rows."""
        return self.source.content()

    def _save_decisions(self) -> None:
        """Write the answers that the file of decisions lacks, if there is one."""
        ranking = self.ranking
        if self.decisions is None or self._is_saved:
            return
        # First, since these name the people who answered.
        self.decisions.merge(self._unsaved)
        self._unsaved = []
        who = self.options.name or ""
        vocabulary = self.source.vocabulary
        self.decisions.save(ranking, self.content, who, vocabulary, draws=self._draws)
        if self.certificate is not None:
            n_changed = self.decisions.n_changed(self.content, self.certificate.answers)
            self.certificate = replace(self.certificate, n_changed=n_changed)
        self._is_saved = True

    # Act.

    def act(self) -> "TableCleaning":
        """Start from the ranking without answers, and apply the options.

        Tags are removed and added as requested by `remove`, `remove_below` and `add`; then the
        decisions of earlier runs and the files of `answers` are read, and new answers stored.

        Returns
        -------
        TableCleaning
            This object.
        """
        self._ranking = self._acted()
        self._is_saved = False
        self._save_decisions()
        return self

    def _acted(self) -> NoisyLabels:
        """Return the ranking after the options, the decisions and the files of answers."""
        options = self.options
        files = (*options.answers, *self._exports)
        # Ranking takes long, so report faults in the answers first.
        answers = self._read_answers(files)
        ranking = self.ranked
        self.certificate = None
        if opinions := self.opinions():
            ranking = ranking.with_opinions(opinions)
        if options.remove is not None or options.remove_below is not None:
            ranking = ranking.remove(options.remove, below=options.remove_below)
        if options.add is not None:
            ranking = ranking.add(above=options.add)
        store = self.decisions
        if store is not None:
            self._unsaved = answers.decisions(self.content)
            store = store.merged(self._unsaved)
            # Newer answers, from files, replace stored answers.
            newer = answers.tags(self._counts(store))
            self._draws |= newer
            ranking, self.carried = store.answer(
                ranking, self.content, besides=newer, vocabulary=self.source.vocabulary
            )
        if files:
            counts = self._counts(store)
            ranking, self.certificate = self._with_answers(ranking, answers, counts)
        return ranking

    def opinions(self) -> list[OpinionRecord]:
        """Read the opinions in all files of `options.opinions`.

        Returns
        -------
        list of (row, tag, opinion, who)
            Input of `NoisyLabels.with_opinions`.
        """
        ids = None if self.id_column is None else self.ids
        records: list[OpinionRecord] = []
        for path in self.options.opinions:
            opinions = read_opinion_file(path, self.ranked.n_rows, self.ranked.label_names, ids=ids)
            self._note(f"{path}: {opinions.sentence}")
            records += opinions.records
        return records

    def remove(self, k: int | None = None, *, below: float | None = None) -> "TableCleaning":
        """Request removals that no answers support; every output then says "not checked".

        Parameters
        ----------
        k : int, optional
            Remove the k most suspicious tags.
        below : float, optional
            Remove all tags whose probability is below this value.

        Returns
        -------
        TableCleaning
            This object.
        """
        self._refuse_during_certificate("request removals")
        self._ranking = self.ranking.remove(k, below=below)
        return self

    def add(self, k: int | None = None, *, above: float | None = None) -> "TableCleaning":
        """Request additions that no answers support; every output then says "not checked".

        Parameters
        ----------
        k : int, optional
            Add the k missing tags that are most likely to be correct.
        above : float, optional
            Add all missing tags whose probability is at least this value.

        Returns
        -------
        TableCleaning
            This object.
        """
        self._refuse_during_certificate("request additions")
        self._ranking = self.ranking.add(k, above=above)
        return self

    def with_rule(self, label: str, rule: str) -> "TableCleaning":
        """Set a rule about all tags of a label.

        With `options.vocabulary`, the rule is written to this file, for this table and later ones;
        otherwise it only holds for this object.

        Parameters
        ----------
        label : str
            Name of the label.
        rule : {"keep", "drop", "ask"}
            Keep all tags of this name, remove all of them, or remove the rule.

        Returns
        -------
        TableCleaning
            This object.

        Raises
        ------
        InputError
            If there is no such label, or if the rule would change the set of a certificate in
            progress.
        """
        self._refuse_during_certificate("give rules")
        if label in self.source.vocabulary.drops:
            raise InputError(
                f"the vocabulary drops {brief(label)} before tags are ranked; change its line, and "
                f"start again"
            )
        ranking = self.ranking.with_rule(label, rule)
        path = self.options.vocabulary
        if path is not None:
            write_vocabulary(read_vocabulary(path).with_rule(label, rule), path)
        self._ranking = ranking
        return self

    def _refuse_during_certificate(self, step: str) -> None:
        """Raise InputError if a certificate has begun: the step would change what it is about."""
        if self.certificate is not None:
            raise InputError(
                f"a certificate has begun; {step} before its first question, or start again with "
                "act()"
            )

    def decided_by_rules(self) -> dict[str, int]:
        """Count the listed tags that are decided by rules.

        Returns
        -------
        dict
            With the keys "kept" and "removed".
        """
        ranking = self.ranking
        columns = ranking.policy.columns(KEEP, ranking.label_names)
        n_kept = int(np.isin(ranking.column, columns).sum())
        vocabulary = self.source.vocabulary
        dropped = (
            change
            for change in (self.source.applied.changes if vocabulary.drops else ())
            if vocabulary[change.line].action == DROP
        )
        n_removed = sum(1 for _ in dropped) + ranking.removed_by_rule
        return {"kept": n_kept, "removed": n_removed}

    def changes(self) -> ChangeList:
        """List the changes of the vocabulary, removals and additions, with the id of each row.

        Returns
        -------
        ChangeList
        """
        self._save_decisions()
        changes = self.source.changes(self.ranking)
        return keyed_changes(changes, self.source.table, self.id_column)

    def apply(self) -> list[Any]:
        """Return the column of tags after all changes.

        Returns
        -------
        list
            One cell per row, in the format of the table.
        """
        self._save_decisions()
        source = self.source
        cells = source.table.column(source.labels)
        return source.changes(self.ranking).apply(cells, **source.table.cell_options(source.labels))

    def check_export(self) -> None:
        """Raise InputError if the table has one of the columns that `export` adds."""
        source = self.source
        names = source.new_columns(self.options.suggest, add=True, note=True)
        check_new_columns(self.path, source.table, names)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the table with the clean tags.

        All rows, their order and all other cells stay unchanged. New columns hold the removed tags
        and the probability that each tag is correct.

        Parameters
        ----------
        path : path
            File to write; its suffix determines the format.
        """
        self.check_export()
        self._save_decisions()
        self.source.write_clean(os.fspath(path), self.ranking, suggest=self.options.suggest)

    # Show.

    def frame(self, tags: Questions | NoisyLabels | MissingTags) -> Any:
        """Return tags as a DataFrame with their rows.

        Parameters
        ----------
        tags : Questions, NoisyLabels or MissingTags
            The tags, such as the result of `questions`.

        Returns
        -------
        pandas.DataFrame
            With the columns row (from 0), id, text, tag and confidence.
        """
        pandas = optional("pandas", "table", "Making a table")
        rows = tags.row.tolist()
        return pandas.DataFrame(
            {
                "row": rows,
                "id": [self.ids[i] for i in rows],
                "text": [self.texts[i] for i in rows],
                "tag": list(tags.label),
                "confidence": tags.confidence,
            }
        )

    def suspects(self, k: int = 20) -> Any:
        """Return the most suspicious tags without an answer, the most suspicious first.

        Parameters
        ----------
        k : int, default=20
            Number of tags.

        Returns
        -------
        pandas.DataFrame
            With the columns of `frame`.
        """
        return self.frame(self.ranking.suspects(k))

    def report(self, *, commands: Sequence[str] | None = None) -> Any:
        """Return a report: an HTML page, which notebooks display.

        Parameters
        ----------
        commands : sequence of str, optional
            Commands that the page recommends as next steps.

        Returns
        -------
        CleanReport
        """
        self._save_decisions()
        return self._report({} if commands is None else {"commands": commands})

    def _report(self, options: dict[str, Any]) -> Any:
        """Return the report, and store no decisions."""
        return self.ranking.report(
            texts=self.texts,
            ids=self.ids,
            images=self.source.images(),
            title=Path(self.path).name,
            findings=self.findings,
            reasons=self.reasons,
            **options,
        )
