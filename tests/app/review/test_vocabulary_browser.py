"""The vocabulary at the keyboard in a real browser."""

import pytest
from browser_helpers import needs_browser, open_browser, set_width, until

pytest.importorskip("starlette", reason="the review page needs starlette")
pytest.importorskip("uvicorn", reason="the review page needs uvicorn")

from app.review.page_helpers import ThreadServer, click, find, find_all, press, shown, text, wait
from app.review.test_vocabulary import ITEMS, LINES, make

from schirn.app.review import open_session
from schirn.cleaning import VocabularyLine

pytestmark = needs_browser
NASTY = '<img src=x onerror="document.title=1">'
QUESTION = "Are these two names of one thing?"


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.fixture
def server(driver, tmp_path):
    items = [*ITEMS, ("g", f"Text {NASTY}", [NASTY, "sea"])]
    lines = [*LINES, VocabularyLine("merge", NASTY, "sea", 1, 3, 1, NASTY)]
    with ThreadServer(open_session(make(tmp_path / "project", items, lines))) as server:
        yield server
        driver.get("about:blank")


def open_room(driver, server):
    driver.get_log("browser")
    driver.get(server.address)
    wait(driver, "room", "Vocabulary (5 open)")
    click(driver, "#room")
    until(driver, lambda: label(driver) == "Dog→dog")


def label(driver):
    return text(driver, "label").replace(" ", "")


def test_keyboard_session(driver, server):
    session = server.session
    open_room(driver, server)
    assert driver.current_url.endswith("/vocabulary")
    assert driver.title == "schirn: review the vocabulary"
    assert text(driver, "question") == QUESTION
    assert text(driver, "effect") == "“Dog” becomes “dog” in 2 rows."
    assert text(driver, "evidence").startswith("Why: case. When proposed: Dog in 2 rows")
    titles = [title.text for title in find_all(driver, "#examples h3")]
    assert titles == ["Rows with Dog only (1)", "Rows with dog only (2)", "Rows with both (1)"]
    press(driver, "y")
    until(driver, lambda: label(driver) == "poodle⇒dog")
    live = driver.find_element("id", "live").get_property("textContent")
    assert live.startswith("Accepted: merge Dog → dog. Next: Does the first tag imply")
    assert text(driver, "counts") == "1 of 5 lines answered"
    press(driver, "n")
    until(driver, lambda: label(driver) == "misc")
    press(driver, "u")
    until(driver, lambda: label(driver) == "poodle⇒dog")
    press(driver, "s")
    until(driver, lambda: label(driver) == "misc")
    press(driver, "y")
    until(driver, lambda: label(driver) == "sea")
    press(driver, "n")
    # Texts and tags are never read as HTML.
    until(driver, lambda: text(driver, "label").startswith(NASTY))
    assert f"Why: {NASTY}." in text(driver, "evidence")
    press(driver, "n")
    # What was put off comes last.
    until(driver, lambda: label(driver) == "poodle⇒dog")
    press(driver, "y")
    until(driver, lambda: shown(driver, "#done"))
    assert text(driver, "counts") == "5 of 5 lines answered"
    assert "3 lines accepted: 5 rows will change" in text(driver, "known-line")
    answers = [line.accept for line in session.vocabulary()]
    assert answers == ["yes", "yes", "yes", "no", "no"]
    assert driver.title == "schirn: review the vocabulary"
    assert driver.get_log("browser") == []


def test_other_targets(driver, server):
    session = server.session
    open_room(driver, server)
    press(driver, "x")
    # "dog" is gone, so that nobody is asked whether a poodle is one.
    until(driver, lambda: label(driver) == "misc")
    assert session.vocabulary()[0].target == "Dog"
    press(driver, "u")
    until(driver, lambda: label(driver) == "Dog→dog")
    press(driver, "y")
    until(driver, lambda: label(driver) == "poodle⇒dog")
    assert not shown(driver, "#turn")
    field = find(driver, "#target")
    # Letters that are typed are no keys.
    field.send_keys("sn")
    assert session.sequence == 3
    field.clear()
    field.send_keys("se")
    until(driver, lambda: len(find_all(driver, "#names option")) == 1)
    field.clear()
    field.send_keys("sea\n")
    until(driver, lambda: label(driver) == "misc")
    assert session.vocabulary()[1].target == "sea"
    # A contradiction is said, and nothing is saved.
    click(driver, "#lines summary")
    find(driver, "#show option[value=all]").click()
    until(driver, lambda: len(find_all(driver, "#rows button")) == 5)
    click(driver, "#rows button[data-line='6']")
    until(driver, lambda: text(driver, "label").startswith(NASTY))
    field = find(driver, "#target")
    field.send_keys("Dog")
    click(driver, "#use")
    until(driver, lambda: shown(driver, "#banner"))
    assert "which is merged into 'dog'" in text(driver, "banner")
    assert session.sequence == 4
    until(driver, lambda: find(driver, "#undo").is_enabled())


def test_the_list_of_lines(driver, server):
    open_room(driver, server)
    click(driver, "#lines summary")
    assert len(find_all(driver, "#rows button")) == 5
    find(driver, "#filter").send_keys("misc")
    until(driver, lambda: len(find_all(driver, "#rows button")) == 1)
    click(driver, "#rows button")
    until(driver, lambda: label(driver) == "misc")
    assert find(driver, "#rows button").get_attribute("aria-current") == "true"
    press(driver, "y")
    until(driver, lambda: label(driver) != "misc")
    find(driver, "#show option[value=accepted]").click()
    until(driver, lambda: "accepted" in find(driver, "#rows button").text)
    click(driver, "#rows button")
    until(driver, lambda: text(driver, "status") == "You accepted this line.")
    press(driver, "n")
    until(driver, lambda: server.session.vocabulary()[2].accept == "no")


def test_proposals_without_a_vocabulary(driver, tmp_path):
    items = []
    for i in range(60):
        tags = [("pan" if i % 2 else "Pan", "chair", "lamp")[i % 3]]
        words = ("steel pan kitchen", "oak chair wood", "red lamp light")[i % 3]
        items.append((f"i{i}", f"{words} {i}", tags))
    with ThreadServer(open_session(make(tmp_path / "project", items, ()))) as server:
        driver.get(server.address)
        wait(driver, "room", "Vocabulary")
        click(driver, "#room")
        until(driver, lambda: shown(driver, "#done"))
        assert "There are no proposals yet" in text(driver, "done")
        click(driver, "#propose")
        until(driver, lambda: shown(driver, "#card"))
        assert label(driver).lower() == "pan→pan"
        click(driver, "#propose")
        wait(driver, "banner", "There is nothing new to propose.")
        driver.get("about:blank")


@pytest.mark.parametrize("width", [360, 1100])
def test_the_page_fits(driver, server, width):
    set_width(driver, width)
    open_room(driver, server)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    set_width(driver, 1100)
