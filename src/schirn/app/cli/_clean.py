"""`schirn clean`: rank the tags of a table, ask about some, and remove tags."""

import argparse
import shlex
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from schirn._files import brief, brief_list, check_writable, shortened, write_text
from schirn._optional import optional
from schirn._progress import stage
from schirn.app.cli._device import DEVICE
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
    COLUMNS,
    COPIES,
    DECISIONS,
    PARAMETERS,
    REMOVALS,
    ROWS,
    UNEXPECTED,
    Outputs,
    check_opinions,
    check_outputs,
    describe_decisions,
    early_advice,
    expected_removals,
    no_other_additions,
    no_others,
    other_targets,
    unmet,
    unused_text,
    write_changes,
)
from schirn.app.tables import KINDS, Expectations, Violation, is_database
from schirn.app.workflow import CleaningOptions, TableCleaning
from schirn.cleaning import NoisyLabels, Reasons
from schirn.cleaning.centroid_ranker import CENTROIDS
from schirn.cleaning.noisy_labels import NOT_CHECKED
from schirn.exceptions import InputError
from schirn.program.output import facts, note, number, percent, print_json, say, table, working
from schirn.program.parser import CHECKPOINT

OPTIONS = f"""
data TABLE  table to clean
{COPIES}
--report FILE  write an HTML report (.html)
{COLUMNS}
{ROWS}
[ask]
{ASK}
{DECISIONS}
--opinions FILE...  opinions of a language model or another source about some tags (repeatable)
--for-model FILE  write the most suspicious tags as JSON lines with prompts (.jsonl)
--certify  ask about tags drawn from those to remove (with --suggest, to add), for a certificate
[labeling tools]
{LABELING}
[act]
{REMOVALS}
--remove N:natural  remove the N most suspicious tags without answers (marked '{NOT_CHECKED}')
--remove-below P:share  remove tags whose probability is below P, without answers
--add P:share  add missing tags whose probability is at least P, without answers
{ALLOW_EMPTY}
[how to rank]
--method METHOD  method (default: Sieve; for texts and for very many tags, a faster ranker)
{PARAMETERS}
--min-count N:positive = {CleaningOptions.min_count}  do not rank tags listed in fewer than N rows
--max-memory GB:gigabytes  memory to use; larger data are kept in temporary files (default: the free
    memory)
{CHECKPOINT}
--fresh  rank again, even if the ranking of an earlier run is stored in .schirn beside TABLE
[check the table itself]
--strict  stop with exit code 4, before ranking, at any finding that --expect does not allow
--expect FILE  a .toml file of expectations; if one is not met, the exit code is 4 and only the
    report is written
{DEVICE}
--scheduler ADDRESS  rank on a Dask cluster, such as tcp://127.0.0.1:8786; its workers read
    numeric columns from TABLE, a folder of .parquet files, or receive the texts of --text
"""
_MANY = "too many for Sieve; each is ranked by the mean of the rows that list it"
_UNJUDGED = "too rare, in every row, or in rows without text"
# Options for reading and comparing the list of tags.
_TAGS_BY = ("labels", "separator", "text", "columns", "categories", "features", "encoding")
_MAX_SUSPECTS = 8
_MAX_EXAMPLES = 3
_MAX_CELL = 48
_MAX_TAG = 24


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
    schirn clean items.csv --text description --vocabulary vocabulary.csv -o cleaned.csv
    schirn clean items.csv --text description --strict --expect expect.toml
    schirn clean parquet-folder --features embedding --scheduler tcp://host:8786 -o cleaned.parquet
    """
    outputs = _outputs(args)
    with working(f"cleaning {Path(args.data).name}", args):
        options = _options(args, outputs)
        cleaning = TableCleaning(args.data, options)
        cleaning.on_note = lambda sentence: note(f"note: {sentence}")
        with cleaning.resources():
            return _clean(args, cleaning, outputs)


def _outputs(args: argparse.Namespace) -> Outputs:
    """Return the files to write, after checking that the options are compatible."""
    check_labeling(args)
    if args.suggest and not (args.output or args.questions or args.answers):
        raise InputError("--suggest needs --questions to ask, or --output to write columns")
    if args.certify and not args.questions:
        raise InputError("--certify chooses the questions; give their file with --questions")
    if args.add is not None and not (args.output or args.changes):
        raise InputError("--add needs --output for the copy, or --changes for the list of changes")
    return Outputs(
        copy=args.output,
        changes=args.changes,
        report=args.report,
        questions=args.questions,
        prompts=args.for_model,
        tool=labeling_tool(args),
    )


def _options(args: argparse.Namespace, outputs: Outputs) -> CleaningOptions:
    """Return the options of the cleaning, after checking all paths."""
    options = CleaningOptions.from_args(args)
    answers = {*options.answers} - {outputs.questions}
    inputs = (
        args.data,
        options.features,
        options.vocabulary,
        args.expect,
        options.decisions,
        *answers,
    )
    check_outputs(outputs.named(), inputs)
    # A certificate needs the files of its answers.
    is_kept = options.decisions is not None and not options.certify
    options = replace(options, answers=outputs.answers_before(options.answers, is_kept=is_kept))
    if outputs.report:
        optional("jinja2", "cli", "Writing the report")
    check_opinions(options.opinions)
    for path in options.answers:
        if not Path(path).exists():
            raise InputError(f"{path}: there is no such file of answers; --questions writes one")
    if options.answers and outputs.certificate:
        check_writable(outputs.certificate)
    return options


def _clean(args: argparse.Namespace, cleaning: TableCleaning, outputs: Outputs) -> int:
    """Check the table, rank its tags, and write and print the requested results."""
    start = time.perf_counter()
    expected = _expectations(args)
    if outputs.copy:
        cleaning.check_export()
    violations = []
    if expected is not None and args.strict:
        violations = expected.check_findings(cleaning.findings)
    if violations:
        return _print_checks(args, cleaning, violations)
    fetch(args, cleaning)
    # All slow steps happen here.
    ranking = cleaning.act().ranking
    stage("writing the results")
    if expected is not None:
        violations = expected.check(ranking, cleaning.findings)
    if violations:
        outputs = outputs.withheld()
    reasons = _write(args, cleaning, outputs)
    seconds = time.perf_counter() - start
    result = _Result(args, cleaning, outputs, violations, reasons, seconds)
    if args.json:
        print_json(result.document() | unmet(violations))
    else:
        _print(result)
    _print_violations(violations)
    return UNEXPECTED if violations else 0


def _expectations(args: argparse.Namespace) -> Expectations | None:
    """Return the expectations of the table; None if there are none."""
    if not args.expect and not args.strict:
        return None
    expected = Expectations.read(args.expect) if args.expect else Expectations()
    if args.strict:
        none_allowed = dict.fromkeys(KINDS, 0)
        expected = replace(expected, findings={**none_allowed, **expected.findings})
    return expected


def _print_checks(
    args: argparse.Namespace, cleaning: TableCleaning, violations: list[Violation]
) -> int:
    """Print the violations; no tag is ranked."""
    if args.json:
        print_json({"data": args.data, **_checks(cleaning, violations), **unmet(violations)})
    _print_violations(violations)
    note("no tag was ranked because of --strict", error=True)
    return UNEXPECTED


def _write(args: argparse.Namespace, cleaning: TableCleaning, outputs: Outputs) -> Reasons | None:
    """Write all requested files and the certificate; return the reasons of a report."""
    if outputs.copy:
        cleaning.export(outputs.copy)
    if outputs.changes:
        write_changes(cleaning.changes(), outputs.changes)
    destinations = (args.json, cleaning.options.answers, outputs.copy, outputs.questions)
    is_shown = outputs.report or not any(destinations)
    reasons = cleaning.reasons if is_shown else None
    if outputs.questions:
        exchange(args, cleaning, outputs)
    if outputs.prompts:
        cleaning.write_prompts(outputs.prompts)
        note(
            f"wrote the prompts to {outputs.prompts}: a quarter of them is about tags from all "
            f"ranks, which show how far the opinions can be trusted"
        )
    if outputs.report:
        page = cleaning.report(commands=_next_commands(cleaning)).html()
        write_text(outputs.report, page)
    certificate = cleaning.certificate
    if certificate is not None and certificate.certified and outputs.certificate is not None:
        certificate.to_json(outputs.certificate)
    return reasons


def _checks(cleaning: TableCleaning, violations: list[Violation]) -> dict[str, Any]:
    """Return findings and violations for JSON."""
    return {
        "findings": [
            {**item.to_dict(), "rows": [row + 1 for row in item.rows]} for item in cleaning.findings
        ],
        "violations": [asdict(item) for item in violations],
    }


@dataclass(frozen=True)
class _Result:
    """Results of a run, for printing."""

    args: argparse.Namespace
    cleaning: TableCleaning
    outputs: Outputs
    violations: list[Violation]
    reasons: Reasons | None
    seconds: float

    @property
    def is_certified(self) -> bool:
        certificate = self.cleaning.certificate
        return certificate is not None and certificate.certified

    @property
    def unchecked(self) -> str:
        return "" if self.cleaning.ranking.is_checked else f", {NOT_CHECKED}"

    @property
    def spared(self) -> str:
        """Reason why fewer tags are removed than --remove asks for, in words."""
        options = self.cleaning.options
        ranking = self.cleaning.ranking
        chosen = ranking.policy.removals
        if chosen is None or ranking.removed.sum() >= (options.remove or 0):
            return ""
        reasons = []
        n_kept = int((chosen & ~ranking.removed).sum())
        if n_kept:
            reasons.append(f"an answer or a rule keeps {number(n_kept, 'tag')}")
        if chosen.sum() < (options.remove or 0) and not options.allow_empty:
            reasons.append("every row keeps at least one tag unless you pass --allow-empty")
        if not reasons:
            return ""
        return f"; --remove {options.remove} found no more, because {' and '.join(reasons)}"

    @property
    def decisions(self) -> str:
        """Sentence about the decisions of earlier runs."""
        store = self.cleaning.decisions
        return "" if store is None else describe_decisions(store, self.cleaning.carried)

    @property
    def applied(self) -> dict[str, int] | None:
        """Numbers of the changes of the vocabulary."""
        source = self.cleaning.source
        n_lines = len(source.vocabulary.accepted)
        if not n_lines:
            return None
        applied = source.applied
        return {
            "lines": n_lines,
            "changes": len(applied.changes),
            "rows": len({change.row for change in applied.changes}),
            "suggested": len(applied.suggestions),
            "exclusive": len(applied.conflicts),
        }

    @property
    def vocabulary(self) -> str:
        """Sentence about the changes of the vocabulary."""
        counts = self.applied
        if counts is None:
            return ""
        parts = [
            f"{number(counts['lines'], 'line')} changed {number(counts['changes'], 'tag')} in "
            f"{number(counts['rows'], 'row')}"
        ]
        if counts["suggested"]:
            parts.append(f"{number(counts['suggested'], 'implied tag')} not added")
        if counts["exclusive"]:
            parts.append(f"{number(counts['exclusive'], 'row')} with exclusive tags")
        if absent := self.cleaning.source.absent_tags():
            parts.append(f"not in the table: {brief_list(absent)}")
        return "; ".join(parts)

    @property
    def rules(self) -> str:
        """Sentence about the number of tags decided by rules."""
        counts = self.cleaning.decided_by_rules()
        words = [f"{number(count, 'tag')} {verb}" for verb, count in counts.items() if count]
        return ", ".join(words) + (", without questions" if words else "")

    def written(self) -> dict[str, str | None]:
        """Return the path of each file, None for files that are not written."""
        outputs = self.outputs
        return {
            "output": outputs.copy,
            "changes": outputs.changes,
            "report": outputs.report,
            "questions": outputs.questions,
            "certificate": outputs.certificate if self.is_certified else None,
        }

    def document(self) -> dict[str, Any]:
        """Return the results for JSON."""
        cleaning = self.cleaning
        ranking = cleaning.ranking
        certificate = cleaning.certificate
        about = cleaning.about
        return {
            "data": cleaning.path,
            "learned_from": about["source"],
            "left_out": about["left_out"],
            "encoder": about["encoder"],
            "in_files": about["in_files"],
            "vocabulary": self.applied,
            "decided_by_rules": cleaning.decided_by_rules(),
            "stored_ranking": cleaning.is_stored,
            "storage": ranking.storage and ranking.storage.name,
            "storage_reason": ranking.storage and ranking.storage.reason,
            **ranking.summary(),
            "sentence": ranking.sentence,
            "voices": [voice._asdict() for voice in ranking.voices()],
            "decisions": self.decisions or None,
            "seconds": round(self.seconds, 2),
            "suspects": list(_numbered(cleaning, ranking.suspects(_MAX_SUSPECTS))),
            "swaps": list(_numbered(cleaning, ranking.swaps())),
            "certified": certificate is not None and certificate.to_dict(),
            "label_summaries": ranking.labels(),
            **_checks(self.cleaning, self.violations),
            **self.written(),
        }

    def facts(self) -> dict[str, str]:
        """Return the lines of the summary, by name."""
        cleaning = self.cleaning
        ranking = cleaning.ranking
        storage: Any = ranking.storage
        summary = ranking.summary()
        names = ranking.label_names
        examples = ", ".join(brief(name, 30) for name in names[:_MAX_EXAMPLES])
        caught = summary["planted_among_suspects"]
        n_unjudged = summary["unjudged"]
        n_added = summary["added"]
        n_bare = summary["rows_left_without_tags"]
        is_tested = caught is not None and not ranking.n_answers
        planted = f"tags put on random rows as a test: {caught or 0:.0%} of them are among the most"
        certificate = cleaning.certificate
        about = cleaning.about
        took = "stored" if cleaning.is_stored else f"{self.seconds:.1f} s"
        return {
            "table": f"{cleaning.path}, {number(ranking.n_rows, 'row')}",
            "learned from": f"{about['source']} ({ranking.method}, {took})",
            "memory": storage.reason if storage and storage.is_short_of_memory else "",
            "left out": brief_list(about["left_out"], 6),
            "tags": f"{len(ranking.row):,} ({len(names):,} distinct, such as {examples})",
            "many tags": _MANY if ranking.method == CENTROIDS else "",
            "vocabulary": self.vocabulary,
            "rules": self.rules,
            "not ranked": f"{number(n_unjudged, 'tag')}, {_UNJUDGED}" if n_unjudged else "",
            "ranking": f"{planted} suspicious 10% ({_compared(caught or 0)})" if is_tested else "",
            "outlook": "" if ranking.n_answers else early_advice(cleaning),
            "decisions": self.decisions,
            "wrong tags": ranking.sentence,
            "removed": f"{summary['removed']:,} ({percent(summary['removed_share'])} of the tags)"
            f"{_called_wrong(ranking)}{self.unchecked}{self.spared}",
            "right removals": expected_removals(ranking),
            "more removals": _more_removals(cleaning),
            "other targets": other_targets(ranking),
            "opinions": " ".join(voice.sentence for voice in ranking.voices()),
            "missing tags": ranking.missing.sentence,
            "added": f"{number(n_added, 'tag')}{self.unchecked}" if n_added else "",
            "more additions": no_other_additions(ranking),
            "left without tags": number(n_bare, "row") if n_bare else "",
            "certificate": "" if certificate is None else certificate.progress,
        }


def _compared(caught: float) -> str:
    """Return the meaning of the share of planted tags among the most suspicious 10%, in words."""
    chance = "by chance, 10% would be"
    if round(caught, 2) > 0.1:
        return chance
    return f"{chance}, so this ranking is no better than chance: learn from other columns"


def _called_wrong(ranking: NoisyLabels) -> str:
    """Return words about removed tags answered "wrong", which certificates leave out."""
    n_called_wrong = int((ranking.answer == 0).sum())
    return f", {n_called_wrong:,} of them called wrong by an answer" if n_called_wrong else ""


def _more_removals(cleaning: TableCleaning) -> str:
    """Return the reason why only answered tags are changed, and which columns could help."""
    reason = no_others(cleaning.ranking)
    if not reason:
        return ""
    return "; ".join(filter(None, (reason, unused_text(cleaning))))


def _row_name(cleaning: TableCleaning, row: int) -> str:
    """Return the id of a row, or its number from 1."""
    return cleaning.ids[row] if cleaning.id_column else str(row + 1)


def _row_heading(cleaning: TableCleaning) -> str:
    """Return the heading of a column of row names."""
    return cleaning.id_column or "row"


def _numbered(cleaning: TableCleaning, tags: Any) -> Iterator[dict[str, Any]]:
    """Yield the records of questions or swaps with row numbers from 1 and, with --id, ids."""
    for record in tags.records():
        row = record["row"]
        numbered = {**record, "row": row + 1}
        if cleaning.id_column:
            numbered["id"] = cleaning.ids[row]
        yield numbered


def _print(result: _Result) -> None:
    """Print the summary."""
    facts(result.facts())
    if not result.outputs.questions:
        _print_suspects(result)
    if result.cleaning.options.suggest:
        _print_swaps(result.cleaning)
    if result.cleaning.findings:
        _print_findings(result)
    _print_next(result)


def _print_findings(result: _Result) -> None:
    """Print the findings about the table."""
    findings = result.cleaning.findings
    if not findings:
        say("Table checks: nothing odd")
        return
    say("\nTable checks")
    facts({item.title: item.sentence for item in findings})
    for item in findings:
        if item.kind in ("separator", "placeholders"):
            say(item.advice)


def _print_violations(violations: list[Violation]) -> None:
    """Print the violated expectations."""
    for item in violations:
        note(str(item), error=True)


def _print_suspects(result: _Result) -> None:
    """Print the most suspicious tags, if nothing has been decided yet."""
    cleaning = result.cleaning
    reasons = result.reasons
    ranking = cleaning.ranking
    if reasons is None or ranking.n_answers or not ranking.is_checked:
        return
    suspects = ranking.suspects(_MAX_SUSPECTS)
    cells = list(zip(suspects.row.tolist(), suspects.label.tolist(), strict=True))
    lines = []
    for (row, label), why in zip(cells, reasons.explain_all(cells), strict=True):
        reason = f"{why.near} of {why.n_near} similar rows have it; {why.usual:.0%} of all rows do"
        if not why.n_near:
            reason = f"no row is similar; {why.usual:.0%} of all rows have it"
        text = _short(cleaning.texts[row], _MAX_CELL)
        lines.append((_row_name(cleaning, row), text, _short(label, _MAX_TAG), reason))
    if lines:
        say("\nMost suspicious")
        table((_row_heading(cleaning), "text", "tag", "why"), lines, align="r")


def _print_swaps(cleaning: TableCleaning) -> None:
    """Print the most certain swaps of two labels, each with an example."""
    swaps = cleaning.ranking.swaps().by_labels()
    lines = []
    for swap in swaps[:_MAX_SUSPECTS]:
        pair = f"{_short(swap.wrong, _MAX_TAG)} → {_short(swap.right, _MAX_TAG)}"
        text = _short(cleaning.texts[swap.row], _MAX_CELL)
        lines.append((pair, f"{swap.n_rows:,}", _row_name(cleaning, swap.row), text))
    if lines:
        say(
            f"\nPossible swaps, {NOT_CHECKED}: {len(lines)} of {number(len(swaps), 'pair')} of tags"
        )
        heading = f"e.g. {_row_heading(cleaning)}"
        table(("swap", "rows", heading, "text"), lines, align="lrrl")


def _print_next(result: _Result) -> None:
    """Print the written files and the next steps."""
    cleaning = result.cleaning
    outputs = result.outputs
    ranking = cleaning.ranking
    for name, path in result.written().items():
        if path:
            note(f"wrote the {name.replace('_', ' ')} to {path}")
    if outputs.changes and not outputs.copy:
        words = map(shlex.quote, (outputs.changes, cleaning.path))
        is_file = not is_database(cleaning.path)
        ending = "--output FILE" if is_file else "--write-back TABLE.COLUMN --commit"
        note(f"to make the changes: schirn apply {' '.join(words)} {ending}")
    stale = outputs.certificate
    if stale is not None and not result.is_certified and Path(stale).exists():
        note(f"{stale} is from an earlier run; these removals are not certified")
    command = _same_command(cleaning)
    if not cleaning.options.vocabulary and any(
        item.kind == "spelling" for item in cleaning.findings
    ):
        say("\nFirst fix the names of tags; pass the answered proposals as --vocabulary:")
        say(f"  {_vocabulary_command(cleaning)}")
    answers = cleaning.options.answers
    if outputs.tool is not None:
        note(describe_import(result.args, outputs, command))
    elif outputs.questions:
        if outputs.questions not in answers:
            command += f" --answers {shlex.quote(outputs.questions)}"
        note(f"fill in its column 'right' with yes, no or ? (cannot tell), then run: {command}")
    elif ranking.judged.any() and not ranking.n_answers:
        say("\nNext, answer questions, on a page or in a file:")
        say("  " + "\n  ".join(_next_commands(cleaning)))
        say("Fifty answers take about five minutes.")
    elif ranking.n_answers and (not outputs.copy or no_others(ranking)):
        steps = [f"{command} --questions q{len(answers) + 1}.csv"]
        heading = "\nNext, answer more questions:"
        if ranking.removed.any() and not outputs.copy:
            steps = [f"{command} -o cleaned.csv", *steps]
            heading = "\nNext, write the copy, or answer more questions:"
        say("\n  ".join((heading, *steps)))


def _same_command(cleaning: TableCleaning) -> str:
    """Return the command that reads and ranks the table in the same way."""
    return shlex.join(["schirn", "clean", cleaning.path, *_repeated(cleaning).words()])


def _repeated(cleaning: TableCleaning) -> CleaningOptions:
    """Return the options to repeat, without a column of ids that does not identify rows."""
    return replace(cleaning.options, id=cleaning.id_column)


def _vocabulary_command(cleaning: TableCleaning) -> str:
    """Return the command that proposes changes to the list of tags."""
    options = cleaning.options
    chosen = {name: getattr(options, name) for name in _TAGS_BY}
    words = CleaningOptions(**chosen).words()
    return shlex.join(["schirn", "vocabulary", cleaning.path, *words, "-o", "vocabulary.csv"])


def _next_commands(cleaning: TableCleaning) -> list[str]:
    """Return the commands that ask about the tags: in a file and, if possible, on a page."""
    options = cleaning.options
    questions = f"{_same_command(cleaning)} --questions q{len(options.answers) + 1}.csv"
    orders = (options.remove, options.remove_below, options.add)
    # A review does not support these options.
    is_for_clean = (
        any((options.method, options.param, options.seed, options.answers, options.allow_empty))
        or options.min_count != CleaningOptions.min_count
        or any(value is not None for value in orders)
    )
    if is_for_clean:
        return [questions]
    words = _repeated(cleaning).words(without=("suggest",))
    return [shlex.join(["schirn", "review", cleaning.path, *words]), questions]


def _short(text: str, limit: int) -> str:
    return shortened(" ".join(text.split()), limit - 1)
