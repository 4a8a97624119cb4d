"""The page in a thread of the tests, and what a user does with it."""

import threading

import uvicorn
from selenium.webdriver.support.ui import WebDriverWait

from schirn.review._app import create_app
from schirn.review._serve import _listen
from schirn.review._training import Trainer


class ThreadServer:
    """The server in a thread, which starts at once."""

    def __init__(self, session):
        self.session = session
        self.socket = _listen(0)
        port = self.socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/?token=secret"
        app = create_app(session, Trainer(session, 0), "secret", port)
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
    WebDriverWait(driver, 30, 0.02).until(lambda _: text(driver, name) == wanted)


def press(driver, key):
    driver.find_element("tag name", "body").send_keys(key)


def until(driver, condition):
    """Wait until a function without arguments is true; return its value."""
    return WebDriverWait(driver, 30, 0.02).until(lambda _: condition())


def find(driver, selector):
    return driver.find_element("css selector", selector)


def find_all(driver, selector):
    return driver.find_elements("css selector", selector)


def shown(driver, selector):
    return find(driver, selector).is_displayed()


def click(driver, selector):
    """Click in the middle of the window, not under the buttons at its bottom."""
    element = find(driver, selector)
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", element)
    element.click()
