"""`schirn update`: judge the rows that are new since last night, and keep what was decided."""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import brief, brief_list, file_hash
from schirn._progress import stage
from schirn.cleaning import Decisions, Expectations, TagState, Update, Violation, update_tags
from schirn.cleaning.answers import read_answers_by_id, write_questions_by_id
from schirn.cleaning.columns import TagTable, image_files
from schirn.cleaning.decisions import RowContent, ask_again
from schirn.cleaning.nightly import state_path
from schirn.cleaning.noisy_labels import PRECISION
from schirn.cleaning.questions import LISTED, MISSING
from schirn.cli.clean import UNEXPECTED
from schirn.cli.output import facts, note, print_json, say, table, working
from schirn.cli.reading import (
    ASK,
    DECISIONS,
    MERGE,
    TEXT_FORMAT,
    check_copy,
    check_new_columns,
    check_outputs,
    describe_decisions,
    no_others,
)
from schirn.exceptions import InputError
from schirn.features import TagPipeline
from schirn.persist import load, read_notes
from schirn.tables.files import open_table
from schirn.tables.merges import read_merges

DESCRIPTION = (
    "Judge the rows of a table that are new or have changed since the last "
    "update, with a stored model, and tell what has changed. Answers of people stay, verdicts "
    "on other rows stay unless the answers clearly ask for a change, and tags that the model "
    "does not know are kept and listed. The model is not trained; the report says when it "
    "should be."
)
EXAMPLES = """
schirn update items.csv --model tagger.schirn --id sku --decisions decisions.jsonl -o cleaned.csv
schirn update items.csv --model tagger.schirn --id sku --decisions d.jsonl --questions ask.csv
schirn update items.csv --model tagger.schirn --id sku --decisions d.jsonl --answers ask.csv
schirn update items.parquet --model tagger.schirn --id sku --expect expect.toml --json
"""
OPTIONS = f"""
data TABLE  the table of tonight
--model FILE!  a model that schirn fit trained on such a table
--id COLUMN!  column of row ids
{DECISIONS}
--state FILE  rows and verdicts of last night, replaced at the end (default: MODEL without .schirn,
    with .state.npz)
-o, --output FILE  write the cleaned copy, in the format of its name
--changes FILE  write a .csv or .jsonl list of all changes, for schirn apply and undo
--precision P:share = {PRECISION:g}  remove tags only as long as a share P of the removals should be
    right, by the answers
[ask]
{ASK}
[how to read the table]
--labels COLUMNS  column of tags (default: as in training)
--image-root DIR  folder that holds the image files (default: the folder of the table)
{TEXT_FORMAT}
{MERGE}
[check]
--expect FILE  a .toml or .json file of expectations; exit code 4, and an unchanged state, if one is
    not met
"""
_MAX_SHOWN, _MAX_TEXT, _MAX_TAGS = 8, 48, 6


def run(args: argparse.Namespace) -> int:
    """Show the progress of the work."""
    args.state = args.state or state_path(args.model)
    _check_paths(args)
    with working(f"updating {Path(args.data).name}", args):
        return _update(args)


def _update(args: argparse.Namespace) -> int:
    """Read, judge, write; the state of last night is replaced last."""
    start = time.perf_counter()
    stage("reading the model")
    model = load(args.model)
    if not isinstance(model, TagPipeline):
        raise InputError(
            f"{args.model}: was not trained on columns of a table; train with schirn fit TABLE"
        )
    last = TagState.read(args.state) if Path(args.state).exists() else None
    expected = Expectations.read(args.expect) if args.expect else Expectations()
    stage("reading the table")
    source = _open(args, model)
    columns = _columns(args, source, model)
    tags = source.tags()
    rows = RowContent(source.ids(), source.table, list(columns))
    store = _decisions(args)
    update = update_tags(
        model,
        columns,
        tags,
        rows,
        last=last,
        decisions=store,
        model_hash=file_hash(args.model),
        precision=args.precision,
    )
    summary: Any = update.state.summary
    violations = expected.check(summary, last=None if last is None else last.summary)
    stage("writing the results")
    if args.output:
        names = source.new_columns(args.suggest, add=True, note=True)
        check_new_columns(args.data, source.table, names)
        source.write_clean(args.output, update.ranking, suggest=args.suggest)
    if args.changes:
        source.changes(update.ranking).keyed(source.table, args.id).write(args.changes)
    if args.questions:
        _write_questions(args, update, rows, _texts(source, model))
    if not violations:
        update.state.write(args.state)
    _report(args, source, model, update, store, last, violations, time.perf_counter() - start)
    return UNEXPECTED if violations else 0


