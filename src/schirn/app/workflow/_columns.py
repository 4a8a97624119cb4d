"""Columns of a table to clean: read tags, features and others, and write the cleaned copy."""

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import brief, brief_list, read_npy, spreadsheet_safe
from schirn._input import Array, is_missing, suggest
from schirn._progress import stage
from schirn._text import to_numbers
from schirn.app.tables import (
    ParquetNumbers,
    Table,
    number_blocks,
    text_cells,
    with_tag_column,
    with_vocabulary,
    write_copy,
)
from schirn.app.workflow._decisions import RowContent
from schirn.app.workflow._vocabulary import vocabulary_in_training
from schirn.cleaning import AppliedVocabulary, MissingTags, Vocabulary, other_separator
from schirn.cleaning.changes import ChangeList, changes_of
from schirn.cleaning.noisy_labels import NOT_CHECKED, NoisyLabels
from schirn.cleaning.vocabulary import apply_vocabulary
from schirn.exceptions import DataError, InputError
from schirn.features import TableFeatures, TextFeatures
from schirn.features.columns import is_category, is_text, read_numbers
from schirn.labels.cells import LABEL_COLUMNS, TagCells
from schirn.scale.cluster import lazy_blocks, lazy_texts, rows_per_block
from schirn.scale.memory import check_room, fits, free_bytes
from schirn.scale.row_file import RowFile, copy_to_file

# Columns of more bytes than this are not read together with the rest of a table.
_LARGE = 2**26
# Maximum number of texts that a Dask worker converts at once.
_TEXTS = 50_000
_ID_COLUMNS = ("id", "index", "row", "row_id", "item_id")
# A word, as opposed to a number or a code.
_LETTERS = re.compile(r"[^\W\d_]{3}")
_YES = ("1", "1.0", "true", "yes", "y", "x")
_NO = ("", "0", "0.0", "false", "no", "n", "none", "nan")


@dataclass(frozen=True)
class Features:
    """Features of the rows, their source, and groups of rows."""

    X: Any
    """An array, a CSR matrix, a `RowFile`, or blocks on Dask workers."""
    source: str
    groups: Sequence[Any] | None
    left_out: Sequence[str] = ()
    """Columns that are not learned from, other than ids."""
    transformer: TableFeatures | None = None
    """The fitted features; None if they come from an .npy file or are on Dask workers."""

    @property
    def is_scaled(self) -> bool:
        """True if the features need no scaling, such as features of texts and images."""
        return self.transformer is not None and self.transformer.is_scaled

    @property
    def encoder(self) -> str | None:
        """Name of the encoder of texts or images."""
        return None if self.transformer is None else self.transformer.encoder

    @property
    def column_names(self) -> list[str] | None:
        """Names of the features, if these are columns of numbers."""
        only_numbers = self.transformer is not None and self.transformer.kinds == ["columns"]
        return self.feature_names if only_numbers else None

    @property
    def feature_names(self) -> list[str] | None:
        """Word, column or category of each feature, "" for others; None if no feature has one."""
        names = [] if self.transformer is None else self.transformer.readable_names()
        return names if any(names) else None

    def notes(self, table: Table) -> list[str]:
        """Return sentences about cells that are not used unchanged.

        Parameters
        ----------
        table : Table
            The table that the features come from.

        Returns
        -------
        list of str
        """
        read = self.transformer is not None and not getattr(table, "unread", ())
        return self.transformer.notes(table) if read and self.transformer is not None else []

    def texts(self, table: Table) -> list[str] | None:
        """Return the texts behind the features; None if these come from other columns.

        Parameters
        ----------
        table : Table
            The table that the features come from.

        Returns
        -------
        list of str or None
            One text per row.
        """
        if self.transformer is None or self.transformer.text is None:
            return None
        return self.transformer.texts(table)


