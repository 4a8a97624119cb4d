"""Read data sets as the options of the program describe them."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import brief, check_new_folder, check_writable
from schirn.cleaning.columns import TagTable
from schirn.cli.parser import Parser, is_whole, json_value, separator
from schirn.datasets import Dataset, load
from schirn.exceptions import InputError
from schirn.tables.files import LABEL_COLUMNS, TABLES, folder_format, open_table
from schirn.tables.merges import read_merges
from schirn.tables.text import format_suffix, is_packed

SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".txt")
_FEATURES = "features: an .npy matrix, a column of lists, or numeric columns such as a,b,c"


def add_reading(parser: Parser) -> Any:
    """Add DATA and the options of the readers, and return their group."""
    parser.add_argument("data", metavar="DATA", help="name of a data set, or a file")
    group = parser.add_argument_group("how to read DATA")
    group.add_argument(
        "--labels",
        metavar="COLUMNS",
        help="a column of tags, or several 0/1 columns such as a,b,c; for ARFF, the number of "
        "labels",
    )
    group.add_argument("--truth", metavar="COLUMNS", help="columns with the true labels")
    add_learned_columns(group)
    group.add_argument("--features", metavar="COLUMNS", help=_FEATURES)
    group.add_argument(
        "--separator",
        type=separator,
        metavar="TEXT",
        help="text between tags (default: ;)",
    )
    group.add_argument(
        "--part", choices=("all", "train", "test"), default="all", help="rows to use (default: all)"
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        type=assignment,
        metavar="NAME=VALUE",
        help="any other option of the reader, such as missing=zero or n_features=500",
    )
    add_text_format(group)
    return group


def add_columns(parser: Parser) -> Any:
    """Add the options that name the columns of a table of tags, and return their group."""
    group = parser.add_argument_group("columns of the table")
    group.add_argument(
        "--labels", metavar="COLUMN", help="column of tags, such as beach;dog or lists"
    )
    group.add_argument(
        "--separator", type=separator, metavar="TEXT", help="text between tags (default: ;)"
    )
    add_learned_columns(group)
    add_encoding(group)
    group.add_argument(
        "--features", metavar="FILE",
        help="features: an .npy matrix, several whose rows follow each other (x.npy,y.npy or a "
        "folder), a column of lists, or numeric columns such as a,b,c",
    )  # fmt: skip
    add_text_format(group)
    add_merge(group)
    return group


def add_merge(group: Any) -> None:
    """Add the option for a list of merges."""
    group.add_argument(
        "--merge", metavar="FILE",
        help="merge tags before anything else: lines such as ligthing,lighting, or a JSON object "
        "(see: schirn clean --propose-merges)",
    )  # fmt: skip


def add_learned_columns(group: Any) -> None:
    """Add the options that name columns to learn from."""
    group.add_argument(
        "--text", metavar="COLUMNS", type=_names, help="text columns to use as features"
    )
    group.add_argument(
        "--columns", metavar="COLUMNS", type=_names,
        help="numeric columns to use as features, such as a,b,c",
    )  # fmt: skip


def add_encoding(group: Any) -> None:
    """Add the options that name pictures to learn from, and what encodes pictures or texts."""
    group.add_argument(
        "--image", metavar="COLUMN",
        help="column of image files: learn from them with an --encoder, or show them in a report",
    )  # fmt: skip
    group.add_argument(
        "--image-root", metavar="DIR",
        help="folder that holds the image files (default: the folder of the table)",
    )  # fmt: skip
    group.add_argument(
        "--encoder", metavar="NAME", type=_encoder,
        help="encode texts or pictures with a trained model: wordllama, sentence-transformers:NAME,"
        " torchvision:NAME or a folder (default: tf-idf weights of the words)",
    )  # fmt: skip


def add_group(group: Any) -> None:
    """Add the option that names a column of groups."""
    group.add_argument(
        "--group", metavar="COLUMN",
        help="rows with the same value belong together, such as duplicates",
    )  # fmt: skip


def add_text_format(group: Any) -> None:
    """Add the options that say how a text table is written."""
    group.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of the file (default: utf-8)"
    )
    group.add_argument(
        "--delimiter",
        type=_character,
        metavar="CHARACTER",
        help="character between CSV cells (default: ,)",
    )


def read(args: argparse.Namespace, **defaults: Any) -> Dataset:
    """Load the data set that the arguments describe; options override `defaults`."""
    suffix = format_suffix(Path(args.data))
    options = {**defaults, **dict(args.option)}
    for name in ("labels", "truth", "features"):
        if getattr(args, name) is not None:
            options[name] = _columns(getattr(args, name), name, suffix)
    if args.separator is not None:
        options["separator"] = args.separator
    try:
        data = load(args.data, **options)
    except TypeError as error:
        # A built-in generator checks its options by its signature.
        raise InputError(f"{args.data}: cannot be read with these options ({error})") from None
    if not data.n_samples:
        raise InputError(f"{args.data}: has no rows")
    return _split(data, args.part)


def read_tag_table(args: argparse.Namespace, **defaults: Any) -> TagTable | None:
    """Open DATA if it is a table with one column of tags; None for any other data set.

    Options override `defaults`. Tables with true labels, with 0/1 columns, or with options of
    their reader are read by `read`.
    """
    path = Path(args.data)
    if not path.is_dir() and (not path.is_file() or format_suffix(path) not in TABLES):
        return None
    if args.truth is not None or args.option:
        return None
    opened = open_table(path, encoding=args.encoding, delimiter=args.delimiter)
    chosen = {"labels": args.labels, "separator": args.separator, "text": args.text}
    chosen |= {"columns": args.columns, "features": args.features, "encoder": args.encoder}
    chosen |= {"image": args.image, "image_root": args.image_root, "group": args.group}
    chosen["merge"] = read_merges(args.merge) if args.merge else None
    given = {name: value for name, value in chosen.items() if value is not None}
    if any(name in given for name in ("text", "columns", "features")):
        defaults = {k: v for k, v in defaults.items() if k in ("labels", "separator")}
    labels = given.get("labels", defaults.get("labels"))
    is_list = isinstance(labels, str) and labels not in opened.columns and "," in labels
    usual = set(LABEL_COLUMNS) & set(opened.columns)
    if is_list or (labels is None and not usual and not opened.tag_columns):
        return None
    source = TagTable(opened, args.data, **{**defaults, **given})
    values = opened.numbers(source.labels)
    if values is not None and np.isin(values[~np.isnan(values)], (-1, 0, 1)).all():
        return None
    return source


def check_not_input(output: str, *inputs: str) -> None:
    """Raise if an output is one of the inputs, also through a link."""
    for used in inputs:
        same = os.path.realpath(output) == os.path.realpath(used)
        if same or (_is_file(output) and _is_file(used) and os.path.samefile(output, used)):
            raise InputError(f"{output}: is the input, which is never changed; choose another name")


def check_copy(source: str, output: str) -> None:
    """Raise unless a copy of a table can be written: another path, the same format."""
    path, copy = Path(source), Path(output)
    check_not_input(output, source)
    if path.is_dir() and path.resolve() in copy.resolve().parents:
        raise InputError(f"{output}: is inside the input folder; choose another path")
    formats = {(format_suffix(each), is_packed(each)) for each in (path, copy)}
    if path.is_dir() and copy.suffix.lower() != _file_suffix(path):
        check_new_folder(copy)
    elif not path.is_dir() and len(formats) > 1:
        suffix = "".join(path.suffixes[-2:]) if is_packed(path) else path.suffix
        raise InputError(
            f"{output}: the copy has the format of the input, so its name must end in {suffix}"
        )
    else:
        check_writable(output)


def _file_suffix(folder: Path) -> str:
    """The format of a single file that can take the place of a folder."""
    return ".jsonl" if folder_format(folder) == ".jsonl" else ".parquet"


def inputs(args: argparse.Namespace) -> list[str]:
    """DATA, and the files that the options of its reader name."""
    return [args.data, *(value for _, value in args.option if isinstance(value, str))]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _encoder(text: str) -> str:
    """Return the name of an encoder; a folder is kept as an absolute path, for model files."""
    kind, colon, model = text.partition(":")
    if "\0" not in text and os.path.isdir(text):
        return os.path.abspath(text)
    if colon and "\0" not in model and os.path.exists(model):
        return f"{kind}:{os.path.abspath(model)}"
    return text


def _is_file(path: str) -> bool:
    return "\0" not in path and os.path.isfile(path)


def _character(text: str) -> str:
    if len(text) != 1 or text in '\r\n"':
        raise argparse.ArgumentTypeError(f"must be one character, not {text!r}")
    return text


def assignment(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; a value that is not JSON is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"must look like NAME=VALUE, not {text!r}")
    try:
        return name, json_value(value)
    except json.JSONDecodeError:
        # Python's spelling of true, false and null is what many will type.
        words = {"True": True, "False": False, "None": None}
        return name, words.get(value, value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from None


def _columns(text: str, name: str, suffix: str) -> Any:
    """Parse a number, a JSON list, a comma-separated list, or one name."""
    if suffix == ".mat":
        return text
    if name == "labels" and suffix == ".arff" and is_whole(text):
        return int(text)
    if text.startswith("["):
        try:
            return [str(column) for column in json_value(text)]
        except ValueError as error:
            raise InputError(f"--{name} {brief(text)} is not a JSON list ({error})") from None
    one_name = "," not in text and name != "features" and suffix != ".arff"
    return text if one_name else [column.strip() for column in text.split(",")]


def _split(data: Dataset, name: str) -> Dataset:
    """The training or test rows of a data set that marks them."""
    if name == "all":
        return data
    if data.n_train is None:
        raise InputError(f"{data.name}: it does not mark training rows; leave out --part {name}")
    rows = slice(data.n_train) if name == "train" else slice(data.n_train, None)
    chosen = data.subset(rows)
    if not chosen.n_samples:
        raise InputError(f"{data.name}: it has no {name} rows")
    return chosen
