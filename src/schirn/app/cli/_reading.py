"""Reading data sets as described by the options of the program."""

import argparse
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import atomic_write, brief_list, check_writable
from schirn._text import format_suffix
from schirn.app.tables import TABLES, Violation, is_database, is_table_name, open_table
from schirn.app.workflow import (
    LABEL_STUDIO,
    Carried,
    Decisions,
    TableCleaning,
    TagTable,
    config_path,
    has_answers,
    read_vocabulary,
)
from schirn.cleaning import ChangeList, NoisyLabels
from schirn.cleaning.changes import list_content
from schirn.cleaning.noisy_labels import WAYS_ON
from schirn.cleaning.policy import PRECISION
from schirn.cleaning.questions import FIRST_STEP
from schirn.exceptions import InputError
from schirn.labels.cells import LABEL_COLUMNS
from schirn.program.data import TEXT_FORMAT
from schirn.program.output import note, number

UNEXPECTED = 4
"""Exit code for a table that does not meet its expectations."""
# Share of the planted tags among the most suspicious 10%, below which few removals are likely. It
# is also low if wrong tags of the table fill these 10%, so a higher limit would be too strict.
_WEAK = 0.25
SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".txt")
_SUFFIXES = {
    "list of changes": (".csv",),
    "questions": (".csv",),
    "tasks": (".json",),
    "labeling interface": (".xml",),
    "report": (".html", ".htm"),
    "vocabulary": (".csv",),
}
_COLUMN_ROLES = ("labels", "text", "columns", "categories", "features", "image", "group")
LEARNED = """
--text COLUMNS:names  text columns to use as features
--columns COLUMNS:names  numeric columns to use as features, such as a,b,c
--categories COLUMNS:names  columns of categories to use as features, such as brand,colour
"""
IMAGE = """
--image COLUMN  column of image files, shown in reports; also used as features if there are
    no others, or with --encoder
"""
ENCODING = """
--image-root DIR  folder that holds the image files (default: the folder of the table)
--encoder NAME:encoder  encode texts or pictures with a pretrained model: wordllama,
    model2vec:NAME or sentence-transformers:NAME (default: tf-idf weights of words and characters,
    colours and edges of pictures)
"""
VOCABULARY = """
--vocabulary FILE  apply the accepted lines to the tags before anything else (see: schirn
    vocabulary); lists of merges such as ligthing,lighting are accepted too
--implied add|suggest = add  add tags that the vocabulary implies, or only suggest them
"""
QUERY = """
--query SQL  SQL query that returns the table; instead of a file, give duckdb:FILE, sqlite:FILE or
    postgresql://HOST/NAME
"""
COLUMNS = f"""
[columns of the table]
--labels COLUMNS  column of tags, such as beach;dog or lists, or several 0/1 columns such as a,b,c
--separator TEXT:separator  text between tags (default: ;)
{LEARNED}
{IMAGE}
{ENCODING}
--features FILE  features: an .npy matrix, a column of lists, or numeric columns such as a,b,c
{TEXT_FORMAT}
{QUERY}
{VOCABULARY}
"""
DECISIONS = """
--decisions FILE  .jsonl file that stores answers by row id between runs; needs --id
"""
ROWS = """
--id COLUMN  column of row names (default: 1, 2, ...)
--group COLUMN  rows with the same value do not influence each other's ranks
--known-clean COLUMN  column with 1 for rows whose tags were checked: these tags are kept, and
    Sieve (but no other method) learns from them
"""
REMOVALS = f"""
--precision P:share = {PRECISION:g}  remove as many tags as possible while the answers suggest that
    a share P of the removals is right
"""
ALLOW_EMPTY = """
--allow-empty  let a row lose all its tags instead of keeping the most likely one
"""
COPIES = """
-o, --output FILE  write the cleaned copy, in the format given by its suffix
--changes FILE  write all changes to a .csv list, to check and pass to schirn apply; another list
    of this name is kept as FILE.bak
"""
ASK = f"""
--questions FILE  write questions to a .csv file; fill in its column 'right' with yes, no or ?
--number N:positive = {FIRST_STEP}  number of questions, or of tags for --for-model
--answers FILE...  a file of questions with your answers, or an export of a labeling tool; may be
    repeated
--name NAME  name of the person who answered, stored with the decisions
--suggest  ask about missing tags instead; with --output, write columns of tags that may be missing
--seed S:natural = 0  seed for questions and folds
"""
PARAMETERS = """
--param NAME=VALUE:assignment...  a parameter of the method (repeatable; see: schirn methods
    METHOD)
"""


