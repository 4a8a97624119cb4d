"""`schirn clean`: rank the tags of a table, ask about some, remove what answers or orders allow."""

import argparse
import shlex
import time
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from schirn._checkpoint import kept_in
from schirn._files import brief, brief_list, check_writable, shortened, write_text
from schirn._input import location, repeated
from schirn._optional import optional
from schirn._progress import stage
from schirn.app.cli._device import DEVICE, to_device
from schirn.app.cli._fit import make_model
from schirn.app.cli._reading import (
    ASK,
    COLUMNS,
    COPIES,
    DECISIONS,
    PARAMETERS,
    REMOVALS,
    ROWS,
    check_new_columns,
    check_outputs,
    describe_decisions,
    no_others,
    open_decisions,
    read_before_writing,
    tag_roles,
    withhold,
)
from schirn.app.report import CleanReport
from schirn.app.tables import (
    KINDS,
    Expectations,
    Finding,
    Violation,
    keyed_changes,
    look_at_table,
    open_table,
    write_merges,
)
from schirn.app.workflow import (
    Carried,
    Features,
    TagTable,
    answered_tags,
    ask_again,
    columns_to_stream,
    read_answers,
    write_questions,
)
from schirn.cleaning import Certificate, Reasons, find_noisy_labels
from schirn.cleaning.centroid_ranker import CENTROIDS
from schirn.cleaning.certificate import ADDED, REMOVED
from schirn.cleaning.noisy_labels import NOT_CHECKED
from schirn.cleaning.questions import LISTED, MISSING
from schirn.cleaning.ranker import MIN_COUNT
from schirn.exceptions import InputError
from schirn.program.output import facts, note, number, print_json, say, table, working
from schirn.program.parser import CHECKPOINT, Command, build_parser
from schirn.scale.cluster import connected
from schirn.scale.memory import memory_limit

OPTIONS = f"""
data TABLE  table to clean
{COPIES}
--report FILE  write an HTML report (.html)
{COLUMNS}
{ROWS}
[ask]
{ASK}
{DECISIONS}
--certify  ask about tags drawn from those to remove (with --suggest, to add), for a certificate
[act]
{REMOVALS}
--remove N:natural  remove the N most suspicious tags without answers (marked '{NOT_CHECKED}')
--remove-below P:share  remove tags whose probability is below P, without answers
--add P:share  add missing tags whose probability is at least P, without answers
--allow-empty  let a row lose all its tags instead of keeping the most likely one
[how to rank]
--method METHOD  method (default: Sieve; for texts and for very many tags, a faster ranker)
{PARAMETERS}
--min-count N:positive = {MIN_COUNT}  do not rank tags listed in fewer than N rows
--max-memory GB:gigabytes  memory to use; larger data are kept in temporary files (default: the free
    memory)
{CHECKPOINT}
[check the table itself]
--propose-merges FILE  write likely spelling variants of tags to a .csv file, to edit and pass to
    --merge
--strict  stop with exit code 4, before ranking, at any finding that --expect does not allow
--expect FILE  a .toml file of expectations; if one is not met, the exit code is 4 and only the
    report is written
{DEVICE}
--scheduler ADDRESS  rank on a Dask cluster, such as tcp://127.0.0.1:8786; its workers read
    numeric columns from TABLE, a folder of .parquet files, or receive the texts of --text
"""
# The exit code for a table that --strict or --expect does not accept.
UNEXPECTED = 4
_MANY = "too many for Sieve; each is ranked by the mean of the rows that list it"
_MAX_SUSPECTS, _MAX_EXAMPLES = 8, 3
_MAX_TEXT, _MAX_CELL, _MAX_TAG = 2000, 48, 24
_RANKING = (
    *("labels", "separator", "features", "id", "group", "image", "image_root", "encoder"),
    *("encoding", "delimiter", "merge", "known_clean", "remove"),
    *("remove_below", "add", "precision", "min_count", "seed", "decisions", "text", "columns"),
    *("categories", "method", "param", "answers", "suggest", "allow_empty"),
)


