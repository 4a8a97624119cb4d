"""Build the leaderboard from the committed result files beside the pages of the site."""

from pathlib import Path

from sphinx.application import Sphinx

from schirn.lab.leaderboard import build_leaderboard

RESULTS = Path(__file__).parents[2] / "benchmarks" / "leaderboard"


def write_pages(app: Sphinx, exception: Exception | None) -> None:
    """Write the folder that `leaderboard.md` links to."""
    # A source distribution has no results.
    if exception is None and app.builder.format == "html" and any(RESULTS.glob("*.jsonl.gz")):
        build_leaderboard([RESULTS], Path(app.outdir) / "leaderboard")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the last step of a build."""
    app.connect("build-finished", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
