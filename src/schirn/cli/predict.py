"""`schirn predict`: predict labels with a saved model, or judge candidates."""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import check_writable, spreadsheet_safe
from schirn._progress import stage
from schirn.cleaning.columns import TagTable, image_files, matrix_for
from schirn.cli.device import DEVICE, to_device
from schirn.cli.output import note, print_json, working
from schirn.cli.parser import add_command, json_value
from schirn.cli.reading import (
    ENCODING,
    READING,
    SVMLIGHT,
    check_copy,
    check_new_columns,
    check_not_input,
    inputs,
    read,
)
from schirn.datasets import Dataset
from schirn.exceptions import InputError
from schirn.features import TableFeatures, TagPipeline
from schirn.labels.cells import TagCells
from schirn.labels.matrix import as_labels, label_lists
from schirn.labels.tags import read_tags
from schirn.linalg.arrays import to_numpy
from schirn.methods import PartialMultiLabelClassifier
from schirn.persist import load, read_notes
from schirn.report.records import csv_lines, json_lines, write_lines
from schirn.tables.annotations import LABEL_STUDIO, Verdict
from schirn.tables.files import TABLES, TEXT_TABLES, Table, open_table, write_copy, write_verdicts
from schirn.tables.text import base_name, format_suffix, is_packed

_EXAMPLES = """
schirn predict tagger.schirn new.csv -o tagged.csv
schirn predict tagger.schirn new.csv --threshold top-3 --proba
schirn predict photos.schirn photos.csv --features embeddings.npy -o tagged.csv
schirn predict photos.schirn photos.csv --disambiguate -o verdicts.csv
schirn predict tagger.schirn new.json --to label-studio -o tasks.json
schirn predict digits.schirn digits_attributes --scores -o scores.npz
"""
_OPTIONS = f"""
model MODEL  a file written by schirn fit
{READING}
{ENCODING}
[]
--threshold RULE  a score, one score per label such as [0.2, 0.5], top-3 or cardinality (default:
    the rule of the model)
--proba  add the probability of each label
--scores  add the score of each label
--disambiguate  judge each candidate: its probability of being true, and a verdict
--to {LABEL_STUDIO}  write the rows of a table for Label Studio, as .json, with the predicted tags
    as predictions
{DEVICE}
[]
-o, --output FILE  a copy of the table, or .csv, .jsonl or .npz (default: CSV to stdout)
"""
_FORMATS = (".csv", ".jsonl", ".npz")

Record = dict[str, Any]


def add(found: Any) -> None:
    """Add the command."""
    add_command(
        found,
        "predict",
        run,
        help="predict labels, or judge the candidates of new rows",
        description="Predict labels for the rows of DATA, or judge the candidates of these rows. "
        "A model that was trained on a table tags the rows of another table with the same columns; "
        "the output is a copy of the table, in the format of its name, with the predicted tags and "
        "their probabilities as new columns. Other outputs number the rows from 0. In CSV files, "
        "label names that a spreadsheet would read as a formula (those that start with =, +, - or "
        "@) have an apostrophe in front, which is removed when they are read.",
        examples=_EXAMPLES,
        options=_OPTIONS,
    )


def run(args: argparse.Namespace) -> None:
    """Read model and rows, predict, write."""
    kind = _check_arguments(args)
    with working(f"predicting {Path(args.data).name}", args):
        data, records = _predict(args, kind)
    summary = {"model": args.model, "data": data.name, "rows": data.n_samples}
    if args.output is not None:
        if args.json:
            print_json({**summary, "output": args.output})
        else:
            note(f"wrote {data.n_samples:,} rows to {args.output}")
    elif args.json:
        print_json({**summary, "results": list(records)})
    else:
        write_lines(csv_lines(records), None)