def _check_paths(args: argparse.Namespace) -> None:
    outputs = {"copy": args.output, "list of changes": args.changes}
    outputs |= {"questions": args.questions, "state": args.state}
    inputs = [args.data, args.model, args.decisions, args.expect, args.merge, *args.answers]
    check_outputs(outputs, inputs)
    if args.output:
        check_copy(args.data, args.output)
    if args.answers and not args.decisions:
        raise InputError("--answers are kept in the decisions; give their file with --decisions")


def _open(args: argparse.Namespace, model: TagPipeline) -> TagTable:
    """Open the table as in training."""
    opened = open_table(args.data, encoding=args.encoding, delimiter=args.delimiter)
    merge = read_merges(args.merge) if args.merge else None
    labels = args.labels or read_notes(args.model).get("labels")
    roles = {"labels": labels, "separator": model.separator, "id": args.id, "merge": merge}
    return TagTable(opened, args.data, **roles)


def _columns(args: argparse.Namespace, source: TagTable, model: TagPipeline) -> dict[str, Any]:
    """Return the columns that the model learned from."""
    features = model.features_
    names = [name for kind in features.kinds for name in features.names_of(kind)]
    absent = [name for name in names if name not in source.table.columns]
    if absent:
        raise InputError(
            f"{args.data}: there is no column {brief(absent[0])}, which {args.model} learned from"
        )
    columns: dict[str, Any] = {name: source.table.column(name) for name in names}
    if features.image is not None:
        columns[features.image] = image_files(
            source.table, features.image, args.data, args.image_root
        )
    return columns


def _decisions(args: argparse.Namespace) -> Decisions | None:
    """Open the decisions, and add what was answered."""
    if args.decisions is None:
        return None
    store = Decisions(args.decisions)
    for path in args.answers:
        store.add(read_answers_by_id(path, args.name or ""))
    return store


def _write_questions(
    args: argparse.Namespace, update: Update, rows: RowContent, texts: list[str]
) -> None:
    """Write questions: about changed rows first, then along the ranks of all tags."""
    kind = MISSING if args.suggest else LISTED
    fresh = update.ranking.questions(args.number, kind=kind, random_state=args.seed)
    questions = ask_again(update.ranking, update.carried, fresh, args.number)
    earlier: Any = update.carried.changed
    write_questions_by_id(args.questions, questions, rows, texts=texts, earlier=earlier)


def _texts(source: TagTable, model: TagPipeline) -> list[str]:
    """Return the texts that the model learned from, or else all texts of the rows."""
    features = model.features_
    return source.texts() if features.text is None else features.texts(source.table)


