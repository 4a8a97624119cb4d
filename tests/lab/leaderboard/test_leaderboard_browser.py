"""The leaderboard in a browser, on a phone and on a wide screen."""

import pytest
from browser_helpers import needs_browser, open_browser
from lab.leaderboard.test_leaderboard import HOSTILE, make, study, write

from schirn.lab.leaderboard import build_leaderboard

pytestmark = needs_browser
WIDTHS = (400, 1400)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("board")
    build_leaderboard([write(folder / "in", study())], folder / "site")
    return folder / "site"


@pytest.fixture(params=WIDTHS)
def page(request, driver, site):
    return opened(driver, site / "index.html", request.param)


def opened(driver, path, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get_log("browser")
    driver.get(path.as_uri())
    return driver


def column(page, table, number):
    """The texts of a column, without what is only read aloud."""
    script = """
    return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(
      row => row.cells[arguments[1]].textContent.replace(" (best)", ""));
    """
    return page.execute_script(script, table, number)


def choose(page, name, value):
    script = """
    const field = document.getElementById(arguments[0]);
    field.value = arguments[1];
    field.dispatchEvent(new Event("input", { bubbles: true }));
    """
    page.execute_script(script, name, value)


def press(page, table, number, key):
    button = page.find_elements("css selector", f"#{table} thead button")[number]
    button.send_keys(key)
    head = page.find_elements("css selector", f"#{table} thead th")[number]
    return head.get_attribute("aria-sort")


def test_nothing_sticks_out_and_nothing_goes_wrong(page):
    wide, inner = page.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inner
    assert page.get_log("browser") == []


def test_best_comes_first_and_what_is_missing_is_named(page):
    assert column(page, "numbers", 0) == [
        "Sieve",
        "CandidateRidge",
        "OracleRidge",
        "Schirn",
        "PAKS‡",
    ]
    assert column(page, "numbers", 1) == ["1.00", "2.00", "–", "–", "–"]
    gaps = ["62.5", "0.0", "100.0", "75.01 of 2 settings", "−50.01 of 2 settings"]
    assert column(page, "tracks", 1) == gaps
    best = page.find_elements("css selector", "#tracks .best")
    assert [cell.text.split()[0] for cell in best] == ["62.5"]


def test_only_methods_that_finished_every_setting_are_ranked(page):
    names, means = column(page, "numbers", 0), column(page, "numbers", 1)
    ranked = dict(zip(names, means, strict=True))
    assert (ranked["Sieve"], ranked["CandidateRidge"]) == ("1.00", "2.00")
    assert ranked["Schirn"] == ranked["OracleRidge"] == "–"


def test_columns_sort_with_the_keyboard(page):
    assert press(page, "numbers", 3, "\n") == "descending"
    assert column(page, "numbers", 0)[0] == "OracleRidge"
    assert page.execute_script("return document.activeElement.textContent").startswith("average")
    assert press(page, "numbers", 3, " ") == "ascending"
    assert column(page, "numbers", 0)[0] == "PAKS‡"
    assert press(page, "numbers", 3, " ") is None
    assert press(page, "numbers", 0, " ") == "ascending"
    assert column(page, "numbers", 0) == sorted(column(page, "numbers", 0))
    # Missing numbers come last in both orders.
    assert press(page, "numbers", 1, " ") == "ascending"
    assert column(page, "numbers", 1)[-1] == "–"
    assert press(page, "numbers", 1, " ") == "descending"
    assert column(page, "numbers", 1)[-1] == "–"


def test_filters_compute_the_means_again(page):
    choose(page, "dataset", "a")
    assert column(page, "numbers", 0)[:2] == ["Schirn", "Sieve"]
    assert page.find_element("id", "status").text == "5 of 5 methods, 1 setting in 1 track"
    choose(page, "column", "average_precision")
    assert column(page, "tracks", 1) == ["65.0", "60.0", "50.0", "40.0", "70.0"]
    choose(page, "search", "SIE")
    assert column(page, "tracks", 0) == ["Sieve"]
    assert page.find_element("id", "status").text.startswith("1 of 5 methods")


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_names_run_nothing(driver, tmp_path, width):
    names = (HOSTILE, "x" * 400, "javascript:alert(1)", "$&'\"<b>")
    results = [make(name, name, fold, 0.5) for name in names for fold in (0, 1)]
    path = build_leaderboard([write(tmp_path / "in", results)], tmp_path / "site")
    page = opened(driver, path, width)
    wide, inner = page.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inner
    assert page.title != "owned"
    assert page.get_log("browser") == []
    assert sorted(column(page, "tracks", 0)) == sorted(names)
