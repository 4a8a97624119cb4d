"""`schirn clean`: rank the tags of a table, ask about some, remove what answers or orders allow."""

import argparse
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from schirn._checkpoint import kept_in
from schirn._files import atomic_write, brief, brief_list, check_new_folder, check_writable
from schirn._input import repeated
from schirn._optional import optional
from schirn._progress import stage
from schirn.cleaning import (
    Carried,
    Certificate,
    ChangeList,
    Expectations,
    Finding,
    NoisyLabels,
    Reasons,
    Violation,
    find_noisy_labels,
    look_at_table,
    read_merges,
    write_merges,
)
from schirn.cleaning.answers import answered_tags, read_answers, write_questions
from schirn.cleaning.centroid_ranker import CENTROIDS
from schirn.cleaning.certificate import ADDED, REMOVED
from schirn.cleaning.columns import Features, TagTable, columns_to_stream
from schirn.cleaning.decisions import ask_again
from schirn.cleaning.noisy_labels import NOT_CHECKED, PRECISION
from schirn.cleaning.questions import LISTED, MISSING, ORDERS
from schirn.cleaning.ranker import MIN_COUNT
from schirn.cli.device import DEVICE, to_device
from schirn.cli.fit import make_model
from schirn.cli.output import facts, note, print_json, say, table, working
from schirn.cli.parser import CHECKPOINT
from schirn.cli.reading import (
    COLUMNS,
    DECISIONS,
    GROUP,
    METHOD,
    check_copy,
    check_new_columns,
    check_outputs,
    describe_decisions,
    open_decisions,
    tag_roles,
)
from schirn.exceptions import InputError
from schirn.report import CleanReport
from schirn.review.project import write_project
from schirn.review.table import TableRoles
from schirn.scale.cluster import connected
from schirn.scale.input import location
from schirn.scale.memory import memory_limit
from schirn.scale.row_file import RowFile
from schirn.tables.annotations import LABEL_STUDIO
from schirn.tables.checks import KINDS
from schirn.tables.files import folder_format, open_table, write_copy

