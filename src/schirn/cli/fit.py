"""`schirn fit`: train a method and save the model."""

import argparse
import inspect
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._checkpoint import kept_in
from schirn._files import brief_list, check_writable, file_hash
from schirn._input import suggest
from schirn._progress import stage
from schirn.cleaning import TagState, look_at_table
from schirn.cleaning.columns import Features, TagTable
from schirn.cleaning.decisions import RIGHT, WRONG
from schirn.cleaning.groups import group_numbers
from schirn.cleaning.nightly import state_after_training, state_path
from schirn.cli.device import DEVICE, to_device, to_memory
from schirn.cli.output import facts, note, print_json, working
from schirn.cli.parser import CHECKPOINT
from schirn.cli.provenance import provenance
from schirn.cli.reading import (
    DECISIONS,
    ENCODING,
    GROUP,
    MERGE,
    METHOD,
    READING,
    check_not_input,
    describe_decisions,
    inputs,
    open_decisions,
    read,
    read_tag_table,
)
from schirn.datasets import Dataset, add_noise
from schirn.exceptions import InputError
from schirn.features import TagPipeline
from schirn.features.pipeline import make_method
from schirn.labels.tags import read_tags
from schirn.methods import PartialMultiLabelClassifier, Sieve, find_method, sees_truth
from schirn.metrics import noise_report
from schirn.persist import save
from schirn.tables.text import base_name

DESCRIPTION = (
    "Train a method on rows with candidate labels and write the model to a file. "
    "The model of a table with a column of tags includes how its columns become features, so "
    "that schirn predict tags the rows of another table. If a data set has only true labels, "
    "the method is trained on those."
)
EXAMPLES = """
schirn fit items.csv --labels tags --text description -o tagger.schirn
schirn fit items.csv --text description --encoder wordllama -o tagger.schirn
schirn fit items.csv --text title --columns price,weight --categories brand -o tagger.schirn
schirn fit photos.csv --image file --encoder sentence-transformers:clip-ViT-B-32 -o photos.schirn
schirn fit photos.parquet --features embedding -o photos.schirn
schirn fit photos.csv --columns red,blue --method Schirn --param lam=1 -o photos.schirn
schirn fit digits_attributes --method CandidateRidge -o ridge.schirn
schirn fit eurlex4k --part train --add-noise 5 --device cuda -o eurlex.schirn
schirn fit scene.arff --labels 6 --add-noise 2 --seed 0 -o scene.schirn
"""
OPTIONS = f"""
{READING}
{ENCODING}
{GROUP}
--id COLUMN  column of row ids; the state for schirn update is then written beside the model
{DECISIONS.strip()}; needs --id
[]
{MERGE}
{METHOD}
--add-noise R:positive  for experiments: add R wrong labels to the true labels of each row
--seed S:natural = 0  seed of --add-noise
--drop-training  do not save noise_ and label_confidence_ of the training rows
{DEVICE}
[]
{CHECKPOINT}
-o, --output FILE!  model file to write
"""


def run(args: argparse.Namespace) -> None:
    """Read, train, write, report."""
    check_not_input(args.output, *inputs(args))
    check_writable(args.output)
    with (
        kept_in(args.checkpoint),
        working(f"training {args.method} on {Path(args.data).name}", args),
    ):
        model, report = _train(args)
    if args.json:
        print_json({**report, "params": model.get_params(deep=False), "model": args.output})
    else:
        facts([*_lines(report), ("model", args.output)])


