"""Run the commands of a results page and write their output below them.

    python -m benchmarks.results docs/results/sieve.md --only "Clean labels"

A section of a page is a heading, a note, a console block with commands, and their output up to the
next heading, which is replaced. Sections without a console block stay as they are.
"""

import argparse
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

_HEADING = re.compile(r"^(?=##+ )", re.M)
_COMMANDS = re.compile(r"^```console\n(.*?)^```\n", re.M | re.S)


def main(arguments: list[str] | None = None) -> None:
    """Rewrite one page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("page", type=Path, help="the results page")
    parser.add_argument("--only", metavar="TITLE", help="run this section only")
    args = parser.parse_args(arguments)
    sections = _HEADING.split(args.page.read_text("utf-8"))
    titles = [section.partition("\n")[0].lstrip("# ") for section in sections]
    if args.only is not None and args.only not in titles:
        parser.error(f"{args.page} has no section {args.only!r}")
    for k, section in enumerate(sections):
        if args.only in (None, titles[k]):
            sections[k] = rewritten(section)
    args.page.write_text("".join(sections).rstrip() + "\n", "utf-8")


def rewritten(section: str) -> str:
    """Run the commands of a section; return it with their output."""
    block = _COMMANDS.search(section)
    if block is None:
        return section
    commands = [line.removeprefix("$ ") for line in block[1].replace("\\\n", " ").splitlines()]
    output = "\n\n".join(map(_output, commands))
    day = datetime.now(UTC).date().isoformat()
    return f"{section[: block.end()]}\nRun on {day}.\n\n{output}\n\n"


def _output(command: str) -> str:
    """What a command prints, with the Python that runs this module."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    run = subprocess.run(
        command, shell=True, check=True, stdout=subprocess.PIPE, text=True, env=environment
    )
    return run.stdout.strip()


if __name__ == "__main__":
    main()
