"""The report on cleaned tags in a real browser: sort, filter, search, try thresholds."""

from dataclasses import replace

import numpy as np
import pytest
from browser_helpers import needs_browser, open_browser, set_width

from schirn.cleaning import look_at_table
from schirn.cleaning.found import MissingTags, NoisyLabels
from schirn.cleaning.threshold_curve import planted_curve

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


def make_found():
    """Three rows; one tag is code."""
    ids, labels = ["a", "b", "c"], ["beach", "dog", NASTY]
    row = np.array([ids.index(i) for i, _ in CONFIDENCE])
    column = np.array([labels.index(label) for _, label in CONFIDENCE])
    confidence = np.array(list(CONFIDENCE.values()))
    judged = np.ones(len(row), dtype=bool)
    return NoisyLabels(3, labels, row, column, confidence, confidence < 0.5, judged, 0.5, "Sieve")


def make_page():
    """One text is code as well."""
    texts = ["Sand and waves", f"Barking {NASTY}", "A puppy on the sand"]
    ids, found = ["a", "b", "c"], make_found()
    X = np.array([[1.0, 0, 0, 1], [0, 1, 0, 2], [1, 0, 1, 0]])
    names = ["sand", "bark", NASTY, "price"]
    reasons = found.reasons(X, feature_names=names)
    title = f"items {NASTY}"
    return found.report(texts=texts, ids=ids, title=title, reasons=reasons).html()


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


def choose(page, name, text):
    field = page.find_element("css selector", f"#tools [name={name}]")
    next(o for o in field.find_elements("tag name", "option") if o.text == text).click()


def first_cells(page):
    return [cell.text for cell in page.find_elements("css selector", "#labels tbody th")]


def test_hostile_text_is_shown_as_text(page):
    assert page.title == f"Wrong tags in items {NASTY}"
    assert page.find_element("tag name", "h1").text == f"Wrong tags in items {NASTY}"
    assert NASTY in first_cells(page)
    assert ("b", NASTY) in cards(page)
    assert f"Barking {NASTY}" in page.find_element("id", "cards").text
    assert page.find_elements("css selector", "img, #cards script") == []


def test_cards_are_ordered(page):
    low = sorted(CONFIDENCE, key=CONFIDENCE.get)
    assert cards(page) == low
    choose(page, "order", "closest calls first")
    assert cards(page) == sorted(CONFIDENCE, key=lambda tag: abs(CONFIDENCE[tag] - 0.5))
    choose(page, "order", "by row")
    assert [row for row, _ in cards(page)] == list("aabbccc")


def test_cards_are_filtered(page):
    choose(page, "verdict", "removed")
    assert set(cards(page)) == {tag for tag, value in CONFIDENCE.items() if value < 0.5}
    choose(page, "label", NASTY)
    assert cards(page) == [("b", NASTY)]
    assert page.find_element("css selector", "#tools output").text == "1 of 7 shown"
    choose(page, "verdict", "all")
    assert set(cards(page)) == {("b", NASTY), ("c", NASTY)}
    choose(page, "label", "all tags")
    assert len(cards(page)) == 7


def test_cards_are_searched(page):
    field = page.find_element("css selector", "#tools [name=words]")
    field.send_keys("SAND pup")
    assert {row for row, _ in cards(page)} == {"c"}
    field.clear()
    field.send_keys("onerror=")
    assert {row for row, _ in cards(page)} == {"b", "c"}
    field.clear()
    field.send_keys("nothing like this")
    assert cards(page) == []
    assert page.find_element("css selector", "#tools output").text == "0 of 7 shown"
    # Return must not send the form, which would load the page anew.
    field.send_keys("\n")
    assert field.get_property("value") == "nothing like this"


def test_the_table_of_tags_is_sorted(page):
    heads = {h.text: h for h in page.find_elements("css selector", "#labels thead th")}
    assert heads["removed"].get_attribute("aria-sort") == "descending"
    assert first_cells(page) == ["dog", NASTY, "beach"]
    heads["estimated wrong"].find_element("tag name", "button").click()
    shares = {"beach": (0.98 + 0.1) / 2, "dog": (0.03 + 0.55 + 0.85) / 3, NASTY: (0.8 + 0.4) / 2}
    assert first_cells(page) == sorted(shares, key=shares.get, reverse=True)
    heads["estimated wrong"].find_element("tag name", "button").click()
    assert first_cells(page) == sorted(shares, key=shares.get)
    assert heads["estimated wrong"].get_attribute("aria-sort") == "ascending"
    assert heads["removed"].get_attribute("aria-sort") is None
    heads["tag"].find_element("tag name", "button").send_keys("\n")
    assert first_cells(page)[0] == "dog"


