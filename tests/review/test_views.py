"""Every control of the page in a real browser, on a phone and on a wide screen."""

import csv
import io
import re
import struct
import zlib
from importlib.resources import files

import numpy as np
import pytest
from browser_helpers import needs_browser, open_browser, set_width, until

pytest.importorskip("starlette", reason="the review page needs starlette")
pytest.importorskip("uvicorn", reason="the review page needs uvicorn")

from review.page_helpers import ThreadServer, click, find, find_all, no_news, shown, text, wait
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from schirn.cleaning import NoisyLabels
from schirn.review import open_session
from schirn.review.project import write_project
from schirn.review.table import TableRoles
from schirn.tables.files import open_table

NASTY = '<img src=x onerror="document.title=1">'
LABELS = [NASTY, "kids", "office"]
N = 70


def png(path):
    """An image of one blue pixel."""

    def chunk(kind, data):
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0\x20\x40\xa0")
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", data), chunk(b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A project of 70 rows: office is suspicious in 60 of them, kids in the last ten."""
    folder = tmp_path_factory.mktemp("views")
    png(folder / "a.png")
    rows = [
        {
            "sku": f"A{i:02}",
            "description": f"Desk {i} {'chair' if i % 2 else 'lamp'}" + " long" * (2000 * (i == 5)),
            "tags": f"office;{NASTY}" if i < 60 else "kids",
            "photo": "gone.png" if i == 1 else "a.png",
            "maker": NASTY,
        }
        for i in range(N)
    ]
    path = folder / "items.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    pairs = [(i, j) for i in range(N) for j in ((0, 2) if i < 60 else (1,))]
    row, column = np.array(pairs).T
    confidence = np.where(column == 0, 0.99, 0.15 + 0.3 * row / N)
    ranking = NoisyLabels(
        n_rows=N,
        label_names=LABELS,
        row=row,
        column=column,
        model_confidence=confidence,
        judged=np.ones(len(row), dtype=bool),
        method="Sieve",
        keep_one=False,
    ).remove(below=0.3)
    X = np.random.default_rng(0).normal(size=(N, 3))
    X[:, 0] += np.where(np.arange(N) < 60, 2, -2)
    write_project(
        str(folder / "project"),
        ranking,
        X,
        ids=[each["sku"] for each in rows],
        texts=[each["description"] for each in rows],
        table=open_table(path),
        source=str(path),
        roles=TableRoles("tags", ";", text=("description",), image="photo"),
        feature_names=["size", "weight", "age"],
    )
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.fixture(params=[400, 1400])
def driver(browser, request):
    set_width(browser, request.param)
    browser.get_log("browser")
    return browser


@pytest.fixture
def server(written, driver):
    (written / "project" / "journal.jsonl").unlink(missing_ok=True)
    with ThreadServer(open_session(written / "project")) as server:
        driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        yield server
        # Nothing was blocked, nothing failed, nothing is wider than the page.
        assert driver.get_log("browser") == []
        width = driver.execute_script("return innerWidth")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert driver.title == "schirn: review tags"
        driver.get("about:blank")


@pytest.fixture
def page(driver, server):
    """The page with the most suspicious tag; nobody has given a name."""
    driver.get(server.address)
    until(driver, lambda: text(driver, "label"))
    find(driver, "#order option[value=suspicious]").click()
    until(driver, lambda: shown(driver, "#opinion"))
    until(driver, lambda: text(driver, "label") == "office")
    return server


def press(driver, key):
    """Press a key wherever the focus is."""
    ActionChains(driver).send_keys(key).perform()


def focused(driver):
    return driver.execute_script("return document.activeElement.id")


def live(driver):
    return driver.execute_script("return document.getElementById('live').textContent")


def final(server, item):
    return next(r for r in server.session.final_tags() if r["id"] == item)


pytestmark = needs_browser


def test_images_and_other_columns(driver, page):
    current = page.session.view(order="suspicious")["current"]
    image = find(driver, "#picture img")
    until(driver, lambda: driver.execute_script("return arguments[0].naturalWidth", image) == 1)
    assert image.get_attribute("alt") == f"Image a.png of item {current['item']}"
    assert text(driver, "columns").split("\n") == ["sku", current["item"], "maker", NASTY]
    # A picture that is missing shows its name.
    press(driver, "/")
    find(driver, "#words").send_keys("A01")
    until(driver, lambda: len(find_all(driver, "#search-rows > li")) == 1)
    assert "Image gone.png cannot be shown" in text(driver, "search-rows")


