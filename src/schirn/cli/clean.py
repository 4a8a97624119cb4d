"""`schirn clean`: find the wrong tags of a table."""

import argparse
import os
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from schirn._checkpoint import kept_in
from schirn._files import atomic_write, brief_list, check_new_folder, check_writable
from schirn._input import repeated
from schirn._optional import optional
from schirn._progress import stage
from schirn.cleaning import (
    Audit,
    Certificate,
    Expectations,
    Finding,
    NoisyLabels,
    RunSummary,
    Violation,
    find_noisy_labels,
    look_at_table,
    read_merges,
    write_merges,
)
from schirn.cleaning.answers import read_answers, write_questions
from schirn.cleaning.audit import MISSING, TAGS
from schirn.cleaning.centroid_ranker import CENTROIDS
from schirn.cleaning.columns import Features, TagTable, columns_to_stream
from schirn.cleaning.ranker import MIN_COUNT
from schirn.cleaning.verdicts import PRECISION
from schirn.cli.device import DEVICE, to_device
from schirn.cli.fit import make_model
from schirn.cli.output import facts, note, print_json, say, table, working
from schirn.cli.parser import CHECKPOINT, add_command
from schirn.cli.reading import (
    COLUMNS,
    GROUP,
    METHOD,
    check_copy,
    check_new_columns,
    check_not_input,
    tag_roles,
)
from schirn.exceptions import InputError
from schirn.review.project import write_project
from schirn.review.table import TableRoles
from schirn.scale.cluster import connected
from schirn.scale.input import location
from schirn.scale.memory import memory_limit
from schirn.scale.row_file import RowFile
from schirn.tables.annotations import TOOLS
from schirn.tables.changes import SUFFIXES
from schirn.tables.checks import KINDS
from schirn.tables.files import folder_format, open_table

_EXAMPLES = """
schirn clean items.csv --labels tags --text description -o cleaned.csv
schirn clean items.csv --text description -o cleaned.csv --report report.html
schirn clean photos.parquet --features embeddings.npy --report report.html
schirn clean items.jsonl --text caption --project to-review
schirn clean items.csv --text description --changes changes.csv
schirn clean export.json --text text --to label-studio -o tasks.json
schirn clean items.csv --text description --suggest --add 0.9 -o cleaned.csv
schirn clean items.csv --text description --audit-sample check.csv
schirn clean items.csv --text description --audit check.csv -o cleaned.csv
schirn clean items.csv --text description --propose-merges merges.csv
schirn clean items.csv --text description --merge merges.csv -o cleaned.csv
schirn clean items.csv --text description --strict --expect expect.toml
schirn clean parquet-folder --features embedding --scheduler tcp://127.0.0.1:8786 -o cleaned
"""
_OPTIONS = f"""
data TABLE  table to clean
-o, --output FILE  write the cleaned copy, in the same format
--to {"|".join(TOOLS)}  write the output for this annotation tool, as .json: the tags stay, and the
    clean tags are predictions (suggestions in Argilla) with their probabilities
--changes FILE  write a .csv or .jsonl list of all changes to check first, for schirn apply and undo
--suggest  also write columns of tags that are probably missing; they are not added
--add P:share  add missing tags whose probability of being correct is at least P
--force  write the copy and the changes even if most tags are removed
--report FILE  write an HTML report (.html)
--project DIR  write a new project folder for schirn review
{COLUMNS}
--id COLUMN  column of row names (default: 1, 2, ...)
{GROUP}
--known-clean COLUMN  1 for rows whose tags were checked: these tags are kept, and Sieve (no other
    method) learns from them
[how to judge]
{METHOD}
--keep-threshold P:share = 0.5  remove tags whose probability of being correct is below P
--precision P:share = {PRECISION:g}  remove tags only as long as a share P of the removals is
    expected to be right; 0 removes all tags below the threshold
--allow-empty  let a row lose all its tags instead of keeping the most likely one
--max-remove-per-row N:natural  remove at most N tags per row
--min-count N:positive = {MIN_COUNT}  keep tags that occur in fewer than N rows
--max-memory GB:gigabytes  keep features that need more than half of this, and what is computed of
    them if that needs more, in temporary files (default: the free memory)
--folds N:positive  judge in N folds (default: one fit for Sieve, 5 folds for other methods)
--seed S:natural = 0  seed of the folds and the planted tags
{CHECKPOINT}
[check some tags yourself]
--audit-sample FILE  write tags drawn at random to a .csv file; fill in its column 'right' with yes
    or no
--audit-size N:positive = 50  number of tags in the sample
--audit-of removals|suggestions = removals  what the sample is to certify
--audit FILE...  calibrate and certify the verdicts with these answers; may be repeated, in the
    order in which the samples were drawn
[check the table itself]
--propose-merges FILE  write tags that look like other spellings of a tag to a .csv or .json file,
    to edit and pass to --merge
--strict  stop with exit code 4, before any tag is judged, if there is a finding that --expect does
    not allow
--expect FILE  a .toml or .json file of expectations; exit code 4 if one is not met
--summary FILE  write a summary of this run (.json), unless an expectation is not met
--last FILE  summary of the last run, with which --expect compares this run
{DEVICE}
--scheduler ADDRESS  judge on a Dask cluster, such as tcp://127.0.0.1:8786; its workers read the
    columns of numbers from TABLE, a folder of .parquet files
"""
# The exit code for a table that --strict or --expect does not accept.
UNEXPECTED = 4
_MANY = "each is judged by the mean of the rows that list it, since Sieve is for fewer tags"
_MAX_LABELS = 8
_MAX_TEXT = 2000
# A table may lose half of its tags, or more if the check is good and the data allow it.
_MAX_REMOVED, _MARGIN = 0.5, 0.05