def _train(args: argparse.Namespace) -> tuple[PartialMultiLabelClassifier, dict[str, Any]]:
    """Read, train and write; return the model and what to print about it."""
    stage("reading the data")
    # Wrong options are reported before the table is read.
    if not make_model(args.method, args.param)._continues and args.checkpoint:
        raise InputError(f"{args.method} keeps no checkpoint; leave --checkpoint out")
    source = read_tag_table(args) if args.add_noise is None else None
    if source is None and args.merge:
        raise InputError(f"{args.data}: --merge needs a table with one column of tags")
    extra: dict[str, Any] = {}
    if source is None:
        for name in ("image", "encoder", "group", "categories", "id", "decisions"):
            if getattr(args, name) is not None:
                raise InputError(f"--{name} needs a table with one column of tags")
        data, columns = with_candidates(read(args), args.add_noise, args.seed), None
    else:
        stage("making features")
        columns = source.features()
        for sentence in columns.notes(source.table):
            note(f"note: {sentence}")
        data = _tagged(source, columns)
        if args.decisions is not None:
            data, known = _with_decisions(args, source, data)
            extra |= {"known": known} if find_method(args.method) is Sieve else {}
        _note_findings(args, source, columns)
        if columns.groups is not None:
            if find_method(args.method) is not Sieve:
                raise InputError(
                    "--group leaves rows out together while Sieve is trained; other methods leave "
                    "no rows out"
                )
            extra["groups"] = group_numbers(columns.groups, data.n_samples)
    is_scaled = columns is not None and columns.is_scaled
    model = make_model(args.method, args.param, scaled=is_scaled, sparse=sp.issparse(data.X))
    start = time.perf_counter()
    train(model, replace(data, X=to_device(data.X, args, model)), **extra)
    to_memory(model)
    seconds = time.perf_counter() - start
    notes: dict[str, Any] = {"data": data.name, "feature_names": data.feature_names}
    notes["provenance"] = provenance(args)
    if data.zero_based is not None:
        notes["zero_based"] = data.zero_based
    pipeline = model
    if source is not None and columns is not None:
        notes |= {"labels": source.labels, "learned_from": columns.source}
        if columns.transformer is not None:
            pipeline = TagPipeline.from_fitted(columns.transformer, model, source.separator)
    stage("writing the model")
    save(pipeline, args.output, include_training=not args.drop_training, notes=notes)
    if args.id is not None and source is not None:
        _write_state(args.output, model, source, data)
    report = _report(model, data, seconds)
    if columns is not None:
        report |= {"learned_from": columns.source, "left_out": columns.left_out}
        report["encoder"] = columns.encoder
    return model, report


def make_model(
    method: str, params: list[tuple[str, Any]], *, scaled: bool = False, sparse: bool = False
) -> PartialMultiLabelClassifier:
    """Return an unfitted method with the given parameters, for features that are scaled or not."""
    cls = find_method(method)
    known = list(inspect.signature(cls).parameters)
    for name, _ in params:
        if name not in known:
            raise InputError(f"{cls.__name__} has no parameter {name!r}; {suggest(name, known)}")
    model = make_method(cls, scaled=scaled, sparse=sparse)
    for name, value in params:
        setattr(model, name, value)
    return model


def with_candidates(data: Dataset, noise: int | None, seed: int) -> Dataset:
    """The data set with candidates: its own, the truth with added noise, or the truth."""
    if not data.n_features:
        raise InputError(f"{data.name}: the data set has no features to learn from")
    if noise is not None:
        if data.y_true is None:
            raise InputError(
                f"{data.name}: --add-noise needs true labels, but the data set has none"
            )
        return replace(data, candidates=add_noise(data.y_true, noise, random_state=seed))
    if data.candidates is None:
        note(f"note: {data.name} has only true labels; they are used as the candidates")
        return replace(data, candidates=data.y_true)
    return data


def _note_findings(args: argparse.Namespace, source: TagTable, columns: Features) -> None:
    """Name the findings about the table in one line; `schirn clean` tells more."""
    stage("looking at the table")
    texts = columns.texts(source.table)
    findings = look_at_table(source.tags(), texts=texts, X=columns.X, separator=source.separator)
    if findings:
        titles = ", ".join(f"{finding.title} ({finding.count:,})" for finding in findings)
        note(f"note: look at the table with schirn clean: {titles}")