def test_choosing_and_adding_tags(driver, page):
    press(driver, Keys.ARROW_LEFT)
    wait(driver, "label", NASTY)
    assert shown(driver, "#chosen")
    press(driver, Keys.ARROW_RIGHT)
    wait(driver, "label", "office")
    click(driver, "#tags button")
    wait(driver, "label", NASTY)
    press(driver, Keys.ESCAPE)
    until(driver, lambda: not shown(driver, "#chosen"))
    press(driver, "a")
    assert focused(driver) == "add"
    item = text(driver, "item")
    field = find(driver, "#add")
    field.send_keys("KI")
    offered = "return [...document.querySelectorAll('#known-tags option')].map((e) => e.value)"
    until(driver, lambda: driver.execute_script(offered) == ["kids"])
    field.send_keys(Keys.BACKSPACE * 2 + "k <b>new</b>" + Keys.ENTER)
    until(driver, lambda: "k <b>new</b> added by you" in text(driver, "tags"))
    assert text(driver, "item") == item
    assert "Added k <b>new</b>." in live(driver)
    assert final(page, item)["added"] == ["k <b>new</b>"]
    # What separates tags cannot be in one.
    field.send_keys("a;b" + Keys.ENTER)
    until(driver, lambda: "which separates tags" in text(driver, "banner"))
    field.clear()
    press(driver, Keys.ESCAPE)
    press(driver, "u")
    until(driver, lambda: "new" not in text(driver, "tags"))
    # The failed request was logged by the browser.
    assert all("400" in entry["message"] for entry in driver.get_log("browser"))


def test_renaming_and_merging(driver, page):
    press(driver, "r")
    assert focused(driver) == "new-name"
    until(driver, lambda: "60 rows have office." in text(driver, "rename-words"))
    press(driver, Keys.ESCAPE)
    until(driver, lambda: not shown(driver, "#rename"))
    click(driver, "#rename-button")
    until(driver, lambda: focused(driver) == "new-name")
    field = find(driver, "#new-name")
    field.clear()
    field.send_keys("kids")
    until(driver, lambda: "kids exists in 10 rows" in text(driver, "rename-words"))
    field.send_keys(Keys.ENTER)
    wait(driver, "label", "kids")
    assert page.session.names == [NASTY, "kids", "kids"]
    assert "Renamed office to kids." in live(driver)
    press(driver, "u")
    wait(driver, "label", "office")
    # The same from the list of tags.
    press(driver, "2")
    until(driver, lambda: len(find_all(driver, "#tag-table .link")) == 3)
    click(driver, "#tag-table .link")
    until(driver, lambda: text(driver, "batch-title") == "60 suspicious office")
    click(driver, "#batch-rename")
    until(driver, lambda: focused(driver) == "new-name")
    find(driver, "#new-name").clear()
    find(driver, "#new-name").send_keys("bureau" + Keys.ENTER)
    until(driver, lambda: text(driver, "batch-title") == "60 suspicious bureau")
    assert "Undo rename office to bureau" in text(driver, "undo")


def test_notes(driver, page):
    item = text(driver, "item")
    press(driver, "n")
    assert focused(driver) == "note"
    # Keys in a text are letters.
    find(driver, "#note").send_keys(f"kdsu {NASTY}")
    click(driver, "#note-form button")
    until(driver, lambda: f"office kdsu {NASTY}" in text(driver, "notes"))
    assert page.session.sequence == 1
    assert focused(driver) == "note-button"
    press(driver, "n")
    assert find(driver, "#note").get_property("value") == f"kdsu {NASTY}"
    click(driver, "#note-about option[value=item]")
    assert find(driver, "#note").get_property("value") == ""
    find(driver, "#note").send_keys("about the item")
    click(driver, "#note-form button")
    until(driver, lambda: "item about the item" in text(driver, "notes"))
    assert final(page, item)["notes"] == [f"office: kdsu {NASTY}", "about the item"]
    press(driver, "u")
    until(driver, lambda: "about the item" not in text(driver, "notes"))