DESCRIPTION = (
    "Rank every tag of a table by comparing its row with similar rows. Nothing is "
    "removed until you answer some questions, or order it. TABLE is a .csv, .tsv, .jsonl, "
    ".json, .xlsx, .parquet or .feather file, or a folder of .parquet or .jsonl files; it is "
    "never changed. The copy keeps all rows, their order and all other cells, and gets two new "
    "columns: the removed tags, and the probability that each tag is correct."
)
EXAMPLES = """
schirn clean items.csv --labels tags --text description
schirn clean items.csv --text description --questions q1.csv
schirn clean items.csv --text description --answers q1.csv --questions q2.csv
schirn clean items.csv --text description --answers q1.csv --answers q2.csv -o cleaned.csv
schirn clean items.csv --text title --columns price --categories brand --report report.html
schirn clean items.csv --text description --remove 200 -o cleaned.csv
schirn clean items.csv --text description --suggest --questions missing.csv
schirn clean photos.parquet --features embeddings.npy --report report.html
schirn clean items.jsonl --text caption --project to-review
schirn clean items.csv --text description --answers q1.csv --changes changes.csv
schirn clean export.json --text text --remove-below 0.2 --to label-studio -o tasks.json
schirn clean items.csv --text description --propose-merges merges.csv
schirn clean items.csv --text description --merge merges.csv -o cleaned.csv
schirn clean items.csv --text description --strict --expect expect.toml
schirn clean parquet-folder --features embedding --scheduler tcp://127.0.0.1:8786 -o cleaned
"""
OPTIONS = f"""
data TABLE  table to clean
-o, --output FILE  write the cleaned copy, in the format of its name
--to {LABEL_STUDIO}  write the output for Label Studio, as .json: the annotations stay, and the
    clean tags are predictions
--changes FILE  write a .csv or .jsonl list of all changes to check first, for schirn apply and undo
--report FILE  write an HTML report (.html)
--project DIR  write a new project folder for schirn review
{COLUMNS}
--id COLUMN  column of row names (default: 1, 2, ...)
{GROUP}
--known-clean COLUMN  1 for rows whose tags were checked: these tags are kept, and Sieve (no other
    method) learns from them
[ask]
--questions FILE  write tags to check to a .csv file; fill in its column 'right' with yes, no or ?
--number N:positive = 25  number of questions
--order {"|".join(ORDERS)}  which tags to ask about (default: along all ranks, then around the limit
    of the removals)
--answers FILE...  files of questions that were answered; all answers add up
{DECISIONS.strip()}; needs --id
--name NAME  who answered, for the decisions
--certify  ask about tags drawn from those to remove (with --suggest, to add), for a certificate
--suggest  ask about missing tags instead, and show likely swaps of a listed and a missing tag; with
    --output, write columns of tags that may be missing
[act]
--precision P:share = {PRECISION:g}  remove tags only as long as a share P of the removals should be
    right, by the answers
--remove N:natural  remove the N most suspicious tags, {NOT_CHECKED}
--remove-below P:share  remove tags whose probability is below P, {NOT_CHECKED}
--add P:share  add missing tags whose probability is at least P, {NOT_CHECKED}
--allow-empty  let a row lose all its tags instead of keeping the most likely one
[how to rank]
{METHOD}
--min-count N:positive = {MIN_COUNT}  keep tags that occur in fewer than N rows
--max-memory GB:gigabytes  keep features that need more than half of this, and what is computed of
    them if that needs more, in temporary files (default: the free memory)
--folds N:positive  rank in N folds (default: one fit for Sieve, 5 folds for other methods)
--seed S:natural = 0  seed of the folds and the questions
{CHECKPOINT}
[check the table itself]
--propose-merges FILE  write tags that look like other spellings of a tag to a .csv file, to edit
    and pass to --merge
--strict  stop with exit code 4, before any tag is ranked, if there is a finding that --expect does
    not allow
--expect FILE  a .toml or .json file of expectations; exit code 4 if one is not met
{DEVICE}
--scheduler ADDRESS  rank on a Dask cluster, such as tcp://127.0.0.1:8786; its workers read the
    columns of numbers from TABLE, a folder of .parquet files, or get the texts of --text
"""
# The exit code for a table that --strict or --expect does not accept.
UNEXPECTED = 4
_MANY = "each is ranked by the mean of the rows that list it, since Sieve is for fewer tags"
_MAX_SUSPECTS, _MAX_LABELS, _MAX_EXAMPLES = 8, 8, 3
_MAX_TEXT, _MAX_CELL, _MAX_TAG = 2000, 48, 24
_FIFTY = "fifty answers take about five minutes"


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
    """Read the table, rank its tags and write what was asked for."""
    expected = _expectations(args)
    start = time.perf_counter()
    source = open_source(args)
    if args.output:
        names = source.new_columns(args.suggest, add=True, note=True)
        check_new_columns(args.data, source.table, names)
    if not source.table.n_rows:
        return _clean_nothing(args, source)
    tags, features, model = read_source(args, source)
    findings = _look(args, source, features, tags)
    if args.propose_merges:
        write_merges([m for finding in findings for m in finding.merges], args.propose_merges)
    if args.strict and (violations := expected.check_findings(findings)):
        return _refuse(args, findings, violations)
    ranking = rank(args, source, features, tags, model)
    stage("writing the results")
    certificate = None
    if args.remove is not None or args.remove_below is not None:
        ranking = ranking.remove(args.remove, below=args.remove_below)
    if args.add is not None:
        ranking = ranking.add(above=args.add)
    store, rows = open_decisions(args, source)
    carried = Carried({}, {}, 0)
    if store is not None and rows is not None:
        newer = answered_tags(args.answers, ranking)
        ranking, carried = store.answer(ranking, rows, besides=newer)
    if args.answers:
        ranking, certificate = read_answers(args.answers, ranking, draw_again=args.certify)
    if store is not None and rows is not None:
        store.save(ranking, rows, args.name or "")
    if args.output:
        if args.to is None:
            source.write_clean(args.output, ranking, suggest=args.suggest)
        else:
            _write_verdicts(args, source, ranking)
    if args.changes:
        changes = source.changes(ranking)
        changes.keyed(source.table, _id_column(args, source)).write(args.changes)
    reasons = _reasons(args, ranking, features)
    if args.report or args.project or args.questions:
        pages = (findings, reasons, certificate, carried)
        _write_pages(args, source, ranking, features, *pages)
    path = _certificate_path(args)
    if certificate is not None and certificate.certified and path is not None:
        certificate.to_json(path)
    violations = expected.check(ranking, findings)
    seconds = time.perf_counter() - start
    about = describe_decisions(store, carried) if store is not None else ""
    checks = (findings, violations, reasons, certificate)
    run = _Run(args, source, ranking, features, *checks, seconds, about)
    run.print()
    return UNEXPECTED if violations else 0


