"""A table to clean: read tags, features and other columns, and write the cleaned copy."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import brief, brief_list, read_npy
from schirn._input import suggest
from schirn._progress import stage
from schirn.cleaning.found import NoisyLabels
from schirn.exceptions import DataError, InputError
from schirn.features import TableFeatures
from schirn.labels.tags import split_tags
from schirn.scale.cluster import lazy_blocks
from schirn.scale.memory import check_room, fits, free_bytes
from schirn.scale.row_file import RowFile
from schirn.tables.annotations import Verdict, label_studio_config
from schirn.tables.arrow import ParquetNumbers, number_blocks
from schirn.tables.changes import Change, ChangeList
from schirn.tables.checks import SEPARATORS
from schirn.tables.files import (
    LABEL_COLUMNS,
    Table,
    folder_format,
    holds_lists,
    text_cells,
    to_numbers,
    write_verdicts,
)
from schirn.tables.merges import check_merges

Array = np.ndarray

_WORDS_OF_A_TEXT = 3
# In a smaller share of the cells, the default separator may be part of a tag.
_STRAY = 0.05
# Columns of more bytes than this are not read together with the rest of a table.
_LARGE = 2**26
_ID_COLUMNS = ("id", "index", "row", "row_id", "item_id")
_YES = ("1", "1.0", "true", "yes", "y", "x")
_NO = ("", "0", "0.0", "false", "no", "n", "none", "nan")


class Features(NamedTuple):
    """Features of the rows, the columns or the file they come from, and groups of rows."""

    X: Any
    """An array, a CSR matrix, a `RowFile`, or blocks that lie with Dask workers."""
    source: str
    groups: Sequence[Any] | None
    left_out: Sequence[str] = ()
    """Columns of numbers or sentences that are not learned from."""
    transformer: TableFeatures | None = None
    """The fitted features; None if they come from an .npy file, or lie with Dask workers."""

    @property
    def is_scaled(self) -> bool:
        """Whether the features need no scaling, as those of texts and pictures."""
        return self.transformer is not None and self.transformer.is_scaled

    @property
    def encoder(self) -> str | None:
        """Name of the encoder of texts or pictures."""
        return None if self.transformer is None else self.transformer.encoder

    @property
    def column_names(self) -> list[str] | None:
        """The columns of numbers, if the features are numbers."""
        columns = None if self.transformer is None else self.transformer.columns
        return None if columns is None else list(columns)

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Words or columns, one per feature, and "" for the numbers of an encoder."""
        words = None if self.transformer is None else self.transformer.text_
        if words is None:
            return self.column_names
        names: list[str] = words.get_feature_names_out().tolist()
        return names + [""] * (self.X.shape[1] - len(names))

    def texts(self, table: Table) -> list[str] | None:
        """Return the texts that the features are made of; None if they come from other columns."""
        if self.transformer is None or self.transformer.text is None:
            return None
        return self.transformer.texts(table)


