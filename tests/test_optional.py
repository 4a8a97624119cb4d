"""Errors about missing packages advise a command that works without a release of schirn."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from schirn._optional import install_command, optional
from schirn.exceptions import MissingExtraError

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


def packages_of(extra):
    """The requirements of an extra, with those of the extras that it includes."""
    for line in EXTRAS[extra]:
        nested = re.fullmatch(r"schirn\[([\w,-]+)\]", line)
        if nested is None:
            yield line
        else:
            for name in nested[1].split(","):
                yield from packages_of(name)


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_the_command_names_the_packages_of_the_extra(extra):
    command = install_command(extra)
    assert "schirn" not in command
    assert set(re.findall(r'"([^"]+)"', command)) == set(packages_of(extra))


def test_the_error_names_package_extra_and_command():
    with pytest.raises(MissingExtraError) as caught:
        optional("no_such_package.part", "table", "Reading Parquet files")
    assert str(caught.value) == (
        "Reading Parquet files needs the package 'no_such_package' of the extra 'table'; "
        f"install it with: {install_command('table')}"
    )


def test_in_an_environment_of_pipx_the_package_is_injected(monkeypatch, tmp_path):
    (tmp_path / "pipx_metadata.json").write_text("{}")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_command("xlsx") == 'pipx inject schirn "openpyxl>=3.1"'


def test_without_metadata_the_extra_is_named(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert install_command("xlsx") == 'pip install "schirn[xlsx]"'