def add(found: Any) -> None:
    """Add the command."""
    add_command(
        found,
        "clean",
        run,
        help="find the wrong tags of a table; write clean tags and a report",
        description="Judge every tag of a table by comparing its row with similar rows, and remove "
        "the tags that are probably wrong. TABLE is a .csv, .tsv, .jsonl, .json, .xlsx, .parquet "
        "or .feather file, or a folder of .parquet or .jsonl files; it is never changed. The copy "
        "keeps all rows, their order and all other cells, and gets two new columns: the removed "
        "tags, and the probability that each tag is correct.",
        examples=_EXAMPLES,
        options=_OPTIONS,
    )


def run(args: argparse.Namespace) -> int:
    """Show the progress of the work."""
    with (
        kept_in(args.checkpoint),
        working(f"cleaning {Path(args.data).name}", args),
        memory_limit(args.max_memory),
    ):
        _check_paths(args)
        if args.scheduler is None:
            return _clean(args)
        _check_scheduler(args)
        stage("connecting to the scheduler")
        with connected(args.scheduler, "--scheduler"):
            return _clean(args)


def _clean(args: argparse.Namespace) -> int:
    """Read the table, judge its tags and write what was asked for."""
    expected, last = _expectations(args)
    start = time.perf_counter()
    stage("reading the table")
    opened = open_table(
        args.data, encoding=args.encoding, delimiter=args.delimiter, unread=_unread(args)
    )
    source = TagTable(
        opened, args.data, **tag_roles(args), id=args.id, known_clean=args.known_clean
    )
    if args.output:
        names = source.new_columns(args.suggest, args.add is not None)
        check_new_columns(args.data, opened, names)
    tags = source.tags()
    stage("making features")
    features = source.features("files" if args.scheduler is None else "dask")
    model = make_model(args.method, args.param, scaled=features.is_scaled)
    findings = _look(args, source, features, tags)
    if args.propose_merges:
        write_merges([m for each in findings for m in each.merges], args.propose_merges)
    if args.strict and (violations := expected.check_findings(findings)):
        return _refuse(args, findings, violations)
    found = _judge(args, source, features, tags, model)
    stage("writing the results")
    for path in args.audit:
        answers = read_answers(path, found)
        found = found.audited(*answers[:2], extra=answers.extra, precision=args.precision or None)
    if args.output or args.changes:
        _check_plausible(args, found)
    if args.output:
        if args.to is None:
            source.write_clean(args.output, found, suggest=args.suggest, add=args.add)
        else:
            _write_verdicts(args, source, found)
    if args.changes:
        source.changes(found, args.add).write(args.changes)
    if args.report or args.project or args.audit_sample:
        _write_pages(args, source, found, features, findings)
    for path, certificate in _certificates(args, found).values():
        if path is not None:
            certificate.to_json(path)
    summary = RunSummary.from_found(found, findings)
    violations = expected.check(summary, findings=findings, last=last)
    if args.summary and not violations:
        summary.write(args.summary)
    _print(args, found, features, findings, violations, time.perf_counter() - start)
    return UNEXPECTED if violations else 0