def read_tag_table(args: argparse.Namespace) -> TagTable | None:
    """Open DATA if it is a table with one column of tags; return None for other data sets.

    Tables with one 0/1 column are read by `read`.
    """
    path = Path(args.data)
    is_file = path.is_file() and format_suffix(path) in TABLES
    if not (path.is_dir() or is_file or is_database(args.data)):
        return None
    opened = open_table(
        args.data, encoding=args.encoding, delimiter=args.delimiter, query=args.query
    )
    usual = set(LABEL_COLUMNS) & set(opened.columns)
    if args.labels is None and not usual:
        return None
    source = TagTable(opened, args.data, **tag_roles(args), id=args.id)
    source.check_chosen_separator()
    values = source.table.numbers(source.labels)
    if values is not None and np.isin(values[~np.isnan(values)], (-1, 0, 1)).all():
        return None
    return source


def tag_roles(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `TagTable` set by COLUMNS, ENCODING, GROUP and VOCABULARY options.

    Parameters
    ----------
    args : Namespace
        Arguments of the command.

    Returns
    -------
    dict
    """
    names = (*_COLUMN_ROLES, "separator", "encoder", "image_root")
    roles = {name: getattr(args, name) for name in names}
    return {**roles, **vocabulary_roles(args)}


def vocabulary_roles(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `TagTable` set by VOCABULARY options.

    Parameters
    ----------
    args : Namespace
        Arguments of the command.

    Returns
    -------
    dict
    """
    vocabulary = read_vocabulary(args.vocabulary) if args.vocabulary else None
    return {"vocabulary": vocabulary, "add_implied": args.implied == "add"}


def open_decisions(args: argparse.Namespace) -> Decisions | None:
    """Open the file of decisions, if one is given.

    Parameters
    ----------
    args : Namespace
        Arguments of the command.

    Returns
    -------
    Decisions or None
    """
    if args.decisions is None:
        return None
    if not args.decisions.endswith(".jsonl"):
        raise InputError(f"{args.decisions}: the name of the decisions must end in .jsonl")
    store = Decisions(args.decisions)
    if store.repaired:
        note(f"note: {args.decisions}: {store.repaired}")
    return store


def describe_decisions(store: Decisions, carried: Carried) -> str:
    """Describe the decisions of earlier runs.

    Parameters
    ----------
    store : Decisions
        The file of decisions.
    carried : Carried
        Decisions matched to the rows of the table.

    Returns
    -------
    str
    """
    if not len(store):
        return "none yet"
    parts = [f"{len(carried.valid):,} carried over"]
    if carried.changed:
        parts.append(f"{len(carried.changed):,} to ask again, because their rows have changed")
    if carried.gone:
        parts.append(f"{carried.gone:,} about rows that are gone")
    if carried.dropped:
        parts.append(f"{carried.dropped:,} about tags that the vocabulary drops")
    if store.contradictions:
        parts.append(f"{store.contradictions:,} contradicted by a later one, which counts")
    return "; ".join(parts)


def no_others(ranking: NoisyLabels) -> str:
    """Return a sentence if the answers only remove tags answered "wrong".

    Parameters
    ----------
    ranking : NoisyLabels
        The ranking with answers.

    Returns
    -------
    str
        An empty string otherwise.
    """
    n_others = int((ranking.removed & (ranking.confidence > 0)).sum()) - ranking.removed_by_rule
    if not ranking.n_answers or not ranking.is_checked or n_others:
        return ""
    none = f"none at a precision of {ranking.precision:.0%}"
    target = ranking.next_target
    if target is None:
        return f"{none}, nor at lower ones down to 50%; {WAYS_ON}"
    return f"{none}; --precision {target:g} would remove more"


def no_other_additions(ranking: NoisyLabels) -> str:
    """Return a sentence if the answers only add tags answered "right".

    Parameters
    ----------
    ranking : NoisyLabels
        The ranking with answers.

    Returns
    -------
    str
        An empty string otherwise, or if there are no answers about missing tags.
    """
    missing = ranking.missing
    if not len(missing.worklist.answered) or not ranking.is_checked:
        return ""
    by_limit = ranking.added & (missing.answer != 1)
    if by_limit.any():
        return ""
    return f"none at a precision of {ranking.precision:.0%}: only tags called right are added"


def expected_removals(ranking: NoisyLabels) -> str:
    """Return a sentence about the expected share of wrong tags among unanswered removals.

    Parameters
    ----------
    ranking : NoisyLabels
        The ranking with answers.

    Returns
    -------
    str
        An empty string if only tags answered "wrong" are removed, or if removals were requested.
    """
    if not ranking.n_answers or not ranking.is_checked:
        return ""
    line = ranking.trade_off([ranking.precision])[0]
    if not line.unanswered:
        return ""
    low, high = line.unanswered_right_share_interval
    noun = "other" if line.removed > line.unanswered else "tag"
    return (
        f"about {line.unanswered_right_share:.0%} of the {number(line.unanswered, noun)} are wrong "
        f"(90% interval: {low:.0%} to {high:.0%})"
    )


def other_targets(ranking: NoisyLabels) -> str:
    """Describe the removals at other targets; "" without answers, or if no target removes tags.

    Like the trade-off of the report, it counts tags answered "wrong", but not removals by rule.

    Parameters
    ----------
    ranking : NoisyLabels
        The ranking with answers.

    Returns
    -------
    str
    """
    if not ranking.n_answers or not ranking.is_checked:
        return ""
    lines = [line for line in ranking.trade_off() if line.precision != ranking.precision]
    return "; ".join(
        f"{line.precision:.0%}: {line.removed:,} in all ({line.right_share:.0%} wrong)"
        for line in lines
        if line.unanswered
    )


def unused_text(cleaning: TableCleaning) -> str:
    """Name columns of text that are not learned from, and the option to use them.

    Parameters
    ----------
    cleaning : TableCleaning
        The cleaning of the table.

    Returns
    -------
    str
        An empty string if there are none.
    """
    used, unused = cleaning.source.more_text()
    if not unused:
        return ""
    columns = shlex.quote(",".join([*used, *unused]))
    return f"columns not used: {', '.join(unused)}; try --text {columns}"


def early_advice(cleaning: TableCleaning) -> str:
    """Return what can be said about the removals before any question is answered.

    Parameters
    ----------
    cleaning : TableCleaning
        The cleaning of the table.

    Returns
    -------
    str
        An empty string if the ranking finds tags put on random rows, and uses all texts.
    """
    caught = cleaning.ranked.planted_among_suspects()
    parts = []
    if caught < _WEAK:
        parts.append(
            "few removals are likely unless very many tags are wrong, because this ranking finds "
            "little; more columns, an --encoder or rules for frequent tags can help"
        )
    parts.append(unused_text(cleaning))
    return "; ".join(filter(None, parts))


def check_opinions(paths: Iterable[str]) -> None:
    """Raise InputError unless all files of opinions exist.

    Parameters
    ----------
    paths : iterable of path
        Files of opinions.
    """
    for path in paths:
        if not Path(path).exists():
            raise InputError(f"{path}: there is no such file of opinions")


def check_not_input(output: str, *inputs: str) -> None:
    """Raise InputError if an output is one of the inputs, even through a link.

    Parameters
    ----------
    output : str
        File to write.
    *inputs : str
        Files that the command reads.
    """
    for used in inputs:
        is_same = os.path.realpath(output) == os.path.realpath(used)
        both_exist = os.path.isfile(output) and os.path.isfile(used)
        if is_same or (both_exist and os.path.samefile(output, used)):
            raise InputError(f"{output}: is the input, which is never changed; choose another name")
        if os.path.isdir(used) and Path(used).resolve() in Path(output).resolve().parents:
            raise InputError(f"{output}: is inside the input folder; choose another path")


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str | None]) -> None:
    """Raise InputError unless all outputs of clean, update or review can be written.

    Parameters
    ----------
    outputs : dict from str to path or None
        The files to write, by their descriptions.
    inputs : iterable of path or None
        Files that the command reads.
    """
    names: dict[str, str] = {}
    paths = {name: path for name, path in outputs.items() if path}
    for name, path in paths.items():
        check_not_input(path, *filter(None, inputs))
        first = names.setdefault(os.path.realpath(path), name)
        if first != name:
            raise InputError(f"{path}: is given for both the {first} and the {name}")
        suffixes = _SUFFIXES.get(name, ("",))
        if not path.lower().endswith(suffixes):
            raise InputError(f"{path}: the name of the {name} must end in {' or '.join(suffixes)}")
    for name, path in paths.items():
        if name == "copy" and not is_table_name(path):
            raise InputError(
                f"{path}: the name of a copy must end as that of a table: {brief_list(TABLES)}"
            )
        check_writable(path)