def _with_decisions(
    args: argparse.Namespace, source: TagTable, data: Dataset
) -> tuple[Dataset, Any]:
    """Add the tags that people called right to the candidates; return what is known about all.

    Only Sieve learns from what is known, so the other methods do not see tags called wrong.
    """
    store, rows = open_decisions(args, source)
    if store is None or rows is None:
        return data, None
    place = {name: j for j, name in enumerate(data.label_names)}
    known = np.zeros(data.candidates.shape, dtype=np.int8)
    carried = store.match(rows)
    for (row, tag), decision in carried.valid.items():
        if tag in place:
            known[row, place[tag]] = {RIGHT: 1, WRONG: -1}.get(decision.answer, 0)
    note(f"decisions: {describe_decisions(store, carried)}")
    candidates = np.where(known > 0, 1, data.candidates)
    if find_method(args.method) is not Sieve:
        candidates = np.where(known < 0, 0, candidates)
    return replace(data, candidates=candidates.astype(data.candidates.dtype)), known


def _write_state(output: str, model: Any, source: TagTable, data: Dataset) -> None:
    """Write the state from which `schirn update` goes on, beside the model."""
    path = state_path(output)
    last = TagState.read(path) if Path(path).exists() else None
    options: Any = {"last": last, "model_hash": file_hash(output)}
    state_after_training(model, source.content(), source.tags(), data.X, **options).write(path)


def _tagged(source: TagTable, columns: Features) -> Dataset:
    """The features and tags of a table as a data set."""
    tags = read_tags(source.tags(), None)
    return Dataset(
        name=base_name(Path(source.path)),
        X=columns.X,
        candidates=tags.dense(),
        label_names=tags.names,
        feature_names=columns.column_names,
    )


def train(model: PartialMultiLabelClassifier, data: Dataset, **extra: Any) -> None:
    """Fit, with the true labels for a method that may see them."""
    extra["label_names"] = list(data.label_names)
    if data.y_true is not None and sees_truth(model):
        extra["y_clean"] = data.y_true
    model.fit(data.X, data.candidates, **extra)


def _report(model: PartialMultiLabelClassifier, data: Dataset, seconds: float) -> dict[str, Any]:
    report = {
        "data": data.name,
        "method": type(model).__name__,
        "rows": data.n_samples,
        "features": data.n_features,
        "labels": data.n_labels,
        "candidates": int(data.candidates.sum()),
        "judged_wrong": int(model.noise_.sum()),
        "share_of_false_labels_listed": model.calibration_.noise_rate,
        "rounds": int(model.n_iter_),
        "seconds": round(seconds, 3),
    }
    if data.y_true is not None and (data.candidates != data.y_true).sum():
        noise = noise_report(data.y_true, data.candidates, model.noise_, model.label_confidence_)
        report["noise_finding"] = noise
    return report


def _lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    """The report as text."""
    noise = report.get("noise_finding")
    rounds = "1 round" if report["rounds"] == 1 else f"{report['rounds']} rounds"
    share = report["judged_wrong"] / max(1, report["candidates"])
    learned, share_listed = report.get("learned_from"), report["share_of_false_labels_listed"]
    lines = [
        ("data", report["data"]),
        *[("learned from", learned)] * bool(learned),
        *[("left out", brief_list(report.get("left_out", ()), 6))] * bool(report.get("left_out")),
        ("method", f"{report['method']}, {rounds}, {report['seconds']:.2f} s"),
        ("rows", f"{report['rows']:,}"),
        ("features", f"{report['features']:,}"),
        ("labels", f"{report['labels']:,}"),
        ("candidates", f"{report['candidates']:,}"),
        ("judged wrong", f"{report['judged_wrong']:,} ({share:.1%} of the candidates)"),
        ("noise rate", f"an estimated {share_listed:.1%} of the false labels are candidates"),
    ]
    if noise:
        text = (
            f"{noise['n_wrong']:,} candidates are wrong; precision {noise['precision']:.3f}, "
            f"recall {noise['recall']:.3f}, AUC {noise['auc']:.3f}"
        )
        lines.append(("against truth", text))
    return lines