def _predict(args: argparse.Namespace, kind: str) -> tuple[Dataset, Iterable[Record]]:
    """Return the rows and what is predicted for them; write the output, if there is one."""
    stage("reading the model")
    model: Any = load(args.model)
    notes = read_notes(args.model)
    stage("reading the rows")
    table, whole = _new_table(args, model), model
    if args.to is not None and table is None:
        raise InputError(f"{args.data}: --to needs a table, and a model that was trained on one")
    if table is not None and not table.n_rows and not args.disambiguate:
        return _predict_nothing(args, whole, notes, table)
    if table is not None:
        data = _table_rows(args, model, notes, table)
        model = getattr(model, "method_", model)
    else:
        _check_matrix_given(args, notes)
        model = getattr(model, "method_", model)
        data = _matched(args, notes, read(args, **_defaults(args, model, notes)))
        _note_index_base(args, notes, data)
    _check_fit(args, model, data)
    data = replace(data, X=to_device(data.X, args, model))
    stage("predicting")
    arrays, records = (_verdicts if args.disambiguate else _predictions)(args, model, data)
    if args.output is None:
        return data, records
    stage("writing the results")
    if args.to is not None and table is not None:
        _write_verdicts(args, whole, notes, table, arrays)
    elif table is not None and not args.disambiguate and _is_copy(args):
        _write_copy(args, whole, notes, table, arrays)
    elif kind == ".npz":
        write_lines(arrays, args.output)
    else:
        write_lines((csv_lines if kind == ".csv" else json_lines)(records), args.output)
    return data, records


def _check_arguments(args: argparse.Namespace) -> str:
    """Check the arguments before anything is read, and return the output format."""
    if args.disambiguate and (args.threshold or args.proba or args.scores):
        raise InputError("--disambiguate cannot be combined with --threshold, --proba or --scores")
    if args.to is not None and (args.disambiguate or not (args.output or "").endswith(".json")):
        raise InputError(
            "--to writes predictions as JSON; give a name in .json with --output, and not "
            "--disambiguate"
        )
    kind = Path(args.output).suffix.lower() if args.output else ".csv"
    if kind not in _FORMATS and args.to is None and not _is_copy(args):
        raise InputError(
            f"{args.output}: the output must end in .csv, .jsonl or .npz, or as a table if "
            f"{args.data} is one"
        )
    if args.output:
        check_not_input(args.output, args.model, *inputs(args))
        if Path(args.data).is_dir() and _is_copy(args):
            check_copy(args.data, args.output)
        else:
            check_writable(args.output)
    return kind


def _is_copy(args: argparse.Namespace) -> bool:
    """Whether the output can be a copy of the table, in its format or in another one."""
    source, output = Path(args.data), Path(args.output)
    if source.is_dir() and not output.suffix:
        return True
    is_table = source.is_dir() or format_suffix(source) in TABLES
    is_text = format_suffix(output) in TEXT_TABLES
    return is_table and format_suffix(output) in TABLES and (is_text or not is_packed(output))


def _new_table(args: argparse.Namespace, model: Any) -> Table | None:
    """Open DATA if its columns, or an .npy file beside it, become features of a model."""
    path = Path(args.data)
    is_table = path.is_dir() or (path.is_file() and format_suffix(path) in TABLES)
    whole = isinstance(model, TagPipeline) and args.features is None and args.columns is None
    whole |= _learned_from_several_kinds(model)
    if not is_table or args.option or not (whole or args.features is not None):
        return None
    table = open_table(path, encoding=args.encoding, delimiter=args.delimiter, empty=True)
    if whole or args.features.endswith(".npy"):
        return table
    # Numeric columns with other names than in training are read like any data set.
    is_list = args.features in table.columns and table.holds(args.features, "list")
    return table if is_list else None