def test_all_suspicious_of_one_tag(driver, page):
    press(driver, "2")
    assert focused(driver) == "filter"
    until(driver, lambda: len(find_all(driver, "#tag-table .link")) == 3)
    find(driver, "#filter").send_keys("OFF")
    until(driver, lambda: len(find_all(driver, "#tag-table .link")) == 1)
    click(driver, "#tag-table .link")
    until(driver, lambda: text(driver, "batch-title") == "60 suspicious office")
    cards = find_all(driver, "#batch-cells > li")
    assert len(cards) == 50
    assert find(driver, "#batch-cells img").get_attribute("loading") == "lazy"
    assert text(driver, "keep-all").startswith("Keep all 50 shown")
    click(driver, "#batch-more")
    until(driver, lambda: text(driver, "drop-all").startswith("Drop all 60 shown"))
    assert not shown(driver, "#batch-more")
    # One by one, at the keyboard.
    press(driver, Keys.ARROW_DOWN)
    press(driver, Keys.ARROW_DOWN)
    press(driver, "d")
    until(driver, lambda: text(driver, "batch-title") == "59 suspicious office")
    assert page.session.sequence == 1
    assert driver.execute_script("return document.activeElement.matches('#batch-cells > li')")
    # All at once, and back.
    click(driver, "#batch-more")
    until(driver, lambda: text(driver, "drop-all").startswith("Drop all 59 shown"))
    driver.execute_script("document.activeElement.blur()")
    press(driver, "K")
    until(driver, lambda: text(driver, "batch-title") == "0 suspicious office")
    assert "Undo keep 59 × office" in text(driver, "undo")
    assert page.session.sequence == 2
    assert page.session.view()["progress"]["kept"] == 59
    click(driver, "#show option[value=decided]")
    until(driver, lambda: text(driver, "batch-title") == "60 decided office")
    # Letters belong to the field of choice until Escape leaves it.
    press(driver, Keys.ESCAPE)
    press(driver, "u")
    until(driver, lambda: text(driver, "batch-title") == "1 decided office")
    assert page.session.view()["progress"]["decided"] == 1
    click(driver, "#batch-cells button[aria-label^=Open]")
    until(driver, lambda: shown(driver, "#card"))
    assert focused(driver) == "label"
    assert "dropped it" in text(driver, "votes")


def test_search(driver, page):
    press(driver, "/")
    assert focused(driver) == "words"
    find(driver, "#words").send_keys("desk 17")
    until(driver, lambda: text(driver, "search-total") == "1 row found")
    find(driver, "#words").send_keys(Keys.ARROW_DOWN)
    until(driver, lambda: driver.execute_script("return document.activeElement.matches('.small')"))
    press(driver, Keys.ENTER)
    wait(driver, "item", "A17")
    assert shown(driver, "#chosen")
    click(driver, "#back")
    until(driver, lambda: text(driver, "item") != "A17")
    press(driver, "3")
    find(driver, "#words").clear()
    find(driver, "#words").send_keys("img")
    until(driver, lambda: text(driver, "search-total") == "60 rows found")
    click(driver, "#scope option[value=text]")
    until(driver, lambda: text(driver, "search-total") == "0 rows found")
    click(driver, "#scope option[value=tag]")
    until(driver, lambda: text(driver, "search-total") == "60 rows found")
    click(driver, "#search-more")
    until(driver, lambda: len(find_all(driver, "#search-rows > li")) == 60)
    # Tags of a row found lead to the question.
    click(driver, "#search-rows button")
    until(driver, lambda: shown(driver, "#card"))
    press(driver, Keys.ESCAPE)
    until(driver, lambda: not shown(driver, "#chosen"))


def test_the_name_is_asked_once(driver, page):
    until(driver, lambda: shown(driver, "#ask-name"))
    find(driver, "#first-name").send_keys("Ada <b>" + Keys.ENTER)
    until(driver, lambda: not shown(driver, "#ask-name"))
    press(driver, "k")
    until(driver, lambda: page.session.sequence == 1)
    assert page.session.journal.records[0]["person"] == "Ada <b>"
    driver.get(page.address)
    until(driver, lambda: text(driver, "label") == "office")
    assert not shown(driver, "#ask-name")
    press(driver, "d")
    until(driver, lambda: page.session.sequence == 2)
    assert page.session.journal.records[1]["person"] == "Ada <b>"


def test_nobody_needs_a_name(driver, page):
    until(driver, lambda: shown(driver, "#ask-name"))
    click(driver, "#no-name")
    until(driver, lambda: not shown(driver, "#ask-name"))
    driver.refresh()
    until(driver, lambda: text(driver, "label") == "office")
    assert not shown(driver, "#ask-name")


