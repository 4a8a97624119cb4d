"""`schirn leaderboard`: check result files and build the pages that compare them."""

import argparse
from dataclasses import asdict
from typing import Any

from schirn.cli.output import note, print_json, printable, say, table, working
from schirn.cli.parser import add_command, natural
from schirn.lab.leaderboard.packing import pack_results
from schirn.lab.leaderboard.pages import build_leaderboard
from schirn.lab.leaderboard.submission import TOLERANCE, check_results

_CHECK = """
schirn leaderboard check results.jsonl.gz
schirn leaderboard check out
"""
_PACK = """
schirn leaderboard pack out -o mine.jsonl.gz
"""
_BUILD = """
schirn leaderboard build benchmarks/leaderboard -o site
schirn leaderboard build mine.jsonl benchmarks/leaderboard -o site
"""
_MOST_SHOWN = 10
_CODES = {"refused": 1, "not verified": 3}


def add(commands: Any) -> None:
    """Add the command and those below it."""
    parser = add_command(
        commands,
        "leaderboard",
        None,
        examples=f"{_CHECK.strip()}{_PACK.rstrip()}\n{_BUILD.strip()}",
        json=False,
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    check = add_command(
        below,
        "check",
        run_check,
        help="check result files that somebody else made",
        description="Check results of schirn bench: the format; data, candidates and folds, drawn "
        f"again; metrics, computed again from the scores (tolerance {TOLERANCE:g}); a random "
        "sample of runs, run again; the code of the methods; missing folds, contradictions and "
        "impossible values; and the marks of methods that use true labels. Exit code 0: every "
        "result is verified; 1: refused; 2: not readable; 3: not verified, because scores or data "
        "are missing, or the code is stale or unknown.",
        examples=_CHECK,
    )
    build = add_command(
        below,
        "build",
        run_build,
        help="write the page of a leaderboard",
        description="Write a static page that needs no network: a line per method, a column "
        "per track.",
        examples=_BUILD,
    )
    pack = add_command(
        below,
        "pack",
        run_pack,
        help="pack results and scores into files to send",
        description="Write the complete runs of an output folder of schirn bench as NAME.jsonl.gz, "
        "and their scores as NAME.scores.npz beside it.",
        examples=_PACK,
    )
    pack.add_argument("folder", metavar="DIR", help="output folder of schirn bench")
    pack.add_argument("-o", "--output", required=True, metavar="FILE", help="NAME.jsonl.gz")
    check.add_argument(
        "--rerun",
        type=natural,
        default=3,
        metavar="N",
        help="runs to repeat per file, of those that took at most a minute (default: 3)",
    )
    for command in (check, build):
        command.add_argument(
            "results", metavar="FILE", nargs="+", help="result files (.jsonl, .jsonl.gz) or folders"
        )
    build.add_argument("-o", "--output", required=True, metavar="DIR", help="folder of the page")


def run_check(args: argparse.Namespace) -> int:
    """Check files; return 1 if one of them is refused, else 3 if one of them is not verified."""
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
        *("drawn again", "rescored", "verified", "run again"),
    )
    lines = []
    for path, check in checks.items():
        names = ({result[key] for result in check.results} for key in ("method", "dataset"))
        counts = [len(check.results), *map(len, names), check.regenerated, check.recomputed]
        lines.append([path, check.verdict, *counts, check.verified, check.rerun])
    table(heads, lines, right="llrrrrrrr")
    for path, check in checks.items():
        for text in check.notes:
            say(printable(f"{path}: {text}"))
        for text in check.problems[:_MOST_SHOWN]:
            note(f"refused: {text}")
        if len(check.problems) > _MOST_SHOWN:
            note(f"{path}: and {len(check.problems) - _MOST_SHOWN} more problems; see --json")
    return code


def run_pack(args: argparse.Namespace) -> None:
    """Write the packed files."""
    files = [str(file) for file in pack_results(args.folder, args.output)]
    if args.json:
        print_json({"files": files})
    else:
        say(f"send {printable(' and '.join(files))}")


def run_build(args: argparse.Namespace) -> None:
    """Write the page."""
    page = str(build_leaderboard(args.results, args.output))
    if args.json:
        print_json({"page": page})
    else:
        say(f"open {printable(page)}")
