"""The Debian example on a sample: packages and their role, from the installed lists."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "debian_tags.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("debian_tags", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(script):
    if shutil.which("apt-cache") is None or not Path(script.HELPER).exists():
        pytest.skip("apt-cache is missing: this is not a Debian system")
    rows = script.packages(facets=("role",))
    if len(rows) < 5000:
        pytest.skip("the package lists have no tags; run apt-get update")
    return rows


def test_suspicious_tags_of_packages_are_wrong_and_most_wrong_ones_are_found(
    script, rows, tmp_path
):
    noisy = script.with_wrong_tags(script.sample(rows, 800))
    confidence, wrong = script.clean(noisy, tmp_path)
    assert wrong.sum() == 800
    # Nine of ten of the most suspicious tags are wrong, down to half of the wrong ones.
    assert wrong[np.argsort(confidence)[:445]].mean() >= 0.9


def test_paragraphs_become_fields(script):
    text = "Package: a\nTag: x::y,\n  z::w\nDescription: one\n\nPackage: b\n"
    first, second = script.records(text)
    assert first == {"Package": "a", "Tag": "x::y,  z::w", "Description": "one"}
    assert second["Package"] == "b"
