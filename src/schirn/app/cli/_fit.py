"""`schirn fit`: train a method and save the model."""

import argparse
import re
import shlex
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._checkpoint import kept_in
from schirn._files import brief_list, check_writable, file_hash
from schirn._input import Array
from schirn._progress import stage
from schirn._text import base_name
from schirn.app.cli._device import DEVICE, to_memory
from schirn.app.cli._reading import (
    DECISIONS,
    ENCODING,
    IMAGE,
    LEARNED,
    PARAMETERS,
    QUERY,
    VOCABULARY,
    check_not_input,
    describe_decisions,
    open_decisions,
    read_tag_table,
)
from schirn.app.workflow import (
    RIGHT,
    WRONG,
    Features,
    TagState,
    TagTable,
    make_model,
    state_after_training,
    state_path,
    to_device,
)
from schirn.cleaning import Vocabulary
from schirn.cleaning.find import group_numbers
from schirn.datasets import Dataset
from schirn.estimators import PartialMultiLabelClassifier, Sieve, find_method, sees_truth
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.features import TagPipeline, copies_left_out
from schirn.labels.tags import read_tags
from schirn.persist import is_model_file, save
from schirn.program.data import READING, read
from schirn.program.output import facts, note, number, print_json, working
from schirn.program.parser import CHECKPOINT
from schirn.program.provenance import provenance

# Share of tags in a single row above which the summary suggests leaving them out.
_MANY_ONCE = 1 / 3

OPTIONS = f"""
{READING}
{QUERY}
{LEARNED}
{IMAGE}
{ENCODING}
--group COLUMN  rows with the same value do not influence each other's ranks
--id COLUMN  column of row ids; the state for schirn update is then written beside the model
{DECISIONS}
[]
{VOCABULARY}
--method METHOD = Sieve  method
{PARAMETERS}
--min-count N:positive = 1  leave out tags listed in fewer than N rows
--drop-training  do not save noise_ and label_confidence_ of the training rows
{DEVICE}
[]
{CHECKPOINT}
-o, --output FILE!  model file to write
--force  replace the output even if it is not a model file
"""


def run(args: argparse.Namespace) -> None:
    """Train a method on rows with candidate labels and write the model to a file.

    If the table has a column of tags, the model remembers how its columns become features, so
    schirn predict can tag the rows of another table. If a data set has only true labels, the method
    is trained on those.

    Examples
    --------
    schirn fit items.csv --labels tags --text description -o tagger.schirn
    schirn fit items.csv --text description --encoder wordllama -o tagger.schirn
    schirn fit items.csv --text title --columns price,weight --categories brand -o tagger.schirn
    schirn fit photos.csv --image file --encoder sentence-transformers:clip-ViT-B-32 -o p.schirn
    schirn fit photos.parquet --features embedding -o photos.schirn
    schirn fit photos.csv --columns red,blue --method Schirn --param lam=1 -o photos.schirn
    schirn fit digits_attributes --method CandidateRidge -o ridge.schirn
    schirn fit eurlex4k --device cuda -o eurlex.schirn
    schirn fit scene.arff --labels 6 -o scene.schirn
    """
    check_not_input(args.output, args.data)
    check_writable(args.output)
    if not args.force:
        _check_replaceable(args.output)
    with (
        kept_in(args.checkpoint),
        working(f"training {args.method} on {Path(args.data).name}", args),
    ):
        model, report = _train(args)
    if args.json:
        print_json({**report, "params": model.get_params(deep=False), "model": args.output})
    else:
        facts(_lines(report, args))


def _check_replaceable(output: str) -> None:
    """Raise InputError if the output is a file of another kind, such as a table."""
    path = Path(output)
    is_filled = path.is_file() and path.stat().st_size > 0
    if is_filled and not is_model_file(path):
        raise InputError(
            f"{output}: exists and is not a model file; choose another name, or replace it with "
            f"--force"
        )


def _train(args: argparse.Namespace) -> tuple[PartialMultiLabelClassifier, dict[str, Any]]:
    """Read, train and write; return the model and what to print about it."""
    stage("reading the data")
    # Wrong options are reported before the table is read.
    if not make_model(args.method, args.param)._continues and args.checkpoint:
        raise InputError(f"{args.method} does not support checkpoints; omit --checkpoint")
    training = _training_table(args) or _training_set(args)
    training = _without_rare_tags(training, args.min_count)
    data = training.data
    columns = training.columns
    is_scaled = columns is not None and columns.is_scaled
    model = make_model(args.method, args.param, scaled=is_scaled, sparse=sp.issparse(data.X))
    start = time.perf_counter()
    X = to_device(data.X, args.device)
    knowledge = training.knowledge
    if training.source is not None:
        stage("looking for copies")
        knowledge = copies_left_out(model, X, data.candidates) | knowledge
    _note_empty_rows(data)
    with warnings.catch_warnings():
        # The library counts its rows from 0.
        warnings.simplefilter("ignore", EmptyCandidatesWarning)
        train(model, replace(data, X=X), **knowledge)
    to_memory(model)
    seconds = time.perf_counter() - start
    pipeline = model
    if training.source is not None and columns is not None and columns.transformer is not None:
        separator = training.source.separator
        pipeline = TagPipeline.from_fitted(columns.transformer, model, separator)
    stage("writing the model")
    notes = _notes(args, training)
    save(pipeline, args.output, include_training=not args.drop_training, notes=notes)
    if args.id is not None and training.source is not None:
        _write_state(args.output, model, training.source, data)
    elif Path(state_path(args.output)).exists():
        _warn_of_state(args)
    report = _report(model, data, seconds)
    if columns is not None:
        report |= {"learned_from": columns.source, "left_out": columns.left_out}
        report["encoder"] = columns.encoder
    report["used_once"] = int((_counts(data) == 1).sum())
    report["bytes"] = Path(args.output).stat().st_size
    return model, report


