"""`schirn reproduce`."""

import argparse
import os
from datetime import date
from pathlib import Path
from typing import Any

from schirn.cli.output import note, print_json, printable, say, working
from schirn.cli.parser import add_command, natural, positive
from schirn.lab.bench import read_rows
from schirn.lab.cli._bench_output import duration, parse_methods, seconds, split_list
from schirn.lab.reproduction.experiments import FULL, METHODS, QUICK
from schirn.lab.reproduction.plan import STUDIES, Plan, make_plan
from schirn.lab.reproduction.run import publish, run_fits, write_results

UNFINISHED = 3

_EXAMPLES = """
schirn reproduce --plan
schirn reproduce --quick
schirn reproduce --output reproduction --jobs 2
schirn reproduce --jobs 16 --stop-after 9m --rows-only
schirn reproduce --quick --datasets mine.npz:2 --methods Schirn,Sieve,CandidateRidge
"""


def add(found: Any) -> None:
    """Add the command."""
    parser = add_command(
        found,
        "reproduce",
        run,
        help="rerun the published experiments",
        description="Rerun the published tables and studies, add Sieve and two references, and "
        "write results, tables, figures, a report and a summary page that compares them with the "
        "printed numbers. Run the same command again to resume after an interruption. Data sets "
        "that are not available are skipped with a reason.",
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "-o",
        "--output",
        default="reproduction",
        metavar="DIR",
        help="folder of the results (default: reproduction)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="run a smaller version: under 10 minutes on two cores"
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="show what would be run and how long it would take, and stop",
    )
    group = parser.add_argument_group("experiments")
    group.add_argument("--datasets", metavar="LIST", help="other data sets, as in schirn bench")
    group.add_argument("--methods", metavar="LIST", help="methods (default: all)")
    group.add_argument("--studies", metavar="LIST", help=f"any of {', '.join(STUDIES)}, or none")
    group.add_argument("--folds", type=positive, metavar="K", help="number of folds (default: 5)")
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--jobs",
        type=natural,
        metavar="N",
        default=min(2, os.cpu_count() or 1),
        help="number of processes (default: 2; 0: run everything in this process)",
    )
    group.add_argument(
        "--time-limit", type=seconds, metavar="S", help="stop a fit after this many seconds"
    )
    group.add_argument("--retry", action="store_true", help="repeat fits that failed or timed out")
    group.add_argument(
        "--stop-after",
        type=duration,
        metavar="T",
        help="stop after this time, such as 90s, 9m or 2h, with exit code 3 if fits remain",
    )
    group.add_argument(
        "--partial",
        action="store_true",
        help="with --stop-after: write the pages from the finished fits and list the missing ones",
    )
    group.add_argument(
        "--no-scores", action="store_true", help="do not store the scores of the test rows"
    )
    group.add_argument(
        "--rows-only",
        action="store_true",
        help="run the fits only; run the command again without this option to write tables and "
        "pages",
    )
    group.add_argument(
        "--page",
        metavar="FILE",
        help="also write the page to this file, with its figures next to it",
    )
    group.add_argument("--date", metavar="DAY", help="date to print on the pages (default: today)")


def run(args: argparse.Namespace) -> int:
    """Run the plan and report where the results are."""
    wanted = split_list(args.studies) if args.studies else STUDIES
    chosen = [name for name in wanted if name != "none"]
    plan = make_plan(
        QUICK if args.quick else FULL,
        sets=split_list(args.datasets) if args.datasets else None,
        methods=list(parse_methods(args.methods)) if args.methods else METHODS,
        folds=args.folds,
        studies=chosen,
    )
    if args.plan:
        return _show(plan, args)
    say_step = (lambda text: None) if args.quiet else note
    for line in plan.to_text(args.jobs).splitlines():
        say_step(line)
    with working("running fits", args):
        left = run_fits(
            args.output,
            plan,
            chosen=chosen,
            jobs=args.jobs,
            threads=args.threads or 1,
            time_limit=args.time_limit,
            retry=args.retry,
            stop_after=args.stop_after,
            keep_scores=not args.no_scores,
            say=say_step,
        )
    if left:
        note(f"stopped with {left} fits left to do; run the same command again to resume")
        if not args.partial:
            return UNFINISHED
    day = args.date or date.today().isoformat()
    written: list[Path] = []
    if not args.rows_only:
        written = write_results(args.output, plan, chosen=chosen, date=day, say=say_step)
        written += publish(args.output, args.page) if args.page else []
    _report(args, plan, written)
    failed = _verdict(Path(args.output) / "rows")
    return UNFINISHED if left else failed


def _report(args: argparse.Namespace, plan: Plan, written: list[Path]) -> None:
    """Report where the results are."""
    if args.json:
        print_json({"files": [str(path) for path in written], "skipped": plan.skipped})
    elif written:
        first = printable(str(written[0]))
        say(f"{len(written)} files in {printable(args.output)}; start with {first}")
    else:
        say(f"all fits are done; results in {printable(args.output)}")


def _verdict(folder: Path) -> int:
    """Return 1 if fits failed, and report the count."""
    results = read_rows(folder)
    bad = [result for result in results if result["status"] in ("failed", "timeout")]
    if bad:
        count = f"{len(bad)} of {len(results)} fits failed or timed out"
        note(f"{count}; the first: {bad[0]['reason']}")
    return int(bool(bad))


def _show(plan: Plan, args: argparse.Namespace) -> int:
    if args.json:
        print_json(
            {
                "settings": list(plan.shapes),
                "methods": plan.methods,
                "folds": plan.part.folds,
                "skipped": plan.skipped,
                "seconds_on_one_core": plan.seconds,
                "files": [str(path) for path in plan.files],
            }
        )
        return 0
    say(plan.to_text(args.jobs))
    say(f"settings: {', '.join(plan.shapes)}")
    say(f"files: {' '.join(printable(str(path)) for path in plan.files)}")
    return 0
