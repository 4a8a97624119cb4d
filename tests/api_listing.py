"""List the public names, with their parameters, and the options of the program.

`python tests/api_listing.py` writes the list to `tests/public_api.txt`. A name is public if the
reference (docs/api) documents it. Types are left out: how they print depends on Python.
"""

import argparse
import inspect
import re
from importlib import import_module
from pathlib import Path

LISTED = Path(__file__).with_name("public_api.txt")
REFERENCE = Path(__file__).parents[1] / "docs" / "api"
PROGRAM = "the program"


def sections():
    """Title -> lines for every module of the reference that can be imported, and the program."""
    found = {}
    for name, public in documented().items():
        try:
            module = import_module(name)
        except ImportError:
            continue
        found[name] = [line for item in public for line in lines_of(module, item)]
    found[PROGRAM] = list(program_lines())
    return found


def documented():
    """Module -> names that the reference (docs/api) documents."""
    found = {}
    for page in sorted(REFERENCE.glob("*.md")):
        for block in page.read_text("utf-8").split(".. currentmodule:: ")[1:]:
            module, _, rest = block.partition("\n")
            listed = rest.partition("```")[0].splitlines()
            names = [line.strip() for line in listed if re.fullmatch(r"   [A-Za-z]\w*", line)]
            found.setdefault(module.strip(), []).extend(names)
    return {module: sorted(names, key=str.lower) for module, names in sorted(found.items())}


def lines_of(module, name):
    value = getattr(module, name)
    if inspect.isclass(value):
        yield from class_lines(value)
    elif inspect.isroutine(value):
        yield f"{name}{parameters(value)}"
    else:
        yield name


def class_lines(cls):
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    yield f"class {cls.__name__}{parameters(cls)}" + (f" from {bases}" if bases else "")
    for name, value in sorted(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if inspect.isfunction(value):
            yield f"    {name}{parameters(value)}"
        elif isinstance(value, property):
            yield f"    {name}"


def parameters(value):
    try:
        signature = inspect.signature(value)
    except ValueError:
        return "(...)"
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    signature = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return re.sub(r" at 0x[0-9a-f]+", "", str(signature))


def program_lines():
    from schirn.app.cli import commands
    from schirn.program.parser import build_parser

    for parser in walk(build_parser(commands())):
        yield parser.prog
        for action in parser._actions:
            if action.option_strings:
                yield f"    {', '.join(action.option_strings)}"


def walk(parser):
    """A parser of the program, then those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from walk(child)


def text(found):
    return "\n\n".join("\n".join([f"[{title}]", *lines]) for title, lines in found.items()) + "\n"


def read(listed):
    """The sections of a listing."""
    found = {}
    for block in listed.strip().split("\n\n"):
        title, *lines = block.splitlines()
        found[title.strip("[]")] = lines
    return found


if __name__ == "__main__":
    kept = read(LISTED.read_text()) if LISTED.exists() else {}
    found = sections()
    absent = set(documented()) - set(found)
    # A module that needs a package which is not here keeps its lines.
    found |= {title: lines for title, lines in kept.items() if title in absent}
    LISTED.write_text(text(dict(sorted(found.items(), key=lambda item: item[0]))))