def _counts(data: Dataset) -> Array:
    """Return the number of rows that list each tag."""
    return np.asarray(data.candidates.sum(axis=0)).ravel()


def _note_empty_rows(data: Dataset) -> None:
    """Report how many rows have no tags, and the first one, counted from 1."""
    empty = np.flatnonzero(np.asarray(data.candidates.sum(axis=1)).ravel() == 0)
    if 0 < len(empty) < data.n_samples and len(data.label_names) > 1:
        note(
            f"note: {len(empty):,} of {data.n_samples:,} rows carry no candidate label (the first "
            f"is row {empty[0] + 1}); all labels of these rows count as false"
        )


class _Training(NamedTuple):
    """Training data of a model.

    Attributes
    ----------
    data : Dataset
        Features and candidates.
    knowledge : dict
        Arguments of `fit` in addition to features and candidates.
    source : TagTable or None
        The table; None for a data set.
    columns : Features or None
        Features of the table.
    """

    data: Dataset
    knowledge: dict[str, Any]
    source: TagTable | None = None
    columns: Features | None = None


def _training_set(args: argparse.Namespace) -> _Training:
    """Read a data set by its name, or from a file of numbers."""
    if args.vocabulary:
        raise InputError(f"{args.data}: --vocabulary needs a table with one column of tags")
    if not Path(args.data).exists():
        # The name of a data set, or a missing file, which is reported first.
        read(args)
    for name in ("image", "encoder", "group", "categories", "id", "decisions"):
        if getattr(args, name) is not None:
            raise InputError(f"--{name} needs a table with one column of tags")
    return _Training(_with_candidates(read(args)), {})


def _training_table(args: argparse.Namespace) -> _Training | None:
    """Read a table with a column of tags; return None for other data."""
    source = read_tag_table(args)
    if source is None:
        return None
    stage("making features")
    columns = source.features()
    for sentence in columns.notes(source.table):
        note(f"note: {sentence}")
    data = _tagged(source, columns)
    is_sieve = find_method(args.method) is Sieve
    knowledge: dict[str, Any] = {}
    if args.decisions is not None:
        data, known = _with_decisions(args, source, data)
        if is_sieve:
            knowledge["known"] = known
    if columns.groups is not None:
        if not is_sieve:
            raise InputError(
                "--group needs the method Sieve; other methods do not leave rows out in training"
            )
        knowledge["groups"] = group_numbers(columns.groups, data.n_samples)
    return _Training(data, knowledge, source, columns)


def _without_rare_tags(training: _Training, min_count: int) -> _Training:
    """Leave out the tags that fewer rows list."""
    data = training.data
    counts = _counts(data)
    is_frequent = counts >= min_count
    if min_count == 1 or is_frequent.all():
        return training
    if not is_frequent.any():
        raise InputError(
            f"--min-count {min_count}: no tag is listed in so many rows, the most frequent one is "
            f"in {int(counts.max(initial=0)):,}; give a smaller number"
        )
    note(f"left out: {number(int((~is_frequent).sum()), 'tag')} in fewer than {min_count} rows")
    columns = np.flatnonzero(is_frequent)
    data = replace(
        data,
        candidates=data.candidates[:, columns],
        y_true=None if data.y_true is None else data.y_true[:, columns],
        label_names=[data.label_names[j] for j in columns.tolist()],
    )
    knowledge = dict(training.knowledge)
    if "known" in knowledge:
        knowledge["known"] = knowledge["known"][:, columns]
    return training._replace(data=data, knowledge=knowledge)


def _notes(args: argparse.Namespace, training: _Training) -> dict[str, Any]:
    """Return the notes of a model file about the data and the run."""
    data = training.data
    source = training.source
    notes: dict[str, Any] = {"data": data.name, "feature_names": data.feature_names}
    notes["provenance"] = provenance(args)
    if data.zero_based is not None:
        notes["zero_based"] = data.zero_based
    if source is None or training.columns is None:
        return notes
    notes |= {"labels": source.labels, "learned_from": training.columns.source}
    notes["joined_by"] = _text_between_tags(source)
    if source.vocabulary.accepted:
        notes["vocabulary"] = Vocabulary(source.vocabulary.accepted).to_records()
        notes["add_implied"] = args.implied == "add"
    return notes