def _table_rows(
    args: argparse.Namespace, model: Any, notes: dict[str, Any], table: Table
) -> Dataset:
    """The features of the rows of a table, and its tags if they are judged."""
    roles: dict[str, Any] = {"labels": args.labels or notes.get("labels")}
    roles |= {"separator": args.separator or getattr(model, "separator", None)}
    embeddings = None if _learned_from_several_kinds(model) else args.features
    if embeddings in table.columns:
        X = _of_table(args, TableFeatures(vectors=embeddings).fit_transform, table)
    elif embeddings is not None:
        X = matrix_for(embeddings, table.n_rows, args.data)
    else:
        features = model.features_
        _check_choice(args, features)
        rows: Any = table
        # A table without the column is reported by the features.
        if features.image is not None and features.image in table.columns:
            files = image_files(table, features.image, args.data, args.image_root)
            rows = {features.image: files}
        X = _of_table(args, features.transform, rows)
        for sentence in features.notes(rows):
            note(f"note: {sentence}")
    name = base_name(Path(args.data))
    if not args.disambiguate:
        return Dataset(name=name, X=X)
    tags = read_tags(TagTable(table, args.data, **roles).tags(), None)
    return Dataset(name=name, X=X, candidates=tags.dense(), label_names=tags.names)


def _learned_from_several_kinds(model: Any) -> bool:
    """Whether a model learned from several kinds of columns, which keep their names."""
    return isinstance(model, TagPipeline) and len(model.features_.kinds) > 1


def _of_table(args: argparse.Namespace, transform: Callable[[Any], Any], rows: Any) -> Any:
    try:
        return transform(rows)
    except InputError as error:
        raise InputError(f"{args.data}: {error}", parameter=error.parameter) from None


def _check_choice(args: argparse.Namespace, features: TableFeatures) -> None:
    """Use an encoder that has moved; raise InputError for other columns than those of training."""
    given = {name: getattr(args, name) for name in ("text", "columns", "categories")}
    given["image"] = None if args.image is None else [args.image]
    if args.features is not None:
        numbers = [name.strip() for name in args.features.split(",")]
        given["vectors" if features.columns is None else "columns"] = numbers
    for name, columns in given.items():
        if columns is not None and columns != features.names_of(name):
            raise InputError(
                f"--{name}: {args.model} learned from {features.source()}; name the columns of "
                f"{args.data} as in training"
            )
    if args.encoder is None:
        return
    encoder = getattr(features, "encoder_", None)
    if encoder is None:
        raise InputError(f"--encoder: {args.model} was trained without an encoder")
    encoder.name = args.encoder


def _new_columns(
    args: argparse.Namespace, prefix: str, separator: str, table: Table, arrays: dict[str, Any]
) -> dict[str, list[Any]]:
    """Columns of predicted tags and their probabilities, of all tags with --proba and --scores."""
    names, predicted = arrays["label_names"].tolist(), arrays["predicted"]
    tag_cells = TagCells(separator, spreadsheet=table.spreadsheet)

    def values_cell(values: np.ndarray, chosen: np.ndarray) -> Any:
        pairs = {names[j]: round(float(values[j]), 4) for j in np.flatnonzero(chosen)}
        if table.lists:
            return pairs
        text = separator.join(f"{k}={v:.4g}" for k, v in pairs.items())
        return spreadsheet_safe(text) if table.spreadsheet else text

    tags = label_lists(predicted, names)
    columns: dict[str, list[Any]] = {
        f"{prefix}_predicted": tags if table.lists else [tag_cells.join(each) for each in tags]
    }
    every = np.ones_like(predicted)
    if "proba" in arrays:
        shown = every if args.proba else predicted
        columns[f"{prefix}_probability"] = list(map(values_cell, arrays["proba"], shown))
    if "score" in arrays:
        columns[f"{prefix}_score"] = list(map(values_cell, arrays["score"], every))
    check_new_columns(args.data, table, columns)
    return columns


