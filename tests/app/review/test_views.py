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

from app.review.page_helpers import ThreadServer, find, find_all, no_news, shown, text, wait
from app.review.review_helpers import final_tags
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from schirn.app.review import open_session
from schirn.app.review._project import write_project
from schirn.app.review._table import TableRoles
from schirn.app.tables._files import open_table
from schirn.cleaning import NoisyLabels

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
            "photo": "gone.png" if i >= 60 else "a.png",
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
    ranking = NoisyLabels.from_arrays(
        n_rows=N,
        label_names=LABELS,
        row=row,
        column=column,
        confidence=confidence,
        judged=np.ones(len(row), dtype=bool),
        method="Sieve",
        keep_one=False,
    ).remove(below=0.3)
    write_project(
        str(folder / "project"),
        ranking,
        ids=[each["sku"] for each in rows],
        texts=[each["description"] for each in rows],
        table=open_table(path),
        source=str(path),
        roles=TableRoles("tags", ";", text=("description",), image="photo"),
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
    return next(r for r in final_tags(server.session) if r["id"] == item)


pytestmark = needs_browser


def test_images_and_other_columns(driver, page):
    current = page.session.view(order="suspicious")["current"]
    image = find(driver, "#picture img")
    until(driver, lambda: driver.execute_script("return arguments[0].naturalWidth", image) == 1)
    assert image.get_attribute("alt") == f"Image a.png of item {current['item']}"
    assert text(driver, "columns").split("\n") == ["sku", current["item"], "maker", NASTY]
    # The other tags of the row are shown, those that are removed as such.
    chips = {
        tag.text.split("\n")[0]: tag.get_attribute("class") for tag in find_all(driver, ".tag")
    }
    assert chips == {NASTY: "tag ", "office": "tag now"}


def test_a_picture_that_is_missing_shows_its_name(driver, page):
    session = page.session
    for i in range(60):
        session.decide("drop", f"A{i:02}", "office", session.sequence)
        session.decide("keep", f"A{i:02}", NASTY, session.sequence)
    driver.refresh()
    until(driver, lambda: text(driver, "label") == "kids")
    assert text(driver, "picture") == "Image gone.png cannot be shown"


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
        record["tags"][::-1] for record in final_tags(page.session) if record["tags"]
    ]


def test_two_people_at_once(driver, page):
    """Another tab decides what is on the page; the next key changes nothing by mistake."""
    with no_news(driver):
        driver.get(page.address)
    until(driver, lambda: text(driver, "item"))
    item, label = text(driver, "item"), text(driver, "label")
    page.session.decide("keep", item, label, 0)
    press(driver, "d")
    until(driver, lambda: "decided in another tab" in text(driver, "banner"))
    assert page.session.sequence == 1
    assert (text(driver, "item"), text(driver, "label")) != (item, label)
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
        until(driver, lambda: "Undone: drop office." in live(driver))
        assert [record["action"] for record in page.session.journal.records] == ["drop", "undo"]
        wait(driver, "item", item)
        # What is typed into a field is no key.
        find(driver, "#order").send_keys("dk")
        press(driver, Keys.ESCAPE)
        press(driver, "k")
        until(driver, lambda: "Kept office." in live(driver))
        assert page.session.sequence == 3
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
    # Another order is asked for, then this one again; its answer comes first.
    item = text(driver, "item")
    driver.execute_script(HOLD)
    find(driver, "#order option[value=first]").click()
    find(driver, "#order option[value=suspicious]").click()
    driver.execute_async_script(RELEASE)
    assert text(driver, "item") == item


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
    assert driver.execute_script(UNNAMED) == []
    assert driver.execute_script(SMALL) == []
    width = driver.execute_script("return innerWidth")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", [0, 1])
def test_contrast(scheme):
    """Texts and their backgrounds, light and dark, by the formula of WCAG 2."""
    style = files("schirn.app.review").joinpath("static", "page.css").read_text("utf-8")
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
