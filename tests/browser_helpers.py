"""A headless browser for the pages, where one is installed."""

import shutil
from contextlib import contextmanager

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
common = pytest.importorskip("selenium.common", reason="selenium is not installed")
support = pytest.importorskip("selenium.webdriver.support.ui", reason="selenium is not installed")

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BROWSER and DRIVER), reason="no Chromium or no chromedriver is installed"
    ),
]
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --window-size=1100,900"
)


@contextmanager
def open_browser(folder):
    """A driver whose profile lives in the folder; the browser's own log is kept."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={folder}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def until(driver, condition):
    """Wait until a function without arguments is true; return its value.

    An element that the page has just replaced is no failure: the condition looks for it again.
    """
    waiting = support.WebDriverWait(driver, 60, 0.02, [common.StaleElementReferenceException])
    return waiting.until(lambda _: condition())


def set_width(driver, width):
    """Give the window another width, and wait until the page has it."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    until(driver, lambda: driver.execute_script("return innerWidth") == width)
