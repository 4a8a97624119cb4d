"""`schirn leaderboard`: check result files and build the pages that compare them."""

import argparse
from typing import Any

from schirn.cli.output import note, print_json, printable, say, table
from schirn.cli.parser import add_command
from schirn.lab.leaderboard.pages import build_leaderboard
from schirn.lab.leaderboard.submission import TOLERANCE, check_results

_CHECK = """
schirn leaderboard check results.jsonl.gz
schirn leaderboard check out
"""
_BUILD = """
schirn leaderboard build benchmarks/leaderboard -o site
schirn leaderboard build mine.jsonl benchmarks/leaderboard -o site
"""
_MOST_SHOWN = 10


def add(commands: Any) -> None:
    """Add the command and those below it."""
    parser = add_command(
        commands,
        "leaderboard",
        None,
        examples=f"{_CHECK.strip()}\n{_BUILD.strip()}",
        json=False,
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    check = add_command(
        below,
        "check",
        run_check,
        help="check result files that somebody else made",
        description="Check results of schirn bench: the format; data, candidates and folds, drawn "
        "again if the data set is available; metrics, computed again if the scores are available "
        f"(tolerance {TOLERANCE:g}); missing folds, contradictions and impossible values; and the "
        "marks of methods that use true labels. Exit code 0: the files are valid; 1: they are not; "
        "2: they cannot be read.",
        examples=_CHECK,
    )
    build = add_command(
        below,
        "build",
        run_build,
        help="write the pages of a leaderboard",
        description="Write static pages that need no network: one line per method, one column per "
        "track, a page per data set and per method, and the command that reproduces each number.",
        examples=_BUILD,
    )
    for command in (check, build):
        command.add_argument(
            "results", metavar="FILE", nargs="+", help="result files (.jsonl, .jsonl.gz) or folders"
        )
    build.add_argument("-o", "--output", required=True, metavar="DIR", help="folder of the pages")
    build.add_argument("--title", metavar="TEXT", help="heading of the first page")


def run_check(args: argparse.Namespace) -> int:
    """Check files; return 1 if one of them does not hold."""
    checks = {path: check_results(path) for path in args.results}
    is_valid = all(check.is_valid for check in checks.values())
    if args.json:
        files = []
        for path, check in checks.items():
            document = {"path": path, "valid": check.is_valid, **check._asdict()}
            files.append(document | {"results": len(check.results)})
        print_json({"valid": is_valid, "tolerance": TOLERANCE, "files": files})
        return int(not is_valid)
    heads = ("file", "verdict", "results", "methods", "data sets", "drawn again", "rescored")
    lines = []
    for path, check in checks.items():
        verdict = "holds" if check.is_valid else "refused"
        names = ({result[key] for result in check.results} for key in ("method", "dataset"))
        counts = [len(check.results), *map(len, names), check.regenerated, check.recomputed]
        lines.append([path, verdict, *counts])
    table(heads, lines, right="llrrrrr")
    for path, check in checks.items():
        for text in check.notes:
            say(printable(f"{path}: {text}"))
        for text in check.problems[:_MOST_SHOWN]:
            note(f"refused: {text}")
        if len(check.problems) > _MOST_SHOWN:
            note(f"{path}: and {len(check.problems) - _MOST_SHOWN} more problems; see --json")
    return int(not is_valid)


def run_build(args: argparse.Namespace) -> None:
    """Write the pages."""
    options = {} if args.title is None else {"title": args.title}
    pages = build_leaderboard(args.results, args.output, **options)
    if args.json:
        print_json({"pages": [str(page) for page in pages]})
    else:
        say(f"{len(pages)} pages; open {printable(str(pages[0]))}")
