"""`schirn update`: judge the rows that are new since last night, and keep decisions."""

import argparse
import shlex
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import brief_list
from schirn._progress import stage
from schirn.app.cli._labeling import (
    LABELING,
    check_labeling,
    describe_import,
    exchange,
    fetch,
    labeling_tool,
)
from schirn.app.cli._reading import (
    ALLOW_EMPTY,
    ASK,
    COPIES,
    DECISIONS,
    QUERY,
    REMOVALS,
    UNEXPECTED,
    VOCABULARY,
    Outputs,
    check_outputs,
    describe_decisions,
    no_others,
    unmet,
    write_changes,
)
from schirn.app.tables import DEFAULT_LIMITS, Expectations, Violation
from schirn.app.workflow import WRONG, CleaningOptions, TableUpdate, Update
from schirn.exceptions import InputError
from schirn.program.data import TEXT_FORMAT
from schirn.program.output import facts, note, number, print_json, say, working
from schirn.program.output import table as print_table

OPTIONS = f"""
data TABLE  current version of the table
--model FILE!  a model that schirn fit trained on an earlier version of the table
--id COLUMN!  column of row ids
{DECISIONS}
{COPIES}
{REMOVALS}
{ALLOW_EMPTY}
[ask]
{ASK}
[labeling tools]
{LABELING}
[how to read the table]
--labels COLUMNS  column of tags (default: as in training)
--image-root DIR  folder that holds the image files (default: the folder of the table)
{TEXT_FORMAT}
{QUERY}
{VOCABULARY}
[check]
--expect FILE  a .toml file of expectations; if one is not met, the exit code is 4, no file is
    written and the state stays as it is. Without a file, this happens if the export looks
    incomplete: many rows, tags or values are gone, or the separator has changed
"""
# Estimates from the answers, as in `schirn clean --json`.
_ESTIMATE = (
    "answers",
    "wrong_share",
    "wrong_share_interval",
    "removed",
    "removed_share",
    "target_precision",
)
_MAX_SHOWN = 8
_MAX_TEXT = 48
_MAX_TAGS = 6


def run(args: argparse.Namespace) -> int:
    """Judge the rows of a table that are new or have changed since the last update.

    A stored model judges them, and the report says what has changed. Earlier answers are kept, and
    so are verdicts on other rows, unless new answers clearly call for a change. Tags that the model
    does not know are kept and listed. The model is not retrained; the report says when it
    should be.

    Examples
    --------
    schirn update items.csv --model tagger.schirn --id sku --decisions d.jsonl -o cleaned.csv
    schirn update items.csv --model tagger.schirn --id sku --decisions d.jsonl --questions ask.csv
    schirn update items.csv --model tagger.schirn --id sku --decisions d.jsonl --answers ask.csv
    schirn update items.csv --model tagger.schirn --id sku --questions t.json --for label-studio
    schirn update items.parquet --model tagger.schirn --id sku --expect expect.toml --json
    """
    options = CleaningOptions.from_args(args)
    check_labeling(args)
    outputs = Outputs(
        copy=args.output,
        changes=args.changes,
        questions=args.questions,
        tool=labeling_tool(args),
    )
    answers = {*options.answers} - {outputs.questions}
    inputs = [args.data, args.model, options.decisions, args.expect, options.vocabulary, *answers]
    if options.answers and not options.decisions:
        raise InputError("--answers needs --decisions, the file in which answers are kept")
    check_outputs(outputs.named(), inputs)
    is_kept = options.decisions is not None
    options = replace(options, answers=outputs.answers_before(options.answers, is_kept=is_kept))
    table = TableUpdate(args.data, args.model, options)
    with working(f"updating {Path(args.data).name}", args), table.alone():
        return _update(args, table, outputs)