def run(args: argparse.Namespace) -> int:
    """Rank every tag of a table by comparing its row with similar rows.

    Nothing is removed until you answer questions, or request it with --remove. TABLE is a
    .csv, .tsv, .jsonl, .json, .xlsx or .parquet file, or a folder of .parquet files; it
    is never changed. The copy keeps all rows, their order and all other cells, and gets two new
    columns: the removed tags, and the probability that each tag is correct.

    Examples
    --------
    schirn clean items.csv --labels tags --text description
    schirn clean items.csv --text description --questions q1.csv
    schirn clean items.csv --text description --answers q1.csv --questions q2.csv
    schirn clean items.csv --text description --answers q1.csv --answers q2.csv -o cleaned.csv
    schirn clean items.csv --text description --remove 200 -o cleaned.csv
    schirn clean items.csv --text description --suggest --questions missing.csv
    schirn clean photos.parquet --features embeddings.npy --report report.html
    schirn clean items.csv --text description --answers q1.csv --changes changes.csv
    schirn clean items.csv --text description --propose-merges merges.csv
    schirn clean items.csv --text description --strict --expect expect.toml
    schirn clean parquet-folder --features embedding --scheduler tcp://host:8786 -o cleaned.parquet
    """
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
    run = Run.begin(args, source)
    run.look()
    if args.propose_merges:
        write_merges([m for finding in run.findings for m in finding.merges], args.propose_merges)
    if args.strict and (violations := expected.check_findings(run.findings)):
        run.violations = violations
        if args.json:
            print_json({"data": args.data, **run.checks()})
        run.print_violations()
        note("no tag was ranked because of --strict", error=True)
        return UNEXPECTED
    run.rank()
    stage("writing the results")
    run.act()
    run.violations = expected.check(run.ranking, run.findings)
    if run.violations:
        withhold(args)
    run.write()
    run.seconds = time.perf_counter() - start
    run.print()
    return UNEXPECTED if run.violations else 0


def open_source(args: argparse.Namespace) -> TagTable:
    """Open the table of the arguments."""
    stage("reading the table")
    reading = {"encoding": args.encoding, "delimiter": args.delimiter}
    opened = open_table(args.data, **reading, unread=_unread(args))
    return TagTable(opened, args.data, **tag_roles(args), id=args.id, known_clean=args.known_clean)


def _unread(args: argparse.Namespace) -> list[str]:
    """Columns of numbers that this program does not read into memory."""
    if (args.text or args.categories) and args.scheduler is None:
        return []
    names = [args.features] if args.features else list(args.columns or ())
    if args.scheduler is not None:
        return names
    several = [name.strip() for name in (args.features or "").split(",")]
    return columns_to_stream(args.data, names) or columns_to_stream(args.data, several)


def _expectations(args: argparse.Namespace) -> Expectations:
    """What the table must meet."""
    expected = Expectations.read(args.expect) if args.expect else Expectations()
    if args.strict:
        none_allowed = dict.fromkeys(KINDS, 0)
        expected = replace(expected, findings={**none_allowed, **expected.findings})
    return expected