def _judge(
    args: argparse.Namespace,
    source: TagTable,
    features: Features,
    tags: list[list[str]],
    model: Any,
) -> NoisyLabels:
    """Judge the tags; the library chooses the method unless an option asks for one."""
    is_chosen = args.method != "Sieve" or args.param or args.folds or args.device or args.scheduler
    return find_noisy_labels(
        to_device(features.X, args, model),
        tags,
        method=model if is_chosen else None,
        cv=None if args.folds is None else min(args.folds, source.table.n_rows),
        threshold=args.keep_threshold,
        max_remove_per_row=args.max_remove_per_row,
        precision=args.precision or None,
        keep_one=not args.allow_empty,
        known_clean=source.known_clean(),
        groups=features.groups,
        min_count=args.min_count,
        scaled=features.is_scaled,
        max_memory=args.max_memory,
        random_state=args.seed,
    )


def _unread(args: argparse.Namespace) -> list[str]:
    """Columns of numbers that this program does not read into memory."""
    names = list(args.columns or ())
    if args.features:
        names = [args.features]
    if args.scheduler is not None:
        return names
    found = columns_to_stream(args.data, names)
    if not found and args.features and "," in args.features:
        found = columns_to_stream(args.data, [name.strip() for name in args.features.split(",")])
    return found


def _expectations(args: argparse.Namespace) -> tuple[Expectations, RunSummary | None]:
    """What the table must meet, and the run to compare it with."""
    expected = Expectations.read(args.expect) if args.expect else Expectations()
    last = RunSummary.read(args.last) if args.last else None
    if expected.drift and last is None:
        note(f"note: without --last, the drift in {args.expect} is not checked")
    if args.strict:
        none_allowed = dict.fromkeys(KINDS, 0)
        expected = replace(expected, findings={**none_allowed, **expected.findings})
    return expected, last


def _look(
    args: argparse.Namespace, source: TagTable, features: Features, tags: list[list[str]]
) -> list[Finding]:
    """Look at the table before it is judged."""
    stage("looking at the table")
    X = features.X if args.scheduler is None else None
    texts = features.texts(source.table)
    return look_at_table(tags, texts=texts, X=X, separator=source.separator)


def _refuse(args: argparse.Namespace, findings: list[Finding], violations: list[Violation]) -> int:
    """Print why the table is not judged."""
    if args.json:
        print_json({"data": args.data, **_checks(findings, violations)})
    for each in violations:
        note(str(each))
    note("no tag was judged, because of --strict")
    if args.propose_merges:
        note(f"wrote the proposed merges to {args.propose_merges}")
    return UNEXPECTED


def _checks(findings: list[Finding], violations: list[Violation]) -> dict[str, Any]:
    return {
        "findings": [each.to_dict() for each in findings],
        "violations": [each._asdict() for each in violations],
    }