def _report(
    args: argparse.Namespace,
    source: TagTable,
    model: TagPipeline,
    update: Update,
    store: Decisions | None,
    last: TagState | None,
    violations: list[Violation],
    seconds: float,
) -> None:
    """Print what has changed since last night."""
    written = {name: getattr(args, name) for name in ("output", "changes", "questions", "state")}
    written["state"] = None if violations else args.state
    ids, (suspects, missing) = source.ids(), _suspects(update)
    if args.json:
        print_json(
            {
                "data": args.data,
                "model": args.model,
                "last": None if last is None else last.time,
                **_document(update, ids),
                "suspects": [[ids[i], tag, p] for i, tag, p in suspects],
                "missing": [[ids[i], tag, p] for i, tag, p in missing],
                "decisions": None if store is None else len(store),
                "violations": [violation._asdict() for violation in violations],
                "seconds": round(seconds, 2),
                **written,
            }
        )
        return
    since = "no update before" if last is None else f"since {last.time[:16].replace('T', ' ')} UTC"
    about = "" if store is None else describe_decisions(store, update.carried)
    lines = [("table", f"{args.data}, {update.ranking.n_rows:,} rows ({since})")]
    facts([*lines, *_lines(update, about, seconds)])
    texts = _texts(source, model) if suspects or missing else []
    for title, tags in (("Most suspicious", suspects), ("Likely to be missing", missing)):
        if tags:
            say(f"\n{title} in new and changed rows")
            rows = [(ids[i], texts[i][:_MAX_TEXT], tag, f"{p:.0%}") for i, tag, p in tags]
            table(("id", "text", "tag", "right"), rows, right="lllr")
    if last is None:
        note(
            "note: all rows are new; rows that the model was trained on look better than they are, "
            "unless schirn fit --id has judged them"
        )
    for reason in update.advice:
        note(f"train again with schirn fit: {reason}")
    for violation in violations:
        note(str(violation), error=True)
    for name, path in written.items():
        if path:
            note(f"wrote the {name} to {path}")


def _document(update: Update, ids: list[str]) -> dict[str, Any]:
    """Return what has changed, for JSON."""
    return {
        "rows": update.ranking.n_rows,
        "new_rows": len(update.new),
        "changed_rows": len(update.changed),
        "gone_rows": update.gone,
        "judged_rows": len(update.judged),
        "tags": len(update.ranking.row),
        "unseen_tags": update.unseen,
        "removed": int(update.ranking.removed.sum()),
        "removed_since": [[ids[i], tag] for i, tag in update.removed],
        "restored_since": [[ids[i], tag] for i, tag in update.restored],
        "decisions_to_ask_again": len(update.carried.changed),
        "answers_since": update.answers,
        "wrong_answers_since": update.wrong_answers,
        "tag_drift": update.tag_drift,
        "feature_drift": update.feature_drift,
        "advice": update.advice,
    }


def _lines(update: Update, decisions: str, seconds: float) -> list[tuple[str, str]]:
    """Return what has changed, in words."""
    ranking, unseen = update.ranking, update.unseen
    counts = f"{len(update.new):,} new, {len(update.changed):,} changed, {update.gone:,} gone"
    lines = [
        ("rows", f"{counts}; {len(update.judged):,} judged in {seconds:.1f} s"),
        ("tags", f"{len(ranking.row):,}"),
    ]
    if unseen:
        names = brief_list(unseen, _MAX_TAGS)
        lines.append(("unseen tags", f"{sum(unseen.values()):,}, kept: {names}"))
    if decisions:
        lines.append(("decisions", decisions))
    if update.answers:
        share = update.wrong_answers / update.answers
        lines.append(("new answers", f"{update.answers:,}, {share:.0%} of them 'wrong'"))
    removed = f"{int(ranking.removed.sum()):,}"
    if update.removed or update.restored:
        removed += f" ({len(update.removed):,} new, {len(update.restored):,} restored)"
    shift = update.feature_drift
    features = "" if shift is None else f"; features {shift:.2f} standard deviations"
    return [
        *lines,
        ("wrong tags", ranking.sentence),
        ("removed", removed),
        *no_others(ranking),
        ("drift", f"tags {update.tag_drift:.3f}{features}, since training"),
    ]


def _suspects(update: Update) -> list[list[tuple[int, str, float]]]:
    """Return tags of new and changed rows: the most suspicious ones, and those likely missing."""
    ranking, rows = update.ranking, [*update.new, *update.changed]
    lists = []
    for tags, is_likely in (
        (ranking, (ranking.confidence < 0.5) & ~ranking.removed),
        (ranking.missing, ranking.missing.confidence >= 0.5),
    ):
        order = tags.worklist.order
        order = order[is_likely[order] & np.isin(tags.row[order], rows)][:_MAX_SHOWN]
        p = np.round(tags.confidence[order], 4)
        columns = (tags.row[order], tags.label[order], p)
        lists.append(list(zip(*(column.tolist() for column in columns), strict=True)))
    return lists