def test_several_people(driver, page):
    session = page.session
    first = session.view()["current"]
    for _ in range(3):
        current = session.view()["current"]
        session.decide("keep", current["item"], current["label"], session.sequence, "Bob")
    press(driver, "4")
    find(driver, "#name").send_keys("Ada" + Keys.ENTER)
    click(driver, "#second")
    press(driver, "1")
    wait(driver, "item", first["item"])
    # What Bob decided is hidden.
    assert "Bob" not in find(driver, "#view-one").text
    press(driver, "d")
    until(driver, lambda: text(driver, "disputed") == "1")
    assert session.view()["disagreements"] == 1
    assert text(driver, "item") != first["item"]
    before = text(driver, "item")
    press(driver, "k")
    until(driver, lambda: text(driver, "item") != before)
    assert session.sequence == 5
    press(driver, "4")
    until(driver, lambda: text(driver, "disagreements-title") == "1 disagreement")
    assert "Bob kept it, Ada dropped it" in text(driver, "disagreements")
    press(driver, Keys.ARROW_DOWN)
    press(driver, "k")
    until(driver, lambda: text(driver, "disagreements-title") == "No disagreements")
    assert "office" in final(page, first["item"])["tags"]
    press(driver, "u")
    until(driver, lambda: text(driver, "disagreements-title") == "1 disagreement")
    click(driver, "#disagreements button.bad")
    until(driver, lambda: session.view()["disagreements"] == 0)
    assert "office" not in final(page, first["item"])["tags"]
    click(driver, "#second")


def test_why(driver, page):
    press(driver, "w")
    until(driver, lambda: "the model gives it" in text(driver, "why-summary"))
    # The page scrolls to it, above the buttons.
    place = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
    until(
        driver,
        lambda: 0 <= driver.execute_script(place, "#why-summary")
        < driver.execute_script(place, ".actions"),
    )  # fmt: skip
    assert "size" in text(driver, "why-details")
    assert "Most similar items with this tag" in text(driver, "why-details")
    assert find(driver, "#why-button").get_attribute("aria-expanded") == "true"
    label = text(driver, "why-title")
    # It follows the question.
    press(driver, Keys.ARROW_LEFT)
    until(driver, lambda: text(driver, "why-title") == f"Why {NASTY}?" != label)
    press(driver, "w")
    assert not shown(driver, "#why")


def test_help_and_keys(driver, page):
    press(driver, "?")
    until(driver, lambda: shown(driver, "#help"))
    assert "keep, drop all that are shown" in text(driver, "help")
    # Nothing is decided behind the dialog.
    press(driver, "k")
    press(driver, Keys.ESCAPE)
    until(driver, lambda: not shown(driver, "#help"))
    click(driver, "#help-button")
    until(driver, lambda: shown(driver, "#help"))
    click(driver, "#help-close")
    assert page.session.sequence == 0
    for key, view in zip("1234", ("one", "tags", "search", "people"), strict=True):
        press(driver, key)
        until(driver, lambda view=view: shown(driver, f"#view-{view}"))
        current = find(driver, "#views [aria-current]").get_attribute("data-view")
        assert current == view
        press(driver, Keys.ESCAPE)
    press(driver, "1")
    click(driver, "#keys")
    for key in "2kdsuw?":
        press(driver, key)
    assert page.session.sequence == 0
    assert shown(driver, "#view-one")
    assert not shown(driver, "#help")
    click(driver, "#keys")


def test_downloads(driver, page, written):
    press(driver, "k")
    until(driver, lambda: page.session.sequence == 1)
    links = {"table": "whole table (csv)", "changes": "list of changes"}
    for name, words in links.items():
        assert text(driver, name) == words
    whole = driver.execute_async_script(
        "const done = arguments[0];"
        "fetch(document.getElementById('table').href).then((r) => r.text()).then(done);"
    )
    before = list(csv.DictReader(io.StringIO((written / "items.csv").read_text(), newline="")))
    after = list(csv.DictReader(io.StringIO(whole, newline="")))
    assert [{**row, "tags": ""} for row in after] == [{**row, "tags": ""} for row in before]
    assert [row["tags"].split(";") for row in after if row["tags"]] == [
        record["tags"][::-1] for record in page.session.final_tags() if record["tags"]
    ]


def test_two_people_at_once(driver, page):
    """Another person renames what is on the page; the next key changes nothing by mistake."""
    with no_news(driver):
        driver.get(page.address)
    wait(driver, "label", "office")
    page.session.act({"action": "rename", "label": "office", "to": "desk"}, 0, "Bob")
    press(driver, "d")
    until(driver, lambda: "changed in another tab" in text(driver, "banner"))
    wait(driver, "label", "desk")
    assert page.session.sequence == 1
    assert all("409" in entry["message"] for entry in driver.get_log("browser"))


def slow(driver, milliseconds):
    """Every answer takes so long."""
    driver.execute_cdp_cmd("Network.enable", {})
    limits = {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"latency": milliseconds, **limits})


