"""A session at the keyboard in a real browser."""

import csv
from queue import Queue
from threading import Thread

import pytest
from app.review.review_helpers import final_tags, keep_all, write_project
from browser_helpers import needs_browser, open_browser, until

pytest.importorskip("starlette", reason="the review page needs starlette")
pytest.importorskip("uvicorn", reason="the review page needs uvicorn")

import uvicorn
from app.review.page_helpers import ThreadServer, click, no_news, press, text, wait

from schirn.app.review import open_session, serve

pytestmark = needs_browser
NASTY = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.fixture
def server(driver, tmp_path):
    items = [
        ("a", f"First {NASTY}", {NASTY: 0.2, "dog": 0.53}),
        ("b", "Second", {"dog": 0.3, "cat": 0.9}),
    ]
    folder = write_project(tmp_path / "project", items, [NASTY, "dog", "cat"])
    with ThreadServer(open_session(folder)) as server:
        yield server
        # A page without its server would log errors.
        driver.get("about:blank")


def test_keyboard_session(driver, server):
    driver.get(server.address)
    wait(driver, "label", NASTY)
    assert text(driver, "text") == f"First {NASTY}"
    assert driver.title == "schirn: review tags"
    assert "token" not in driver.current_url
    press(driver, "k")
    wait(driver, "label", "dog")
    assert f"Kept {NASTY}. Next: dog?" in driver.find_element("id", "live").get_property(
        "textContent"
    )
    wait(driver, "item", "b")
    press(driver, "d")
    wait(driver, "item", "a")
    press(driver, "u")
    wait(driver, "item", "b")
    press(driver, "s")
    wait(driver, "item", "a")
    assert text(driver, "counts") == "2 of 4 questions answered"
    press(driver, "d")
    wait(driver, "label", "cat")
    driver.find_element("id", "keep").click()
    # What somebody was unsure about comes last.
    wait(driver, "label", "dog")
    press(driver, "d")
    until(driver, lambda: driver.find_element("id", "done").is_displayed())
    assert text(driver, "counts") == "4 of 4 tags decided"
    exported = driver.execute_async_script(
        "const done = arguments[0];"
        "fetch(document.getElementById('table').href).then((r) => r.text()).then(done);"
    )
    tags = {row["id"]: row["tags"] for row in csv.DictReader(exported.splitlines())}
    assert tags == {"a": NASTY, "b": "cat"}
    # Nothing was blocked, nothing failed: the policy and the page agree.
    assert driver.get_log("browser") == []


def test_keys_can_be_switched_off_and_modifiers_are_left_alone(driver, server):
    driver.get(server.address)
    wait(driver, "label", NASTY)
    driver.find_element("id", "keys").click()
    press(driver, "k")
    press(driver, "d")
    driver.find_element("id", "keys").click()
    press(driver, "s")
    wait(driver, "label", "dog")
    assert server.session.sequence == 1


def test_few_answers_give_no_bounds_of_the_wrong_tags_left(driver, tmp_path):
    labels = ["dog", "cat", "sea"]
    items = [
        (f"item {i}", f"Row {i}", {labels[i % 3]: 0.3 + i / 200, labels[(i + 1) % 3]: 0.6})
        for i in range(60)
    ]
    folder = write_project(tmp_path / "many", items, labels)
    keep_all(folder)
    with ThreadServer(open_session(folder)) as server:
        driver.get(server.address)
        for number in range(12):
            wait(driver, "counts", f"{number} of 50 questions answered")
            if number in (4, 9):
                assert "answer more to learn how many wrong" in text(driver, "target-line")
                assert server.session.known()["trade_off"][0]["left"] is not None
            press(driver, "kd"[number % 2])
        wait(driver, "counts", "12 of 50 questions answered")
        assert "answer more" not in text(driver, "target-line")
        assert "wrong tags would stay" in text(driver, "target-line")
        driver.get("about:blank")


def test_two_tabs(driver, server):
    with no_news(driver):
        driver.get(server.address)
    wait(driver, "label", NASTY)
    server.session.decide("keep", "a", NASTY, 0)
    press(driver, "d")
    wait(driver, "label", "dog")
    assert "decided in another tab" in text(driver, "banner")
    assert server.session.sequence == 1


def test_the_page_notices_that_the_server_is_gone(driver, server):
    driver.get(server.address)
    wait(driver, "label", NASTY)
    server.stop()
    press(driver, "k")
    until(driver, lambda: "is not responding" in text(driver, "banner"))


def test_the_private_file_leads_to_the_page(driver, tmp_path, monkeypatch):
    folder = write_project(tmp_path / "project", [("a", "First", {"dog": 0.2})], ["dog"])
    pages, run = Queue(), uvicorn.Server.run
    monkeypatch.setattr("webbrowser.open", pages.put)

    def run_and_look(server, sockets):
        thread = Thread(target=run, args=(server, sockets))
        thread.start()
        try:
            driver.get(pages.get(timeout=60))
            until(driver, lambda: driver.current_url.startswith("http://127.0.0.1"))
            wait(driver, "label", "dog")
            driver.get("about:blank")
        finally:
            server.should_exit = True
            thread.join()

    monkeypatch.setattr("uvicorn.Server.run", run_and_look)
    assert serve(folder) == 0


@pytest.fixture
def larger(driver, tmp_path):
    """A project with 301 tags, the wrong ones with a low confidence, and a suggestion."""
    labels = ["dog", "cat", "beach"]
    items = [
        (f"item {i}", f"Text {i}", {labels[j]: 0.95 if (i + j) % 2 else 0.05 for j in range(3)})
        for i in range(100)
    ]
    items += [("last", "Nobody tagged the sea.", {"dog": 0.95}, {"sea": 0.97})]
    folder = write_project(tmp_path / "project", items, [*labels, "sea"])
    keep_all(folder)
    with ThreadServer(open_session(folder)) as server:
        yield server
        # A page without its server would log errors.
        driver.get("about:blank")


