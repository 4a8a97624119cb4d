import difflib

import api_listing
import pytest


def test_the_public_names_are_those_that_are_listed():
    listed = api_listing.read(api_listing.LISTED.read_text())
    found = api_listing.sections()
    # A module that needs a package which is not here cannot be compared.
    absent = set(api_listing.public_modules()) - set(found)
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


def test_every_listed_name_of_a_module_exists():
    from importlib import import_module

    for name in api_listing.public_modules():
        try:
            module = import_module(name)
        except ImportError:
            continue
        for public in getattr(module, "__all__", ()):
            assert hasattr(module, public), f"{name}.__all__ names {public!r}, which is not there"


def test_a_change_is_noticed(monkeypatch):
    import schirn

    before = api_listing.sections()
    monkeypatch.setattr(schirn, "__all__", [*schirn.__all__, "cleaning"])
    after = api_listing.sections()
    assert set(after["schirn"]) - set(before["schirn"]) == {"cleaning = module schirn.cleaning"}


def test_parameters_are_listed_without_types():
    def function(a: int, *, b: str = "x") -> float: ...

    assert api_listing.parameters(function) == "(a, *, b='x')"
