"""`schirn reproduce`."""

import argparse
import os
from datetime import date
from pathlib import Path

from schirn.estimators import methods as all_methods
from schirn.lab.bench import BASELINES, read_rows
from schirn.lab.cli._options import parse_methods
from schirn.lab.reproduction import FULL, METHODS, QUICK, STUDIES, Plan, make_plan, reproduce
from schirn.program.output import note, print_json, printable, say, working

OPTIONS = f"""
-o, --output DIR = reproduction  folder of the results
--quick  run a smaller version, with fewer data sets and methods
--plan  show what would be run, and stop
[experiments]
--datasets LIST:names  other data sets, as in schirn bench
--methods LIST:names  methods (default: all)
--studies LIST:names  any of {", ".join(STUDIES)}, or none
--folds K:positive  number of folds (default: 5)
[execution]
--jobs N:natural = {min(2, os.cpu_count() or 1)}  number of processes (default: 2; 0: run everything
    in this process)
--time-limit T:duration  stop a fit after this time, such as 90, 9m or 2h
--retry  repeat fits that failed or timed out
--stop-after T:duration  start no more fits after this time, such as 9m, and write pages for
    the finished ones; run the same command again to continue
--kept FILE  file of finished fits (.jsonl.gz) that are not run again; updated every few
    minutes, so that another machine can continue the run
--renew N:natural = 0  fits of this file to repeat for each method whose code has changed; if
    all agree, the others are kept
"""


def run(args: argparse.Namespace) -> int:
    """Rerun the published tables and studies, and compare them with the printed numbers.

    Sieve and two references are added. The folder gets results, tables, figures, a report and a
    summary page. Run the same command again to resume after an interruption. Data sets that are not
    available are skipped with a reason.

    Examples
    --------
    schirn reproduce --plan
    schirn reproduce --quick
    schirn reproduce --output reproduction --jobs 2
    schirn reproduce --kept reproduction.jsonl.gz --stop-after 2h
    schirn reproduce --quick --datasets mine.npz:2 --methods Schirn,Sieve,CandidateRidge
    """
    chosen = [name for name in args.studies or STUDIES if name != "none"]
    plan = make_plan(
        QUICK if args.quick else FULL,
        sets=args.datasets,
        methods=_methods(args.methods) if args.methods else METHODS,
        folds=args.folds,
    )
    if args.plan:
        _show(plan, args)
        return 0
    say_step = (lambda text: None) if args.quiet else note
    for line in plan.to_text().splitlines():
        say_step(line)
    with working("running fits", args):
        written = reproduce(
            args.output,
            plan,
            chosen=chosen,
            date=date.today().isoformat(),
            say=say_step,
            jobs=args.jobs,
            threads=args.threads or 1,
            time_limit=args.time_limit,
            retry=args.retry,
            stop_after=args.stop_after,
            kept=args.kept,
            renew=args.renew,
        )
    if args.json:
        print_json({"files": [str(path) for path in written], "skipped": plan.skipped})
    else:
        first = printable(str(written[0]))
        say(f"{len(written)} files in {printable(args.output)}; start with {first}")
    return _verdict(Path(args.output) / "rows")


def _methods(items: list[str]) -> list[str]:
    """Return the names of methods of this library, and import paths of others."""
    known = {**all_methods(), **BASELINES}
    return [name if name in known else item for name, item in parse_methods(items).items()]


def _verdict(folder: Path) -> int:
    """Return 1 if fits failed, and report the count."""
    results = read_rows(folder)
    bad = [result for result in results if result["status"] in ("failed", "timeout")]
    if bad:
        count = f"{len(bad)} of {len(results)} fits failed or timed out"
        note(f"{count}; the first: {bad[0]['reason']}", error=True)
    return int(bool(bad))


def _show(plan: Plan, args: argparse.Namespace) -> None:
    if not args.json:
        say(plan.to_text())
        return
    print_json(
        {
            "settings": list(plan.shapes),
            "methods": plan.methods,
            "folds": plan.part.folds,
            "skipped": plan.skipped,
        }
    )
