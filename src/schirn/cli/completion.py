"""`schirn completion`: a script that completes commands and options in the shell."""

import argparse
import re
from collections.abc import Iterator
from typing import Any

from schirn._optional import optional
from schirn.cli.output import say
from schirn.cli.parser import add_command
from schirn.datasets import available
from schirn.methods import methods

_EXAMPLES = """
schirn completion bash > ~/.local/share/bash-completion/completions/schirn
schirn completion zsh > ~/.zfunc/_schirn
schirn completion fish > ~/.config/fish/completions/schirn.fish
"""


def add(found: Any) -> None:
    """Add the command."""
    parser = add_command(
        found,
        "completion",
        run,
        help="print a completion script for bash, zsh or fish",
        description="Print a completion script for the shell. It completes commands, "
        "options, methods, and data sets on this machine. For zsh, the folder must be in "
        "fpath. To try it in the current shell: source <(schirn completion bash).",
        examples=_EXAMPLES,
        json=False,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    shtab = optional("shtab", "cli", "Completion")
    for action in _actions(args.parser):
        _describe(action, shtab)
    say(shtab.complete(args.parser, args.shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments of a parser and of the commands below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _actions(child)
        else:
            yield action


def _describe(action: Any, shtab: Any) -> None:
    """Attach what an argument accepts, where its choices do not say it."""
    if action.dest in ("method", "methods") or action.metavar == "METHOD":
        action.choices = list(methods())
    elif action.metavar == "DATA":
        action.complete = _data_or_file()
    elif action.metavar in ("FILE", "MODEL", "TABLE", "CHANGES"):
        action.complete = shtab.FILE
    elif action.metavar == "DIR":
        action.complete = shtab.DIRECTORY


def _data_or_file() -> dict[str, Any]:
    """Names of data sets that need no quoting, and files."""
    names = [entry.name for entry in available() if entry.where != "downloadable"]
    words = " ".join(name for name in names if re.fullmatch(r"[\w.+-]+", name))
    return {
        "bash": "_schirn_data",
        "zsh": f"{{_alternative 'names:data set:({words})' 'files:file:_files'}}",
        "fish": f"(string split ' ' '{words}'; __fish_complete_path (commandline -ct))",
        "preamble": {
            "bash": f'_schirn_data() {{ compgen -W "{words}" -- "$1"; compgen -f -- "$1"; }}'
        },
    }