def answer(driver, session, order="first"):
    """Press the key that the project agrees with; wait for the next question."""
    before, current = session.sequence, session.view(order=order)["current"]
    tag = session.find(current["item"], current["label"])
    press(driver, "k" if session.project.confidence[tag] > 0.5 else "d")
    until(driver, lambda: session.sequence > before)
    shown = session.view(order=order)["current"]
    if shown is None:
        return
    wait(driver, "item", shown["item"])
    wait(driver, "label", shown["label"])


def choose_order(driver, order):
    driver.find_element("css selector", f"#order option[value={order}]").click()


def test_answers_a_removal_and_a_certificate(driver, larger):
    session = larger.session
    driver.get_log("browser")
    driver.get(larger.address)
    wait(driver, "counts", "0 of 50 questions answered")
    assert "Your answers will show" in text(driver, "known-line")
    for _ in range(4):
        answer(driver, session)
    # Nothing tells what the model thinks, and a removal is not offered yet.
    assert not driver.find_element("id", "opinion").is_displayed()
    assert not driver.find_element("id", "remove").is_displayed()
    assert "%" not in text(driver, "tags")
    press(driver, "s")
    wait(driver, "counts", "5 of 50 questions answered")
    press(driver, "u")
    wait(driver, "counts", "4 of 50 questions answered")
    driver.refresh()
    wait(driver, "counts", "4 of 50 questions answered")
    for _ in range(46):
        answer(driver, session)
    until(driver, lambda: text(driver, "known-line") == session.known()["line"])
    assert driver.find_element("id", "order").get_property("value") == "suspicious"
    assert driver.find_element("id", "opinion").is_displayed()
    count = session.known()["remove"]["count"]
    words = f"Remove {count} tags at a target precision of 90%"
    wait(driver, "remove", words)
    driver.find_element("id", "remove").click()
    until(driver, lambda: not driver.find_element("id", "remove").is_displayed())
    assert "no answers about these yet" in text(driver, "removed-line")
    choose_order(driver, "certify")
    while not session.certificate().certified:
        until(driver, lambda: not driver.find_element("id", "opinion").is_displayed())
        answer(driver, session, "certify")
    until(driver, lambda: "With 95% confidence" in text(driver, "removed-line"))
    wait(driver, "done", "The certificate holds\nChoose what to ask next, download the table "
         "below, or undo your last decision.")  # fmt: skip
    source = driver.execute_script("return document.documentElement.outerHTML")
    assert "null" not in source
    press(driver, "u")
    until(driver, lambda: "Not yet certified" in text(driver, "removed-line"))
    assert driver.get_log("browser") == []


@pytest.mark.parametrize("key", ["k", "d"])
def test_a_suggestion_is_added_or_rejected(driver, larger, key):
    session = larger.session
    driver.get(larger.address)
    wait(driver, "question", "Is this tag correct?")
    choose_order(driver, "suggested")
    wait(driver, "question", "Is this tag missing?")
    assert text(driver, "label") == "sea"
    assert text(driver, "keep").startswith("Add")
    assert text(driver, "drop").startswith("Reject")
    press(driver, key)
    wait(driver, "question", "Is this tag correct?")
    words = {"k": "Added sea.", "d": "Rejected sea."}[key]
    live = driver.find_element("id", "live")
    until(driver, lambda: words in live.get_property("textContent"))
    last = list(final_tags(session))[-1]
    assert last["added"] == (["sea"] if key == "k" else [])
    assert ("sea" in last["tags"]) == (key == "k")


def rule_button(driver, label, rule):
    return driver.find_element("css selector", f"[data-label='{label}'][data-rule='{rule}']")


def test_rules_are_given_and_undone(driver, larger):
    session = larger.session
    driver.get_log("browser")
    driver.get(larger.address)
    wait(driver, "counts", "0 of 50 questions answered")
    click(driver, "#labels summary")
    until(driver, lambda: len(driver.find_elements("css selector", "#label-rows tr")) == 3)
    assert "shown after the first questions" in text(driver, "labels-caption")
    until(driver, lambda: rule_button(driver, "dog", "ask").get_attribute("aria-pressed") == "true")
    rule_button(driver, "dog", "drop").send_keys("\n")
    until(driver, lambda: session.questions.rules == {"dog": "drop"})
    until(
        driver, lambda: rule_button(driver, "dog", "drop").get_attribute("aria-pressed") == "true"
    )
    assert "101 tags are removed: all by your rule." in text(driver, "removed-line")
    assert driver.find_element("id", "rules").is_displayed()
    assert driver.switch_to.active_element == rule_button(driver, "dog", "drop")
    driver.find_element("id", "filter").send_keys("ca")
    until(driver, lambda: len(driver.find_elements("css selector", "#label-rows tr")) == 1)
    driver.find_element("id", "undo").click()
    until(driver, lambda: session.questions.rules == {})
    until(driver, lambda: not driver.find_element("id", "rules").is_displayed())
    assert text(driver, "removed-line") == ""
    assert driver.get_log("browser") == []


def test_missing_tags_are_in_sight(driver, larger):
    driver.get(larger.address)
    wait(driver, "counts", "0 of 50 questions answered")
    assert "sea (1)" in text(driver, "missing-line")
    click(driver, "#ask-missing")
    wait(driver, "question", "Is this tag missing?")
    wait(driver, "label", "sea")
    assert not driver.find_element("id", "ask-missing").is_displayed()
    press(driver, "k")
    until(driver, lambda: not driver.find_element("id", "missing").is_displayed())
