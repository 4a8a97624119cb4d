"""The page in a thread of the tests, and what a user does with it."""

import threading
from contextlib import contextmanager

import uvicorn
from browser_helpers import until

from schirn.app.review._app import create_app
from schirn.app.serving._connections import listen


class ThreadServer:
    """The server in a thread, which starts at once."""

    def __init__(self, session):
        self.session = session
        self.socket = listen("127.0.0.1", 0)
        port = self.socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/?token=secret"
        app = create_app(session, "secret", port)
        config = uvicorn.Config(
            app, log_level="critical", lifespan="off", timeout_graceful_shutdown=2
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self.session.journal.close()

    def stop(self):
        # Not by force, which would leave connections to the garbage collector and its warnings.
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


def text(driver, name):
    return driver.find_element("id", name).text


def wait(driver, name, wanted):
    until(driver, lambda: text(driver, name) == wanted)


def press(driver, key):
    driver.find_element("tag name", "body").send_keys(key)


def find(driver, selector):
    return driver.find_element("css selector", selector)


def find_all(driver, selector):
    return driver.find_elements("css selector", selector)


def shown(driver, selector):
    return find(driver, selector).is_displayed()


def click(driver, selector):
    """Click in the middle of the window, not under the buttons at its bottom."""
    # A large picture that arrives late moves what is below it; a small one has its place reserved.
    large = (
        "return [...document.images].every((image) => image.loading === 'lazy' || image.complete)"
    )
    until(driver, lambda: driver.execute_script(large))

    def clicked():
        element = find(driver, selector)
        driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", element)
        element.click()
        return True

    until(driver, clicked)


@contextmanager
def no_news(driver):
    """Pages loaded in this context do not ask every few seconds what others have done."""
    source = {"source": "window.setInterval = () => 0"}
    added = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
