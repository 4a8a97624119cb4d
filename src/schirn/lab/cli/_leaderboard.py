"""`schirn leaderboard`: check result files and build the pages that compare them."""

import argparse
from dataclasses import asdict

from schirn.lab.bench.suite import suite_names
from schirn.lab.cli._options import parse_methods
from schirn.lab.leaderboard import (
    TOLERANCE,
    build_leaderboard,
    check_results,
    pack_results,
    update_leaderboard,
)
from schirn.program.output import note, print_json, printable, say, table, working

_FILES = "results FILE+  result files (.jsonl, .jsonl.gz) or folders"
_CHECK = f"""
{_FILES}
--rerun N:natural = 3  finished runs to repeat per file, of those that took at most a minute
"""
_BUILD = f"""
{_FILES}
-o, --output DIR!  folder of the page
"""
_PACK = """
folder DIR  output folder of schirn bench
-o, --output FILE!  NAME.jsonl.gz
"""
_UPDATE = f"""
folder DIR  folder of the packed results
--suite {"|".join(suite_names())} = pml-2  the suite
--methods LIST:names = all  methods as in schirn bench
-o, --output DIR = build/suite  folder for results that are not packed yet
--pages FILE+  Markdown pages whose blocks <!-- leaderboard:NAME --> are written
--renew N:natural = 0  runs to repeat for each method whose code has changed
--jobs N:natural = 1  number of processes
--stop-after T:duration  stop after this time, such as 2h; the same command resumes it
"""
_MOST_SHOWN = 10
_CODES = {"refused": 1, "not verified": 3}


def run_check(args: argparse.Namespace) -> int:
    """Check other people's results of schirn bench.

    The check redraws candidates and folds, recomputes the metrics from the scores (tolerance 1e-6),
    and repeats a random sample of runs, one timeout of each method and one failure of each kind. It
    compares the code of the methods, and reports missing data sets, noise, folds and seeds,
    duplicates, contradictions, impossible values, and missing marks of methods that use true
    labels. Times and memory are never verified. Exit code 0:
    every result is verified; 1: refused; 2: not readable; 3: not verified, because something is
    missing, stale or unknown, or a repeated run differs a little.

    Examples
    --------
    schirn leaderboard check results.jsonl.gz
    schirn leaderboard check out
    """
    with working("checking results", args):
        checks = {path: check_results(path, reruns=args.rerun) for path in args.results}
    verdicts = {check.verdict for check in checks.values()}
    code = next((code for verdict, code in _CODES.items() if verdict in verdicts), 0)
    if args.json:
        files = []
        for path, check in checks.items():
            document = {"path": path, "verdict": check.verdict, **asdict(check)}
            files.append(document | {"results": len(check.results)})
        print_json({"verified": code == 0, "tolerance": TOLERANCE, "files": files})
        return code
    heads = (
        *("file", "verdict", "results", "methods", "data sets"),
        *("redrawn", "rescored", "verified", "repeated"),
    )
    lines = []
    for path, check in checks.items():
        names = ({result[key] for result in check.results} for key in ("method", "dataset"))
        counts = [len(check.results), *map(len, names), check.regenerated, check.recomputed]
        lines.append([path, check.verdict, *counts, check.verified, check.rerun])
    table(heads, lines, align="llrrrrrrr")
    say("Times and memory are never verified; parameters, timeouts and failures by repeated runs.")
    for path, check in checks.items():
        for text in check.notes:
            say(printable(f"{path}: {text}"))
        for text in check.problems[:_MOST_SHOWN]:
            note(f"refused: {text}")
        if len(check.problems) > _MOST_SHOWN:
            note(f"{path}: and {len(check.problems) - _MOST_SHOWN} more problems; see --json")
    return code


def run_pack(args: argparse.Namespace) -> None:
    """Pack results and scores into files to send.

    The complete runs of an output folder of schirn bench become NAME.jsonl.gz, and their scores
    NAME.scores.npz beside it.

    Examples
    --------
    schirn leaderboard pack out -o mine.jsonl.gz
    """
    files = [str(file) for file in pack_results(args.folder, args.output)]
    if args.json:
        print_json({"files": files})
    else:
        say(f"send {printable(' and '.join(files))}")


def run_build(args: argparse.Namespace) -> None:
    """Write a static page that needs no network: a line per method, a column per track.

    Examples
    --------
    schirn leaderboard build benchmarks/leaderboard -o site
    schirn leaderboard build mine.jsonl benchmarks/leaderboard -o site
    """
    page = str(build_leaderboard(args.results, args.output))
    if args.json:
        print_json({"page": page})
    else:
        say(f"open {printable(page)}")


def run_update(args: argparse.Namespace) -> None:
    """Continue a suite from its packed results, pack what is new, and write the pages.

    Packed results may come from another machine. Results of methods whose code has changed since
    are dropped and computed again, unless --renew repeats some of them and all agree: then the
    edit did not change results, and they are kept. What is not packed yet stays in the output
    folder, so that nothing is lost.

    Examples
    --------
    schirn leaderboard update benchmarks/leaderboard --stop-after 2h
    schirn leaderboard update benchmarks/leaderboard --pages README.md docs/leaderboard.md
    """
    with working("running the suite", args):
        update = update_leaderboard(
            args.folder,
            output=args.output,
            suite=args.suite,
            methods=parse_methods(args.methods),
            pages=args.pages or [],
            stop_after=args.stop_after,
            renew=args.renew,
            jobs=args.jobs,
            threads=args.threads,
        )
    progress = update.progress
    if args.json:
        counts = {"runs": progress.n_runs, "planned": progress.n_planned}
        changes = {"new": update.n_new, "stale": update.n_stale, "renewed": update.n_renewed}
        files = [str(file) for file in update.files]
        print_json({"files": files, **counts, **changes, "differing": dict(update.differing)})
        return
    if args.renew:
        say(f"{update.n_renewed} results of changed code were kept, because repeated runs agree")
    for method, reason in update.differing.items():
        say(printable(f"results of {method} were not kept: {reason}"))
    say(f"{update.n_new} new results; {update.n_stale} stale ones were dropped")
    say(f"{progress.n_runs} of {progress.n_planned} runs of {args.suite} have a result")
    if not progress.is_complete:
        say("the same command continues where it stopped")


COMMANDS = {
    "update": ("continue a suite from its packed results", run_update, _UPDATE),
    "check": ("check other people's result files", run_check, _CHECK),
    "build": ("write the page of a leaderboard", run_build, _BUILD),
    "pack": ("pack results and scores into files to send", run_pack, _PACK),
}