def _write_verdicts(args: argparse.Namespace, source: TagTable, found: NoisyLabels) -> None:
    """Write the verdicts for an annotation tool, and the interface of a new project."""
    config = source.write_verdicts(args.output, args.to, found, suggest=args.suggest, add=args.add)
    path = f"{args.output.removesuffix('.json')}.config.xml"
    if config is not None:
        with atomic_write(path) as stream:
            stream.write(config.encode("utf-8", "replace"))
        note(f"wrote the labelling interface to {path}")


def _check_plausible(args: argparse.Namespace, found: NoisyLabels) -> None:
    """Raise InputError if the copy would lose more tags than can be wrong."""
    most, share = _MAX_REMOVED, float(found.removed.mean())
    if found.trust is not None and found.trust.level == "good":
        most = max(most, (found.largest_wrong_share or 0.0) + _MARGIN)
    if found.audit is not None:
        most = max(most, found.audit.wrong_share_interval[1])
    if share > most and not args.force:
        raise InputError(
            f"{args.data}: would lose {share:.0%} of the tags, but at most {most:.0%} can be "
            f"expected to be wrong; nothing is written. Look at a --report, then use --force"
        )


def _write_pages(
    args: argparse.Namespace,
    source: TagTable,
    found: NoisyLabels,
    features: Features,
    findings: list[Finding],
) -> None:
    """Write the report, the project folder and the sample to check."""
    texts = [t if len(t) <= _MAX_TEXT else t[:_MAX_TEXT] + " …" for t in source.texts()]
    ids = source.ids()
    twice = repeated(ids)
    if twice is not None:
        note(f"note: the id {twice!r} occurs more than once; rows are numbered from 1 instead")
        ids = [str(i + 1) for i in range(found.n_rows)]
    if args.project:
        roles = TableRoles(
            source.labels,
            source.separator,
            text=tuple(args.text or ()),
            image=args.image,
            image_root=args.image_root,
            merge=read_merges(args.merge) if args.merge else None,
        )
        write_project(
            args.project,
            found,
            features.X.mapped() if isinstance(features.X, RowFile) else features.X,
            ids=ids,
            texts=texts,
            precision=args.precision or None,
            table=source.table,
            source=args.data,
            roles=roles,
            feature_names=features.feature_names,
            groups=features.groups,
            scaled=features.is_scaled,
        )
    if args.audit_sample:
        write_questions(
            args.audit_sample,
            found,
            args.audit_size,
            of=MISSING if args.audit_of == "suggestions" else TAGS,
            random_state=args.seed,
            texts=texts if any(texts) else None,
            ids=ids if args.id else None,
        )
    if args.report:
        stage("explaining the verdicts")
        names, scaled, reasons = features.feature_names, features.is_scaled, None
        if args.scheduler is None:
            reasons = found.reasons(features.X, feature_names=names, scaled=scaled)
        page = found.report(
            texts=texts,
            ids=ids,
            images=source.images(),
            title=Path(args.data).name,
            findings=findings,
            reasons=reasons,
        ).html()
        with atomic_write(args.report) as stream:
            stream.write(page.encode("utf-8", "replace"))


