"""Files of options."""

import pytest

from schirn.exceptions import InputError
from schirn.program.configuration import read_configuration


def test_options_at_the_top_and_of_commands(tmp_path):
    path = tmp_path / "schirn.toml"
    path.write_text('id = "sku"\n[clean]\nnumber = 50\n')
    assert read_configuration(path) == {"id": "sku", "clean": {"number": 50}}


def test_options_in_pyproject_have_a_table_of_their_own(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\nname = "shop"\n[tool.schirn]\nid = "sku"\n')
    assert read_configuration(path) == {"id": "sku"}
    path.write_text('[project]\nname = "shop"\n')
    assert read_configuration(path) == {}


@pytest.mark.parametrize("content", [b"id = ", b"\xff", b"a = " + b"[" * 100_000])
def test_files_that_are_not_toml(tmp_path, content):
    path = tmp_path / "schirn.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"schirn\.toml: not TOML"):
        read_configuration(path)
