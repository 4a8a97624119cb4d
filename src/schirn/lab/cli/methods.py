"""`schirn methods`: list the methods, or the parameters of one."""

import argparse
import inspect
import re
import textwrap
from typing import Any

from schirn.cli.output import facts, print_json, say, table
from schirn.cli.parser import add_command
from schirn.methods import PartialMultiLabelClassifier, find_method
from schirn.methods import methods as all_methods

_EXAMPLES = """
schirn methods
schirn methods Sieve
schirn methods --json
"""


def add(found: Any) -> None:
    """Add the command."""
    parser = add_command(
        found,
        "methods",
        run,
        examples=_EXAMPLES,
    )
    parser.add_argument("name", nargs="?", metavar="METHOD", help="name of a method")


def run(args: argparse.Namespace) -> None:
    """Print the list or one method."""
    if args.name is not None:
        show(find_method(args.name), args.json)
    elif args.json:
        print_json([summary(cls) for cls in all_methods().values()])
    else:
        rows = [
            [name + " *" * cls._info.reconstructed, cls._info.family, cls._info.cost]
            for name, cls in all_methods().items()
        ]
        table(("method", "family", "cost per iteration"), rows)
        say("\nn: rows, d: features, l: labels. Start with Sieve (details: schirn methods Sieve).")
        if any(cls._info.reconstructed for cls in all_methods().values()):
            say("* reconstructed from descriptions: neither code nor full text was available")


def show(cls: type[PartialMultiLabelClassifier], as_json: bool) -> None:
    """Print the facts and the parameters of one method."""
    entries = parameters(cls)
    if as_json:
        print_json(summary(cls) | {"parameters": entries})
        return
    first = (inspect.getdoc(cls) or "").partition("\n")[0]
    say(f"{cls.__name__}: {first}\n")
    info = cls._info
    facts(
        [
            ("family", info.family),
            ("reference", info.reference),
            ("cost", f"{info.cost} per iteration (n: rows, d: features, l: labels)"),
            ("memory", info.memory),
            ("reconstructed", "yes, from descriptions" if info.reconstructed else "no"),
        ]
    )
    say("\nParameters and their defaults")
    for entry in entries:
        say(f"  {entry['name']} = {entry['default']!r}")
        say(textwrap.fill(entry["meaning"], 80, initial_indent=" " * 6, subsequent_indent=" " * 6))


def summary(cls: type[PartialMultiLabelClassifier]) -> dict[str, Any]:
    """One method as a dictionary."""
    return {"name": cls.__name__, **cls._info._asdict()}


def parameters(cls: type[PartialMultiLabelClassifier]) -> list[dict[str, Any]]:
    """Name, default and meaning of each parameter, from signature and docstring."""
    meanings = _meanings(inspect.getdoc(cls) or "")
    return [
        {"name": name, "default": parameter.default, "meaning": meanings.get(name, "")}
        for name, parameter in inspect.signature(cls).parameters.items()
    ]


def _meanings(doc: str) -> dict[str, str]:
    """The entries of the section "Parameters" of a docstring, without their types."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", doc, re.M | re.S)
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in (section[1] if section else "").splitlines():
        entry = re.match(r"(\w[\w, ]*?) : (.*)", line)
        if entry:
            names = [name.strip() for name in entry[1].split(",")]
        is_type = entry and re.match(r"(int|float|str|bool|array|\{)", entry[2])
        text = "" if is_type else entry[2] if entry else line.strip()
        for name in names:
            meanings[name] = f"{meanings.get(name, '')} {text}".strip()
    return meanings