def test_keys_pressed_while_the_server_is_slow(driver, page):
    item = text(driver, "item")
    slow(driver, 500)
    try:
        # The second key would be about a question that nobody has seen; undo is about the first.
        for key in "dku":
            press(driver, key)
        until(driver, lambda: "Undone: office." in live(driver))
        assert [record["action"] for record in page.session.journal.records] == ["drop", "undo"]
        wait(driver, "item", item)
        # What is typed after R is a name.
        press(driver, "r")
        press(driver, "d")
        assert find(driver, "#new-name").get_property("value") == "d"
        press(driver, Keys.ESCAPE)
        until(driver, lambda: not shown(driver, "#rename"))
        # A tag and a note wait for what is under way.
        find(driver, "#add").send_keys("first" + Keys.ENTER)
        press(driver, Keys.ESCAPE)
        press(driver, "n")
        find(driver, "#note").send_keys("second")
        click(driver, "#note-form button")
        until(driver, lambda: "office second" in text(driver, "notes"))
        assert "first added by you" in text(driver, "tags")
    finally:
        slow(driver, 0)


# The next request is held until `release` is called, so that later ones are answered before it.
HOLD = """
const real = window.fetch;
const held = new Promise((resolve) => { window.release = resolve; });
window.fetch = (...given) => {
  window.fetch = real;
  return held.then(() => real(...given));
};
"""
RELEASE = "window.release(); setTimeout(arguments[0], 300);"


def test_late_answers_change_nothing(driver, server):
    with no_news(driver):
        driver.get(server.address)
    wait(driver, "label", "office")
    find(driver, "#order option[value=suspicious]").click()
    until(driver, lambda: shown(driver, "#opinion"))
    # The tag before this one is asked for, then the next question.
    driver.execute_script(HOLD)
    press(driver, Keys.ARROW_LEFT)
    press(driver, Keys.ESCAPE)
    driver.execute_async_script(RELEASE)
    assert text(driver, "label") == "office"
    assert not shown(driver, "#chosen")
    driver.execute_script(HOLD)
    press(driver, "a")
    find(driver, "#add").send_keys("KI")
    offered = "return [...document.querySelectorAll('#known-tags option')].map((e) => e.value)"
    until(driver, lambda: driver.execute_script(offered) == ["kids"])
    driver.execute_async_script(RELEASE)
    assert driver.execute_script(offered) == ["kids"]
    press(driver, Keys.ESCAPE)
    press(driver, "/")
    driver.execute_script(HOLD)
    find(driver, "#words").send_keys("desk 17" + Keys.ENTER)
    find(driver, "#words").clear()
    find(driver, "#words").send_keys("img" + Keys.ENTER)
    until(driver, lambda: text(driver, "search-total") == "60 rows found")
    driver.execute_async_script(RELEASE)
    assert text(driver, "search-total") == "60 rows found"


UNNAMED = """
return [...document.querySelectorAll("button, a[href], input, select, textarea, img, [role=img]")]
  .filter((e) => e.checkVisibility())
  .filter((e) => !(e.getAttribute("aria-label") || e.alt || e.querySelector("img[alt]")
                   || e.textContent.trim() || e.title
                   || (e.labels && [...e.labels].some((label) => label.textContent.trim()))))
  .map((e) => e.outerHTML);
"""
SMALL = """
return [...document.querySelectorAll("button, select, input:not([type=checkbox])")]
  .filter((e) => e.checkVisibility() && !e.matches(".plain, .link"))
  .filter((e) => e.getBoundingClientRect().height < 24).map((e) => e.outerHTML);
"""


def test_everything_has_a_name_and_room(driver, page):
    for key in "1234":
        press(driver, key)
        if key == "2":
            until(driver, lambda: find_all(driver, "#tag-table .link"))
            click(driver, "#tag-table .link")
            until(driver, lambda: find_all(driver, "#batch-cells > li"))
        assert driver.execute_script(UNNAMED) == []
        assert driver.execute_script(SMALL) == []
        width = driver.execute_script("return innerWidth")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        press(driver, Keys.ESCAPE)


@pytest.mark.parametrize("scheme", [0, 1])
def test_contrast(scheme):
    """Texts and their backgrounds, light and dark, by the formula of WCAG 2."""
    style = files("schirn.review").joinpath("static", "page.css").read_text("utf-8")
    block = re.findall(r":root \{(.*?)\}", style, re.S)[scheme]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))

    def light(name):
        channels = [int(colours[name][k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one, other):
        low, high = sorted([light(one), light(other)])
        return (high + 0.05) / (low + 0.05)

    pairs = [(ink, back) for ink in ("ink", "soft", "accent") for back in ("paper", "card")]
    pairs += [("ink", "tag"), ("good", "good-back"), ("bad", "bad-back"), ("warn", "warn-back")]
    for one, other in pairs:
        assert contrast(one, other) >= 4.5, (one, other)
    assert contrast("control", "card") >= 3
