"""`schirn demo`."""

import argparse
import webbrowser
from pathlib import Path
from typing import Any

from schirn._files import atomic_write, check_writable
from schirn.cli.output import note, print_json, say, table, working
from schirn.cli.parser import add_command
from schirn.demo import Demo, run_demo
from schirn.exceptions import MissingExtraError
from schirn.metrics import METRICS

_EXAMPLES = """
schirn demo
schirn demo --noise 3 --seed 1 --output three.html --open
schirn demo --no-page --json
"""
_OPTIONS = """
-o, --output FILE = schirn-demo.html  file name of the page
--noise R:positive = 2  wrong tags per image
--seed S:natural = 0  random seed
--open  open the page in the browser
--no-page  do not write the page
"""


def add(found: Any) -> None:
    """Add the command."""
    add_command(
        found,
        "demo",
        run,
        help="find wrong tags on digit images, and write a page that shows them",
        description="Add wrong tags to images of handwritten digits, train Sieve, Schirn and two "
        "ridges on them, and show which tags each one removes: in tables, and on a page with the "
        "images. The demo needs no download and takes a few seconds.",
        examples=_EXAMPLES,
        options=_OPTIONS,
    )


def run(args: argparse.Namespace) -> None:
    """Run the demonstration, write the page, print the figures."""
    if not args.no_page:
        check_writable(args.output)
    with working("training four methods on 1,257 images", args):
        demo = run_demo(args.noise, args.seed)
    page = None if args.no_page else _write_page(demo, args.output)
    if args.json:
        print_json({**demo.to_dict(), "page": args.output if page else None})
    else:
        _print(demo)
        if page:
            say(f"\nSee the images with their tags: {page}")
    if page and args.open:
        webbrowser.open(page.as_uri())


def _print(demo: Demo) -> None:
    """Print two small tables and two sentences."""
    say(
        f"{demo.train.n_samples:,} images of handwritten digits, {demo.noise} wrong "
        f"{'tag' if demo.noise == 1 else 'tags'} added to each; {demo.n_test} unseen images.\n"
    )
    heads = [metric.label for metric in METRICS.values()]
    rows = [[r.name, *(f"{value:.3f}" for value in r.measures.values())] for r in demo.results]
    say("Unseen images")
    table(["method", *heads], rows, right="l" + "r" * len(heads))
    say("\nWrong tags found in the training images")
    keys = ("precision", "recall", "auc")
    found = [
        [r.name, *(f"{r.noise[key]:.3f}" for key in keys)]
        for r in demo.results
        if r.name != "OracleRidge"
    ]
    table(("method", "precision ↑", "recall ↑", "AUC ↑"), found, right="lrrr")
    say("\nCandidateRidge treats every tag as true; OracleRidge is trained on the true tags.")
    for sentence in demo.sentences():
        say(sentence)


def _write_page(demo: Demo, output: str) -> Path | None:
    """Write the page, or print how to install the package that renders it."""
    from schirn.report import demo_page

    try:
        text = demo_page(demo)
    except MissingExtraError as error:
        note(f"note: no page was written; {' '.join(str(error).split())}")
        return None
    with atomic_write(output) as stream:
        stream.write(text.encode())
    return Path(output).resolve()