class TagTable:
    """A table with the roles of its columns; raises InputError for a column that does not exist.

    Parameters
    ----------
    table : Table
        The table.
    path : str
        Name of the table in error messages.
    labels : str, optional
        Column of tags, or several 0/1 columns such as "beach,dog"; by default the column called
        labels, tags, candidates or label.
    separator : str, optional
        Text between the tags of a cell; by default a semicolon, unless the cells evidently have
        another one, which raises InputError.
    text : list of str, optional
        Columns of text to learn from.
    columns : list of str, optional
        Columns of numbers to learn from.
    categories : list of str, optional
        Columns of categories to learn from. If no columns are given, all columns of sentences,
        numbers and categories are used, except ids and row numbers.
    features : str, optional
        An .npy file, a column of lists, or columns of numbers such as "a,b", to learn from.
    vocabulary : Vocabulary, optional
        Its accepted lines are applied to the tags first.
    add_implied : bool, default=True
        Add implied tags.
    encoder : str, optional
        Encoder of the texts, or of the images if no other columns are given.
    id, image, group, known_clean : str, optional
        Columns with the name of each row, its image file, its group, and 1 if its tags were
        checked.
    image_root : str, optional
        Folder of the image files; by default the table's folder. Files outside raise InputError.
    """

    def __init__(
        self,
        table: Table,
        path: str,
        *,
        labels: str | None = None,
        separator: str | None = None,
        text: list[str] | None = None,
        columns: list[str] | None = None,
        categories: list[str] | None = None,
        features: str | None = None,
        vocabulary: Vocabulary | None = None,
        add_implied: bool = True,
        encoder: str | None = None,
        id: str | None = None,
        image: str | None = None,
        group: str | None = None,
        known_clean: str | None = None,
        image_root: str | None = None,
    ) -> None:
        if labels is not None and labels not in table.columns:
            # Several 0/1 columns become one column of tags.
            table = with_tag_column(table, labels)
        self.table = table
        self.path = path
        self.separator = separator or ";"
        self._text = text
        self._columns = columns
        self._features = features
        self._categories = categories
        self._vocabulary = vocabulary or Vocabulary()
        self._add_implied = add_implied
        self._encoder = encoder
        self._id = id
        self._image = image
        self._group = group
        self._known_clean = known_clean
        self._check_delimiter()
        single = (labels, id, image, group, known_clean)
        self._unread = list(getattr(table, "unread", ()))
        for name in (*single, *(text or ()), *(columns or ()), *(categories or ())):
            if name is not None and name not in table.columns and name not in self._unread:
                hint = suggest(name, table.columns)
                raise InputError(f"{path}: there is no column {brief(name)}; {hint}")
        if labels is None:
            labels = next((name for name in LABEL_COLUMNS if name in table.columns), None)
        if labels is None:
            raise InputError(
                f"{path}: which column holds the tags? There are "
                f"{', '.join(brief(name, 40) for name in table.columns[:12])}"
                + (f" and {len(table.columns) - 12:,} more" if len(table.columns) > 12 else ""),
                parameter="labels",
            )
        self.labels = labels
        self._images = None
        if image is not None:
            self._images = image_files(table, image, path, image_root)
        try:
            self.tag_cells = TagCells.of(
                table.column(labels), self.separator, **table.cell_options(labels)
            )
        except InputError as error:
            raise InputError(f"{path}: column {brief(labels)}: {error}") from None
        if separator is None and not self.tag_cells.notation:
            self._check_separator()

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary, which is applied to the tags first."""
        return self._vocabulary

    def apply_as_in_training(self, notes: Mapping[str, Any]) -> None:
        """Use the vocabulary in the notes of a model.

        Parameters
        ----------
        notes : dict
            Notes of a model file, as `schirn.persist.read_notes` returns them.
        """
        vocabulary, add_implied = vocabulary_in_training(notes)
        self._vocabulary = vocabulary
        self._add_implied = add_implied

    @cached_property
    def applied(self) -> AppliedVocabulary:
        """Changes and suggestions of the vocabulary."""
        return apply_vocabulary(self._vocabulary, self._listed, self._add_implied)

    def absent_tags(self) -> list[str]:
        """Return the tags of accepted lines of the vocabulary that the table does not have.

        Returns
        -------
        list of str
        """
        names = [line.tag for line in self._vocabulary.accepted]
        present = {tag for rows in (self._listed, self.applied.rows) for row in rows for tag in row}
        return [name for name in dict.fromkeys(names) if name not in present]

    def tags(self) -> list[list[str]]:
        """Return the tags of each row, after the vocabulary.

        Returns
        -------
        list of list of str
        """
        rows = self.applied.rows if self._vocabulary.accepted else self._listed
        return [list(row) for row in rows]

    @cached_property
    def _listed(self) -> list[list[str]]:
        """The tags of each row in the table."""
        tags = []
        for i, cell in enumerate(self.table.column(self.labels)):
            try:
                tags.append(self.tag_cells.split(cell))
            except InputError as error:
                where = f"row {i + 1}, column {brief(self.labels)}"
                raise InputError(f"{self.path}: {where}: {error}") from None
        if not any(tags):
            raise InputError(
                f"{self.path}: the column {brief(self.labels)} holds no tags, so there is nothing "
                f"to clean"
            )
        return tags

    def _check_delimiter(self) -> None:
        """Raise InputError if the only column holds whole lines of a table."""
        for mark in ",;\t|" if len(self.table.columns) == 1 else "":
            if hasattr(self.table, "delimiter") and mark in self.table.columns[0]:
                raise InputError(
                    f"{self.path}: the only column is {brief(self.table.columns[0])}; are the "
                    f"cells separated by {mark!r}?",
                    parameter="delimiter",
                )

    def check_as_in_training(self, known: Collection[str]) -> None:
        """Raise InputError if most cells evidently have another separator than in training.

        Parameters
        ----------
        known : collection of str
            The tags in training; a cell that consists of them is unchanged, whatever it contains.
        """
        if self.tag_cells.notation:
            return
        names = set(known)
        rows = zip(self.table.column(self.labels), self.tags(), strict=True)
        usual = {cell for cell, tags in rows if isinstance(cell, str) and names >= {*tags}}
        mark, sentence = self._other_separator(usual)
        if mark:
            raise InputError(
                f"{sentence}, the separator in training; export the tags as they were, or train "
                f"again if {mark!r} separates them now"
            )

    def check_chosen_separator(self) -> None:
        """Raise InputError if no cell contains the separator, but most contain another.

        A chosen semicolon is always accepted, because every cell may hold a single tag.
        """
        cells = self.table.column(self.labels)
        is_used = any(isinstance(cell, str) and self.separator in cell for cell in cells)
        if self.separator != ";" and not is_used and not self.tag_cells.notation:
            self._check_separator()

    def _check_separator(self) -> None:
        """Raise InputError if most cells have another separator instead."""
        mark, sentence = self._other_separator()
        if mark:
            raise InputError(
                f"{sentence}; give {mark!r} as the separator if it is one", parameter="separator"
            )

    def _other_separator(self, usual: Collection[str] = ()) -> tuple[str, str]:
        """Return the likely separator and a sentence about it, or two empty strings."""
        dominant = other_separator(self.table.column(self.labels), self.separator, usual)
        if dominant is None:
            return "", ""
        mark, count = dominant
        said = f"most cells of {brief(self.labels)} contain {mark!r} and {count} {self.separator!r}"
        return mark, f"{self.path}: {said}"

    def new_columns(
        self, suggest: bool = False, add: bool = False, note: bool = False
    ) -> list[str]:
        """Return the names of the columns that `write_clean` adds.

        Parameters
        ----------
        suggest, add, note : bool, default=False
            Include the columns for suggested tags, added tags, or notes.

        Returns
        -------
        list of str
        """
        names = ["removed", "confidence"] + ["added"] * add + ["note"] * note
        names += ["suggested", "suggested_confidence"] * suggest
        return [f"{self.table.prefix(self.labels)}_{name}" for name in names]

    def changes(self, ranking: NoisyLabels) -> ChangeList:
        """List the changes of the vocabulary, removals and additions.

        Parameters
        ----------
        ranking : NoisyLabels
            The ranking of this table.

        Returns
        -------
        ChangeList
        """
        cells = self.table.column(self.labels)
        about: dict[str, Any] = {"column": self.labels, "separator": self.separator}
        about |= self.table.cell_options(self.labels)
        if not self._vocabulary.accepted:
            return changes_of(ranking, cells, **about)
        changes = with_vocabulary(
            ranking.changes(), self._listed, self._vocabulary, self._add_implied
        )
        return ChangeList.from_cells(cells, changes, **about)

    def write_clean(self, path: str, ranking: NoisyLabels, *, suggest: bool = False) -> None:
        """Write a copy with the clean tags, and removed tags and confidences as new columns.

        If removals were requested without answers, a note in the changed rows says "not checked".

        Tags that are neither judged nor answered have no confidence. Cells without changes stay
        unchanged. Columns of tags hold lists if the tags are lists; columns of confidences hold
        dictionaries if the format supports them, otherwise strings.

        Parameters
        ----------
        path : str
            File to write.
        ranking : NoisyLabels
            The ranking of this table.
        suggest : bool, default=False
            Add columns of likely missing tags that are not added, and their confidences.
        """
        cells = self.table.column(self.labels)
        spreadsheet = self.table.spreadsheet
        changes = self.changes(ranking)
        clean = changes.apply(cells, **self.table.cell_options(self.labels))
        removed = defaultdict[int, set[str]](set)
        added = defaultdict[int, list[str]](list)
        # Like the confidences, the new columns are about the tags after the vocabulary.
        for change in ranking.changes():
            if not change.before:
                added[change.row].append(change.after)
            elif not change.after:
                removed[change.row].add(change.before)
        is_judged = ranking.judged | np.isin(ranking.confidence, (0, 1))
        confidences = _by_row(ranking.n_rows, ranking, is_judged)

        as_text = not self.table.lists or self.tag_cells.holds == "text"

        def tags_cell(tags: list[str]) -> Any:
            return self.tag_cells.join(tags) if as_text else tags

        def confidence_cell(values: dict[str, float]) -> Any:
            text = self.separator.join(f"{tag}={value:.4g}" for tag, value in values.items())
            return values if self.table.lists else spreadsheet_safe(text) if spreadsheet else text

        unique = [dict.fromkeys(tags) for tags in self.tags()]
        columns = [[tags_cell([])] * len(unique)]
        for i, tags_removed in removed.items():
            columns[0][i] = tags_cell([tag for tag in unique[i] if tag in tags_removed])
        columns.append(
            [
                confidence_cell({tag: values[tag] for tag in tags if tag in values})
                for tags, values in zip(unique, confidences, strict=True)
            ]
        )
        if added:
            columns.append([tags_cell(added.get(i, [])) for i in range(len(unique))])
        if not ranking.is_checked:
            changed = {*removed, *added}
            columns.append([NOT_CHECKED if i in changed else "" for i in range(len(unique))])
        if suggest:
            likely = _by_row(ranking.n_rows, ranking.missing.above())
            suggested = [
                {tag: p for tag, p in values.items() if tag not in added.get(i, ())}
                for i, values in enumerate(likely)
            ]
            columns.append([tags_cell(list(values)) for values in suggested])
            columns.append([confidence_cell(values) for values in suggested])
        names = self.new_columns(suggest, bool(added), not ranking.is_checked)
        new = dict(zip(names, columns, strict=True))
        write_copy(path, self.table, {self.labels: clean}, new, separator=self.separator)

    @property
    def learns_from_images(self) -> bool:
        """True if the features come from image files."""
        transformer = self.transformer()
        return transformer is not None and transformer.image is not None

    def features(self, where: str = "memory", tags: Any = None) -> Features:
        """Return the features to learn from: texts, images, embeddings or numbers.

        Parameters
        ----------
        where : {"memory", "files", "dask"}, default="memory"
            Allowed storage of vectors and columns of numbers. For "files", data that do not fit
            into memory become a `RowFile`. For "dask", unread columns become lazy blocks, and Dask
            workers convert texts into features.
        tags : Tags, optional
            The tags of the rows, if they were read before.

        Returns
        -------
        Features
        """
        transformer = self.transformer()
        left_out = self._left_out(transformer)
        if where == "dask" and transformer is not None and transformer.text is not None:
            texts = transformer.texts(self.table)
            words = TextFeatures().fit(texts)
            transformer = _fitted(transformer, text_=words)
            size = rows_per_block(len(texts), _TEXTS)
            pieces = [texts[i : i + size] for i in range(0, len(texts), size)]
            X: Any = lazy_texts(pieces, words.transform)
            return Features(X, transformer.source(), self.groups(), left_out, transformer)
        if where == "dask":
            blocks = number_blocks(Path(self.path), self._unread)
            X = lazy_blocks([read for _, read in blocks], [path for path, _ in blocks])
            return Features(X, brief_list(self._unread, 6), self.groups(), left_out)
        if self._unread and transformer is not None:
            X = self._numbers()
            # Vectors and numbers without missing values need no training.
            transformer = _fitted(transformer, text_=None, n_features_=X.shape[1])
            return Features(X, transformer.source(), self.groups(), left_out, transformer)
        if transformer is None:
            read = matrix_for if where == "memory" else rows_for
            X = read(str(self._features), self.table.n_rows, self.path)
            return Features(X, str(self._features), self.groups(), left_out)
        rows = self.table if transformer.image is None else {transformer.image: self._images}
        try:
            X = transformer.fit_transform(rows, self.tags() if tags is None else tags)
        except InputError as error:
            # Columns of numbers may have been passed as `features`.
            chosen = "features" if self._features is not None else error.parameter
            raise InputError(f"{self.path}: {error}", parameter=chosen) from None
        return Features(X, transformer.source(), self.groups(), left_out, transformer)

    def _numbers(self) -> "Array | RowFile":
        """Read the unread columns, into memory or into a temporary file."""
        numbers = ParquetNumbers.of(Path(self.path), self._unread)
        if numbers is None:
            raise DataError(f"{self.path}: {brief_list(self._unread, 6)} can no longer be read")
        X: Any
        if fits(numbers.n_bytes):
            blocks = list(numbers.blocks())
            widths = {block.shape[1] for block in blocks}
            X = np.concatenate(blocks) if len(widths) == 1 else np.zeros(0)
        else:
            check_room(numbers.n_bytes, f"the numbers in {brief_list(self._unread, 6)}")
            stage("copying the features to a temporary file")
            X = copy_to_file(numbers.blocks())
        if X.shape[0] == self.table.n_rows:
            return X
        raise DataError(
            f"{self.path}: not all rows have as many numbers in {brief_list(self._unread, 6)}, or "
            f"the files were changed while they were read"
        )

    def transformer(self) -> TableFeatures | None:
        """Return the untrained features; None if they come from an .npy file.

        By default all columns of sentences, numbers and categories are used or, with an encoder,
        the images or the columns of sentences.

        Returns
        -------
        TableFeatures or None
        """
        chosen = {"text": self._text, "columns": self._columns, "categories": self._categories}
        kinds: dict[str, Any] = {kind: names for kind, names in chosen.items() if names is not None}
        if self._features is not None:
            kinds |= self._chosen_features(self._features, kinds)
            if not kinds:
                self._check_encoder(kinds)
                return None
        if not kinds and self._image is not None and self._encoder is not None:
            kinds = {"image": self._image}
        kinds = kinds or self._usual_columns()
        self._check_encoder(kinds)
        return TableFeatures(**kinds, encoder=self._encoder)

    def _check_encoder(self, kinds: Mapping[str, Any]) -> None:
        if self._encoder is not None and not {"text", "image"}.intersection(kinds):
            raise InputError(
                f"{self.path}: an encoder turns texts or pictures into vectors; leave it out to "
                f"learn from other columns",
                parameter="encoder",
            )

    def _usual_columns(self) -> dict[str, Any]:
        """Return the columns to learn from by default, by their kinds."""
        kinds: dict[str, Any] = {kind: names for kind, names in self._kinds.items() if names}
        if self._encoder is not None and "text" in kinds:
            return {"text": kinds["text"]}
        if kinds:
            return kinds
        if self._image is not None:
            return {"image": self._image}
        lengths = {
            name: sum(map(len, text_cells(self.table, name))) for name in self._free_columns()
        }
        best = max(lengths, key=lambda name: lengths[name], default=None)
        example = "" if best is None else f" such as {brief(best)}"
        raise InputError(
            f"{self.path}: no column of numbers, categories or sentences to learn from; choose a "
            f"column of text{example}, or give embeddings as features",
            parameter="text",
        )

    def _chosen_features(self, features: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
        """Return a column of lists, or columns of numbers such as "a,b"; empty for an .npy file."""
        known = {*self.table.columns, *self._unread}
        names = [features] if features in known else [name.strip() for name in features.split(",")]
        if set(names) <= set(self._unread):
            return {"columns": names} if len(names) > 1 else {"vectors": features}
        if "columns" in kinds or (kinds and not known.intersection(names)):
            raise InputError(
                f"{self.path}: features are columns of numbers, or embeddings instead of other "
                f"columns; name numbers only once, and give embeddings that go with other columns "
                f"as a column of lists",
                parameter="features",
            )
        if not known.intersection(names):
            return {}
        lists = [name for name in names if name in known and self.table.holds(name, "list")]
        return {"vectors": lists[0]} if lists else {"columns": names}

    def _left_out(self, transformer: TableFeatures | None) -> list[str]:
        """Return the columns that are not learned from, other than ids."""
        used: set[str] = set()
        if transformer is not None:
            used = {name for kind in transformer.kinds for name in transformer.names_of(kind)}
        names = [*self._free_columns(), *filter(None, [self._image])]
        return [name for name in names if name.strip() and name not in used]

    def more_text(self) -> tuple[list[str], list[str]]:
        """Return the columns of text that are learned from, and others of words to learn from.

        These have words in most cells, and mostly different ones, such as names; ids may be names.

        Returns
        -------
        tuple of two lists of str
            The second is empty if other columns than texts are learned from.
        """
        transformer = self.transformer()
        if transformer is None or transformer.kinds != ["text"]:
            return [], []
        used = transformer.names_of("text")
        roles = {self.labels, self._known_clean, self._group, self._image, *used}
        names = [name for name in self.table.columns if name not in roles]
        cells = {name: text_cells(self.table, name) for name in names}
        least = self.table.n_rows / 2
        return used, [
            name
            for name, texts in cells.items()
            if len(set(texts)) > least and sum(map(bool, map(_LETTERS.search, texts))) > least
        ]

    def texts(self) -> list[str]:
        """Return the text of each row: the columns of text or, without any, all cells of words.

        Returns
        -------
        list of str
        """
        return self._joined(self.text_columns())

    def text_columns(self) -> list[str]:
        """Return the columns of `texts`.

        Returns
        -------
        list of str
        """
        if self._text is not None:
            return list(self._text)
        used = {self.labels, self._known_clean, self._group, self._image, self._features}
        names = [name for name in self.table.columns if name not in used]
        names = [name for name in names if text_cells(self.table, name)]
        return [name for name in names if to_numbers(self.table.column(name)) is None]

    def texts_of(self, columns: Sequence[str]) -> list[str] | None:
        """Return the text of each row in other columns; None if one is not in the table.

        Parameters
        ----------
        columns : sequence of str
            Names of columns.

        Returns
        -------
        list of str or None
        """
        has_all = all(name in self.table.columns for name in columns)
        return self._joined(columns) if has_all else None

    def _joined(self, names: Sequence[str]) -> list[str]:
        """Return the cells of some columns, joined by row."""
        columns = [self.table.column(name) for name in names]
        texts = [" ".join(str(cell) for cell in row if cell) for row in zip(*columns, strict=True)]
        return texts or [""] * self.table.n_rows

    def ids(self) -> list[str]:
        """Return the name of each row; rows are numbered from 1 if there is no such column.

        Returns
        -------
        list of str
        """
        if self._id is None:
            return [str(i + 1) for i in range(self.table.n_rows)]
        return ["" if is_missing(cell) else str(cell) for cell in self.table.column(self._id)]

    def content(self) -> RowContent:
        """Return the ids of the rows, and hashes of the cells that are learned from.

        Returns
        -------
        RowContent
        """
        if self._id is None:
            raise InputError(
                f"{self.path}: decisions are kept by row id; name the column of ids", parameter="id"
            )
        return RowContent(self.ids(), self.table, self.content_columns())

    def row_hashes(self) -> list[str]:
        """Return a hash of all cells of each row except tags and ids; "" if there are no others.

        Returns
        -------
        list of str
        """
        used = {self.labels, self._id, self._known_clean}
        names = [name for name in self.table.columns if name not in used]
        numbers = [str(i) for i in range(self.table.n_rows)]
        if not names:
            return [""] * len(numbers)
        return RowContent(numbers, self.table, names).hashes

    def content_columns(self) -> list[str]:
        """Return the columns to learn from or, without any, all columns except tags and ids.

        Returns
        -------
        list of str
        """
        transformer = self.transformer()
        names: list[str] = []
        if transformer is not None:
            names = [name for kind in transformer.kinds for name in transformer.names_of(kind)]
        names = [name for name in names if name not in self._unread]
        return names or [n for n in self.table.columns if n not in (self.labels, self._id)]

    def images(self) -> list[Path | None] | None:
        """Return the image file of each row; paths are relative to the folder of images.

        Returns
        -------
        list of Path or None
            None for a row without an image; None if there is no column of images.
        """
        return self._images

    def known_clean(self) -> Array | None:
        """Return a mask of the rows whose tags were checked.

        Returns
        -------
        (n,) bool array or None
        """
        if self._known_clean is None:
            return None
        values = []
        for i, cell in enumerate(self.table.column(self._known_clean)):
            word = str(cell).strip().lower()
            if word not in (*_YES, *_NO):
                raise InputError(
                    f"{self.path}: row {i + 1}, column {brief(self._known_clean)}: "
                    f"{str(cell)[:40]!r} is neither yes nor no; write 1 or 0"
                )
            values.append(word in _YES)
        return np.array(values)

    def groups(self) -> list[Any] | None:
        """Return the group of each row; None for a row without a group.

        Returns
        -------
        list or None
        """
        if self._group is None:
            return None
        cells = self.table.column(self._group)
        return [None if isinstance(cell, str) and not cell.strip() else cell for cell in cells]

    def _free_columns(self) -> list[str]:
        """Return the columns without a role, other than ids."""
        used = {self.labels, self._id, self._known_clean, self._group, self._image}
        free = [name for name in self.table.columns if name not in used]
        return [name for name in free if name.lower() not in _ID_COLUMNS]

    @cached_property
    def _kinds(self) -> dict[str, list[str]]:
        """The free columns of sentences, of numbers other than row numbers, and of categories."""
        kinds: dict[str, list[str]] = {"text": [], "columns": [], "categories": []}
        for name in self._free_columns():
            cells = text_cells(self.table, name)
            values = self.table.numbers(name)
            if values is None and any("," in cell for cell in cells):
                values = read_numbers(cells)
            if values is not None:
                steps = np.diff(values)
                if not np.isnan(values).all() and not (len(steps) > 1 and np.all(steps == 1)):
                    kinds["columns"].append(name)
            elif is_text(cells):
                kinds["text"].append(name)
            elif is_category(cells):
                kinds["categories"].append(name)
        return kinds


def _by_row(
    n_rows: int, tags: NoisyLabels | MissingTags, mask: Any = slice(None)
) -> list[dict[str, float]]:
    """Return the confidence of the tags of each row, or of some of them."""
    rows: list[dict[str, float]] = [{} for _ in range(n_rows)]
    columns = (array[mask].tolist() for array in (tags.row, tags.column, tags.confidence))
    for row, column, confidence in zip(*columns, strict=True):
        rows[row][tags.label_names[column]] = round(confidence, 4)
    return rows


def check_new_columns(path: str, table: Table, names: Iterable[str]) -> None:
    """Raise InputError if a table already has one of the columns that its copy adds.

    Parameters
    ----------
    path : str
        Name of the table in error messages.
    table : Table
        The table.
    names : iterable of str
        The new columns.
    """
    taken = [name for name in names if name in table.columns]
    if taken:
        raise InputError(
            f"{path}: already has a column {taken[0]!r}, perhaps from an earlier run; rename or "
            f"delete it"
        )


def columns_to_stream(path: str, names: Sequence[str]) -> list[str]:
    """Return the columns of a Parquet file or folder to leave unread: all of these or none.

    A table read as a whole holds them twice: as columns and as a matrix. Unread columns are read
    later, when the rest of the table is known, and only if they fit into memory.

    Parameters
    ----------
    path : str
        The table.
    names : sequence of str
        Columns of numbers or of lists.

    Returns
    -------
    list of str
    """
    is_parquet = Path(path).suffix.lower() == ".parquet" or Path(path).is_dir()
    numbers = ParquetNumbers.of(Path(path), names) if is_parquet and names else None
    large = min(_LARGE, free_bytes() // 4)
    return list(names) if numbers is not None and numbers.n_bytes > large else []


def matrix_for(features: str, n_rows: int, table: str) -> Array:
    """Read the features of the rows of a table from an .npy file; a large matrix is mapped.

    Parameters
    ----------
    features : str
        An .npy file.
    n_rows : int
        Number of rows of the table.
    table : str
        Name of the table in error messages.

    Returns
    -------
    (n, d) array
    """
    rows = rows_for(features, n_rows, table)
    return rows.mapped() if isinstance(rows, RowFile) else rows


def rows_for(features: str, n_rows: int, table: str) -> "Array | RowFile":
    """Open the features of the rows of a table.

    Parameters
    ----------
    features : str
        An .npy file.
    n_rows : int
        Number of rows of the table.
    table : str
        Name of the table in error messages.

    Returns
    -------
    ndarray, or RowFile if the features take more than half of the free memory
    """
    path = Path(features)
    if path.suffix.lower() != ".npy":
        raise InputError(
            f"{features!r} is neither an .npy file nor a column of {table}", parameter="features"
        )
    is_small = not path.exists() or fits(path.stat().st_size)
    rows: Any = read_npy(path) if is_small else RowFile(path)
    shape = rows.shape
    is_matrix = len(shape) == 2 and shape[0] == n_rows and shape[1] > 0
    if not is_matrix or rows.dtype.kind not in "biuf":
        raise DataError(
            f"{features}: {rows.dtype} of shape {shape}, but {table} has {n_rows} rows; give a "
            f"matrix of numbers with as many rows and at least one column"
        )
    return rows


def image_files(table: Table, column: str, path: str, root: str | None = None) -> list[Path | None]:
    """Return the image file of each row, None if the cell is empty.

    Raises InputError for images outside the folder, because tables may come from others.

    Parameters
    ----------
    table : Table
        The table.
    column : str
        Column of paths relative to the folder of images.
    path : str
        Name of the table in error messages.
    root : str, optional
        Folder of images; by default the table's folder.

    Returns
    -------
    list of Path or None
    """
    folder = Path(root or Path(path).parent)
    real_folder = os.path.realpath(folder)
    cells = table.column(column)
    for i, cell in enumerate(cells):
        if cell and not is_inside(str(cell), real_folder):
            raise InputError(
                f"{path}: row {i + 1}, column {brief(column)}: {str(cell)[:40]!r} is not in the "
                f"folder of images {real_folder!r}; give the folder that holds them all",
                parameter="image_root",
            )
    return [folder / str(cell) if cell else None for cell in cells]


def is_inside(path: str, folder: str) -> bool:
    """Check whether a path, absolute or relative to a folder, leads to a place inside it.

    Parameters
    ----------
    path, folder : str
        The path and the folder.

    Returns
    -------
    bool
    """
    # The system would open a connection to resolve //host/share.
    if path.startswith(("//", "\\\\")):
        return False
    try:
        return os.path.commonpath([os.path.realpath(os.path.join(folder, path)), folder]) == folder
    except ValueError:
        # Another Windows drive, or not a path.
        return False


def _fitted(transformer: TableFeatures, **attributes: Any) -> TableFeatures:
    """Return features without an encoder, with these attributes in place of a fit.

    `TableFeatures.fit` would convert all rows here, but they are in files or on workers.
    """
    fitted = copy(transformer)
    vars(fitted).update(attributes, encoder_=None)
    return fitted
