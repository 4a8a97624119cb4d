"""`schirn demo`."""

import argparse
from itertools import islice
from pathlib import Path

from schirn._files import check_writable, write_text
from schirn.app.demo import Demo, run_demo
from schirn.exceptions import MissingExtraError
from schirn.metrics import METRICS
from schirn.program.output import note, say, table, working

HAS_JSON = False
OPTIONS = """
-o, --output FILE = schirn-demo.html  file name of the page
--noise R:positive = 2  wrong tags per image
--seed S:natural = 0  random seed
"""
_MAX_SUSPECTS = 8
# The page shows all metrics, but only two fit into a narrow terminal.
_MEASURES = ("average_precision", "hamming_loss")


def run(args: argparse.Namespace) -> None:
    """Add wrong tags to images of handwritten digits, rank the tags, ask and act.

    The truth answers 50 questions. The terminal and a page with the images show what the answers
    remove, and how well Sieve, Schirn and two ridges do. The demo needs no download and takes a few
    seconds.

    Examples
    --------
    schirn demo
    schirn demo --noise 3 --seed 1 --output three.html
    """
    check_writable(args.output)
    with working("ranking tags and training methods on 1,257 images", args):
        demo = run_demo(args.noise, args.seed)
    page = _write_page(demo, args.output)
    _print(demo)
    if page:
        say(f"\nSee the images with their tags: {page}")


def _print(demo: Demo) -> None:
    """Print the results of ranking, asking and acting, and a comparison of the methods."""
    tags = "1 wrong tag" if demo.noise == 1 else f"{demo.noise} wrong tags"
    say(f"{demo.train.n_samples:,} images of handwritten digits, {tags} added to each.\n")
    say("Rank: the most suspicious tags")
    suspects = zip(demo.suspects.records(), demo.suspect_is_wrong, strict=True)
    rows = [
        [str(demo.digits[tag["row"]]), tag["label"], "wrong" if wrong else "right"]
        for tag, wrong in islice(suspects, _MAX_SUSPECTS)
    ]
    table(("digit", "tag", "truth"), rows, align="rll")
    say("\n".join(demo.rank_sentences()))
    say("\n".join(("\nAsk: 50 questions, answered here from the true tags", *demo.ask_sentences())))
    say("\n".join(("\nAct", *demo.act_sentences())))
    say(f"\nMethods, on {demo.n_test} unseen images")
    rows = [[r.name, *(f"{r.measures[name]:.3f}" for name in _MEASURES)] for r in demo.results]
    table(("method", *(METRICS[name].label for name in _MEASURES)), rows, align="lrr")
    say("CandidateRidge trusts every tag; OracleRidge is trained on the true tags.")
    say(f"\nYour own table\n{demo.commands}")


def _write_page(demo: Demo, output: str) -> Path | None:
    """Write the page, or print how to install the package that renders it."""
    from schirn.app.report import demo_page

    try:
        text = demo_page(demo)
    except MissingExtraError as error:
        note(f"note: no page was written; {' '.join(str(error).split())}")
        return None
    write_text(output, text)
    return Path(output).resolve()
