"""Take the picture of docs/review.md, `docs/images/vocabulary.png`, from a small table of a shop.

Needs Chromium and Selenium: python docs/images/vocabulary.py
"""

import csv
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

WIDTH, HEIGHT, ROWS = 1200, 860, 400
KINDS = {
    "cookware": ("pan pot lid handle steel iron", ["cookware", "Cookware", "kitchen"]),
    "chair": ("chair oak seat legs back cushion", ["chair", "chairs", "furniture"]),
    "lamp": ("lamp light bulb shade cable switch", ["lamp", "light", "furniture"]),
    "towel": ("towel cotton soft bath wash loop", ["towel", "bath-towel", "bathroom"]),
}


def write_table(path: Path) -> None:
    """Write products whose tags have several spellings, and some whose larger tag is absent."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["description", "tags"])
        for _ in range(ROWS):
            kind = rng.choice([*KINDS])
            words, (name, other, larger) = KINDS[kind]
            chosen = rng.choice(words.split(), 4, replace=False)
            tags = [name if rng.random() < 0.7 else other]
            if rng.random() < 0.85:
                tags.append(larger)
            writer.writerow([f"{' '.join(chosen)}, number {rng.integers(1000)}", ";".join(tags)])


def main() -> None:
    """Rank the table, look for proposals on the page, and save a screenshot of the first one."""
    options = webdriver.ChromeOptions()
    options.add_argument("--headless=new")
    options.add_argument("--no-sandbox")
    options.add_argument("--hide-scrollbars")
    with tempfile.TemporaryDirectory() as name, webdriver.Chrome(options=options) as browser:
        table = Path(name, "shop.csv")
        write_table(table)
        command = [sys.executable, "-m", "schirn", "review", str(table), "--text", "description"]
        server = subprocess.Popen([*command, "--no-browser"], stdout=subprocess.PIPE, text=True)
        try:
            lines = iter(server.stdout.readline, "")  # type: ignore[union-attr]
            address = next(line for line in lines if "http" in line)
            size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(re.findall(r"http\S+", address)[0])
            wait = WebDriverWait(browser, 60)
            wait.until(lambda b: b.find_element("id", "label").text)
            browser.find_element("id", "room").click()
            wait.until(lambda b: b.find_element("id", "done").is_displayed())
            browser.find_element("id", "propose").click()
            wait.until(lambda b: b.find_element("id", "card").is_displayed())
            browser.save_screenshot(str(Path(__file__).with_name("vocabulary.png")))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
