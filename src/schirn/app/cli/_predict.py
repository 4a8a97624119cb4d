"""`schirn predict`: predict labels with a saved model, or judge candidates."""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import count, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import atomic_write, brief_list, check_writable, csv_rows, spreadsheet_safe
from schirn._progress import stage
from schirn._text import base_name, format_suffix
from schirn.app.cli._device import DEVICE
from schirn.app.cli._reading import (
    ENCODING,
    QUERY,
    SVMLIGHT,
    check_not_input,
    vocabulary_roles,
)
from schirn.app.tables import (
    TABLES,
    RowStream,
    Table,
    format_of,
    is_database,
    is_table_name,
    open_table,
    unpacked,
    write_copy,
)
from schirn.app.workflow import TagTable, check_new_columns, image_files, matrix_for, to_device
from schirn.datasets import Dataset
from schirn.estimators import PartialMultiLabelClassifier
from schirn.exceptions import InputError
from schirn.features import TableFeatures, TagPipeline
from schirn.labels.cells import TagCells
from schirn.labels.matrix import label_lists
from schirn.labels.tags import read_tags
from schirn.linalg.arrays import to_numpy
from schirn.persist import load, read_notes
from schirn.program.data import READING, read
from schirn.program.output import note, number, print_json, working
from schirn.program.parser import json_value

OPTIONS = f"""
model MODEL  a file written by schirn fit
{READING}
{QUERY}
{ENCODING}
[]
--threshold RULE  a score, one score per label such as [0.2, 0.5], top-3, row-0.9 or cardinality
    (default: the rule of the model)
--proba  add the probability of each label
--disambiguate  judge each candidate: its probability of being true, and a verdict
--vocabulary FILE  with --disambiguate: apply the accepted lines to the tags first (default: the
    vocabulary of the model)
--implied add|suggest = add  with --vocabulary: add implied tags, or only suggest them
{DEVICE}
[]
-o, --output FILE  a copy of the table, or .csv or .jsonl; - writes the copy to stdout, in the
    format of DATA (default: CSV to stdout)
"""
_STREAMED = (".csv", ".tsv", ".jsonl", ".ndjson")

Record = dict[str, Any]
# 0/1 labels and probabilities, (rows, labels).
Predictions = tuple[Any, Any]
# Number of rows, their predictions, the unseen tags, and the number of rows without predicted tags.
_Result = tuple[int, Iterable[Record], Counter[str], int]