def _write_copy(
    args: argparse.Namespace,
    model: Any,
    notes: dict[str, Any],
    table: Table,
    arrays: dict[str, Any],
) -> None:
    """Write a copy of the table with the predicted tags and their probabilities."""
    prefix = str(notes.get("labels", "labels"))
    # A model of several 0/1 columns has no column of tags.
    prefix = "tags" if "," in prefix else prefix
    separator = args.separator or getattr(model, "separator", ";")
    new = _new_columns(args, prefix, separator, table, arrays)
    write_copy(args.output, table, {}, new, separator=separator)


def _predict_nothing(
    args: argparse.Namespace, model: Any, notes: dict[str, Any], table: Table
) -> tuple[Dataset, Iterable[Record]]:
    """Write the copy of a table without rows."""
    names = list(getattr(model, "method_", model).label_names_)
    none = np.empty((0, len(names)))
    arrays = {"label_names": np.array(names), "predicted": none, "proba": none}
    arrays |= {"score": none} if args.scores else {}
    if args.output is not None and args.to is not None:
        _write_verdicts(args, model, notes, table, arrays)
    elif args.output is not None and _is_copy(args):
        _write_copy(args, model, notes, table, arrays)
    elif args.output is not None:
        raise InputError(f"{args.data}: the table has no rows; write the output as a table")
    return Dataset(name=base_name(Path(args.data)), X=np.empty((0, 1))), ()


def _write_verdicts(
    args: argparse.Namespace,
    model: Any,
    notes: dict[str, Any],
    table: Table,
    arrays: dict[str, Any],
) -> None:
    """Write the rows for Label Studio, with the predicted tags as predictions."""
    names, verdicts = arrays["label_names"].tolist(), []
    for predicted, proba in zip(arrays["predicted"], arrays["proba"], strict=True):
        right = np.where(predicted == 1, proba, 1 - proba).min()
        verdicts.append(Verdict([names[j] for j in np.flatnonzero(predicted)], float(right)))
    text = getattr(getattr(model, "features_", None), "text", None) or table.columns
    shown = text if isinstance(text, str) else text[0]
    by = f"schirn {type(getattr(model, 'method_', model)).__name__}"
    column = str(notes.get("labels", "labels"))
    write_verdicts(args.output, table, verdicts, {}, column=column, shown=shown, by=by)


def _defaults(
    args: argparse.Namespace, model: PartialMultiLabelClassifier, notes: dict[str, Any]
) -> dict[str, Any]:
    """Options for the reader that follow from the model."""
    suffix = format_suffix(Path(args.data))
    options: dict[str, Any] = {}
    if suffix in SVMLIGHT:
        options["n_features"] = model.n_features_in_
        if isinstance(notes.get("zero_based"), bool):
            options["zero_based"] = notes["zero_based"]
    if suffix in TABLES:
        if _trained_on(notes):
            options["features"] = _trained_on(notes)
        if not args.disambiguate:
            # New rows need no label column; ignore it if there is one.
            options["labels"] = []
    return options


def _trained_on(notes: dict[str, Any]) -> list[str]:
    """The names of the features in training, or an empty list."""
    names = notes.get("feature_names")
    return [str(name) for name in names] if isinstance(names, list) else []


def _matched(args: argparse.Namespace, notes: dict[str, Any], data: Dataset) -> Dataset:
    """Put the features in the order of training, if both have names."""
    wanted, found = _trained_on(notes), data.feature_names
    # Columns chosen with --features may have other names.
    if not wanted or found is None or found == wanted or args.features is not None:
        return data
    for names, where in ((wanted, args.model), (found, args.data)):
        if len(set(names)) < len(names):
            raise InputError(
                f"{where}: two features have the same name, so the features of {args.data} cannot "
                f"be matched by name; give the same columns in the same order as in training"
            )
    column = {name: j for j, name in enumerate(found)}
    missing = next((name for name in wanted if name not in column), None)
    if missing is not None:
        raise InputError(
            f"{args.data}: there is no feature {missing!r}, which {args.model} was trained on; "
            f"name the columns as in training"
        )
    return replace(data, X=data.X[:, [column[name] for name in wanted]], feature_names=wanted)