class TagTable:
    """A table with the roles of its columns; raises InputError for a column that does not exist.

    Parameters
    ----------
    table : Table
    path : str
        Name of the table in error messages.
    labels : str, optional
        Column of tags; by default the one called labels, tags, candidates or label.
    separator : str, optional
        Text between the tags of a cell; by default a semicolon, unless most cells evidently have
        another one, which raises InputError.
    text : list of str, optional
        Columns of text to learn from.
    columns : list of str, optional
        Columns of numbers to learn from. By default all except ids and row numbers, or the one
        column of sentences if there are no numbers.
    features : str, optional
        An .npy file, a column of lists, or columns of numbers such as "a,b", to learn from.
    merge : dict from str to str, optional
        Tags that other tags take the place of.
    encoder : str, optional
        Encoder of the texts, or of the pictures if no other columns are chosen.
    id, image, group, known_clean : str, optional
        Columns with the name of each row, an image file, the group that must stay together, and
        whether the tags were checked.
    image_root : str, optional
        Folder of the image files; by default that of the table. Files outside raise InputError.
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
        features: str | None = None,
        merge: Mapping[str, str] | None = None,
        encoder: str | None = None,
        id: str | None = None,
        image: str | None = None,
        group: str | None = None,
        known_clean: str | None = None,
        image_root: str | None = None,
    ) -> None:
        self.table, self.path, self.separator = table, path, separator or ";"
        self._text, self._columns, self._features = text, columns, features
        self._merge = dict(merge or {})
        self._encoder = encoder
        self._id, self._image, self._group, self._known_clean = id, image, group, known_clean
        self._check_delimiter()
        given = {"text": text, "columns": columns, "features": features}
        chosen = [name for name, value in given.items() if value is not None]
        if len(chosen) > 1:
            raise InputError(
                f"give only one of {' and '.join(chosen)}: a model learns from texts, from columns "
                f"of numbers or from embeddings",
                parameter=tuple(chosen),
            )
        single = (labels, id, image, group, known_clean)
        self._unread = list(getattr(table, "unread", ()))
        for name in (*single, *(text or ()), *(columns or ())):
            if name is not None and name not in table.columns and name not in self._unread:
                hint = suggest(name, table.columns)
                raise InputError(f"{path}: there is no column {brief(name)}; {hint}")
        if labels is None and len(table.tag_columns) == 1:
            (labels,) = table.tag_columns
        if labels is None and not table.tag_columns:
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
        if separator is None:
            self._check_separator()
        if self._merge:
            try:
                check_merges(self._merge, {tag for tags in self._listed() for tag in tags})
            except InputError as error:
                raise InputError(f"{path}: {error}", parameter="merge") from None

    def tags(self) -> list[list[str]]:
        """Return the tags of each row, after merges."""
        tags = self._listed()
        if not self._merge:
            return tags
        # A row that has both tags gets no second one.
        return [list(dict.fromkeys(self._merge.get(tag, tag) for tag in row)) for row in tags]

    def _listed(self) -> list[list[str]]:
        """The tags of each row as they are in the table."""
        tags = []
        for i, cell in enumerate(self.table.column(self.labels)):
            try:
                tags.append(split_tags(cell, self.separator))
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
        """Raise InputError if the only column is a whole line of a table."""
        for other in ",;\t|" if len(self.table.columns) == 1 else "":
            if hasattr(self.table, "delimiter") and other in self.table.columns[0]:
                raise InputError(
                    f"{self.path}: the only column is {brief(self.table.columns[0])}; are the "
                    f"cells separated by {other!r}?",
                    parameter="delimiter",
                )

    def _check_separator(self) -> None:
        """Raise InputError if most cells have another separator instead of the default."""
        cells = [cell for cell in self.table.column(self.labels) if isinstance(cell, str)]
        cells = [cell for cell in cells if cell.strip()]
        n_own = sum(self.separator in cell for cell in cells)
        if n_own > _STRAY * len(cells):
            return
        few = f"only {n_own:,}" if n_own else "none"
        for other in SEPARATORS:
            if other != self.separator and 2 * sum(other in cell for cell in cells) > len(cells):
                raise InputError(
                    f"{self.path}: most cells of {brief(self.labels)} contain {other!r} and {few} "
                    f"{self.separator!r}; what separates the tags?",
                    parameter="separator",
                )

    def new_columns(self, suggest: bool = False, add: bool = False) -> list[str]:
        """Return the names of the columns that `write_clean` adds."""
        names = ["removed", "confidence"]
        names += ["added"] * add + ["suggested", "suggested_confidence"] * suggest
        return [f"{self.labels}_{name}" for name in names]

    def changes(self, found: NoisyLabels, add: float | None = None) -> ChangeList:
        """List merges, removals, and additions with at least the confidence `add`."""
        cells, about = self.table.column(self.labels), (self.labels, self.separator)
        if not self._merge:
            return found.changes(cells, add=add, column=about[0], separator=about[1])
        changes = []
        listed = [list(dict.fromkeys(tags)) for tags in self._listed()]
        removed: set[tuple[int, str]] = set()
        for each in found.changes(add=add):
            if not each.before:
                changes.append(each)
                continue
            # The tags as the table has them, of which the verdict is about the merged one.
            removed.add((each.row, each.before))
            own = [tag for tag in listed[each.row] if self._merge.get(tag, tag) == each.before]
            changes += [each._replace(before=tag) for tag in own]
        for row, tags in enumerate(listed):
            for tag in tags:
                after = self._merge.get(tag)
                if after is not None and (row, after) not in removed:
                    kind = "merge" if after in tags else "rename"
                    changes.append(Change(row, kind, tag, after, None, "in the list of merges"))
        return ChangeList.from_cells(cells, changes, column=about[0], separator=about[1])

    def write_clean(
        self,
        path: str,
        found: NoisyLabels,
        *,
        suggest: bool = False,
        add: float | None = None,
    ) -> None:
        """Write a copy with the clean tags, and removed tags and confidences as new columns.

        A cell without changes stays as it is. Columns of tags hold lists if the tags are lists;
        columns of confidences hold dictionaries if the table can, and else texts.

        Parameters
        ----------
        path : str
        found : NoisyLabels
        suggest : bool
            Whether to write columns of suggested tags that are not added, and their confidences.
        add : float, optional
            Add suggested tags with at least this confidence; a new column lists them.
        """
        clean, added = self._clean_columns(found, suggest, add, self.table.lists)
        self.table.write(path, {self.labels: clean}, added)

    def write_verdicts(
        self,
        path: str,
        tool: str,
        found: NoisyLabels,
        *,
        suggest: bool = False,
        add: float | None = None,
    ) -> str | None:
        """Write the rows for an annotation tool, with the clean tags as predictions.

        What people said in this tool stays as it is. Rows of other tables become tasks of Label
        Studio or records of Argilla.

        Parameters
        ----------
        path : str
            A .json file.
        tool : {"label-studio", "argilla"}
        found, suggest, add
            As for `write_clean`.

        Returns
        -------
        str or None
            The labelling interface for a new project of Label Studio.
        """
        clean, added = self._clean_columns(found, suggest, add, True)
        listed = _by_row(found.n_rows, found.records())
        suggested = _by_row(found.n_rows, found.suggestions().records())
        verdicts = []
        for i, cell in enumerate(clean):
            tags = list(dict.fromkeys(split_tags(cell, self.separator)))
            own, known = listed[i], {**suggested[i], **listed[i]}
            right = [known[tag] for tag in tags] + [1 - p for t, p in own.items() if t not in tags]
            values = [known[tag] for tag in tags]
            verdicts.append(Verdict(tags, values, min(right, default=None)))
        shown = self._shown()
        by = f"schirn {found.method}"
        options: dict[str, Any] = {"column": self.labels, "shown": shown, "by": by}
        write_verdicts(path, self.table, tool, verdicts, added, **options)
        form = getattr(self.table, "form", None)
        if tool != "label-studio" or (form is not None and form.tool == tool):
            return None
        names = sorted({*found.label, *(tag for verdict in verdicts for tag in verdict.tags)})
        return label_studio_config(shown[0], self.labels, names, shown[0] == self._image)

    def _shown(self) -> list[str]:
        """Return the columns that a person looks at to judge a row."""
        if self._text is not None:
            return list(self._text)
        found = self._text_columns() or [name for name in (self._image,) if name is not None]
        return found or self._free_columns()[:1] or [self.labels]

    def _clean_columns(
        self, found: NoisyLabels, suggest: bool, add: float | None, lists: bool
    ) -> tuple[list[Any], dict[str, list[Any]]]:
        """Return the clean tags and the new columns, which hold lists if they can."""
        cells, join = self.table.column(self.labels), self.separator.join
        changes = self.changes(found, add)
        clean = changes.apply(cells, spreadsheet=not lists)
        removed: list[set[str]] = [set() for _ in range(found.n_rows)]
        added: list[list[str]] = [[] for _ in range(found.n_rows)]
        for each in changes:
            if not each.before:
                added[each.row].append(each.after)
            elif not each.after:
                removed[each.row].add(self._merge.get(each.before, each.before))
        listed = _by_row(found.n_rows, found.records())
        open_to_add = (
            record
            for record in found.suggestions().records()
            if add is None or record["confidence"] < add
        )
        suggested = _by_row(found.n_rows, open_to_add)

        first = next((cell for cell in cells if cell is not None), "")
        as_text = not lists or (self.table.lists and isinstance(first, str))

        def tags_cell(tags: list[str]) -> Any:
            return join(tags) if as_text else tags

        def confidence_cell(values: dict[str, float]) -> Any:
            text = join(f"{tag}={value:.4g}" for tag, value in values.items())
            return values if lists else text

        unique = [list(dict.fromkeys(tags)) for tags in self.tags()]
        columns = [
            [
                tags_cell([tag for tag in tags if tag in out])
                for tags, out in zip(unique, removed, strict=True)
            ],
            [
                confidence_cell({tag: values[tag] for tag in tags})
                for tags, values in zip(unique, listed, strict=True)
            ],
        ]
        if add is not None:
            columns.append([tags_cell(tags) for tags in added])
        if suggest:
            columns.append([tags_cell(list(values)) for values in suggested])
            columns.append([confidence_cell(values) for values in suggested])
        names = self.new_columns(suggest, add is not None)
        return clean, dict(zip(names, columns, strict=True))

    def features(self, where: str = "memory") -> Features:
        """Return what to learn from: texts, pictures, embeddings or numbers.

        Parameters
        ----------
        where : {"memory", "files", "dask"}
            Where vectors and columns of numbers may be: those that do not fit into memory are a
            `RowFile` for "files", and those that were left unread are lazy blocks for "dask".
        """
        transformer = self.transformer()
        left_out = self._left_out(transformer)
        if where == "dask":
            blocks = number_blocks(Path(self.path), self._unread)
            X: Any = lazy_blocks([block.read for block in blocks], [block.path for block in blocks])
            return Features(X, brief_list(self._unread, 6), self.groups(), left_out)
        if self._unread and transformer is not None:
            X = self._numbers()
            # Numbers need no training.
            transformer.text_ = transformer.encoder_ = None
            transformer.n_features_ = X.shape[1]
            return Features(X, transformer.source(), self.groups(), left_out, transformer)
        if transformer is None:
            read = matrix_for if where == "memory" else rows_for
            X = read(str(self._features), self.table.n_rows, self.path)
            return Features(X, str(self._features), self.groups(), left_out)
        rows = self.table if transformer.image is None else {transformer.image: self._images}
        try:
            X = transformer.fit_transform(rows)
        except InputError as error:
            # Columns of numbers may have been given as features.
            chosen = "features" if self._features is not None else error.parameter
            raise InputError(f"{self.path}: {error}", parameter=chosen) from None
        return Features(X, transformer.source(), self.groups(), left_out, transformer)

    def _numbers(self) -> "Array | RowFile":
        """Read the columns that were left in their files, into memory or into a temporary file."""
        numbers = ParquetNumbers.of(Path(self.path), self._unread)
        if numbers is None:
            raise DataError(f"{self.path}: {brief_list(self._unread, 6)} can no longer be read")
        n, size, blocks = self.table.n_rows, numbers.n_bytes, numbers.blocks()
        X: Any
        if fits(size):
            X = np.empty((n, size // (n * numbers.dtype.itemsize)), numbers.dtype)
            first = 0
            for block in blocks:
                if block.shape[1] != X.shape[1] or first + len(block) > n:
                    break
                X[first : first + len(block)] = block
                first += len(block)
            if first == n:
                return X
        else:
            check_room(size, f"the numbers in {brief_list(self._unread, 6)}")
            stage("copying the features to a temporary file")
            X = RowFile(blocks)
            if X.shape[0] == n:
                return X
        raise DataError(
            f"{self.path}: not all rows have as many numbers in {brief_list(self._unread, 6)}, or "
            f"the files were changed while they were read"
        )

    def transformer(self) -> TableFeatures | None:
        """Return the untrained features; None if they come from an .npy file.

        Without a choice, columns of numbers or one column of sentences are taken; if the table
        has both, InputError asks which. With an encoder, it is pictures or a column of sentences.
        """
        encoder = self._encoder
        if self._text is not None:
            return TableFeatures(text=self._text, encoder=encoder)
        if encoder is not None and (self._columns or self._features):
            raise InputError(
                f"{self.path}: an encoder turns texts or pictures into vectors; leave it out to "
                f"learn from numbers or embeddings",
                parameter="encoder",
            )
        if self._columns is not None:
            return TableFeatures(columns=self._columns)
        if self._features is not None:
            return self._chosen_features(self._features)
        if self._image is not None and encoder is not None:
            return TableFeatures(image=self._image, encoder=encoder)
        numbers, texts = self._numeric_columns(), self._text_columns()
        if numbers and not texts and encoder is None:
            return TableFeatures(columns=numbers)
        if len(texts) == 1 and (encoder is not None or not numbers):
            return TableFeatures(text=texts, encoder=encoder)
        if self._image is not None and not numbers and not texts:
            return TableFeatures(image=self._image)
        if numbers or texts:
            choices = [f"the text in {brief(name)}" for name in texts]
            choices += [f"the numbers in {brief_list(numbers, 6)}"] * bool(numbers)
            pictures = [f"the pictures in {brief(self._image)}"] if self._image is not None else []
            raise InputError(
                f"{self.path}: learn from {', or '.join(choices + pictures)}? Choose columns of "
                f"text or of numbers" + (", or an encoder for the pictures" if pictures else ""),
                parameter=("text", "columns", "encoder")[: 3 if pictures else 2],
            )
        lengths = {
            name: sum(map(len, text_cells(self.table, name))) for name in self._free_columns()
        }
        best = max(lengths, key=lambda name: lengths[name], default=None)
        example = "" if best is None else f" such as {brief(best)}"
        raise InputError(
            f"{self.path}: no column of numbers or sentences to learn from; choose a column of "
            f"text{example}, or give embeddings as features",
            parameter="text",
        )

    def _chosen_features(self, features: str) -> TableFeatures | None:
        """Return a column of lists, or columns of numbers such as "a,b"; None for an .npy file."""
        known = {*self.table.columns, *self._unread}
        names = [features] if features in known else [name.strip() for name in features.split(",")]
        if set(names) <= set(self._unread):
            several = len(names) > 1
            return TableFeatures(columns=names) if several else TableFeatures(vectors=features)
        if not known.intersection(names):
            return None
        lists = [name for name in names if name in known and holds_lists(self.table, name)]
        return TableFeatures(vectors=lists[0]) if lists else TableFeatures(columns=names)

    def _left_out(self, transformer: TableFeatures | None) -> list[str]:
        """Return columns of numbers or sentences that are not learned from."""
        used: set[str] = set()
        if transformer is not None:
            used = {*(transformer.text or ()), *(transformer.columns or ())}
            used |= {name for name in (transformer.vectors, transformer.image) if name is not None}
        found = [*self._text_columns(), *self._numeric_columns(), *filter(None, [self._image])]
        return [name for name in found if name not in used]

    def texts(self) -> list[str]:
        """Return the text of each row: the columns of text, or else all cells of words."""
        if self._text is not None:
            columns = [self.table.column(name) for name in self._text]
        else:
            used = {self.labels, self._known_clean, self._group, self._image, self._features}
            names = [name for name in self.table.columns if name not in used]
            names = [name for name in names if text_cells(self.table, name)]
            columns = [self.table.column(name) for name in names]
            columns = [column for column in columns if to_numbers(column) is None]
        texts = [" ".join(str(cell) for cell in row if cell) for row in zip(*columns, strict=True)]
        return texts or [""] * self.table.n_rows

    def ids(self) -> list[str]:
        """Return the name of each row; rows are numbered from 1 if there is no such column."""
        if self._id is None:
            return [str(i + 1) for i in range(self.table.n_rows)]
        return [str(cell) for cell in self.table.column(self._id)]

    def images(self) -> list[Path | None] | None:
        """Return the image file of each row; paths are relative to the folder of images."""
        return self._images

    def known_clean(self) -> Array | None:
        """Return whether the tags of each row were checked."""
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
        """Return the group of each row; None for a row without a group."""
        if self._group is None:
            return None
        cells = self.table.column(self._group)
        return [None if isinstance(cell, str) and not cell.strip() else cell for cell in cells]

    def _free_columns(self) -> list[str]:
        """Return the columns without a role, other than ids."""
        used = {self.labels, self._id, self._known_clean, self._group, self._image}
        free = [name for name in self.table.columns if name not in used]
        return [name for name in free if name.lower() not in _ID_COLUMNS]

    def _numeric_columns(self) -> list[str]:
        """Return the free columns that hold numbers, other than row numbers."""
        found = []
        for name in self._free_columns():
            values = self.table.numbers(name)
            if values is None or np.isnan(values).all():
                continue
            steps = np.diff(values)
            if not (len(steps) > 1 and np.all(steps == 1)):
                found.append(name)
        return found

    def _text_columns(self) -> list[str]:
        """Return the free columns of sentences: texts of at least three words on average."""
        found = []
        for name in self._free_columns():
            cells = [cell for cell in text_cells(self.table, name) if cell.strip()]
            n_words = sum(len(cell.split()) for cell in cells)
            if cells and n_words >= _WORDS_OF_A_TEXT * len(cells):
                found.append(name)
        return found


def _by_row(n_rows: int, records: Iterable[dict[str, Any]]) -> list[dict[str, float]]:
    """Return the confidence of the tags of each row."""
    rows: list[dict[str, float]] = [{} for _ in range(n_rows)]
    for record in records:
        rows[record["row"]][record["label"]] = round(record["confidence"], 4)
    return rows


def columns_to_stream(path: str, names: Sequence[str]) -> list[str]:
    """Return columns of a Parquet file or folder that are better left there: all of these or none.

    A table that is read as a whole has them twice: as they were read, and as a matrix. Left in the
    files, they are read when the rest of the table is known, and only if there is room.
    """
    is_parquet = Path(path).suffix.lower() == ".parquet"
    if Path(path).is_dir():
        is_parquet = folder_format(Path(path)) == ".parquet"
    numbers = ParquetNumbers.of(Path(path), names) if is_parquet and names else None
    large = min(_LARGE, free_bytes() // 4)
    return list(names) if numbers is not None and numbers.n_bytes > large else []


def matrix_for(features: str, n_rows: int, table: str) -> Array:
    """Read the features of the rows of a table from .npy files; a large matrix is mapped."""
    rows = rows_for(features, n_rows, table)
    return rows.mapped() if isinstance(rows, RowFile) else rows


def rows_for(features: str, n_rows: int, table: str) -> "Array | RowFile":
    """Open the features of the rows of a table.

    Parameters
    ----------
    features : str
        An .npy file, several such as "a.npy,b.npy" with rows that follow each other, or a folder
        of such files, in the order of their names.
    n_rows : int
    table : str
        Name of the table in error messages.

    Returns
    -------
    ndarray, or RowFile if they take more than half of the memory that is free
    """
    files = [Path(features)]
    if files[0].is_dir():
        files = sorted(files[0].glob("*.npy"))
    elif not files[0].exists() and "," in features:
        files = [Path(name.strip()) for name in features.split(",")]
    if not files or any(path.suffix.lower() != ".npy" for path in files):
        raise InputError(
            f"{features!r} is neither an .npy file nor a list or folder of such files, nor a "
            f"column of {table}",
            parameter="features",
        )
    size = sum(path.stat().st_size for path in files if path.exists())
    rows: Any
    if not fits(size):
        if len(files) > 1:
            check_room(size, f"the numbers in {features}")
        opened = [RowFile(path) for path in files]
        rows = (
            opened[0] if len(files) == 1 else RowFile(b for each in opened for b in each.blocks())
        )
    else:
        matrices = [np.asarray(read_npy(path)) for path in files]
        widths = {matrix.shape[1:] for matrix in matrices}
        if len(widths) > 1 or any(not matrix.ndim for matrix in matrices):
            raise DataError(
                f"{features}: the matrices must have as many columns as each other, but there are "
                f"{' and '.join(str(matrix.shape) for matrix in matrices[:4])}"
            )
        rows = matrices[0] if len(files) == 1 else np.concatenate(matrices)
    shape = rows.shape
    is_matrix = len(shape) == 2 and shape[0] == n_rows and shape[1] > 0
    if not is_matrix or rows.dtype.kind not in "biuf":
        raise DataError(
            f"{features}: {rows.dtype} of shape {shape}, but {table} has {n_rows} rows; give a "
            f"matrix of numbers with as many rows and at least one column"
        )
    return rows


def image_files(table: Table, column: str, path: str, root: str | None = None) -> list[Path | None]:
    """Return the image file of each row, None where the cell is empty.

    An image outside of the folder raises InputError: whoever wrote the table chose it.

    Parameters
    ----------
    table : Table
    column : str
        Column of paths relative to the folder of images.
    path : str
        Name of the table in error messages.
    root : str, optional
        Folder of images; by default that of the table.
    """
    folder = Path(root or Path(path).parent)
    inside = os.path.realpath(folder)
    cells = table.column(column)
    for i, cell in enumerate(cells):
        if cell and not is_inside(str(cell), inside):
            raise InputError(
                f"{path}: row {i + 1}, column {brief(column)}: {str(cell)[:40]!r} is not in the "
                f"folder of images {inside!r}; give the folder that holds them all",
                parameter="image_root",
            )
    return [folder / str(cell) if cell else None for cell in cells]


def is_inside(path: str, folder: str) -> bool:
    """Whether a path, relative to the folder or absolute, leads to a place inside of it."""
    # The system would open a connection to find out where //host/share leads.
    if path.startswith(("//", "\\\\")):
        return False
    try:
        return os.path.commonpath([os.path.realpath(os.path.join(folder, path)), folder]) == folder
    except ValueError:
        # Another drive of Windows, or no path at all.
        return False