def _print(
    args: argparse.Namespace,
    found: NoisyLabels,
    features: Features,
    findings: list[Finding],
    violations: list[Violation],
    seconds: float,
) -> None:
    """Print the summary, or one JSON document."""
    whole = {"data": args.data, "learned_from": features.source, "left_out": features.left_out}
    whole |= {"encoder": features.encoder, "in_files": location(features.X) == "files"}
    storage: Any = found.storage
    whole |= {"storage": storage.name, "storage_reason": storage.reason}
    whole |= found.summary()
    whole["missing_sentence"] = found.missing_sentence
    whole["added"] = 0 if args.add is None else len(found.suggestions(args.add))
    whole["seconds"] = round(seconds, 2)
    labels = found.labels()
    names = ("output", "changes", "report", "project")
    written = {name: getattr(args, name) for name in names}
    written |= {"sample": args.audit_sample, "proposed_merges": args.propose_merges}
    written["summary"] = None if violations else args.summary
    written |= {name: path for name, (path, _) in _certificates(args, found).items()}
    if args.json:
        listed = [label.to_dict() for label in labels]
        for label in listed:
            del label["worst"]
        suggested = list(found.suggestions().records())
        if found.trust is not None:
            whole["trust"] = found.trust.to_dict()
        if found.audit is not None:
            whole["audit"] = found.audit.to_dict()
        if found.missing.audit is not None:
            whole["audit_of_suggestions"] = found.missing.audit.to_dict()
        if found.threshold_curve is not None:
            whole["threshold_curve"] = list(found.threshold_curve.records())
        whole |= {"label_summaries": listed, "suggested_tags": suggested}
        print_json({**whole, **_checks(findings, violations), **written})
        _note_violations(args, violations)
        return
    memory = storage.reason if storage.is_short_of_memory else None
    facts([*_lines(whole, memory), *_missing_lines(args, found)])
    if findings:
        say("\nLook at the table")
        facts([(each.title, each.sentence) for each in findings])
    if args.audit:
        say("\nWhat the checked tags say")
        facts(_audit_lines(found))
    if found.trust is not None:
        say("\nHow far to trust this")
        facts(_trust_lines(found))
    shown = [label for label in labels if label.removed][:_MAX_LABELS]
    if shown:
        say("\nTags removed most often")
        lines = [
            (each.name[:40], f"{each.candidates:,}", f"{each.removed:,}", f"{each.noise_rate:.1%}")
            for each in shown
        ]
        table(("tag", "listed", "removed", "estimated wrong"), lines, right="lrrr")
    for name, path in written.items():
        if path:
            note(f"wrote the {name.replace('_', ' ')} to {path}")
    if args.changes and not args.output:
        words = map(shlex.quote, (args.changes, args.data))
        note(f"to make the changes: schirn apply {' '.join(words)} --output FILE")
    stale = _certificate_path(args)
    if stale is not None and found.certificate is None and Path(stale).exists():
        note(f"{stale} is from an earlier run; these removals are not certified")
    if args.audit_sample:
        note(
            f"in {args.audit_sample}, write yes or no into the column 'right', ? if you cannot "
            f"tell; then run the same command with --audit instead of --audit-sample"
        )
    if args.project:
        note(f"to decide the doubtful tags yourself: schirn review {shlex.quote(args.project)}")
    spelled = any(each.kind == "spelling" for each in findings)
    if spelled and not args.propose_merges:
        note(
            "to merge spellings, write them to a list with --propose-merges FILE, delete the lines "
            "that are wrong, and run again with --merge FILE"
        )
    _note_violations(args, violations)


def _note_violations(args: argparse.Namespace, violations: list[Violation]) -> None:
    for each in violations:
        note(str(each))
    if violations:
        unwritten = ", so the summary is not written" if args.summary else ""
        met = "1 expectation is" if len(violations) == 1 else f"{len(violations)} expectations are"
        note(f"{met} not met{unwritten}")


def _lines(whole: dict[str, Any], memory: str | None) -> list[tuple[str, str]]:
    rate = whole["estimated_wrong_share"]
    lines = [
        ("table", f"{whole['data']}, {_number(whole['rows'], 'row')}"),
        ("learned from", f"{whole['learned_from']} ({whole['method']}, {whole['seconds']:.1f} s)"),
        *([] if memory is None else [("memory", memory)]),
        *[("left out", brief_list(whole["left_out"], 6))] * bool(whole["left_out"]),
        ("tags", f"{whole['tags']:,} ({whole['labels']:,} distinct)"),
        *[("many tags", _MANY)] * (whole["method"] == CENTROIDS),
        ("removed", f"{whole['removed']:,} ({whole['removed_share']:.1%} of the tags)"),
        ("rows changed", f"{whole['rows_changed']:,}"),
        ("estimated wrong", _share_words(rate, whole["largest_wrong_share"])),
        ("close calls", _close_calls(whole["close_calls"])),
    ]
    if whole["unjudged"]:
        lines.append(
            ("not judged", f"{_number(whole['unjudged'], 'tag')}, too rare or present in every row")
        )
    if whole["rows_left_without_tags"]:
        lines.append(("left without tags", _number(whole["rows_left_without_tags"], "row")))
    return lines


