"""List the public names, with their parameters, and the options of the program.

`python tests/api_listing.py` writes the list to `tests/public_api.txt`. A name is public if no part
of its path starts with an underscore. Types are left out: how they print depends on Python.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path

LISTED = Path(__file__).with_name("public_api.txt")
PROGRAM = "the program"


def sections():
    """Title -> lines for every public module that can be imported here, and for the program."""
    found = {}
    for name in public_modules():
        try:
            module = import_module(name)
        except ImportError:
            continue
        lines = list(module_lines(module))
        if lines:
            found[name] = lines
    found[PROGRAM] = list(program_lines())
    return found


def public_modules():
    """Names of all modules, private ones and the parts of the program left out."""
    import schirn

    # By file: a package whose own requirements are missing could not be walked.
    root = Path(schirn.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        parts = ["schirn", *path.relative_to(root).with_suffix("").parts]
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        private = any(part.startswith("_") for part in parts)
        if not private and parts[1:2] != ["cli"]:
            found.append(".".join(parts))
    return sorted([*found, "schirn.cli"])


def module_lines(module):
    for name in sorted(public_names(module), key=str.lower):
        value = getattr(module, name)
        home = getattr(value, "__module__", None)
        if inspect.ismodule(value):
            yield f"{name} = module {value.__name__}"
        elif callable(value) and home != module.__name__ and is_public(home):
            yield f"{name} = {home}.{value.__qualname__}"
        elif inspect.isclass(value):
            yield from class_lines(value)
        elif inspect.isroutine(value):
            yield f"{name}{parameters(value)}"
        else:
            yield name


def public_names(module):
    """What `__all__` lists; else the functions, classes and constants made in the module."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (getattr(value, "__module__", None) == module.__name__ or name.isupper())
    ]


def is_public(path):
    return (
        path is not None
        and path.startswith("schirn")
        and not any(part.startswith("_") for part in path.split("."))
    )


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
    from schirn.cli import COMMANDS
    from schirn.cli._parser import build_parser
    from schirn.cli.completion import walk

    for command in walk(build_parser(COMMANDS)):
        yield f"schirn {command.path}".strip()
        for option in command.options:
            yield f"    {', '.join(option.flags)}"


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
    absent = set(public_modules()) - set(found)
    # A module that needs a package which is not here keeps its lines.
    found |= {title: lines for title, lines in kept.items() if title in absent}
    LISTED.write_text(text(dict(sorted(found.items(), key=lambda item: item[0]))))