def _clean_nothing(args: argparse.Namespace, source: TagTable) -> int:
    """Write the copy and the changes of a table without rows."""
    if args.output and args.to is None:
        names = source.new_columns(args.suggest)
        write_copy(args.output, source.table, {}, {name: [] for name in names})
    if args.changes:
        ChangeList(column=source.labels, separator=source.separator).write(args.changes)
    written = {"output": None if args.to else args.output, "changes": args.changes}
    if args.json:
        print_json({"data": args.data, "rows": 0, "tags": 0, "removed": 0, **written})
    note(f"{args.data}: the table has no rows, so there is nothing to judge")
    for name, path in written.items():
        if path:
            note(f"wrote the {name} to {path}")
    return 0


def _id_column(args: argparse.Namespace, source: TagTable) -> str | None:
    """The column of ids, unless an id occurs more than once."""
    if args.id is None or (name := repeated(source.ids())) is None:
        return args.id
    note(f"note: the id {name!r} occurs more than once, so --changes tells rows by their cells")
    return None


def open_source(args: argparse.Namespace) -> TagTable:
    """Open the table of the arguments."""
    stage("reading the table")
    opened = open_table(
        args.data,
        encoding=args.encoding,
        delimiter=args.delimiter,
        unread=_unread(args),
        empty=True,
    )
    roles = tag_roles(args)
    return TagTable(opened, args.data, **roles, id=args.id, known_clean=args.known_clean)


def read_source(
    args: argparse.Namespace, source: TagTable
) -> tuple[list[list[str]], Features, Any]:
    """Return tags and features of a table, and the method that ranks them."""
    tags = source.tags()
    stage("making features")
    features = source.features("files" if args.scheduler is None else "dask")
    for sentence in features.notes(source.table):
        note(f"note: {sentence}")
    return tags, features, make_model(args.method, args.param, scaled=features.is_scaled)


