"""The report on cleaned tags in a real browser: sort, filter, search."""

from dataclasses import replace

import numpy as np
import pytest
from browser_helpers import needs_browser, open_browser, set_width

from schirn.app.tables import look_at_table
from schirn.cleaning import MissingTags, NoisyLabels

pytest.importorskip("jinja2", reason="the report needs jinja2")
pytestmark = needs_browser

NASTY = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
CONFIDENCE = {
    ("a", "beach"): 0.02,
    ("a", "dog"): 0.97,
    ("b", "dog"): 0.45,
    ("b", NASTY): 0.2,
    ("c", NASTY): 0.6,
    ("c", "beach"): 0.9,
    ("c", "dog"): 0.15,
}


def make_ranking():
    """Three rows; one tag is code."""
    ids, labels = ["a", "b", "c"], ["beach", "dog", NASTY]
    row = np.array([ids.index(i) for i, _ in CONFIDENCE])
    column = np.array([labels.index(label) for _, label in CONFIDENCE])
    confidence = np.array(list(CONFIDENCE.values()))
    judged = np.ones(len(row), dtype=bool)
    ranking = NoisyLabels.from_arrays(
        3, labels, row, column, confidence, judged, "Sieve", keep_one=False
    )
    return ranking.remove(below=0.5)


def make_page():
    """One text is code as well."""
    texts = ["Sand and waves", f"Barking {NASTY}", "A puppy on the sand"]
    ids, ranking = ["a", "b", "c"], make_ranking()
    X = np.array([[1.0, 0, 0, 1], [0, 1, 1, 2], [1, 0, 1, 0]])
    names = ["sand", "bark", NASTY, "price"]
    reasons = ranking.reasons(X, feature_names=names)
    title = f"items {NASTY}"
    return ranking.report(texts=texts, ids=ids, title=title, reasons=reasons).html()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.fixture
def page(driver, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(make_page(), "utf-8")
    driver.get(path.as_uri())
    yield driver
    # Nothing failed and nothing was loaded or blocked.
    assert driver.get_log("browser") == []


def cards(page):
    """Row and tag of the cards that are seen, in their order."""
    nodes = page.find_elements("css selector", ".card")
    return [
        (node.find_element("class name", "where").text.split(",")[0][4:],
         node.find_element("tag name", "h3").text.rsplit("\n", 1)[0])
        for node in nodes
        if node.is_displayed()
    ]  # fmt: skip


def first_cells(page):
    return [cell.text for cell in page.find_elements("css selector", "#labels tbody th")]


def test_hostile_text_is_shown_as_text(page):
    assert page.title == f"Suspicious tags in items {NASTY}"
    assert page.find_element("tag name", "h1").text == f"Suspicious tags in items {NASTY}"
    assert NASTY in first_cells(page)
    assert ("b", NASTY) in cards(page)
    assert f"Barking {NASTY}" in page.find_element("id", "cards").text
    assert page.find_elements("css selector", "img, #cards script") == []


def test_cards_are_ordered(page):
    low = sorted(CONFIDENCE, key=CONFIDENCE.get)
    assert cards(page) == low


def test_the_table_of_tags_is_sorted(page):
    heads = {h.text: h for h in page.find_elements("css selector", "#labels thead th")}
    assert heads["removed"].get_attribute("aria-sort") == "descending"
    assert first_cells(page) == ["dog", NASTY, "beach"]
    heads["listed"].find_element("tag name", "button").click()
    assert first_cells(page)[0] == "dog"
    heads["listed"].find_element("tag name", "button").click()
    assert first_cells(page)[-1] == "dog"
    assert heads["listed"].get_attribute("aria-sort") == "ascending"
    assert heads["removed"].get_attribute("aria-sort") is None
    heads["tag"].find_element("tag name", "button").send_keys("\n")
    assert first_cells(page)[0] == "dog"


@pytest.fixture
def suggesting(driver, tmp_path):
    """The same rows with two tags that may be missing."""
    ranking = make_ranking()
    missing = MissingTags(
        np.array([0, 1]), np.array([2, 0]), np.array([0.93, 0.6]), ranking.label_names
    )
    path = tmp_path / "report.html"
    path.write_text(replace(ranking, missing=missing).report(ids=["a", "b", "c"]).html(), "utf-8")
    driver.get(path.as_uri())
    yield driver
    assert driver.get_log("browser") == []


def test_missing_tags_have_their_own_list(suggesting):
    page = suggesting
    assert len(cards(page)) == 9
    assert cards(page)[7:] == [("a", NASTY), ("b", "beach")]
    assert page.find_element("css selector", "#suggestions .tag.in").text.startswith("+ ")


@pytest.mark.parametrize("width", [400, 1400])
def test_a_verdict_is_opened_by_keyboard(page, width):
    set_width(page, width)
    try:
        card = next(c for c in page.find_elements("css selector", ".card") if "row b" in c.text)
        why = card.find_element("css selector", ".why")
        summary = why.find_element("tag name", "summary")
        assert not why.find_element("tag name", "ul").is_displayed()
        summary.send_keys("\n")
        assert why.get_attribute("open") is not None
        assert why.find_element("tag name", "ul").is_displayed()
        assert summary.get_attribute("textContent") == f"Why? {NASTY}, row b"
        told = why.text
        assert f"“{NASTY}” is removed (the model gives it 20%)" in told
        similar = told.partition("Most similar rows with it")[2]
        assert "row c: A puppy on the sand" in similar
        assert "Words or columns of this row" in told
        assert "Other tags of this row" not in told
        # The code in the name of a feature is text, and nothing sticks out.
        assert NASTY in why.find_elements("tag name", "ul")[-1].text
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        assert page.title.startswith("Suspicious tags in items")
        summary.send_keys("\n")
        assert why.get_attribute("open") is None
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_sticks_out(suggesting, width):
    page = suggesting
    set_width(page, width)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        cards = page.find_element("id", "cards").rect
        assert cards["width"] > 0.6 * min(width, 1000)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [400, 1400])
def test_findings_are_opened_by_keyboard(driver, tmp_path, width):
    names = [*(f"{NASTY} {k}" for k in range(30)), "Dog", "dog", "dog"]
    findings = look_at_table([[name] for name in names], texts=["x" * 300, *[NASTY] * 32])
    path = tmp_path / "report.html"
    path.write_text(make_ranking().report(findings=findings).html(), "utf-8")
    set_width(driver, width)
    try:
        driver.get(path.as_uri())
        boxes = driver.find_elements("css selector", ".findings > li")
        kinds = [box.find_element("tag name", "b").text for box in boxes]
        assert kinds == ["spelling", "copies", "tags in one row"]
        assert "Dog (1 row) → dog (2), case" in boxes[0].text
        assert "31 rows are copies of earlier ones" in boxes[1].text
        example = boxes[1].find_element("css selector", "details li")
        assert not example.is_displayed()
        boxes[1].find_element("tag name", "summary").send_keys("\n")
        assert example.is_displayed()
        assert boxes[1].find_element("tag name", "summary").text == "The first 20 of 31"
        assert NASTY[:20] in example.text
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert driver.get_log("browser") == []


def test_a_report_without_findings_has_no_section(page):
    assert page.find_elements("id", "findings") == []
