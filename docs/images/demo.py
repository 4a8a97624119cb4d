"""Take the picture of the README, `docs/images/demo.png`, from the page of `schirn demo`.

Needs Chromium and Selenium: python docs/images/demo.py
"""

import tempfile
from pathlib import Path

from selenium import webdriver

from schirn.app.demo import run_demo
from schirn.app.report import _demo_page as demo_page

WIDTH, HEIGHT = 1100, 450


def main() -> None:
    """Render the page and save a screenshot of its first cards."""
    options = webdriver.ChromeOptions()
    options.add_argument("--headless=new")
    options.add_argument("--no-sandbox")
    options.add_argument("--hide-scrollbars")
    with tempfile.TemporaryDirectory() as folder, webdriver.Chrome(options=options) as browser:
        page = Path(folder, "demo.html")
        page.write_text(demo_page(run_demo()), encoding="utf-8")
        browser.get(page.as_uri())
        # The window has a frame; this sets the size of the page itself.
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_script("document.getElementById('suspects').scrollIntoView()")
        browser.save_screenshot(str(Path(__file__).with_name("demo.png")))


if __name__ == "__main__":
    main()
