"""Every public object documents its parameters, what it returns, and its attributes."""

import ast
import inspect
import typing
from importlib import import_module
from pathlib import Path

import api_listing
import pytest

docscrape = pytest.importorskip("numpydoc.docscrape", reason="numpydoc is not installed")

SOURCE = Path(__file__).parents[1] / "src" / "schirn"


def public_objects():
    """Name -> object for all functions, classes and methods of the reference (docs/api)."""
    objects = {}
    for module_name, names in api_listing.documented().items():
        try:
            module = import_module(module_name)
        except ImportError:
            continue
        for name in names:
            value = getattr(module, name)
            if inspect.isclass(value):
                objects[f"{module_name}.{name}"] = value
                objects |= {
                    f"{module_name}.{name}.{key}": member for key, member in methods_of(value)
                }
            elif inspect.isroutine(value):
                objects[f"{module_name}.{name}"] = value
    return objects


def methods_of(cls):
    """Public functions that a class itself defines."""
    for name, value in vars(cls).items():
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        if not name.startswith("_") and inspect.isfunction(value):
            yield name, value


def gaps(value):
    """What the docstring of an object lacks."""
    text = inspect.getdoc(value) if not inspect.isclass(value) else value.__doc__
    if not text:
        return ["docstring"]
    sections = docscrape.NumpyDocString(inspect.cleandoc(text))
    documented = names_in(sections["Parameters"]) | names_in(sections["Other Parameters"])
    attributes = names_in(sections["Attributes"])
    # The fields of a record are its attributes and its parameters.
    known = documented | attributes if inspect.isclass(value) else documented
    expected = parameters_of(value)
    lacking = [f"parameter {name}" for name in expected if name not in known]
    lacking += [f"unknown parameter {name}" for name in sorted(documented - set(expected))]
    if returns_something(value) and not (sections["Returns"] or sections["Yields"]):
        lacking.append("what it returns")
    return lacking


def names_in(section):
    """Names of a section; one line may name several, as in `low, high : float`."""
    return {
        name.strip().lstrip("*") for item in section for name in item.name.split(",") if item.name
    }


def parameters_of(value):
    """Names of the parameters, without `self`."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except ValueError:
        return []
    names = [p.name for p in parameters if not p.name.startswith("_")]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    return names


def returns_something(value):
    """Whether a function has an annotation of what it returns, and that is not None."""
    if inspect.isclass(value):
        return False
    annotation = inspect.signature(value).return_annotation
    nothing = (None, "None", inspect.Signature.empty, typing.NoReturn, "NoReturn")
    return annotation not in nothing


OBJECTS = public_objects()


@pytest.mark.parametrize("name", OBJECTS)
def test_everything_public_is_documented(name):
    assert gaps(OBJECTS[name]) == []


def test_a_gap_is_found():
    def function(a: int, b: int) -> int:
        """Add.

        Parameters
        ----------
        a : int
        c : int
        """
        return a + b

    assert gaps(function) == ["parameter b", "unknown parameter c", "what it returns"]
    assert gaps(lambda: None) == ["docstring"]


def packed(source):
    """Lines that assign three or more values to three or more names at once."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Tuple) and len(target.elts) >= 3
    ]


def test_packed_lines_are_rare():
    """A line says one thing; three names at once are for what is one thing."""
    places = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in packed(path.read_text("utf-8"))
    ]
    assert len(places) <= 10, places


def test_a_packed_line_is_found():
    assert packed("a, b, c = 1, 2, 3\nd, e = 1, 2\nf, g, h = triple") == [1]
