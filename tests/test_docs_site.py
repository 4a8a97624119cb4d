"""Extensions of the documentation site: formulas, fields of docstrings, links."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="the site needs the extra docs")
pytest.importorskip("latex2mathml", reason="the site needs the extra docs")

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "math").glob("*.md"))


@pytest.fixture(scope="module")
def extensions():
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    import gallery_links
    import mathml
    import plain_fields

    yield mathml, plain_fields, gallery_links
    sys.path.remove(str(ROOT / "docs" / "_ext"))


def formulas(text):
    """Display and inline formulas of a page."""
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)
    blocks = re.findall(r"\$\$(.+?)\$\$", text, re.S)
    inline = re.findall(r"\$([^$]+)\$", re.sub(r"\$\$.+?\$\$", "", text, flags=re.S))
    return [(latex, "block") for latex in blocks] + [(latex, "inline") for latex in inline]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_formula_becomes_mathml(page, extensions):
    found = formulas(page.read_text("utf-8"))
    assert found
    for latex, display in found:
        result = extensions[0].mathml(latex, display)
        assert result.startswith("<math")
        # The converter leaves unknown commands unchanged.
        assert "\\" not in re.sub(r"<[^>]*>", "", result), latex


def test_lines_of_a_formula_are_aligned_and_min_has_its_variable_below(extensions):
    result = extensions[0].mathml(r"\min_x &= a \\ b &= c", "block")
    assert result.count("<mtr>") == 2
    assert "munder" in result
    assert "munder" not in extensions[0].mathml(r"\min_x a", "inline")


def test_text_behind_a_name_is_no_type(extensions):
    doc = ["Fit.", "", "Parameters", "----------", "a, b : how much", "    of it.", "c : int"]
    shown = extensions[1].plain_fields(doc)
    assert shown[2] == ".. rubric:: Parameters"
    assert shown[4:8] == ["``a``, ``b``", "    how much", "    of it.", ""]
    assert "``c`` : int" in shown


def test_a_short_text_above_its_description_is_a_type(extensions):
    doc = [
        "Parameters",
        "----------",
        "law : NoiseLaw or None",
        "    The noise.",
        "x : how",
        "    it",
    ]
    shown = extensions[1].plain_fields(doc)
    assert shown[2:4] == ["``law`` : NoiseLaw or None", "    The noise."]
    assert shown[4:7] == ["``x``", "    how", "    it"]
    trace = extensions[1].plain_fields(["Attributes", "----------", "a_ : array (n_iter_,)"])
    assert r"``a_`` : array (n_iter\_,)" in trace


def test_fitted_attributes_keep_their_underscore(extensions):
    doc = ["Attributes", "----------", "coef_ : (l, d);  intercept_ : (l,)", "n_iter_, classes_"]
    shown = extensions[1].plain_fields([*doc, "", "Notes", "-----", "Text."])
    assert [line for line in shown if line.startswith("``")] == [
        "``coef_``",
        "``intercept_``",
        "``n_iter_``, ``classes_``",
    ]
    assert shown[-3:] == ["Notes", "-----", "Text."]


def test_bars_are_no_substitutions(extensions):
    assert extensions[1].plain_bars(["a |N| and >= |x|"]) == [r"a \|N\| and >= \|x\|"]
    assert extensions[1].plain_bars([">>> |N|", r"\|W\|_F"]) == [">>> |N|", r"\|W\|_F"]


def test_links_to_examples_lead_to_the_gallery(extensions):
    to_gallery = extensions[2].to_gallery
    assert to_gallery("[a](../examples/plot_1.py)", 0) == "[a](gallery/plot_1.rst)"
    assert to_gallery("[a](../../examples/plot_1.py)", 1) == "[a](../gallery/plot_1.rst)"
    assert to_gallery("[a](../examples/other.py)", 0) == "[a](../examples/other.py)"


def test_the_site_holds_the_leaderboard_where_results_are(tmp_path, extensions, monkeypatch):
    import leaderboard_pages

    folders = []
    monkeypatch.setattr(leaderboard_pages, "RESULTS", tmp_path)
    monkeypatch.setattr(
        leaderboard_pages, "build_leaderboard", lambda paths, folder: folders.append(folder)
    )
    html = SimpleNamespace(outdir="site", builder=SimpleNamespace(format="html"))
    leaderboard_pages.write_pages(html, None)
    assert folders == []
    (tmp_path / "pml-2.jsonl.gz").write_bytes(b"")
    leaderboard_pages.write_pages(html, RuntimeError("the build failed"))
    assert folders == []
    leaderboard_pages.write_pages(html, None)
    # `leaderboard.md` links to this folder.
    assert folders == [Path("site") / "leaderboard"]