def _update(args: argparse.Namespace, table: TableUpdate, outputs: Outputs) -> int:
    """Read, judge and write; the stored state is replaced last."""
    start = time.perf_counter()
    last = table.last
    expected = Expectations.read(args.expect) if args.expect else Expectations()
    fetch(args, table)
    update = table.update
    for sentence in table.notes:
        note(f"note: {sentence}")
    summary: Any = update.state.summary
    violations = expected.check(summary, last=None if last is None else last.summary)
    if update.featureless:
        what = "text" if table.model.features_.kinds == ["text"] else "features"
        rows = number(len(update.featureless), "row")
        note(f"note: {rows} without {what}: their tags are not judged, and earlier verdicts stay")
    if violations:
        outputs = outputs.withheld()
    stage("writing the results")
    if outputs.copy:
        table.export(outputs.copy)
    if outputs.changes:
        write_changes(table.changes(), outputs.changes)
    if outputs.questions:
        exchange(args, table, outputs)
    if not violations:
        table.save()
    store = table.decisions
    ids = table.rows.ids
    document = {
        "data": args.data,
        "model": args.model,
        "last": None if last is None else last.time,
        **_document(update, ids),
        "gone_share": summary.gone_share,
        "changed_share": summary.changed_share,
        "restored_share": summary.restored_share,
        "new_removal_share": summary.new_removal_share,
        "lost_share": summary.lost_share,
        "emptied_share": summary.emptied_share,
        "joined_tags": summary.joined_tags,
        "doubts": update.doubts,
        "n_changes": len(table.source.changes(update.ranking)),
        "decisions": None if store is None else len(store),
        "violations": [asdict(violation) for violation in violations],
        "seconds": round(time.perf_counter() - start, 2),
        "output": outputs.copy,
        "changes": outputs.changes,
        "questions": outputs.questions,
        "state": None if violations else table.state_path,
    }
    if args.json:
        print_json(document | unmet(violations))
    else:
        about = "" if store is None else describe_decisions(store, update.carried)
        _report(document, update, about, dict(zip(ids, table.texts, strict=True)))
    for violation in violations:
        note(str(violation), error=True)
    hint = _hint(violations, expected, args.expect)
    if hint:
        note(hint, error=True)
    if outputs.questions and outputs.tool is not None:
        words = ["schirn", "update", args.data, "--model", args.model, "--id", args.id]
        words += ["--decisions", args.decisions or "FILE.jsonl"]
        note(describe_import(args, outputs, shlex.join(words)))
    return UNEXPECTED if violations else 0


def _hint(violations: list[Violation], expected: Expectations, path: str | None) -> str:
    """Return how to allow what the default limits reject; "" if they reject nothing."""
    names = [violation.name.partition(".")[2] for violation in violations]
    limits = [
        f"{name} = {_enough(violation.value)}"
        for name, violation in zip(names, violations, strict=True)
        if name in DEFAULT_LIMITS and name not in expected.drift
    ]
    if not limits:
        return ""
    if expected.drift:
        # A second table of this name would not be TOML.
        return f"if this is intended, add to [drift] in {path}: {' and '.join(limits)}"
    line = f"drift = {{{', '.join(limits)}}}"
    return f"if this is intended, allow it at the top of a file for --expect: {line}"


def _enough(value: float | None) -> int:
    """Return a limit that allows a value: a number of tags, or the largest share."""
    return max(1, int(value or 0))


def _document(update: Update, ids: list[str]) -> dict[str, Any]:
    """Return the changes as a dictionary for JSON."""
    suspects, missing = _suspects(update)
    summary = update.ranking.summary()
    return {
        "rows": update.ranking.n_rows,
        "new_rows": len(update.new),
        "changed_rows": len(update.changed),
        "gone_rows": update.gone,
        "judged_rows": len(update.judged),
        "tags": len(update.ranking.row),
        "unseen_tags": update.unseen,
        "rows_without_features": len(update.featureless),
        **{name: summary[name] for name in _ESTIMATE},
        "added": summary["added"],
        "sentence": update.ranking.sentence,
        "removed_since": [[ids[i], tag] for i, tag in update.removed],
        "restored_since": [[ids[i], tag] for i, tag in update.restored],
        "last_tags": len(update.last_tags),
        "decisions_to_ask_again": len(update.carried.changed),
        "answers_since": len(update.since),
        "wrong_answers_since": sum(decision.answer == WRONG for decision in update.since),
        "tag_drift": update.tag_drift,
        "feature_drift": update.feature_drift,
        "advice": update.advice,
        "suspects": [[ids[i], tag, p] for i, tag, p in suspects],
        "missing": [[ids[i], tag, p] for i, tag, p in missing],
    }


