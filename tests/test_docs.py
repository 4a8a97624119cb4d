"""The Python blocks of the documentation run as pasted by a reader; links and paths exist."""

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def python_blocks(page):
    """The plain Python blocks of a page, also those inside of lists."""
    fences = re.findall(r"^( *)```python\n(.*?)^\1```", page.read_text("utf-8"), re.M | re.S)
    return [textwrap.dedent(block) for _, block in fences if ">>>" not in block]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path):
    blocks = python_blocks(page)
    if not blocks:
        pytest.skip("the page has no plain Python block; its examples are doctests")
    if page.name == "tools.md":
        for name in ("pandas", "polars", "pyarrow", "onnx", "onnxruntime"):
            pytest.importorskip(name, reason=f"{name} is not installed")
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
    text = page.read_text("utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)\)", text)
    targets += re.findall(r"\bsrc(?:set)?=\"([^\"]+)\"", text)
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_benchmarks_named_on_pages_exist():
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    named = set(re.findall(r"python -m benchmarks\.(\w+)", text))
    assert len(named) > 20
    assert not {name for name in named if not (ROOT / "benchmarks" / f"{name}.py").exists()}


def names_in(path):
    """Names that a module defines at any depth."""
    tree = ast.parse(path.read_text("utf-8"))
    found = {getattr(node, "name", None) for node in ast.walk(tree)}
    return found | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_files_and_names_of_the_architecture_page_exist():
    text = " ".join((ROOT / "docs" / "architecture.md").read_text("utf-8").split())
    spans = re.findall(r"`([\w/]+(?:\.py|/))`(?: · ((?:`\w+`(?:, )?)+))?", text)
    assert len(spans) > 30
    missing = []
    for file, names in spans:
        path = next((p for p in (ROOT / "src" / "schirn" / file, ROOT / file) if p.exists()), None)
        if path is None:
            missing.append(file)
        elif names:
            wanted = re.findall(r"`(\w+)`", names)
            missing += [f"{file}: {n}" for n in wanted if n not in names_in(path)]
    assert not missing, "update docs/architecture.md"