@dataclass
class Run:
    """What is known about a table, step by step: features, findings, ranks, and what to print."""

    args: argparse.Namespace
    source: TagTable
    tags: list[list[str]]
    features: Features
    model: Any
    ranking: Any = None
    findings: list[Finding] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    reasons: Reasons | None = None
    certificate: Certificate | None = None
    carried: Carried = field(default_factory=lambda: Carried({}, {}, 0))
    decisions: str = ""
    seconds: float = 0.0

    @classmethod
    def begin(cls, args: argparse.Namespace, source: TagTable) -> "Run":
        """Read the tags and make the features of a table."""
        tags = source.tags()
        stage("making features")
        features = source.features("files" if args.scheduler is None else "dask")
        for sentence in features.notes(source.table):
            note(f"note: {sentence}")
        options = {"scaled": features.is_scaled, "sparse": sp.issparse(features.X)}
        model = make_model(args.method or "Sieve", args.param, **options)
        return cls(args, source, tags, features, model)

    def look(self) -> None:
        """Look at the table before it is ranked."""
        stage("checking the table")
        texts, separator = self.features.texts(self.source.table), self.source.separator
        self.findings = look_at_table(self.tags, texts=texts, separator=separator)

    def rank(self) -> None:
        """Rank the tags; the library chooses the method unless an option asks for one."""
        args, features = self.args, self.features
        is_chosen = args.method or args.param or args.device
        is_chosen = is_chosen or (args.scheduler and not args.text)
        self.ranking = find_noisy_labels(
            to_device(features.X, args),
            self.tags,
            method=self.model if is_chosen else None,
            precision=args.precision,
            keep_one=not args.allow_empty,
            known_clean=self.source.known_clean(),
            groups=features.groups,
            min_count=args.min_count,
            scaled=features.is_scaled,
            max_memory=args.max_memory,
            random_state=args.seed,
        )

    def act(self) -> None:
        """Remove and add what options order, and what answers and decisions say."""
        args = self.args
        if args.remove is not None or args.remove_below is not None:
            self.ranking = self.ranking.remove(args.remove, below=args.remove_below)
        if args.add is not None:
            self.ranking = self.ranking.add(above=args.add)
        store = open_decisions(args)
        if store is not None:
            rows = self.source.content()
            newer = answered_tags(args.answers, self.ranking, **self.bound_to)
            self.ranking, self.carried = store.answer(self.ranking, rows, besides=newer)
        if args.answers:
            self.ranking, self.certificate = read_answers(
                args.answers, self.ranking, **self.bound_to, draw_again=args.certify
            )
        if store is not None:
            store.save(self.ranking, rows, args.name or "")
            self.decisions = describe_decisions(store, self.carried)

    def write(self) -> None:
        """Write all files that options ask for, and the certificate."""
        args, source, ranking = self.args, self.source, self.ranking
        if args.output:
            source.write_clean(args.output, ranking, suggest=args.suggest)
        if args.changes:
            changes = source.changes(ranking)
            keyed_changes(changes, source.table, self.id_column).write(args.changes)
        is_shown = args.report or not (args.json or args.answers or args.output or args.questions)
        if args.scheduler is None and is_shown and ranking.judged.any():
            stage("explaining the ranks")
            names, scaled = self.features.feature_names, self.features.is_scaled
            self.reasons = ranking.reasons(self.features.X, feature_names=names, scaled=scaled)
        if args.questions:
            self._write_questions()
        if args.report:
            self._write_report()
        path = _certificate_path(args)
        if self.certificate is not None and self.certificate.certified and path is not None:
            self.certificate.to_json(path)

    @cached_property
    def id_column(self) -> str | None:
        """The column of ids, if each row has another one."""
        name = repeated(self.source.ids())
        if name is not None:
            note(f"note: the id {name!r} occurs more than once; rows are numbered from 1 instead")
        return self.args.id if name is None else None

    @cached_property
    def rows(self) -> tuple[list[str], list[str]]:
        """The text and the name of each row."""
        texts = [shortened(text, _MAX_TEXT) for text in self.source.texts()]
        numbers = [str(i + 1) for i in range(len(texts))]
        return texts, numbers if self.id_column is None else self.source.ids()

    @property
    def bound_to(self) -> dict[str, Any]:
        """The name, if there is one, and the text of each row, to which answers are bound."""
        texts, ids = self.rows
        return {"content": texts, "ids": None if self.id_column is None else ids}

    def _write_report(self) -> None:
        texts, ids = self.rows
        page = CleanReport(
            self.ranking,
            texts=texts,
            ids=ids,
            images=self.source.images(),
            title=Path(self.args.data).name,
            findings=self.findings,
            reasons=self.reasons,
            commands=_next_commands(self.args),
        ).html()
        write_text(self.args.report, page)

    def _write_questions(self) -> None:
        """Write the next questions; those about rows that have changed come first."""
        args, ranking, certificate = self.args, self.ranking, self.certificate
        kind, (texts, ids) = MISSING if args.suggest else LISTED, self.rows
        shown: Any = {**self.bound_to, "texts": texts if any(texts) else None}
        shown["ids"] = ids if args.id else None
        if not args.certify:
            certificate = None
            questions = ranking.questions(args.number, kind=kind, random_state=args.seed)
            shown["earlier"] = self.carried.changed
            questions = ask_again(ranking, self.carried, questions, args.number)
        else:
            if certificate is None:
                certificate = ranking.certify(of=ADDED if args.suggest else REMOVED)
            questions = certificate.questions(args.number)
            if not certificate.n_tags:
                raise InputError(
                    f"no tag is to be {'added' if args.suggest else 'removed'}, so there is "
                    f"nothing to certify; answer more questions first"
                )
        if not len(questions):
            raise InputError(f"there is no {kind} tag left to ask about")
        write_questions(args.questions, questions, ranking, certificate=certificate, **shown)

    def checks(self) -> dict[str, Any]:
        """Findings and violations for JSON."""
        return {
            "findings": [item.to_dict() for item in self.findings],
            "violations": [asdict(item) for item in self.violations],
        }

    def print(self) -> None:
        """Print the summary, or one JSON document."""
        args = self.args
        if args.json:
            print_json(self._document())
        else:
            facts(self._facts())
            if not args.questions:
                self._print_suspects()
            if args.suggest:
                self._print_swaps()
            if self.findings:
                say("\nTable checks")
                facts({item.title: item.sentence for item in self.findings})
                for item in self.findings:
                    if item.kind == "separator":
                        say(item.advice)
            self._print_next()
        self.print_violations()

    def print_violations(self) -> None:
        """Print which expectations are not met."""
        for item in self.violations:
            note(str(item), error=True)

    @property
    def _unchecked(self) -> str:
        return "" if self.ranking.is_checked else f", {NOT_CHECKED}"

    @property
    def _is_certified(self) -> bool:
        return self.certificate is not None and self.certificate.certified

    @property
    def _written(self) -> dict[str, str | None]:
        args = self.args
        names = ("output", "changes", "report", "questions", "propose_merges")
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
            "swaps": list(ranking.swaps().records()),
            "certified": self.certificate is not None and self.certificate.to_dict(),
            "label_summaries": ranking.labels(),
            **self.checks(),
            **self._written,
        }

    def _facts(self) -> dict[str, str]:
        args, ranking, features = self.args, self.ranking, self.features
        storage: Any = ranking.storage
        summary, names = ranking.summary(), ranking.label_names
        examples = ", ".join(brief(name, 30) for name in names[:_MAX_EXAMPLES])
        caught, n_unjudged = summary["planted_among_suspects"], summary["unjudged"]
        n_added, n_bare = summary["added"], summary["rows_left_without_tags"]
        is_tested = caught is not None and not ranking.n_answers
        planted = f"of 100 random wrong tags, {100 * (caught or 0):.0f} would be among the most"
        return {
            "table": f"{args.data}, {number(ranking.n_rows, 'row')}",
            "learned from": f"{features.source} ({ranking.method}, {self.seconds:.1f} s)",
            "memory": storage.reason if storage and storage.is_short_of_memory else "",
            "left out": brief_list(features.left_out, 6),
            "tags": f"{len(ranking.row):,} ({len(names):,} distinct, such as {examples})",
            "many tags": _MANY if ranking.method == CENTROIDS else "",
            "not ranked": f"{number(n_unjudged, 'tag')}, too rare or present in every row"
            if n_unjudged
            else "",
            "ranking": f"{planted} suspicious tenth" if is_tested else "",
            "decisions": self.decisions,
            "wrong tags": ranking.sentence,
            "removed": f"{summary['removed']:,} ({summary['removed_share']:.1%} of the tags)"
            f"{self._unchecked}",
            "more removals": no_others(ranking),
            "added": f"{number(n_added, 'tag')}{self._unchecked}" if n_added else "",
            "left without tags": number(n_bare, "row") if n_bare else "",
            "certificate": "" if self.certificate is None else self.certificate.progress,
        }

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
        lines = []
        for swap in list(swaps.records())[:_MAX_SUSPECTS]:
            pair = f"{_short(swap['wrong'], _MAX_TAG)} → {_short(swap['right'], _MAX_TAG)}"
            lines.append((swap["row"] + 1, _short(texts[swap["row"]], _MAX_CELL), pair))
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
        if not args.propose_merges and any(item.kind == "spelling" for item in self.findings):
            say("\nFirst, list likely spelling variants, and pass the right ones to --merge:")
            say(f"  {command} --propose-merges merges.csv")
        if args.questions:
            if args.questions not in args.answers:
                command += f" --answers {shlex.quote(args.questions)}"
            note(f"fill in its column 'right' with yes, no or ? (cannot tell), then run: {command}")
        elif ranking.judged.any() and not ranking.n_answers:
            say("\nNext, answer questions, on a page or in a file:")
            say("  " + "\n  ".join(_next_commands(args)))
            say("Fifty answers take about five minutes.")
        elif ranking.n_answers and not args.output:
            steps = [f"{command} --questions q{len(args.answers) + 1}.csv"]
            if ranking.removed.any():
                steps = [f"{command} -o cleaned.csv", *steps]
            say("\n  ".join(("\nNext, write the copy, or answer more questions:", *steps)))
        if args.propose_merges:
            note("delete the merges that are wrong, and run again with --merge instead")


def _next_commands(args: argparse.Namespace) -> list[str]:
    """Commands that ask about the tags, on a page if it can rank them so, and in a file."""
    words = same_command(args)
    questions = f"{shlex.join(['schirn', *words])} --questions q{len(args.answers) + 1}.csv"
    orders = (args.remove, args.remove_below, args.add)
    only_clean = args.method or args.param or args.min_count != MIN_COUNT or args.seed
    if only_clean or args.answers or args.allow_empty or any(value is not None for value in orders):
        # A review ranks in its own way.
        return [questions]
    return [shlex.join(["schirn", "review", *words[1:]]).removesuffix(" --suggest"), questions]


def ranking_options(args: argparse.Namespace) -> list[str]:
    """Return the options that decide about the ranks, wherever the image files are."""
    elsewhere = {"image_root": None, "decisions": None}
    return same_command(argparse.Namespace(**{**vars(args), **elsewhere}))[2:]


def same_command(args: argparse.Namespace) -> list[str]:
    """Return the words of the command that decide how the table is read and ranked."""
    words, usual = ["clean", args.data], usual_args()
    for name in _RANKING:
        value, option = getattr(args, name), f"--{name.replace('_', '-')}"
        if value == getattr(usual, name):
            continue
        if value is True:
            words.append(option)
        elif name in ("text", "columns", "categories"):
            words += [option, ",".join(value)]
        else:
            for item in value if isinstance(value, list) else [value]:
                words += [option, f"{item[0]}={item[1]}" if isinstance(item, tuple) else str(item)]
    return words