def _suspects(update: Update) -> list[list[tuple[int, str, float]]]:
    """Return the most suspicious and the likely missing tags of new and changed rows."""
    ranking = update.ranking
    rows = [*update.new, *update.changed]
    lists = []
    for tags, is_likely in (
        (ranking, (ranking.confidence < 0.5) & ~ranking.removed),
        (ranking.missing, ranking.missing.confidence >= 0.5),
    ):
        order = tags.worklist.order
        order = order[is_likely[order] & np.isin(tags.row[order], rows)][:_MAX_SHOWN]
        columns = (tags.row[order], tags.label[order], np.round(tags.confidence[order], 4))
        lists.append(list(zip(*(column.tolist() for column in columns), strict=True)))
    return lists


def _about_last_tags(n: int) -> str:
    """Return a sentence about tags that stay because they are the last ones of their rows."""
    if not n:
        return ""
    return f"{n:,} would be removed, but each row keeps one tag unless you pass --allow-empty"


def _report(
    document: dict[str, Any], update: Update, decisions: str, texts: dict[str, str]
) -> None:
    """Print the changes since last night."""
    ranking = update.ranking
    unseen = update.unseen
    last = document["last"]
    since = f"since {last[:16].replace('T', ' ')} UTC" if last else "first update"
    counts = f"{len(update.new):,} new, {len(update.changed):,} changed, {update.gone:,} gone"
    removed = f"{document['removed']:,}"
    if update.removed or update.restored:
        removed += f" ({len(update.removed):,} new, {len(update.restored):,} restored)"
    share = document["wrong_answers_since"] / max(len(update.since), 1)
    answers = f"{len(update.since):,}, {share:.0%} of them 'wrong'" if update.since else ""
    tags = f"{sum(unseen.values()):,}, kept: {brief_list(unseen, _MAX_TAGS)}" if unseen else ""
    shift = update.feature_drift
    features = "" if shift is None else f"; features {shift:.2f} standard deviations"
    facts(
        {
            "table": f"{document['data']}, {ranking.n_rows:,} rows ({since})",
            "rows": f"{counts}; {len(update.judged):,} judged in {document['seconds']:.1f} s",
            "tags": f"{document['tags']:,}",
            "unseen tags": tags,
            "decisions": decisions,
            "new answers": answers,
            "wrong tags": ranking.sentence,
            "removed": removed,
            "more removals": no_others(ranking),
            "last tags": _about_last_tags(len(update.last_tags)),
            "added": f"{document['added']:,}" if document["added"] else "",
            "drift": f"tags {update.tag_drift:.3f}{features}, since training",
        }
    )
    for name, verb in (("removed_since", "Removed"), ("restored_since", "Restored")):
        verdicts = document[name]
        if last and verdicts:
            count = f", {_MAX_SHOWN} of {len(verdicts):,}" if len(verdicts) > _MAX_SHOWN else ""
            say(f"\n{verb} since last time{count}")
            shown = [(i, texts[i][:_MAX_TEXT], tag) for i, tag in verdicts[:_MAX_SHOWN]]
            print_table(("id", "text", "tag"), shown, align="lll")
    titles = {"suspects": "Most suspicious", "missing": "Likely to be missing"}
    for name, title in titles.items():
        rows = [(i, texts[i][:_MAX_TEXT], tag, f"{p:.0%}") for i, tag, p in document[name]]
        if rows:
            say(f"\n{title} in new and changed rows")
            print_table(("id", "text", "tag", "right"), rows, align="lllr")
    for reason in update.advice:
        note(f"train again with schirn fit: {reason}")
    for name in ("output", "changes", "questions", "state"):
        if document[name]:
            note(f"wrote the {name} to {document[name]}")
