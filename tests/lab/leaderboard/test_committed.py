"""The committed results hold, and the pages say what they say."""

import gzip
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from schirn.lab.bench.suite import read_suite
from schirn.lab.leaderboard import Standing, check_results
from schirn.lab.leaderboard._pages import read_results

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "benchmarks" / "leaderboard"
NAME = "pml-2"
PAGES = ("README.md", "docs/leaderboard.md", "docs/results/leaderboard.md")
BLOCK = re.compile(r"<!-- leaderboard:\S+ -->.*?<!-- /leaderboard -->", re.S)
# Commands, code, addresses, versions and numbered lists have digits, but no figures.
NO_FIGURE = re.compile(
    r"```.*?```|`[^`]*`|\([^)]*\)|\bpml-\d|version [0-9.]+|^\d\.|--stop-after \d+h", re.S | re.M
)

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="a source distribution has no results")


@pytest.fixture(scope="module")
def results():
    return read_results([FOLDER]) if any(FOLDER.glob("*.jsonl.gz")) else []


def test_results_are_of_the_suite_with_scores_and_small(results):
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 20_000_000
    suite = read_suite(NAME)
    for result in results:
        entry = suite["datasets"][result["dataset"]]
        assert result["features"] in suite["tracks"].values()
        assert result["noise"] in (suite["noise"] if "r" in entry else ["own"])
        assert result["seed"] < suite["seeds"][entry["part"]]
        assert result["scores"] or result["status"] != "done"
    assert len(results) == Standing(results, suite).progress.n_runs


def test_a_sample_of_the_results_holds(results, tmp_path):
    if not results:
        pytest.skip("nothing has been computed")
    lines = gzip.decompress((FOLDER / f"{NAME}.jsonl.gz").read_bytes()).splitlines(keepends=True)
    count = min(len(lines), 100)
    sample = np.random.default_rng(0).choice(lines, count, replace=False)
    (tmp_path / f"{NAME}.jsonl.gz").write_bytes(gzip.compress(b"".join(sample)))
    shutil.copy(FOLDER / f"{NAME}.scores.npz", tmp_path)
    check = check_results(tmp_path, reruns=0)
    assert check.problems == []
    assert check.recomputed == sum(result["status"] == "done" for result in check.results)


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_of_a_page_is_that_of_the_files(results, page):
    text = (ROOT / page).read_text("utf-8")
    assert Standing(results, read_suite(NAME)).fill(text, page) == text, (
        "write the pages: schirn leaderboard update benchmarks/leaderboard --pages "
        + " ".join(PAGES)
    )


@pytest.mark.parametrize("page", PAGES[:2])
def test_no_figure_about_the_suite_is_outside_of_the_blocks(page):
    """A figure that somebody typed would not follow the files."""
    text = BLOCK.sub("", (ROOT / page).read_text("utf-8"))
    for sentence in re.split(r"(?<=[.:|])\s", text):
        if re.search(r"pml-2|suite", sentence):
            plain = NO_FIGURE.sub("", sentence)
            assert not re.search(r"\d", plain), sentence


def test_the_page_links_to_the_leaderboard_once_it_is_complete(results):
    text = (ROOT / "docs" / "leaderboard.md").read_text("utf-8")
    is_complete = Standing(results, read_suite(NAME)).progress.is_complete
    assert ('href="leaderboard/index.html"' in text) == is_complete
