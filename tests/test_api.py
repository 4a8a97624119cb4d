"""The public names are those of the reference, and they do not change unnoticed."""

import difflib
from importlib import import_module

import api_listing
import pytest


def test_the_public_names_are_those_that_are_listed():
    listed = api_listing.read(api_listing.LISTED.read_text())
    found = api_listing.sections()
    # A module that needs a package which is not here cannot be compared.
    absent = set(api_listing.documented()) - set(found)
    listed = {title: lines for title, lines in listed.items() if title not in absent}
    old, new = (
        api_listing.text(dict(sorted(part.items()))).splitlines() for part in (listed, found)
    )
    changed = [
        line
        for line in difflib.unified_diff(old, new, lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    if changed:
        pytest.fail(
            "the public names or parameters differ from tests/public_api.txt; if that is meant, "
            "run `make api`, commit the file and say it in CHANGELOG.md:\n" + "\n".join(changed)
        )


def test_the_reference_documents_what_a_package_exports():
    """A package that lists `__all__` exports what the reference documents, and nothing else."""
    text = "".join(page.read_text("utf-8") for page in api_listing.REFERENCE.glob("*.md"))
    documented = api_listing.documented()
    top = import_module("schirn")
    for name, public in documented.items():
        try:
            exported = getattr(import_module(name), "__all__", None)
        except ImportError:
            continue
        if exported is not None:
            other = {n for n in exported if n.isupper() and f"`{n}`" in text}
            if name != "schirn":
                # Documented where users import it from.
                module = import_module(name)
                shared = set(exported) & set(documented["schirn"]) - set(public)
                other |= {n for n in shared if getattr(module, n) is getattr(top, n)}
            assert set(exported) - other - {"__version__", "datasets", "metrics"} == set(public)


def test_a_change_is_noticed(monkeypatch):
    import schirn

    before = api_listing.sections()
    monkeypatch.setattr(schirn, "load", lambda path, extra=None: None)
    after = api_listing.sections()
    assert set(after["schirn"]) - set(before["schirn"]) == {"load(path, extra=None)"}


def test_parameters_are_listed_without_types():
    def function(a: int, *, b: str = "x") -> float: ...

    assert api_listing.parameters(function) == "(a, *, b='x')"