def rank(
    args: argparse.Namespace,
    source: TagTable,
    features: Features,
    tags: list[list[str]],
    model: Any,
) -> NoisyLabels:
    """Rank the tags; the library chooses the method unless an option asks for one."""
    is_chosen = args.method != "Sieve" or args.param or args.folds or args.device
    is_chosen = is_chosen or (args.scheduler and not args.text)
    return find_noisy_labels(
        to_device(features.X, args, model),
        tags,
        method=model if is_chosen else None,
        cv=None if args.folds is None else min(args.folds, source.table.n_rows),
        precision=args.precision,
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
    if (args.text or args.categories) and args.scheduler is None:
        return []
    names = list(args.columns or ())
    if args.features:
        names = [args.features]
    if args.scheduler is not None:
        return names
    columns = columns_to_stream(args.data, names)
    if not columns and args.features and "," in args.features:
        columns = columns_to_stream(args.data, [name.strip() for name in args.features.split(",")])
    return columns


def _expectations(args: argparse.Namespace) -> Expectations:
    """What the table must meet."""
    expected = Expectations.read(args.expect) if args.expect else Expectations()
    if args.strict:
        none_allowed = dict.fromkeys(KINDS, 0)
        expected = replace(expected, findings={**none_allowed, **expected.findings})
    return expected


def _look(
    args: argparse.Namespace, source: TagTable, features: Features, tags: list[list[str]]
) -> list[Finding]:
    """Look at the table before it is ranked."""
    stage("looking at the table")
    X = features.X if args.scheduler is None else None
    texts = features.texts(source.table)
    return look_at_table(tags, texts=texts, X=X, separator=source.separator)


def _refuse(args: argparse.Namespace, findings: list[Finding], violations: list[Violation]) -> int:
    """Print why the table is not ranked."""
    if args.json:
        print_json({"data": args.data, **_checks(findings, violations)})
    for violation in violations:
        note(str(violation), error=True)
    note("no tag was ranked, because of --strict", error=True)
    if args.propose_merges:
        note(f"wrote the proposed merges to {args.propose_merges}")
    return UNEXPECTED


def _checks(findings: list[Finding], violations: list[Violation]) -> dict[str, Any]:
    return {
        "findings": [item.to_dict() for item in findings],
        "violations": [item._asdict() for item in violations],
    }


def _write_verdicts(args: argparse.Namespace, source: TagTable, ranking: NoisyLabels) -> None:
    """Write the clean tags for Label Studio, and the interface of a new project."""
    config = source.write_verdicts(args.output, ranking, suggest=args.suggest)
    path = f"{args.output.removesuffix('.json')}.config.xml"
    if config is not None:
        with atomic_write(path) as stream:
            stream.write(config.encode("utf-8", "replace"))
        note(f"wrote the labelling interface to {path}")


def _reasons(args: argparse.Namespace, ranking: NoisyLabels, features: Features) -> Reasons | None:
    """What explains the tags shown; None if none is, or if the features are elsewhere."""
    is_shown = args.report or not (args.json or args.answers or args.output or args.questions)
    if args.scheduler is not None or not is_shown or not ranking.judged.any():
        return None
    stage("explaining the ranks")
    names = features.feature_names
    return ranking.reasons(features.X, feature_names=names, scaled=features.is_scaled)


def _write_pages(
    args: argparse.Namespace,
    source: TagTable,
    ranking: NoisyLabels,
    features: Features,
    findings: list[Finding],
    reasons: Reasons | None,
    certificate: Certificate | None,
    carried: Carried,
) -> None:
    """Write the report, the project folder and the questions."""
    texts, ids = rows = shown_rows(source)
    if args.project:
        make_project(args, args.project, source, ranking, features, rows)
    if args.questions:
        names = {"texts": texts if any(texts) else None, "ids": ids if args.id else None}
        _write_questions(args, ranking, certificate, names, carried)
    if args.report:
        page = CleanReport(
            ranking,
            texts=texts,
            ids=ids,
            images=source.images(),
            title=Path(args.data).name,
            findings=findings,
            reasons=reasons,
            commands=_next_commands(args),
        ).html()
        with atomic_write(args.report) as stream:
            stream.write(page.encode("utf-8", "replace"))


def shown_rows(source: TagTable) -> tuple[list[str], list[str]]:
    """Return the text and the name of each row; rows are numbered if a name occurs twice."""
    texts = [t if len(t) <= _MAX_TEXT else t[:_MAX_TEXT] + " …" for t in source.texts()]
    ids = source.ids()
    name = repeated(ids)
    if name is not None:
        note(f"note: the id {name!r} occurs more than once; rows are numbered from 1 instead")
        ids = [str(i + 1) for i in range(len(ids))]
    return texts, ids


def make_project(
    args: argparse.Namespace,
    folder: str,
    source: TagTable,
    ranking: NoisyLabels,
    features: Features,
    rows: tuple[list[str], list[str]],
) -> None:
    """Write a project folder for `schirn review`."""
    texts, ids = rows
    write_project(
        folder,
        ranking,
        features.X.mapped() if isinstance(features.X, RowFile) else features.X,
        ids=ids,
        texts=texts,
        table=source.table,
        source=args.data,
        roles=TableRoles(
            source.labels,
            source.separator,
            text=tuple(args.text or ()),
            image=args.image,
            image_root=args.image_root,
            merge=read_merges(args.merge) if args.merge else None,
            id=args.id if ids == source.ids() else None,
            content=tuple(source.content_columns()),
        ),
        feature_names=features.feature_names,
        scaled=features.is_scaled,
        command=ranking_options(args),
    )


def _write_questions(
    args: argparse.Namespace,
    ranking: NoisyLabels,
    certificate: Certificate | None,
    shown: dict[str, Any],
    carried: Carried,
) -> None:
    """Write the next questions; those about rows that have changed come first."""
    kind = MISSING if args.suggest else LISTED
    if not args.certify:
        options: Any = {"kind": kind, "order": args.order, "random_state": args.seed}
        questions, certificate = ranking.questions(args.number, **options), None
        shown = shown | {"earlier": carried.changed}
        questions = ask_again(ranking, carried, questions, args.number)
    else:
        if certificate is None:
            certificate = ranking.certify(of=ADDED if args.suggest else REMOVED)
        questions = certificate.questions(args.number)
        if not certificate.n_tags:
            raise InputError(
                f"no tag is to be {'added' if args.suggest else 'removed'}, so there is nothing to "
                f"certify; answer more questions first"
            )
    if not len(questions):
        raise InputError(f"there is no {kind} tag left to ask about")
    write_questions(args.questions, questions, ranking, certificate=certificate, **shown)


class _Run(NamedTuple):
    """What was done, for the summary at the end."""

    args: argparse.Namespace
    source: TagTable
    ranking: NoisyLabels
    features: Features
    findings: list[Finding]
    violations: list[Violation]
    reasons: Reasons | None
    certificate: Certificate | None
    seconds: float
    decisions: str

    def print(self) -> None:
        """Print the summary, or one JSON document."""
        args, ranking = self.args, self.ranking
        if args.json:
            print_json(self._document())
        else:
            facts(self._facts())
            if not args.questions:
                self._print_suspects()
            if args.suggest:
                self._print_swaps()
            if self.findings:
                say("\nLook at the table")
                facts([(item.title, item.sentence) for item in self.findings])
            labels = [label for label in ranking.labels() if label.removed][:_MAX_LABELS]
            if labels:
                say(f"\nTags removed most often{self._unchecked}")
                columns = ((item.name[:40], item.candidates, item.removed) for item in labels)
                lines = [(name, f"{n_listed:,}", f"{gone:,}") for name, n_listed, gone in columns]
                table(("tag", "listed", "removed"), lines, right="lrr")
            self._print_next()
        for item in self.violations:
            note(str(item), error=True)
        if self.violations:
            count = len(self.violations)
            met = "1 expectation is" if count == 1 else f"{count} expectations are"
            note(f"{met} not met")

    @property
    def _unchecked(self) -> str:
        return "" if self.ranking.is_checked else f", {NOT_CHECKED}"

    @property
    def _is_certified(self) -> bool:
        return self.certificate is not None and self.certificate.certified

    @property
    def _written(self) -> dict[str, str | None]:
        args = self.args
        names = ("output", "changes", "report", "project", "questions", "propose_merges")
        written = {name: getattr(args, name) for name in names}
        written["proposed_merges"] = written.pop("propose_merges")
        written["certificate"] = _certificate_path(args) if self._is_certified else None
        return written

    def _document(self) -> dict[str, Any]:
        ranking, features = self.ranking, self.features
        return {
            "data": self.args.data,
            "learned_from": features.source,
            "left_out": features.left_out,
            "encoder": features.encoder,
            "in_files": location(features.X) == "files",
            "storage": ranking.storage and ranking.storage.name,
            "storage_reason": ranking.storage and ranking.storage.reason,
            **ranking.summary(),
            "sentence": ranking.sentence,
            "decisions": self.decisions or None,
            "seconds": round(self.seconds, 2),
            "suspects": list(ranking.suspects(_MAX_SUSPECTS).records()),
            "swaps": list(ranking.swaps(_MAX_SUSPECTS).records()),
            "certified": self.certificate is not None and self.certificate.to_dict(),
            "label_summaries": [label.to_dict() for label in ranking.labels()],
            **_checks(self.findings, self.violations),
            **self._written,
        }

    def _facts(self) -> list[tuple[str, str]]:
        args, ranking, features = self.args, self.ranking, self.features
        storage: Any = ranking.storage
        summary, names = ranking.summary(), ranking.label_names
        examples = ", ".join(brief(name, 30) for name in names[:_MAX_EXAMPLES])
        lines = [
            ("table", f"{args.data}, {_number(ranking.n_rows, 'row')}"),
            ("learned from", f"{features.source} ({ranking.method}, {self.seconds:.1f} s)"),
            *[("memory", storage.reason)] * bool(storage and storage.is_short_of_memory),
            *[("left out", brief_list(features.left_out, 6))] * bool(features.left_out),
            ("tags", f"{len(ranking.row):,} ({len(names):,} distinct, such as {examples})"),
            *[("many tags", _MANY)] * (ranking.method == CENTROIDS),
        ]
        if summary["unjudged"]:
            rare = f"{_number(summary['unjudged'], 'tag')}, too rare or present in every row"
            lines.append(("not ranked", rare))
        caught = summary["planted_among_suspects"]
        if caught is not None and not ranking.n_answers:
            lines.append(
                (
                    "ranking",
                    f"of 100 random wrong tags, {100 * caught:.0f} would be among the most "
                    f"suspicious tenth",
                )
            )
        if self.decisions:
            lines.append(("decisions", self.decisions))
        lines.append(("wrong tags", ranking.sentence))
        share = f"{summary['removed_share']:.1%} of the tags"
        lines.append(("removed", f"{summary['removed']:,} ({share}){self._unchecked}"))
        by_limit = ranking.removed & (ranking.confidence > 0)
        if ranking.n_answers and ranking.is_checked and not by_limit.any():
            why = f"the answers allow no others at a precision of {ranking.precision:.0%}"
            lines.append(("no others", f"{why}; answer more, or lower --precision"))
        if summary["added"]:
            lines.append(("added", f"{_number(summary['added'], 'tag')}{self._unchecked}"))
        if summary["rows_left_without_tags"]:
            lines.append(("left without tags", _number(summary["rows_left_without_tags"], "row")))
        if self.certificate is not None:
            lines.append(("certificate", f"{self.certificate}{self._more_answers}"))
        return lines

    @property
    def _more_answers(self) -> str:
        certificate: Any = self.certificate
        if certificate.certified:
            return ""
        n_answers, least = certificate.more_answers, f"{certificate.precision_at_least:.0%}"
        distance = "is probably out of reach"
        if n_answers is not None:
            distance = f"will probably take {_number(n_answers, 'more answer')}"
        return f"; at least {least} so far, and {certificate.target:.0%} {distance}"

    def _print_suspects(self) -> None:
        """Print the most suspicious tags, if nothing was decided yet."""
        if self.reasons is None or self.ranking.n_answers or not self.ranking.is_checked:
            return
        suspects, texts = self.ranking.suspects(_MAX_SUSPECTS), self.source.texts()
        cells = list(zip(suspects.row.tolist(), suspects.label.tolist(), strict=True))
        lines = []
        for (row, label), why in zip(cells, self.reasons.explain_all(cells), strict=True):
            reason = f"{why.near} of {why.n_near} similar rows have it, {why.usual:.0%} of all"
            lines.append((row + 1, _short(texts[row], _MAX_CELL), _short(label, _MAX_TAG), reason))
        if lines:
            say("\nMost suspicious")
            table(("row", "text", "tag", "why"), lines, right="r")

    def _print_swaps(self) -> None:
        """Print the surest swaps of a listed and a missing tag."""
        swaps, texts = self.ranking.swaps(), self.source.texts()
        lines = [
            (
                swap["row"] + 1,
                _short(texts[swap["row"]], _MAX_CELL),
                f"{_short(swap['wrong'], _MAX_TAG)} → {_short(swap['right'], _MAX_TAG)}",
            )
            for swap in list(swaps.records())[:_MAX_SUSPECTS]
        ]
        if lines:
            say(f"\nLikely swaps, {NOT_CHECKED}: the surest {len(lines)} of {len(swaps):,}")
            table(("row", "text", "swap"), lines, right="r")

    def _print_next(self) -> None:
        args, ranking = self.args, self.ranking
        for name, path in self._written.items():
            if path:
                note(f"wrote the {name.replace('_', ' ')} to {path}")
        if args.changes and not args.output:
            words = map(shlex.quote, (args.changes, args.data))
            note(f"to make the changes: schirn apply {' '.join(words)} --output FILE")
        stale = _certificate_path(args)
        if stale is not None and not self._is_certified and Path(stale).exists():
            note(f"{stale} is from an earlier run; these removals are not certified")
        command = shlex.join(["schirn", *same_command(args)])
        if args.questions:
            answered = f"{command} --answers {shlex.quote(args.questions)}"
            note(
                f"in {args.questions}, write yes or no into the column 'right', ? if you cannot "
                f"tell; then run: {answered}"
            )
        elif args.project:
            note(f"to answer questions on a page: schirn review {shlex.quote(args.project)}")
        elif ranking.judged.any() and not ranking.n_answers:
            commands = "".join(f"\n  {step}" for step in _next_commands(args))
            say(f"\nNext, ask, on a page or in a file: {_FIFTY}.{commands}")
        elif ranking.n_answers and not args.output:
            steps = [f"{command} --questions q{len(args.answers) + 1}.csv"]
            if ranking.removed.any():
                steps = [f"{command} -o cleaned.csv", *steps]
            say("\nNext, write the copy, or ask more:" + "".join(f"\n  {step}" for step in steps))
        spelled = any(step.kind == "spelling" for step in self.findings)
        if spelled and not args.propose_merges:
            note(
                "to merge spellings, write them to a list with --propose-merges FILE, delete the "
                "lines that are wrong, and run again with --merge FILE"
            )


def _next_commands(args: argparse.Namespace) -> list[str]:
    """Commands that ask about the tags, on the page and in a file."""
    words = same_command(args)
    questions = f"{shlex.join(['schirn', *words])} --questions q{len(args.answers) + 1}.csv"
    orders = (args.folds, args.remove, args.remove_below, args.add)
    only_clean = args.method != "Sieve" or args.param or args.min_count != MIN_COUNT or args.seed
    if only_clean or args.answers or args.allow_empty or any(value is not None for value in orders):
        project = f"{shlex.join(['schirn', *words])} --project to-review"
        return [f"{project} && schirn review to-review", questions]
    return [shlex.join(["schirn", "review", *words[1:]]).removesuffix(" --suggest"), questions]


def ranking_options(args: argparse.Namespace) -> list[str]:
    """Return the options that decide about the ranks, wherever the image files are."""
    elsewhere = {"image_root": None, "decisions": None}
    return same_command(argparse.Namespace(**{**vars(args), **elsewhere}))[2:]


def same_command(args: argparse.Namespace) -> list[str]:
    """Return the words of the command that decide how the table is read and ranked."""
    words = ["clean", args.data]
    names = (
        *("labels", "separator", "features", "id", "group", "image", "image_root", "encoder"),
        *("encoding", "delimiter", "merge", "known_clean", "folds"),
        *("remove", "remove_below", "add", "precision", "min_count", "seed"),
    )
    usual = {"encoding": "utf-8", "precision": PRECISION, "min_count": MIN_COUNT, "seed": 0}
    for name in names:
        value = getattr(args, name)
        if value is not None and value != usual.get(name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    if args.decisions is not None:
        words += ["--decisions", args.decisions]
    for name in ("text", "columns", "categories"):
        if getattr(args, name):
            words += [f"--{name}", ",".join(getattr(args, name))]
    if args.method != "Sieve":
        words += ["--method", args.method]
    for name, value in args.param:
        words += ["--param", f"{name}={value}"]
    for path in args.answers:
        words += ["--answers", path]
    return words + ["--suggest"] * args.suggest + ["--allow-empty"] * args.allow_empty


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _number(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _certificate_path(args: argparse.Namespace) -> str | None:
    """File of the certificate: beside the copy, or else beside the report."""
    output = args.output or args.report
    return f"{output.rstrip('/')}.certificate.json" if output else None


def _check_paths(args: argparse.Namespace) -> None:
    """Raise InputError for outputs that cannot be written or would replace the input."""
    source = Path(args.data)
    if args.suggest and not (args.output or args.questions or args.answers):
        raise InputError("--suggest needs --questions to ask, or --output to write columns")
    if args.certify and not args.questions:
        raise InputError("--certify chooses the questions; give their file with --questions")
    if args.remove is not None and args.remove_below is not None:
        raise InputError("give only one of --remove and --remove-below")
    if not args.precision:
        raise InputError("--precision must be above 0; to remove by order, use --remove")
    if args.add is not None and not (args.output or args.changes):
        raise InputError("--add changes the copy; give its path with --output, or list the changes")
    outputs = {"copy": args.output, "report": args.report, "project": args.project}
    outputs |= {"list of changes": args.changes, "questions": args.questions}
    outputs |= {"proposed merges": args.propose_merges}
    for path in filter(None, outputs.values()):
        if source.is_dir() and source.resolve() in Path(path).resolve().parents:
            raise InputError(f"{path}: is inside the input folder; choose another path")
    inputs = (args.data, args.features, args.merge, args.expect, args.decisions, *args.answers)
    check_outputs(outputs, inputs)
    if args.to is not None:
        if not args.output or not args.output.endswith(".json"):
            raise InputError("--to writes the output as JSON; give a name in .json with --output")
        check_writable(args.output)
    elif args.output:
        check_copy(args.data, args.output)
    if args.report:
        optional("jinja2", "cli", "Writing the report")
    if args.project:
        check_new_folder(args.project)
    stage("writing the results")
    for path in args.answers:
        if not Path(path).exists():
            raise InputError(
                f"{path}: there is no such file; give each file of answers with its own --answers, "
                f"and write questions with --questions FILE"
            )
    if args.answers and _certificate_path(args):
        check_writable(str(_certificate_path(args)))


def _check_scheduler(args: argparse.Namespace) -> None:
    """Raise InputError for what the workers of a Dask cluster cannot do."""
    folder = Path(args.data)
    is_folder = folder.is_dir() and folder_format(folder) == ".parquet"
    if not args.text and not is_folder:
        raise InputError(
            f"{args.data}: with --scheduler, the table is a folder of .parquet files that this "
            f"program and all workers see under the same path"
        )
    options = {"--categories": args.categories, "--encoder": args.encoder}
    options["an .npy file"] = (args.features or "").endswith(".npy")
    for name, value in options.items():
        if value:
            raise InputError(
                f"{name} cannot be used with --scheduler: the workers take texts, or numbers that "
                f"they read from the folder; name a column of embeddings with --features"
            )
    kinds = [bool(args.text), bool(args.features or args.columns)]
    if sum(kinds) != 1:
        raise InputError(
            "with --scheduler, name columns of text with --text, a column of embeddings with "
            "--features, or columns of numbers with --columns: one of them"
        )
    if not args.text and (args.output or "").endswith(".parquet"):
        raise InputError(
            f"{args.output}: with --scheduler, the copy is a folder, written file by file; "
            f"choose a name without .parquet"
        )
    needs = {"--project": args.project, "--device": args.device, "--checkpoint": args.checkpoint}
    needs |= {"--folds": args.folds, "--group": args.group, "--known-clean": args.known_clean}
    for name, value in needs.items():
        if value is not None:
            raise InputError(
                f"{name} needs the features in this program, but with --scheduler they stay with "
                f"the workers; leave out one of them"
            )
