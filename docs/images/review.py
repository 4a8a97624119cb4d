"""Take the picture of docs/review.md, `docs/images/review.png`, from a review of digits.

Needs Chromium and Selenium: python docs/images/review.py
"""

import base64
import csv
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from schirn.app.review import open_session
from schirn.datasets import load_digits_attributes
from schirn.program.page import png_uri

WIDTH, HEIGHT, ROWS = 1200, 700, 600


def write_table(folder: Path) -> None:
    """Write images of digits, their pixels, and a table of tags, some of them wrong."""
    digits = load_digits_attributes(r=1)
    np.save(folder / "pixels.npy", digits.X[:ROWS])
    with (folder / "digits.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["photo", "tags"])
        for i, image in enumerate(digits.images[:ROWS]):
            large = np.kron(image / 16, np.ones((12, 12)))
            png = base64.b64decode(png_uri(large).partition(",")[2])
            (folder / f"{i}.png").write_bytes(png)
            tags = [
                name
                for name, is_listed in zip(digits.label_names, digits.candidates[i], strict=True)
                if is_listed
            ]
            writer.writerow([f"{i}.png", ";".join(tags)])


def answer(project: str) -> None:
    """Answer the first fifty questions by the truth."""
    digits = load_digits_attributes(r=1)
    session = open_session(project, name="Ada")
    for _ in range(50):
        view = session.view()
        current = view["current"]
        right = digits.y_true[current["row"], digits.label_names.index(current["label"])]
        action = "keep" if right else "drop"
        session.decide(action, current["item"], current["label"], view["seq"])
    session.journal.close()


def main() -> None:
    """Rank the table, answer fifty questions, and save a screenshot of what the page then says."""
    options = webdriver.ChromeOptions()
    options.add_argument("--headless=new")
    options.add_argument("--no-sandbox")
    options.add_argument("--hide-scrollbars")
    with tempfile.TemporaryDirectory() as name, webdriver.Chrome(options=options) as browser:
        folder = Path(name)
        write_table(folder)
        table, pixels = str(folder / "digits.csv"), str(folder / "pixels.npy")
        project = str(folder / "project")
        words = ["review", table, "--features", pixels, "--image", "photo", "--project", project]
        program = [sys.executable, "-m", "schirn"]
        subprocess.run([*program, *words, "--terminal"], stdin=subprocess.DEVNULL, check=True)
        answer(project)
        command = [*program, "review", project, "--no-browser"]
        server = subprocess.Popen([*command, "--name", "Ada"], stdout=subprocess.PIPE, text=True)
        try:
            line = server.stdout.readline()  # type: ignore[union-attr]
            size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(re.findall(r"http\S+", line)[0])
            wait = WebDriverWait(browser, 20)
            wait.until(lambda b: b.find_element("id", "label").text)
            loaded = "return [...document.images].every((e) => e.naturalWidth)"
            wait.until(lambda b: b.execute_script(loaded))
            browser.save_screenshot(str(Path(__file__).with_name("review.png")))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
