"""Errors about missing packages advise a command that works without a release of schirn."""

import re
import subprocess
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


# A process without the packages of the extra, and what none of its modules may import instead.
WITHOUT = """
import sys
for name in ("h11", "httptools", "starlette", "uvicorn"):
    sys.modules[name] = None
from schirn.app.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("command", "purpose"), [("serve", "The server"), ("review", "The review page")]
)
def test_commands_that_serve_name_the_extra_before_they_work(tmp_path, command, purpose):
    table = tmp_path / "items.csv"
    table.write_text("title,tags\n" + "red pan,pan\noak chair,chair;oak\n" * 6)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, command, str(table)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"schirn: {purpose} needs the package 'starlette' of the extra 'review'; "
        f"install it with: {install_command('review')}\n"
    )
    # Ranking takes long; nothing was ranked first.
    assert [path.name for path in tmp_path.iterdir()] == ["items.csv"]
