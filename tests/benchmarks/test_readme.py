"""What the front pages claim is what the stored results say."""

import re
from pathlib import Path

import pytest

from benchmarks.leaderboard_findings import losses
from benchmarks.sieve import DEVELOPMENT, HELD_BACK
from schirn.lab.bench.published import published_values
from schirn.lab.bench.suite import summary
from schirn.lab.leaderboard.pages import make_board, read_results

ROOT = Path(__file__).parents[2]


def text_of(*names):
    return " ".join(ROOT.joinpath(*names).read_text("utf-8").split())


@pytest.fixture(scope="module")
def results():
    folder = ROOT / "benchmarks" / "leaderboard"
    if not any(folder.glob("*.jsonl.gz")):
        pytest.skip("a source distribution has no results")
    return read_results([folder])


def counts(board, is_real, is_untouched=False):
    """In how many settings Sieve is first, how many there are, and where it is below a ridge."""
    places = [
        place
        for place in board.places
        if (place.r is None) == is_real
        and not (is_untouched and place.dataset in dict(DEVELOPMENT))
    ]
    text = " ".join(losses(board, places))
    first = re.search(r"First in .*?Sieve (\d+)", text)[1]
    below = re.search(r"Sieve is below CandidateRidge in (\d+) of", text)[1]
    return first, str(len(places)), below


def test_the_readme_counts_first_places_and_losses_of_the_stored_results(results):
    board = make_board(results)
    claim = re.search(
        r"highest average precision in (\d+) of (\d+) settings with added noise, and is below a "
        r"ridge regression that trusts every tag in (\d+); on data sets not used in its design, it "
        r"leads in (\d+) of (\d+) and is below that ridge in (\d+)\. With real noise, it leads in "
        r"(\d+) of (\d+) and is never below that ridge",
        text_of("README.md"),
    )
    expected = counts(board, is_real=False) + counts(board, is_real=False, is_untouched=True)
    assert (*claim.groups(), "0") == expected + counts(board, is_real=True)
    untouched = counts(board, is_real=False, is_untouched=True)
    assert "first in {} of {} settings".format(*untouched) in text_of("docs", "sieve.md")


def test_the_page_of_the_suite_shows_the_stored_results(results):
    page = text_of("docs", "results", "suite.md")
    for line in summary(results)[1:]:
        assert " ".join(line) in page


def lines(name, head):
    """Cells of the first table below a heading that starts so."""
    rows = (ROOT / "docs" / "results" / name).read_text("utf-8").splitlines()
    start = next(k for k, row in enumerate(rows) if row.startswith(head))
    heads = [cell.strip() for cell in rows[start].strip("|").split("|")]
    for row in rows[start + 2 :]:
        if not row.startswith("|"):
            return
        yield dict(zip(heads, (cell.strip() for cell in row.strip("|").split("|")), strict=True))


def test_settings_above_the_published_best_are_counted_with_the_features_of_the_paper():
    above = total = 0
    for row in lines("reproduction.md", "| data | r | Schirn | Schirn†"):
        best = [
            value.mean
            for (metric, dataset, r, _), value in published_values().items()
            if (metric, dataset, r) == ("average_precision", row["data"], row["r"])
        ]
        if best:
            total += 1
            above += float(re.search(r"\d+\.\d", row["Sieve"])[0]) / 100 > max(best)
    claim = f"best published figure in {above} of {total} settings"
    assert claim in text_of("README.md")
    for page in (("docs", "sieve.md"), ("docs", "results", "sieve.md")):
        assert f"{above} of {total} settings" in text_of(*page)


def test_the_gap_on_untouched_sets_is_that_of_the_table():
    rows = [
        row for row in lines("sieve.md", "| data | r | candidates | Sieve | truth | gap closed")
    ]
    shares = [
        float(row["gap closed"])
        for row in rows
        if row["data"] not in ("mean", "emotions", "yeast") and row["r"]
    ]
    assert len(shares) == 4
    assert f"closes {sum(shares) / 4:.2f} of the gap" in text_of("docs", "sieve.md")


def test_no_set_is_both_held_back_and_used_for_the_design():
    assert not {name for name, _ in HELD_BACK} & {name for name, _ in DEVELOPMENT}
