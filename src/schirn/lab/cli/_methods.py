"""`schirn methods`: list the methods, or the parameters of one."""

import argparse
import inspect
from typing import Any

from schirn.estimators import PartialMultiLabelClassifier, find_method
from schirn.estimators import methods as all_methods
from schirn.program.output import facts, print_json, say, table

OPTIONS = "name METHOD?  name of a method"


def run(args: argparse.Namespace) -> None:
    """List the methods, or show the parameters of one.

    Examples
    --------
    schirn methods
    schirn methods Sieve
    schirn methods --json
    """
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
    """Print the facts and the description of one method."""
    if as_json:
        defaults = {n: p.default for n, p in inspect.signature(cls).parameters.items()}
        print_json(summary(cls) | {"parameters": defaults})
        return
    info = cls._info
    facts(
        {
            "method": cls.__name__,
            "family": info.family,
            "reference": info.reference,
            "cost": f"{info.cost} per iteration (n: rows, d: features, l: labels)",
            "memory": info.memory,
            "reconstructed": "yes, from descriptions" if info.reconstructed else "no",
        }
    )
    say(f"\n{inspect.getdoc(cls)}")


def summary(cls: type[PartialMultiLabelClassifier]) -> dict[str, Any]:
    """Return one method as a dictionary."""
    return {"name": cls.__name__, **cls._info._asdict()}
