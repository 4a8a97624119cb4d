"""The Python blocks of the documentation run as pasted by a reader; links and paths exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def python_blocks(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    return [block for block in blocks if ">>>" not in block]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path):
    blocks = python_blocks(page)
    if not blocks:
        pytest.skip("the page has no plain Python block; its examples are doctests")
    if page.name == "deep.md":
        pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")
        pytest.importorskip("safetensors", reason="safetensors (the extra deep) is not installed")
    script = tmp_path / "pasted.py"
    script.write_text("\n".join(blocks), "utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)\)", page.read_text("utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing
