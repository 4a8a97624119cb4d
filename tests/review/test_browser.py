"""A session at the keyboard in a real browser."""

import json
import threading

import pytest
from browser_helpers import needs_browser, open_browser
from review.review_helpers import write_project

pytest.importorskip("starlette", reason="the review page needs starlette")
pytest.importorskip("uvicorn", reason="the review page needs uvicorn")

import uvicorn
from selenium.webdriver.support.ui import WebDriverWait

from schirn.review import open_session
from schirn.review._app import create_app
from schirn.review._serve import _listen, _RedirectFile
from schirn.review._training import Trainer

pytestmark = needs_browser
NASTY = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.fixture
def server(tmp_path):
    items = [
        ("a", f"First {NASTY}", {NASTY: 0.5, "dog": 0.53}),
        ("b", "Second", {"dog": 0.3, "cat": 0.9}),
    ]
    folder = write_project(tmp_path / "project", items, [NASTY, "dog", "cat"])
    with ThreadServer(open_session(folder)) as server:
        yield server


class ThreadServer:
    """The server in a thread, which starts at once."""

    def __init__(self, session):
        self.session = session
        self.socket = _listen(0)
        port = self.socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/?token=secret"
        app = create_app(session, Trainer(session, 0), "secret", port)
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self.session.journal.close()

    def stop(self):
        self.server.force_exit = self.server.should_exit = True
        self.thread.join()
        self.socket.close()


def text(driver, name):
    return driver.find_element("id", name).text


def wait(driver, name, wanted):
    WebDriverWait(driver, 10, 0.02).until(lambda _: text(driver, name) == wanted)


def press(driver, key):
    driver.find_element("tag name", "body").send_keys(key)


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
    press(driver, "d")
    wait(driver, "item", "b")
    press(driver, "u")
    wait(driver, "item", "a")
    press(driver, "s")
    wait(driver, "item", "b")
    press(driver, "d")
    wait(driver, "label", "cat")
    assert "1 doubtful left" in text(driver, "counts")
    driver.find_element("id", "keep").click()
    wait(driver, "label", "dog")
    press(driver, "d")
    WebDriverWait(driver, 10, 0.02).until(
        lambda _: driver.find_element("id", "done").is_displayed()
    )
    assert "4 decided · 0 doubtful left" in text(driver, "counts")
    exported = driver.execute_async_script(
        "const done = arguments[0];"
        "fetch(document.getElementById('jsonl').href).then((r) => r.text()).then(done);"
    )
    tags = {line["id"]: line["tags"] for line in map(json.loads, exported.splitlines())}
    assert tags == {"a": [NASTY], "b": ["cat"]}
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


def test_two_tabs(driver, server):
    driver.get(server.address)
    wait(driver, "label", NASTY)
    # A page that believes to be hidden does not ask for news, so the key comes first.
    driver.execute_script("Object.defineProperty(document, 'hidden', { value: true })")
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
    WebDriverWait(driver, 10, 0.02).until(lambda _: "does not respond" in text(driver, "banner"))


def test_the_private_file_leads_to_the_page(driver, server, tmp_path):
    page = _RedirectFile(tmp_path, server.address)
    driver.get(page.address)
    WebDriverWait(driver, 20).until(lambda d: d.current_url.startswith("http://127.0.0.1"))
    WebDriverWait(driver, 20).until(lambda d: "First" in d.find_element("tag name", "body").text)
    page.remove()
    assert not list(tmp_path.glob("open-*.html"))