def usual_args() -> argparse.Namespace:
    """Return the arguments of `schirn clean TABLE`."""
    return build_parser([Command("clean", "", __name__)]).parse_args(["clean", "TABLE"])


def _short(text: str, limit: int) -> str:
    return shortened(" ".join(text.split()), limit - 1)


def _certificate_path(args: argparse.Namespace) -> str | None:
    """File of the certificate: beside the copy, or else beside the report."""
    output = args.output or args.report
    return f"{output.rstrip('/')}.certificate.json" if output else None


def _check_paths(args: argparse.Namespace) -> None:
    """Raise InputError for outputs that cannot be written or would replace the input."""
    if args.suggest and not (args.output or args.questions or args.answers):
        raise InputError("--suggest needs --questions to ask, or --output to write columns")
    if args.certify and not args.questions:
        raise InputError("--certify chooses the questions; give their file with --questions")
    if args.remove is not None and args.remove_below is not None:
        raise InputError("give only one of --remove and --remove-below")
    if not args.precision:
        raise InputError("--precision must be above 0; --remove removes tags without answers")
    if args.add is not None and not (args.output or args.changes):
        raise InputError("--add needs --output for the copy, or --changes for the list of changes")
    outputs = {"copy": args.output, "report": args.report}
    outputs |= {"list of changes": args.changes, "questions": args.questions}
    outputs |= {"proposed merges": args.propose_merges}
    answers = {*args.answers} - {args.questions}
    inputs = (args.data, args.features, args.merge, args.expect, args.decisions, *answers)
    check_outputs(outputs, inputs)
    # A certificate needs the files that its answers came from.
    read_before_writing(args, is_kept=args.decisions is not None and not args.certify)
    if args.report:
        optional("jinja2", "cli", "Writing the report")
    for path in args.answers:
        if not Path(path).exists():
            raise InputError(f"{path}: there is no such file of answers; --questions writes one")
    if args.answers and _certificate_path(args):
        check_writable(str(_certificate_path(args)))


def _check_scheduler(args: argparse.Namespace) -> None:
    """Raise InputError for what the workers of a Dask cluster cannot do."""
    refused = {"--categories": args.categories, "--encoder": args.encoder}
    refused["--device"] = args.device
    refused["an .npy file"] = (args.features or "").endswith(".npy")
    for name in (name for name, value in refused.items() if value):
        raise InputError(f"{name} cannot be used with --scheduler")
    if bool(args.text) == bool(args.features or args.columns):
        raise InputError("with --scheduler, give one of --text, --features and --columns")
    if not args.text and not Path(args.data).is_dir():
        raise InputError(
            f"{args.data}: with --scheduler, columns of numbers must be in a folder of .parquet "
            f"files that all workers see under the same path"
        )