def run(args: argparse.Namespace) -> None:
    """Predict labels for the rows of DATA, or judge the candidates of these rows.

    A model trained on a table tags the rows of another table with the same columns; the output is a
    copy of the table, in the format given by the file name, with the predicted tags and their
    probabilities as new columns. Other outputs number the rows from 1. DATA may be - for stdin, in
    any table format. Texts and categories in CSV, TSV and JSONL are read and written in blocks if
    the format stays the same, so tables of any length need little memory. In CSV files, label names
    that a spreadsheet would run as a formula (those that start with =, +, - or @) get a leading
    apostrophe, which is removed when they are read.

    Examples
    --------
    schirn predict tagger.schirn new.csv -o tagged.csv
    zcat new.csv.gz | schirn predict tagger.schirn - -o - > tagged.csv
    schirn predict tagger.schirn new.csv --threshold top-3 --proba
    schirn predict photos.schirn photos.csv --features embeddings.npy -o tagged.csv
    schirn predict photos.schirn photos.csv --disambiguate -o verdicts.csv
    schirn predict photos.schirn photos.csv --disambiguate --vocabulary vocabulary.csv
    schirn predict digits.schirn digits_attributes --proba -o predicted.jsonl
    """
    is_pipe = args.output == "-"
    if args.json and is_pipe:
        raise InputError("--json cannot be combined with --output -, since both write to stdout")
    if args.vocabulary and not args.disambiguate:
        raise InputError("--vocabulary needs --disambiguate, which judges the tags of DATA")
    # Such as "photos" for photos.csv.
    name = "stdin" if args.data == "-" else base_name(Path(args.data))
    with (
        tempfile.TemporaryDirectory() as folder,
        working(f"predicting {name}", args),
        _source(args) as (stream, kind),
    ):
        if is_pipe:
            args.output = str(Path(folder, f"stdout{kind}"))
        stage("reading the model")
        model = load(args.model)
        notes = read_notes(args.model)
        if not hasattr(model, "label_names_"):
            raise InputError(
                f"{args.model}: is a scikit-learn Pipeline, which does not know the columns of a "
                f"table; use it in Python: schirn.load({args.model!r})"
            )
        rows = _row_stream(args, model, stream, kind)
        if rows is not None and isinstance(model, TagPipeline):
            result = _predict_blocks(args, model, notes, rows, is_pipe)
        else:
            if args.data == "-":
                args.data = str(Path(folder, f"stdin{kind}"))
                with open(args.data, "wb") as file:
                    shutil.copyfileobj(stream, file)
            _check_arguments(args)
            result = _predict(args, model, notes)
            if is_pipe:
                with open(args.output, "rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
    if not is_pipe:
        _report(args, name, *result)


def _report(
    args: argparse.Namespace,
    name: str,
    n_rows: int,
    records: Iterable[Record],
    unseen: Counter[str],
    n_bare: int,
) -> None:
    """Print the predictions, or the file that they were written to."""
    if n_bare:
        hint = "" if args.threshold else "; --threshold top-1 gives every row its likeliest tag"
        note(f"note: {n_bare:,} of {number(n_rows, 'row')} got no tag{hint}")
    if unseen:
        tags = brief_list([tag for tag, _ in unseen.most_common()], 6)
        what = f"{len(unseen):,} tags were" if len(unseen) > 1 else "1 tag was"
        note(f"note: {what} not seen in training and cannot be judged: {tags}")
    summary: dict[str, Any] = {"model": args.model, "data": name, "rows": n_rows}
    if args.disambiguate:
        summary["unseen_tags"] = dict(unseen.most_common())
    else:
        summary["rows_without_tags"] = n_bare
    if args.output is not None:
        if args.json:
            print_json({**summary, "output": args.output})
        else:
            what = f"{len(list(records)):,} tags of " if args.disambiguate else ""
            note(f"wrote {what}{n_rows:,} rows to {args.output}")
    elif args.json:
        print_json({**summary, "results": list(records)})
    else:
        sys.stdout.writelines(csv_lines(records))


@contextmanager
def _source(args: argparse.Namespace) -> Iterator[tuple[Any, str]]:
    """Open stdin or a text table that may be read in blocks; yield also its format."""
    path = Path(args.data)
    kind = format_suffix(Path(args.data))
    if args.data == "-":
        stream = unpacked(sys.stdin.buffer)
        yield stream, format_of(stream)
    elif path.is_file() and kind in _STREAMED and path.stat().st_size:
        with open(path, "rb") as file:
            yield unpacked(file), kind
    else:
        yield None, kind


def _row_stream(args: argparse.Namespace, model: Any, stream: Any, kind: str) -> RowStream | None:
    """Return the rows of DATA in blocks; None if model or output need all rows at once."""
    needs_all = (args.features, args.device, args.disambiguate, args.json)
    if stream is None or kind not in _STREAMED or any(needs_all):
        return None
    if not isinstance(model, TagPipeline) or not {*model.features_.kinds} <= {"text", "categories"}:
        return None
    # A CSV file needs all columns in its first line.
    target = kind if args.output is None else format_suffix(Path(args.output))
    if target != kind:
        return None
    path = Path(args.data)
    options = {"encoding": args.encoding, "delimiter": args.delimiter}
    rows = RowStream(stream, Path("stdin") if args.data == "-" else path, kind, **options)
    return rows if rows.is_exact else None


def _predict_blocks(
    args: argparse.Namespace, model: TagPipeline, notes: dict[str, Any], rows: RowStream, pipe: bool
) -> _Result:
    """Predict block by block; write the copy, or print the predictions."""
    _use_encoder(args, model.features_)
    n_bare = 0

    def predict(block: Table) -> Predictions:
        nonlocal n_bare
        X = _of_table(args, model.features_.transform, block) if block.n_rows else None
        predictions = _predictions(args, model.method_, X)
        n_bare += _rows_without_tags(predictions)
        return predictions

    def columns(block: Table) -> dict[str, list[Any]]:
        stage(f"predicting row {rows.n_rows:,}")
        return _copy_columns(args, model, notes, block, predict(block))

    if args.output is None:
        records = _prediction_records(args, model.method_, map(predict, rows.blocks()))
        sys.stdout.writelines(csv_lines(records))
        return rows.n_rows, (), Counter(), n_bare
    if not pipe:
        _check_arguments(args)
    with nullcontext(sys.stdout.buffer) if pipe else atomic_write(args.output) as file:
        rows.copy(file, Path(args.output), columns)
    return rows.n_rows, (), Counter(), n_bare


def _predict(args: argparse.Namespace, model: Any, notes: dict[str, Any]) -> _Result:
    """Predict all rows at once; write the output."""
    stage("reading the rows")
    table = _new_table(args, model)
    method = getattr(model, "method_", model)
    unseen: Counter[str] = Counter()
    n_bare = 0
    X = None
    n_rows = 0
    if table is None or table.n_rows or args.disambiguate:
        if table is None and args.vocabulary:
            raise InputError(f"{args.data}: --vocabulary needs a table with one column of tags")
        if table is not None:
            data = _table_rows(args, model, notes, table)
        else:
            data = _matched(args, notes, read(args, **_defaults(args, method, notes)))
        if data.n_features != method.n_features_in_:
            numbers = f"{data.n_features}, but {args.model} was trained on {method.n_features_in_}"
            raise InputError(f"{args.data}: the number of features is {numbers}")
        X = to_device(data.X, args.device)
        n_rows = data.n_samples
    stage("predicting")
    records: Iterable[Record]
    if args.disambiguate:
        records, unseen = _verdicts(args, method, replace(data, X=X))
    else:
        predictions = _predictions(args, method, X)
        n_bare = _rows_without_tags(predictions)
        records = _prediction_records(args, method, [predictions])
    if args.output is not None:
        stage("writing the results")
        if table is not None and not args.disambiguate and _is_copy(args):
            new = _copy_columns(args, model, notes, table, predictions)
            write_copy(args.output, table, {}, new, separator=_separator(args, model))
        else:
            lines = csv_lines(records)
            if args.output.lower().endswith(".jsonl"):
                lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            with atomic_write(args.output) as stream:
                stream.writelines(line.encode() for line in lines)
    return n_rows, records, unseen, n_bare


def _check_arguments(args: argparse.Namespace) -> None:
    """Check the arguments before anything is read."""
    if args.disambiguate and (args.threshold or args.proba):
        raise InputError("--disambiguate cannot be combined with --threshold or --proba")
    if args.output:
        check_not_input(args.output, args.model, args.data)
        if not args.output.lower().endswith((".csv", ".jsonl")) and not _is_copy(args):
            raise InputError(
                f"{args.output}: the output must end in .csv or .jsonl, or as a table if "
                f"{args.data} is one"
            )
        check_writable(args.output)


def _is_copy(args: argparse.Namespace) -> bool:
    """Check whether the output can be a copy of the table, in any format."""
    source = Path(args.data)
    is_table = args.data == "-" or source.is_dir() or format_suffix(source) in TABLES
    is_table = is_table or is_database(args.data)
    return is_table and is_table_name(args.output)


def _new_table(args: argparse.Namespace, model: Any) -> Table | None:
    """Open DATA if its columns, or an accompanying .npy file, provide a model's features."""
    path = Path(args.data)
    is_file = path.is_file() and format_suffix(path) in TABLES
    is_table = path.is_dir() or is_file or is_database(args.data)
    # A model that uses several kinds of columns finds them by name.
    is_complete = isinstance(model, TagPipeline) and (
        args.features is None or len(model.features_.kinds) > 1
    )
    if not is_table or not (is_complete or args.features is not None):
        return None
    reading = {"encoding": args.encoding, "delimiter": args.delimiter}
    table = open_table(args.data, **reading, query=args.query, empty=True)
    if is_complete or args.features.endswith(".npy"):
        return table
    # Numeric columns whose names differ from training are read like any data set.
    is_list = args.features in table.columns and table.holds(args.features, "list")
    return table if is_list else None


def _table_rows(
    args: argparse.Namespace, model: Any, notes: dict[str, Any], table: Table
) -> Dataset:
    """Return the features of a table's rows, and its tags if they are judged."""
    embeddings = args.features
    if embeddings is not None and isinstance(model, TagPipeline) and len(model.features_.kinds) > 1:
        raise InputError(
            f"--features: {args.model} learned from {model.features_.source()}, and finds these "
            f"columns by their names; leave the option out"
        )
    if embeddings in table.columns:
        X = _of_table(args, TableFeatures(vectors=embeddings).fit_transform, table)
    elif embeddings is not None:
        X = matrix_for(embeddings, table.n_rows, args.data)
    else:
        features = model.features_
        _use_encoder(args, features)
        rows: Any = table
        # If the table lacks the column, the features report it.
        if features.image is not None and features.image in table.columns:
            files = image_files(table, features.image, args.data, args.image_root)
            rows = {features.image: files}
        X = _of_table(args, features.transform, rows)
        for sentence in features.notes(rows):
            note(f"note: {sentence}")
    name = base_name(Path(args.data))
    if not args.disambiguate:
        return Dataset(name=name, X=X)
    labels = args.labels or notes.get("labels")
    separator = _separator(args, model)
    roles = vocabulary_roles(args)
    source = TagTable(table, args.data, labels=labels, separator=separator, **roles)
    if args.vocabulary is None:
        source.apply_as_in_training(notes)
    tags = read_tags(source.tags(), None)
    return Dataset(name=name, X=X, candidates=tags.dense(), label_names=tags.names)


def _of_table(args: argparse.Namespace, transform: Callable[[Any], Any], rows: Any) -> Any:
    try:
        return transform(rows)
    except InputError as error:
        raise InputError(f"{args.data}: {error}", parameter=error.parameter) from None


def _use_encoder(args: argparse.Namespace, features: TableFeatures) -> None:
    """Use another location of the encoder than in training."""
    if args.encoder is None:
        return
    encoder = getattr(features, "encoder_", None)
    if encoder is None:
        raise InputError(f"--encoder: {args.model} was trained without an encoder")
    encoder.name = args.encoder


def _copy_columns(
    args: argparse.Namespace,
    model: TagPipeline,
    notes: dict[str, Any],
    table: Table,
    predictions: Predictions,
) -> dict[str, list[Any]]:
    """Return columns of predicted tags and their probabilities; with --proba, of all tags."""
    prefix = str(notes.get("labels", "labels"))
    # A model of several 0/1 columns has no column of tags.
    prefix = "tags" if "," in prefix else prefix
    separator = _separator(args, model)
    between = args.separator or notes.get("joined_by") or separator
    method: Any = getattr(model, "method_", model)
    names = method.label_names_
    predicted, probability = predictions
    quoted = [TagCells(separator).join([name]) for name in names]
    safe = spreadsheet_safe if table.spreadsheet else str

    def column(chosen: Any, values: Any = None) -> list[Any]:
        """Return the chosen tags of each row, with their values if given."""
        rows, columns = np.nonzero(chosen)
        ends = np.searchsorted(rows, np.arange(len(chosen) + 1)).tolist()
        items: list[Any] = [(names if table.lists else quoted)[j] for j in columns.tolist()]
        if values is not None:
            numbers = np.round(values[rows, columns].astype(np.float64), 4).tolist()
            pairs = zip([names[j] for j in columns.tolist()], numbers, strict=True)
            items = list(pairs) if table.lists else [f"{name}={v:.4g}" for name, v in pairs]
        cells = (items[i:k] for i, k in pairwise(ends))
        if not table.lists:
            return [safe(between.join(cell)) for cell in cells]
        return [cell if values is None else dict(cell) for cell in cells]

    is_written = np.ones_like(predicted) if args.proba else predicted
    new = {
        f"{prefix}_predicted": column(predicted),
        f"{prefix}_probability": column(is_written, probability),
    }
    check_new_columns(args.data, table, new)
    return new


def _separator(args: argparse.Namespace, model: Any) -> str:
    return str(args.separator or getattr(model, "separator", ";"))


def _defaults(
    args: argparse.Namespace, model: PartialMultiLabelClassifier, notes: dict[str, Any]
) -> dict[str, Any]:
    """Return the options for the reader that follow from the model."""
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
            # New rows need no label column; one is ignored.
            options["labels"] = []
    return options


def _trained_on(notes: dict[str, Any]) -> list[str]:
    """Return the names of the features in training, or an empty list."""
    names = notes.get("feature_names")
    return [str(name) for name in names] if isinstance(names, list) else []


def _matched(args: argparse.Namespace, notes: dict[str, Any], data: Dataset) -> Dataset:
    """Sort the features as in training, if both have names."""
    target = _trained_on(notes)
    source = data.feature_names
    # Columns chosen with --features may have other names.
    if not target or source is None or source == target or args.features is not None:
        return data
    for names, where in ((target, args.model), (source, args.data)):
        if len(set(names)) < len(names):
            raise InputError(f"{where}: two features have the same name; rename one of them")
    column = {name: j for j, name in enumerate(source)}
    missing = next((name for name in target if name not in column), None)
    if missing is not None:
        raise InputError(
            f"{args.data}: there is no feature {missing!r}, which {args.model} was trained on; "
            f"name the columns as in training"
        )
    return replace(data, X=data.X[:, [column[name] for name in target]], feature_names=target)


def _predictions(
    args: argparse.Namespace, method: PartialMultiLabelClassifier, X: Any
) -> Predictions:
    """Return predicted labels and probabilities; X is None if there are no rows."""
    if X is None:
        none = np.empty((0, len(method.label_names_)))
        return none, none
    scores = method.decision_function(X)
    predicted = method.apply_threshold(scores, threshold=_threshold(args.threshold))
    return to_numpy(predicted), to_numpy(method.calibration_.probability(scores))


def _rows_without_tags(predictions: Predictions) -> int:
    """Return the number of rows without predicted labels."""
    predicted, _ = predictions
    return int((np.asarray(predicted).sum(axis=1) == 0).sum())


def _prediction_records(
    args: argparse.Namespace, method: PartialMultiLabelClassifier, blocks: Iterable[Predictions]
) -> Iterator[Record]:
    """Yield the predictions of rows, numbered from 1."""
    names = method.label_names_
    numbers = count(1)
    for predicted, probability in blocks:
        for labels, values in zip(label_lists(predicted, names), probability, strict=True):
            record: Record = {"row": next(numbers), "labels": labels}
            if args.proba:
                record["proba"] = dict(zip(names, values.tolist(), strict=True))
            yield record


def _verdicts(
    args: argparse.Namespace, model: PartialMultiLabelClassifier, data: Dataset
) -> tuple[list[Record], Counter[str]]:
    """Return confidence and verdict for each candidate, and the tags unseen in training."""
    names = model.label_names_
    labels: Any = data.candidates if data.candidates is not None else data.y_true
    if labels is None or not data.n_labels:
        raise InputError(f"{args.data}: --disambiguate needs rows with labels")
    tags = read_tags(labels, data.label_names or names)
    candidates, unseen = tags.matched(names)
    confidence = to_numpy(model.disambiguate(data.X, candidates))
    n_trained = int((model.training_row_of(data.X) >= 0).sum())
    if n_trained:
        note(
            f"note: {number(n_trained, 'row')} of {data.n_samples:,} are training rows, or copies "
            f"or edited versions of one; they are judged without its influence"
        )
    records: list[Record] = [
        {"row": i + 1, "label": names[j], "confidence": float(confidence[i, j])}
        for i, j in np.argwhere(candidates).tolist()
    ]
    for record in records:
        record["verdict"] = "wrong" if record["confidence"] < 0.5 else "true"
    n_wrong = sum(record["verdict"] == "wrong" for record in records)
    note(
        f"note: {n_wrong:,} of {number(len(records), 'tag')} are judged wrong; confidences rank "
        f"tags, but only answers show how many are wrong (schirn clean)"
    )
    records += [
        {"row": i + 1, "label": tag, "confidence": None, "verdict": "unseen"} for i, tag in unseen
    ]
    return sorted(records, key=itemgetter("row")), Counter(tag for _, tag in unseen)


def csv_lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield a header and one line per record; lists are joined, dictionaries get columns."""
    columns = (dict(_flat(record)) for record in records)
    for first in islice(columns, 1):
        yield from csv_rows([first, first.values()])
    yield from csv_rows(values.values() for values in columns)


def _flat(record: Record) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from ((f"{key} {name}", f"{number:.6g}") for name, number in value.items())
        elif isinstance(value, float):
            yield key, f"{value:.6g}"
        else:
            text = ";".join(value) if isinstance(value, list) else value
            yield key, spreadsheet_safe(text) if isinstance(text, str) else text


def _threshold(text: str | None) -> Any:
    """Parse a number or a list of numbers; any other string is the name of a rule."""
    if text is None:
        return None
    try:
        value = json_value(text)
    except ValueError:
        return text
    is_list = isinstance(value, list) and all(isinstance(item, int | float) for item in value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number or is_list else text