@pytest.fixture
def suggesting(driver, tmp_path):
    """The same rows with two suggestions and a curve."""
    found = make_found()
    planted = np.linspace(0, 0.7, 40)
    curve = planted_curve(found.confidence, planted, threshold=0.5, shares=(0.2, 0.3, 0.4))
    missing = MissingTags(
        np.array([0, 1]), np.array([2, 0]), np.array([0.93, 0.6]), found.label_names
    )
    whole = replace(found, missing=missing, missing_rate=0.1, threshold_curve=curve)
    path = tmp_path / "report.html"
    path.write_text(whole.report(ids=["a", "b", "c"]).html(), "utf-8")
    driver.get(path.as_uri())
    yield driver, curve
    assert driver.get_log("browser") == []


def test_suggestions_are_filtered(suggesting):
    page, _ = suggesting
    assert len(cards(page)) == 9
    choose(page, "verdict", "suggested")
    assert cards(page) == [("b", "beach"), ("a", NASTY)]
    choose(page, "order", "most likely first")
    assert cards(page) == [("a", NASTY), ("b", "beach")]
    assert page.find_element("css selector", ".card .tag.in").text.startswith("+ ")
    heads = [h.text for h in page.find_elements("css selector", "#labels thead th")]
    assert heads[-1] == "suggested"
    page.find_elements("css selector", "#labels thead button")[-1].click()
    assert set(first_cells(page)[:2]) == {"beach", NASTY}


def test_a_threshold_is_tried_by_keyboard(suggesting):
    page, curve = suggesting
    slider = page.find_element("id", "threshold")
    output = page.find_element("css selector", "#pick output")
    cursor = page.find_element("id", "cursor")
    assert output.text == curve.at(0.5).sentence
    slider.send_keys("\ue012" * 5)  # five times left
    assert output.text == curve.at(0.4).sentence
    assert float(cursor.get_attribute("x1")) == pytest.approx(40)
    assert slider.get_attribute("aria-valuetext") == "threshold 0.4"
    slider.send_keys("\ue010")  # end
    assert output.text == curve.points[-1].sentence
    table = page.find_element("css selector", "details table")
    assert not table.is_displayed()
    page.find_element("css selector", "summary").send_keys("\n")
    assert table.is_displayed()
    assert len(table.find_elements("css selector", "tbody tr")) == 9


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
        assert f"“{NASTY}” was removed (20% likely to be correct)" in told
        assert "Most similar rows with it\nrow c: A puppy on the sand" in told
        assert "Words or columns of this row" in told
        assert "Other tags of this row" not in told
        # The code in the name of a feature is text, and nothing sticks out.
        assert NASTY in why.find_elements("tag name", "ul")[-1].text
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        assert page.title.startswith("Wrong tags in items")
        summary.send_keys("\n")
        assert why.get_attribute("open") is None
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_search_does_not_look_into_the_reasons(page):
    field = page.find_element("css selector", "#tools [name=words]")
    field.send_keys("similar")
    assert cards(page) == []


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_sticks_out(suggesting, width):
    page, _ = suggesting
    set_width(page, width)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        plot = page.find_element("css selector", ".plot svg").rect
        assert plot["width"] > 0.6 * min(width, 1000)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [400, 1400])
def test_findings_are_opened_by_keyboard(driver, tmp_path, width):
    names = [*(f"{NASTY} {k}" for k in range(30)), "Dog", "dog", "dog"]
    findings = look_at_table([[name] for name in names], texts=["x" * 300, *[NASTY] * 32])
    path = tmp_path / "report.html"
    path.write_text(make_found().report(findings=findings).html(), "utf-8")
    set_width(driver, width)
    try:
        driver.get(path.as_uri())
        boxes = driver.find_elements("css selector", ".findings > li")
        kinds = [box.find_element("tag name", "b").text for box in boxes]
        assert kinds == ["spelling", "copies", "in one row"]
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
