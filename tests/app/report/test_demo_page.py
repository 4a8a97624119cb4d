import re
from html.parser import HTMLParser

import numpy as np
import pytest
from demo_helpers import quick_demo

from schirn.app.report._demo_page import demo_page

VOID = {"meta", "img"}


class Page(HTMLParser):
    """Checks that tags are closed in order; keeps images and chips."""

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.chips, self.resources = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "img":
            self.images.append(attrs)
        if tag == "li" and "tag" in attrs.get("class", "").split():
            self.chips.append(attrs["class"].removeprefix("tag").strip() or "kept")
        self.resources += [attrs[key] for key in ("src", "href") if key in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def demo():
    return quick_demo(noise=3, seed=1)


@pytest.fixture(scope="module")
def text(demo):
    pytest.importorskip("jinja2")
    return demo_page(demo)


def test_the_page_needs_nothing_else(text):
    page = Page(text)
    assert page.resources
    assert all(resource.startswith("data:image/png;base64,") for resource in page.resources)
    assert not re.search(r"https?://|@import|url\(|<script", text)


def test_images_have_texts(text):
    images = Page(text).images
    assert len(images) >= 10
    assert all(image["alt"].startswith("Handwritten digit ") for image in images)


def test_suspects_come_first(demo, text):
    row = demo.suspects.row[0]
    suspects = set(demo.suspects.column[demo.suspects.row == row])
    listed = np.flatnonzero(demo.train.candidates[row])
    expected = ["suspect" if j in suspects else "kept" for j in listed]
    assert "suspect" in expected
    assert Page(text).chips[: len(expected)] == expected


def test_chips_of_the_images_tell_the_truth(demo, text):
    row = int(np.argmax(demo.digits == 0))
    kinds = {(0, 1): "kept", (1, 0): "found", (1, 1): "mistake", (0, 0): "missed"}
    clean, truth = demo.answered.clean, demo.train.y_true
    listed = np.flatnonzero(demo.train.candidates[row])
    expected = [kinds[int(not clean[row, j]), int(truth[row, j])] for j in listed]
    chips = Page(text).chips
    # The first images show suspects; the legend shows its chips outside of lists of tags.
    images = list(dict.fromkeys(demo.suspects.row.tolist()))[:10]
    first = int(demo.train.candidates[images].sum())
    assert chips[first : first + len(expected)] == expected


def test_figures(demo, text):
    removed = demo.answered.removed
    assert f"<b>{removed.sum():,}</b>" in text
    assert f"<b>{demo.wrong[removed].mean():.1%}</b>" in text
    assert f"<b>{removed[demo.wrong].mean():.1%}</b>" in text
    for result in demo.results:
        for value in result.measures.values():
            assert f"<td>{value:.3f}</td>" in text


def test_names_are_escaped(demo, text):
    from dataclasses import replace

    names = ["<script>alert(1)</script>", *demo.train.label_names[1:]]
    hostile = replace(demo, train=replace(demo.train, label_names=names))
    page = demo_page(hostile)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