def write_changes(changes: ChangeList, path: str) -> None:
    """Write a list of changes; keep another list of this name, which an undo may need.

    Parameters
    ----------
    changes : ChangeList
    path : path
        A list with lines that differs is copied to this path with .bak at its end.
    """
    last = Path(path).read_bytes() if os.path.isfile(path) else b""
    has_lines = len(last.strip().splitlines()) > 1
    if has_lines and last != list_content(changes, path):
        with atomic_write(f"{path}.bak") as stream:
            stream.write(last)
        note(f"kept the previous list of changes, which differs, as {path}.bak")
    changes.write(path)


def unmet(violations: Sequence[Violation]) -> dict[str, Any]:
    """Return what a JSON document says if expectations are not met, as that of any other error.

    Parameters
    ----------
    violations : list of Violation

    Returns
    -------
    dict
        Empty if there are none.
    """
    if not violations:
        return {}
    return {"error": "; ".join(map(str, violations)), "exit_code": UNEXPECTED}


@dataclass(frozen=True)
class Outputs:
    """Files that a command writes; None for files that were not requested.

    Attributes
    ----------
    copy, changes, report, questions, prompts : str or None
        Paths of the files.
    tool : str or None
        Labeling tool for the questions.
    """

    copy: str | None = None
    changes: str | None = None
    report: str | None = None
    questions: str | None = None
    prompts: str | None = None
    tool: str | None = None

    @property
    def certificate(self) -> str | None:
        """File of a certificate, next to the copy or else next to the report."""
        output = self.copy or self.report
        return f"{output.rstrip('/')}.certificate.json" if output else None

    def named(self) -> dict[str, str | None]:
        """Return the files by their names in messages.

        Returns
        -------
        dict from str to path or None
        """
        files = {
            "copy": self.copy,
            "report": self.report,
            "list of changes": self.changes,
            "questions" if self.tool is None else "tasks": self.questions,
            "file of prompts": self.prompts,
        }
        if self.tool == LABEL_STUDIO and self.questions:
            files["labeling interface"] = config_path(self.questions)
        return files

    def answers_before(self, answers: Sequence[str], *, is_kept: bool) -> list[str]:
        """Return the files of answers, including the file of new questions if it has answers.

        Parameters
        ----------
        answers : sequence of str
            Files of answers.
        is_kept : bool
            True if the answers are also stored elsewhere; otherwise the file is not overwritten.

        Returns
        -------
        list of str
        """
        path = self.questions
        files = [name for name in answers if name != path]
        if not path or not has_answers(path):
            return files
        if not is_kept:
            raise InputError(
                f"{path}: has answers, which new questions would overwrite; choose another name, "
                f"or keep the answers with --decisions"
            )
        note(f"reading the answers in {path} before writing new questions to it")
        return [*files, path]

    def withheld(self) -> "Outputs":
        """Return the files that are still written if a run does not meet its expectations.

        Returns
        -------
        Outputs
        """
        if self.copy or self.changes or self.questions or self.prompts:
            unmet = "no copy, changes, questions or prompts are written: an expectation is not met"
            note(unmet, error=True)
        return replace(self, copy=None, changes=None, questions=None, prompts=None)
