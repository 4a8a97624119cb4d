"""Options of a cleaning: one object for the program, schirn.toml and Python."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from schirn._files import brief, content_hash
from schirn.app.workflow._ranking_store import content_key
from schirn.cleaning.policy import PRECISION
from schirn.cleaning.questions import FIRST_STEP
from schirn.cleaning.ranker import MIN_COUNT
from schirn.exceptions import InputError, suggest
from schirn.program.configuration import read_configuration
from schirn.program.parser import assignment

# Options that name several columns; in Python, a string names a single column.
_COLUMN_LISTS = ("text", "columns", "categories")
# Options that a printed command repeats, because they determine what it reads, ranks and removes.
_REPEATED = (
    *("labels", "separator", "features", "id", "group", "image", "image_root", "encoder"),
    *("encoding", "delimiter", "query", "vocabulary", "implied", "known_clean", "remove"),
    *("remove_below", "add", "precision", "min_count", "seed", "decisions", "text", "columns"),
    *("categories", "method", "param", "answers", "opinions", "suggest", "allow_empty"),
)
# Options that do not affect the ranking; all others are part of its key.
_AFTER_RANKING = {
    *("precision", "allow_empty", "remove", "remove_below", "add"),
    *("number", "suggest", "answers", "opinions", "certify", "decisions", "name"),
    *("checkpoint", "fresh", "scheduler", "image_root"),
}
# Options that name a file; its content counts, not its name.
_FILES = ("features", "vocabulary")


@dataclass(frozen=True, kw_only=True)
class CleaningOptions:
    """Options for reading, ranking and cleaning a table, and for the questions.

    The options of ``schirn clean`` have the same names, with dashes, and the same defaults.

    Parameters
    ----------
    labels : str, optional
        Column of tags, or several 0/1 columns such as "beach,dog"; by default the column called
        labels, tags, candidates or label.
    separator : str, optional
        Text between the tags of a cell; by default a semicolon.
    text, columns, categories : str or sequence of str, optional
        Columns of text, of numbers and of categories to learn from. By default all columns of
        sentences, numbers and categories, except ids and row numbers.
    features : str, optional
        An .npy file, a column of lists, or columns of numbers such as "a,b", to learn from.
    image, image_root : str, optional
        Column of image files, and the folder that holds them; by default the table's folder.
    encoder : str, optional
        Encoder of texts or images, such as "wordllama".
    id : str, optional
        Column of row names; by default rows are numbered from 1.
    group : str, optional
        Column of groups; rows with the same value do not influence each other's ranks.
    known_clean : str, optional
        Column with 1 for rows whose tags were checked.
    encoding : str, default="utf-8"
        Encoding of a text file.
    delimiter : str, optional
        Character between CSV cells.
    query : str, optional
        Query that selects the table from a database; the path is then "duckdb:FILE",
        "sqlite:FILE" or "postgresql://HOST/NAME".
    vocabulary : str, optional
        File of decisions about tags, which are applied before ranking; see `read_vocabulary`.
    implied : {"add", "suggest"}, default="add"
        Add the tags that the vocabulary implies, or only count them.
    method : str, optional
        Name of the ranking method; by default the library chooses.
    param : mapping or sequence of (name, value), optional
        Parameters of the method.
    min_count : int, default=5
        Tags listed in fewer rows are not ranked.
    max_memory : float, optional
        Memory limit in gigabytes; larger data are kept in temporary files.
    device : str, optional
        PyTorch device for ranking, such as "cuda".
    scheduler : str, optional
        Address of a Dask scheduler whose workers rank.
    checkpoint : str, optional
        Folder from which a killed run resumes.
    fresh : bool, default=False
        Rank again even if a ranking is stored next to the table.
    precision : float, default=0.9
        Share of the removals that should be right according to the answers.
    allow_empty : bool, default=False
        Let rows lose all their tags.
    remove, remove_below, add : int, float and float, optional
        Without answers, remove this number of the most suspicious tags, remove tags below this
        probability, or add missing tags of at least this probability.
    number : int, default=25
        Number of questions.
    suggest : bool, default=False
        Ask about missing tags instead of listed ones.
    answers : sequence of str, optional
        Files of questions that a person has filled in.
    opinions : sequence of str, optional
        Files of second opinions about tags, from a language model or another person.
    certify : bool, default=False
        Ask the questions of a certificate.
    decisions : str, optional
        A .jsonl file that keeps answers by row id; needs `id`.
    name : str, optional
        Name of the person who answers.
    seed : int, default=0
        Seed of folds and questions.

    Examples
    --------
    >>> from schirn.app.workflow import CleaningOptions
    >>> options = CleaningOptions(labels="tags", text="title", precision=0.8)
    >>> options.text
    ('title',)
    >>> options.words()
    ['--labels', 'tags', '--precision', '0.8', '--text', 'title']
    """

    labels: str | None = None
    separator: str | None = None
    text: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    categories: Sequence[str] | None = None
    features: str | None = None
    image: str | None = None
    image_root: str | None = None
    encoder: str | None = None
    id: str | None = None
    group: str | None = None
    known_clean: str | None = None
    encoding: str = "utf-8"
    delimiter: str | None = None
    query: str | None = None
    vocabulary: str | None = None
    implied: str = "add"
    method: str | None = None
    param: Any = ()
    min_count: int = MIN_COUNT
    max_memory: float | None = None
    device: str | None = None
    scheduler: str | None = None
    checkpoint: str | None = None
    fresh: bool = False
    precision: float = PRECISION
    allow_empty: bool = False
    remove: int | None = None
    remove_below: float | None = None
    add: float | None = None
    number: int = FIRST_STEP
    suggest: bool = False
    answers: Sequence[str] = ()
    opinions: Sequence[str] = ()
    certify: bool = False
    decisions: str | None = None
    name: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in _COLUMN_LISTS:
            value = getattr(self, name)
            if value is not None:
                self._set(name, (value,) if isinstance(value, str) else tuple(value))
        pairs = self.param.items() if isinstance(self.param, Mapping) else self.param
        self._set("param", tuple((name, value) for name, value in pairs))
        for name in ("answers", "opinions"):
            files = getattr(self, name) or ()
            self._set(name, (files,) if isinstance(files, str) else tuple(files))
        if self.implied not in ("add", "suggest"):
            raise InputError(
                f"implied must be add or suggest, not {brief(self.implied)}", parameter="implied"
            )
        if self.remove is not None and self.remove_below is not None:
            raise InputError(
                "give only one of remove and remove_below",
                parameter=("remove", "remove_below"),
            )
        if not self.precision:
            raise InputError(
                "precision must be above 0; use remove to remove tags without answers",
                parameter=("precision", "remove"),
            )
        if self.decisions is not None and not self.decisions.endswith(".jsonl"):
            raise InputError(f"{self.decisions}: the name of the decisions must end in .jsonl")

    def _set(self, name: str, value: Any) -> None:
        # The only way to set a field of a frozen dataclass.
        object.__setattr__(self, name, value)

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> "CleaningOptions":
        """Build options from the parsed arguments of a command.

        Parameters
        ----------
        args : Namespace
            Parsed arguments; options that the command lacks keep their defaults.

        Returns
        -------
        CleaningOptions
        """
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in vars(args).items() if name in names})

    @classmethod
    def from_toml(cls, path: str = "schirn.toml", command: str = "clean") -> "CleaningOptions":
        """Read the options from a configuration file, as the program does.

        Parameters
        ----------
        path : str, default="schirn.toml"
            A TOML file with options at the top level and in tables such as ``[clean]``.
        command : str, default="clean"
            The table to read in addition to the top level.

        Returns
        -------
        CleaningOptions

        Raises
        ------
        InputError
            If the file is not TOML, or its table has an unknown option.
        """
        content = read_configuration(path)
        names = [field.name for field in fields(cls)]
        top = {_name(key): value for key, value in content.items() if not isinstance(value, dict)}
        if isinstance(content.get("param"), dict):
            top["param"] = content["param"]
        below = {_name(key): value for key, value in content.get(command, {}).items()}
        for name in below:
            if name not in names:
                raise InputError(
                    f"{path}: there is no option {brief(name)}; {suggest(name, names)}"
                )
        values = {name: value for name, value in {**top, **below}.items() if name in names}
        for name in _COLUMN_LISTS:
            if isinstance(values.get(name), str):
                values[name] = [column.strip() for column in values[name].split(",")]
        return cls(**values)

    def words(self, without: Sequence[str] = ()) -> list[str]:
        """Return the options as command-line words, without options at their defaults.

        Parameters
        ----------
        without : sequence of str
            Names of options to leave out.

        Returns
        -------
        list of str
        """
        usual = CleaningOptions()
        words: list[str] = []
        for name in _REPEATED:
            value = getattr(self, name)
            if name in without or value == getattr(usual, name):
                continue
            option = f"--{name.replace('_', '-')}"
            if value is True:
                words.append(option)
            elif name in _COLUMN_LISTS:
                words += [option, ",".join(value)]
            elif name == "param":
                for parameter, setting in value:
                    words += [option, f"{parameter}={_value_word(setting)}"]
            else:
                for item in value if isinstance(value, tuple) else [value]:
                    words += [option, str(item)]
        return words

    def ranking_words(self) -> list[str]:
        """Return the command-line words that determine the ranks, independent of file locations.

        Returns
        -------
        list of str
        """
        words = self.words(without=("image_root", "decisions", "opinions"))
        for path in self.opinions:
            words += ["--opinions", str(content_hash(path))]
        return words

    def ranking_key(self) -> dict[str, Any] | None:
        """Return everything that the ranking of a table depends on, apart from the table.

        Returns
        -------
        dict or None
            Options, and checksums of the files that they name; None if a file is too large to
            read.
        """
        key = {name: value for name, value in asdict(self).items() if name not in _AFTER_RANKING}
        key["on_workers"] = self.scheduler is not None
        files = {name: key[name] for name in _FILES}
        if self.encoder is not None:
            files["encoder_files"] = self.encoder.rpartition(":")[2]
        for name, value in files.items():
            # Otherwise the value names a column or a model.
            if value is not None and Path(value).exists():
                content = content_key(value)
                if content is None:
                    return None
                key[name] = {"content": content}
        return key


def _name(key: str) -> str:
    return key.replace("-", "_")


def _value_word(value: Any) -> str:
    """Return the value of a parameter as the program reads it: JSON, or a string as it stands."""
    if isinstance(value, str) and assignment(f"name={value}")[1] == value:
        return value
    return json.dumps(value)