def _note_index_base(args: argparse.Namespace, notes: dict[str, Any], data: Dataset) -> None:
    """Print that features are numbered from 1 if that is only a guess."""
    known = "zero_based" in notes or "zero_based" in dict(args.option)
    if data.zero_based is False and not known:
        note(
            f"note: {args.data} has no feature 0, so its features are assumed to be numbered from "
            f"1; if they are numbered from 0, pass --option zero_based=true"
        )


def _check_matrix_given(args: argparse.Namespace, notes: dict[str, Any]) -> None:
    """Raise InputError if a model of embeddings in a file would get the columns of a table."""
    source = str(notes.get("learned_from", ""))
    is_table = Path(args.data).is_dir() or format_suffix(Path(args.data)) in TABLES
    if is_table and source.endswith(".npy") and args.features is None and args.columns is None:
        raise InputError(
            f"{args.model} learned from the embeddings in {source}; give those of {args.data} with "
            f"--features: an .npy file, or a column of lists"
        )


def _check_fit(args: argparse.Namespace, model: PartialMultiLabelClassifier, data: Dataset) -> None:
    if data.n_features != model.n_features_in_:
        raise InputError(
            f"{args.data}: the number of features is {data.n_features}, but {args.model} was "
            f"trained on {model.n_features_in_}; give the same columns in the same order"
        )


def _predictions(
    args: argparse.Namespace, model: PartialMultiLabelClassifier, data: Dataset
) -> tuple[dict[str, Any], Iterable[Record]]:
    """Predicted labels, with probabilities and scores if requested."""
    predicted = to_numpy(model.predict(data.X, threshold=_threshold(args.threshold)))
    values: dict[str, np.ndarray] = {}
    copied = args.to is not None or (args.output is not None and _is_copy(args))
    if args.proba or copied:
        values["proba"] = to_numpy(model.predict_proba(data.X))
    if args.scores:
        values["score"] = to_numpy(model.decision_function(data.X))
    names = model.label_names_

    def records() -> Iterable[Record]:
        for row, labels in enumerate(label_lists(predicted, names)):
            extra = {
                key: dict(zip(names, matrix[row].tolist(), strict=True))
                for key, matrix in values.items()
                if key != "proba" or args.proba
            }
            yield {"row": row, "labels": labels, **extra}

    return {"predicted": predicted, **values, "label_names": np.array(names, dtype=str)}, records()


def _verdicts(
    args: argparse.Namespace, model: PartialMultiLabelClassifier, data: Dataset
) -> tuple[dict[str, Any], Iterable[Record]]:
    """Confidence and verdict for every candidate."""
    names = model.label_names_
    given: Any = data.candidates if data.candidates is not None else data.y_true
    if given is None or not data.n_labels:
        raise InputError(f"{args.data}: --disambiguate needs rows with labels")
    if data.label_names != names:
        dense = given.toarray() if hasattr(given, "toarray") else given
        given = label_lists(dense, data.label_names)
    candidates = as_labels(given, names=names).matrix.astype(bool)
    confidence = to_numpy(model.disambiguate(data.X, candidates))
    wrong = candidates & (confidence < 0.5)

    def records() -> Iterable[Record]:
        for row, column in np.argwhere(candidates):
            yield {
                "row": int(row),
                "label": names[column],
                "confidence": float(confidence[row, column]),
                "verdict": "wrong" if wrong[row, column] else "true",
            }

    arrays = {"candidates": candidates, "confidence": confidence, "wrong": wrong}
    return {**arrays, "label_names": np.array(names, dtype=str)}, records()


def _threshold(text: str | None) -> Any:
    """Parse a number or a list of numbers; any other text is a rule."""
    if text is None:
        return None
    try:
        value = json_value(text)
    except ValueError:
        return text
    is_list = isinstance(value, list) and all(isinstance(item, int | float) for item in value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number or is_list else text