def _close_calls(n: int) -> str:
    first = "check it first" if n == 1 else "check these first"
    return f"{_number(n, 'tag')}; {first}" if n else "none"


def _number(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _missing_lines(args: argparse.Namespace, found: NoisyLabels) -> list[tuple[str, str]]:
    """Lines about missing tags, if there are any or the user asked for them."""
    wanted = args.suggest or args.add is not None
    if not wanted and not len(found.suggestions()):
        return []
    lines = [("missing", found.missing_sentence + ("" if wanted else " See --suggest."))]
    if args.add is not None:
        n = len(found.suggestions(args.add))
        lines.append(("added", f"{_number(n, 'tag')} with a probability of at least {args.add:g}"))
    return lines


def _trust_lines(found: NoisyLabels) -> list[tuple[str, str]]:
    trust: Any = found.trust
    if not trust.planted:
        return [("trust", trust.level), ("in words", trust.sentence)]
    source = "a cautious estimate" if found.audit is None else "the answers"
    lines = [
        ("trust", trust.level),
        ("caught", f"{trust.caught:.1%} of {trust.planted:,} planted wrong tags"),
        ("flagged", f"{trust.flagged:.1%} of the listed tags"),
        ("expected precision", f"{trust.expected_precision:.1%}, by {source}"),
    ]
    if found.held_back:
        lines.append(("held back", f"{_number(found.held_back, 'flagged tag')} kept"))
    return [*lines, ("in words", trust.sentence)]


def _audit_lines(found: NoisyLabels) -> list[tuple[str, str]]:
    lines = []
    if found.audit is not None:
        low, high = found.audit.wrong_share_interval
        between = f"probably {low:.0%} to {high:.0%}"
        lines = [
            *_answer_lines("removals", found.audit),
            ("wrong", f"{found.wrong_share:.1%} of the judged tags, {between}"),
            ("threshold", f"{found.threshold:.3g}"),
        ]
    if found.missing.audit is not None:
        lines += _answer_lines("suggestions", found.missing.audit)
    return lines


def _answer_lines(about: str, audit: Audit) -> list[tuple[str, str]]:
    certificate = audit.certificate
    untold = f", {audit.n_untold:,} without an answer" if audit.n_untold else ""
    lines = [("answers", f"{audit.n_answers:,}{untold}"), ("certificate", str(certificate))]
    more, wanted = certificate.more_answers_needed, f"{certificate.precision:.0%}"
    if not certificate.n_answers:
        lines[-1] = ("certificate", f"none: no answer is about one of the {about}")
    elif more is None:
        lines.append(("to certify", f"{wanted} cannot be reached at this rate"))
    elif more:
        lines.append(("to certify", f"{wanted}, about {more:,} more answers"))
    return lines


def _certificate_path(args: argparse.Namespace) -> str | None:
    """File of the certificate: beside the copy, or else beside the report."""
    beside = args.output or args.report
    return f"{beside.rstrip('/')}.certificate.json" if beside else None


def _certificates(
    args: argparse.Namespace, found: NoisyLabels
) -> dict[str, tuple[str | None, Certificate]]:
    """Path and content of each certificate, by what it is called."""
    path = _certificate_path(args)
    of_suggestions = path and path.replace(".certificate.json", ".suggestions.certificate.json")
    both = {
        "certificate": (path, found.certificate),
        "certificate_of_suggestions": (of_suggestions, found.missing.certificate),
    }
    return {name: (path, made) for name, (path, made) in both.items() if made is not None}


def _share_words(rate: float | None, largest: float | None) -> str:
    if rate is None:
        return "unknown"
    most = "" if largest is None else f", at most {largest:.1%}"
    return f"{rate:.1%} of the judged tags{most}"


def _check_paths(args: argparse.Namespace) -> None:
    """Raise InputError for outputs that cannot be written or would replace the input."""
    source = Path(args.data)
    if args.suggest and not args.output:
        raise InputError("--suggest writes columns into the copy; give its path with --output")
    if args.add is not None and not (args.output or args.changes):
        raise InputError("--add changes the copy; give its path with --output, or list the changes")
    outputs = {"copy": args.output, "report": args.report, "project": args.project}
    outputs |= {"changes": args.changes, "sample": args.audit_sample}
    outputs |= {"proposed merges": args.propose_merges, "summary": args.summary}
    outputs = {name: path for name, path in outputs.items() if path}
    taken: dict[str, str] = {}
    for name, path in outputs.items():
        read = (args.data, args.features, args.merge, args.expect, *args.audit)
        check_not_input(path, *filter(None, read))
        if source.is_dir() and source.resolve() in Path(path).resolve().parents:
            raise InputError(f"{path}: is inside the input folder; choose another path")
        other = taken.setdefault(os.path.realpath(path), name)
        if other != name:
            raise InputError(f"{path}: is given for both the {other} and the {name}")
    if args.to is not None:
        if not args.output or not args.output.endswith(".json"):
            raise InputError("--to writes the output as JSON; give a name in .json with --output")
        check_writable(args.output)
    elif args.output:
        check_copy(args.data, args.output)
    names = {"list of changes": (args.changes, SUFFIXES), "sample": (args.audit_sample, (".csv",))}
    names["report"] = (args.report, (".html", ".htm"))
    for name, (path, suffixes) in names.items():
        if path and not path.lower().endswith(suffixes):
            raise InputError(f"{path}: the name of the {name} must end in {' or '.join(suffixes)}")
    files = (args.changes, args.audit_sample, args.report, args.propose_merges, args.summary)
    for path in filter(None, files):
        check_writable(path)
    if args.report:
        optional("jinja2", "cli", "Writing the report")
    if args.last and not args.expect:
        raise InputError("--last is compared by the expectations of --expect; give them too")
    if args.project:
        check_new_folder(args.project)
    stage("writing the results")
    for path in args.audit:
        if not Path(path).exists():
            raise InputError(
                f"{path}: there is no such file; draw the tags to check with --audit-sample {path}"
            )
    if args.audit and _certificate_path(args):
        check_writable(str(_certificate_path(args)))


def _check_scheduler(args: argparse.Namespace) -> None:
    """Raise InputError for what the workers of a Dask cluster cannot do."""
    folder = Path(args.data)
    if not folder.is_dir() or folder_format(folder) != ".parquet":
        raise InputError(
            f"{args.data}: with --scheduler, the table is a folder of .parquet files that this "
            f"program and all workers see under the same path"
        )
    given = {"--text": args.text, "--encoder": args.encoder}
    given["an .npy file"] = (args.features or "").endswith(".npy")
    for name, value in given.items():
        if value:
            raise InputError(
                f"{name} cannot be used with --scheduler: the workers read numbers from the "
                f"folder; encode texts first, and name their column of embeddings with --features"
            )
    if not (args.features or args.columns):
        raise InputError(
            "with --scheduler, name a column of embeddings with --features, or columns of numbers "
            "with --columns"
        )
    if (args.output or "").endswith(".parquet"):
        raise InputError(
            f"{args.output}: with --scheduler, the copy is a folder, written file by file; "
            f"choose a name without .parquet"
        )
    others = {"--project": args.project, "--device": args.device, "--checkpoint": args.checkpoint}
    others |= {"--folds": args.folds, "--group": args.group, "--known-clean": args.known_clean}
    for name, value in others.items():
        if value is not None:
            raise InputError(
                f"{name} needs the features in this program, but with --scheduler they stay with "
                f"the workers; leave out one of them"
            )