def _with_candidates(data: Dataset) -> Dataset:
    """Return the data set with candidates: its own, or the true labels."""
    if not data.n_features:
        raise InputError(f"{data.name}: the data set has no features to learn from")
    if data.candidates is None:
        note(f"note: {data.name} has only true labels; they are used as the candidates")
        return replace(data, candidates=data.y_true)
    return data


def _with_decisions(
    args: argparse.Namespace, source: TagTable, data: Dataset
) -> tuple[Dataset, Any]:
    """Add the tags answered "right" to the candidates; return also the known labels.

    Only Sieve learns from known labels, so other methods do not see tags answered "wrong".
    """
    store: Any = open_decisions(args)
    place = {name: j for j, name in enumerate(data.label_names)}
    known = np.zeros(data.candidates.shape, dtype=np.int8)
    carried = store.match(source.content(), source.vocabulary)
    for (row, tag), decision in carried.valid.items():
        if tag in place:
            known[row, place[tag]] = {RIGHT: 1, WRONG: -1}.get(decision.answer, 0)
    note(f"decisions: {describe_decisions(store, carried)}")
    candidates = np.where(known > 0, 1, data.candidates)
    if find_method(args.method) is not Sieve:
        candidates = np.where(known < 0, 0, candidates)
    return replace(data, candidates=candidates.astype(data.candidates.dtype)), known


def _write_state(output: str, model: Any, source: TagTable, data: Dataset) -> None:
    """Write the state from which `schirn update` continues, next to the model."""
    path = state_path(output)
    last = TagState.read(path) if Path(path).exists() else None
    options: Any = {"last": last, "model_hash": file_hash(output)}
    state_after_training(model, source.content(), source.tags(), data.X, **options).write(path)


def _warn_of_state(args: argparse.Namespace) -> None:
    """Warn that the state next to the model belongs to another model."""
    seen = ", including training rows, with a model that has seen their tags" * args.drop_training
    note(
        f"note: {state_path(args.output)} belongs to the previous model, so schirn update "
        f"will judge all rows again{seen}; with --id, the state of this model is written"
    )


def _text_between_tags(source: TagTable) -> str:
    """Return the most common form of the separator, such as " | " for "|"."""
    pattern = rf"(?<=\S)[^\S\r\n]*{re.escape(source.separator)}[^\S\r\n]*(?=\S)"
    cells = (cell for cell in source.table.column(source.labels) if isinstance(cell, str))
    forms = Counter(form for cell in cells for form in re.findall(pattern, cell))
    return forms.most_common(1)[0][0] if forms else source.separator


def _tagged(source: TagTable, columns: Features) -> Dataset:
    """Return the features and tags of a table as a data set."""
    tags = read_tags(source.tags(), None)
    return Dataset(
        name=base_name(Path(source.path)),
        X=columns.X,
        candidates=tags.dense(),
        label_names=tags.names,
        feature_names=columns.column_names,
    )


def train(model: PartialMultiLabelClassifier, data: Dataset, **extra: Any) -> None:
    """Fit a model; a method that may see the true labels gets them."""
    extra["label_names"] = list(data.label_names)
    if data.y_true is not None and sees_truth(model):
        extra["y_clean"] = data.y_true
    model.fit(data.X, data.candidates, **extra)


def _report(model: PartialMultiLabelClassifier, data: Dataset, seconds: float) -> dict[str, Any]:
    return {
        "data": data.name,
        "method": type(model).__name__,
        "rows": data.n_samples,
        "features": data.n_features,
        "labels": data.n_labels,
        "tags": int(data.candidates.sum()),
        "rounds": int(model.n_iter_),
        "seconds": round(seconds, 3),
    }


def _lines(report: dict[str, Any], args: argparse.Namespace) -> dict[str, str]:
    """Return the report as text, by name."""
    model = shlex.quote(args.output)
    step = f"schirn predict {model} new.csv -o tagged.csv"
    if args.id is not None:
        step = f"schirn update {shlex.quote(args.data)} --model {model} --id {shlex.quote(args.id)}"
        step += f" --query {shlex.quote(args.query)}" if args.query else ""
    rounds = f"{number(report['rounds'], 'round')}, {report['seconds']:.2f} s"
    n_once = report["used_once"]
    rare = f"{n_once:,} of {number(report['labels'], 'label')} are in only one row, so little can "
    rare += "be learned about them; --min-count 2 leaves them out"
    return {
        "data": report["data"],
        "learned from": report.get("learned_from") or "",
        "left out": brief_list(report.get("left_out") or (), 6),
        "method": f"{report['method']}, {rounds}",
        **{name: f"{report[name]:,}" for name in ("rows", "features", "labels", "tags")},
        "rare labels": rare if n_once > _MANY_ONCE * report["labels"] else "",
        "model": f"{args.output} ({report['bytes'] / 1e6:,.1f} MB)",
        "next": step,
    }
