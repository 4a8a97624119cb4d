import re
from html.parser import HTMLParser

import numpy as np
import pytest

from schirn import find_noisy_labels
from schirn.app.report import CleanReport
from schirn.app.tables import look_at_table
from schirn.cleaning import MissingTags, NoisyLabels
from schirn.datasets import load_digits_attributes

pytest.importorskip("jinja2")
VOID = {"meta", "img", "input"}


class Page(HTMLParser):
    """Checks that tags are closed in order; keeps cards and resources."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cards, self.resources = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_startendtag(self, tag, attrs):
        assert tag == "line"

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        assert not any(name.startswith("on") for name in attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "li" and attrs.get("class") == "card":
            self.cards.append(attrs)
        self.resources += [attrs[key] for key in ("src", "href") if key in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2).subset(range(400))


@pytest.fixture(scope="module")
def ranking(digits):
    ranking = find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)
    return ranking.remove(below=0.5)


def make(n=4, labels=("a", "b"), confidence=None, **more):
    """Every row carries every label; those below one half are removed."""
    row, column = np.divmod(np.arange(n * len(labels)), len(labels))
    confidence = np.linspace(0, 1, len(row)) if confidence is None else np.asarray(confidence)
    judged = np.ones(len(row), dtype=bool)
    return ranked(n, list(labels), row, column, confidence, judged, **more)


def ranked(*values, **more):
    return NoisyLabels.from_arrays(*values, "Sieve", keep_one=False, **more).remove(below=0.5)


def test_the_page_needs_nothing_else(digits, ranking):
    text = ranking.report(images=digits.images, title="digits").html()
    page = Page(text)
    assert page.resources
    loaded = set(page.resources) - {"#next"}
    assert all(resource.startswith("data:image/png;base64,") for resource in loaded)
    assert not re.search(r"https?://|@import|url\(", text)
    assert len(page.cards) >= 20
    assert f"<b>{ranking.removed.sum():,}</b>" in text
    assert "the number of wrong tags cannot be known" in text


def test_cards_are_the_most_suspicious(ranking):
    cards = ranking.report().cards()
    assert len({(card["row"], card["label"]) for card in cards}) == len(cards) == 20
    confidence = [card["confidence"] for card in cards]
    assert confidence == np.sort(ranking.confidence)[:20].tolist()
    asked = ranking.suspects(3)
    after = ranking.answered(asked, [True, False, None]).report().cards()
    assert not {(card["row"], card["label"]) for card in after} & set(
        zip(asked.row.tolist(), asked.label.tolist(), strict=True)
    )


def test_cards_show_row_text_and_tags():
    report = make(confidence=[0.1, 0.9, 0.8, 0.95, 0.7, 0.2, 1, 1]).report(
        texts=["first text", "b", "c", "x" * 5000], ids=["i-1", "i-2", "i-3", "i-4"]
    )
    first = report.cards()[0]
    shown = [first[name] for name in ("id", "label", "removed", "text")]
    assert shown == ["i-1", "a", True, "first text"]
    assert [(tag["name"], tag["removed"]) for tag in first["tags"]] == [("a", True), ("b", False)]
    assert max(len(card["text"]) for card in report.cards()) < 500
    assert len(report.cards()) == 8
    assert "The 8 most suspicious tags of 8, the worst first." in report.html()


def test_swaps_are_listed():
    n = 30
    row, column = np.repeat(np.arange(n), 2), np.tile([0, 1], n)
    confidence = np.tile([0.9, 0.2], n)
    missing = MissingTags(np.arange(n), np.full(n, 2), np.full(n, 0.8), ["a", "coat", "jacket"])
    values = (n, missing.label_names, row, column, confidence, np.ones(len(row), dtype=bool))
    report = NoisyLabels.from_arrays(*values, "Sieve", missing=missing).report(
        ids=[f"r{i}" for i in range(n)]
    )
    swaps = report.swaps()
    (swap,) = swaps
    assert (swap["wrong"], swap["right"], swap["n_rows"]) == ("coat", "jacket", 30)
    page = report.html()
    assert '<th scope="row" class="name">coat</th><td class="name">jacket</td><td>30</td>' in page
    assert f'<td class="name">{swap["id"]}</td>' in page
    assert "Possible swaps" not in make().report().html()


@pytest.mark.parametrize("named", [True, False])
def test_verdicts_can_be_opened(digits, ranking, named):
    names = [f"pixel {j}" for j in range(digits.X.shape[1])] if named else None
    reasons = ranking.reasons(digits.X, feature_names=names)
    report = ranking.report(reasons=reasons, texts=[f"image {i}" for i in range(400)])
    text = report.html()
    page = Page(text)
    assert text.count('<details class="why">') == len(page.cards)
    card = report.cards()[0]
    why = reasons.explain(card["row"], card["label"])
    assert why.summary in text
    assert f"row {why.with_tag[0].row + 1}: image {why.with_tag[0].row}" in text
    assert bool(why.words) == named
    assert not named or f"<span>{why.words[0].name}</span>" in text
    assert ("linear model" in text) == named
    # Rows without a text are shown by their tags.
    row = why.with_tag[0].row
    kept = [ranking.label_names[j] for j in np.flatnonzero(ranking.clean[row])]
    assert f"row {row + 1}: {', '.join(kept)}"[:60] in ranking.report(reasons=reasons).html()
    # Without reasons, there is nothing to open.
    assert 'class="why"' not in ranking.report().html()
    assert len(text) < 1.2e6


def test_everything_is_escaped():
    hostile = ["</script><script>x()</script>", '"><img src=x onerror=y()>']
    ranking = make(labels=hostile)
    report = ranking.report(
        texts=["<b onclick=z()>"] * 4,
        ids=["<i>"] * 4,
        title="</title><script>t()</script>",
        reasons=ranking.reasons(np.eye(4), feature_names=hostile * 2),
    )
    text = report.html()
    assert text.count('<details class="why">') == 8
    Page(text)
    assert text.count("<script>") == text.count("</script>") == 1
    assert "<img src=x" not in text
    assert "<b onclick" not in text
    frame = report._repr_html_()
    assert frame.startswith("<iframe")
    assert frame.count("<") == 2


def test_large_results_are_sampled_and_the_page_says_so():
    ranking = make(n=100_000, labels=[f"tag {j}" for j in range(3)])
    text = ranking.report(texts=["some text"] * 100_000).html()
    assert "The 20 most suspicious tags of 300,000" in text
    assert len(text) < 100_000


def test_in_a_notebook(ranking):
    assert repr(ranking.report()).startswith("CleanReport(NoisyLabels(400 rows")
    assert ranking._repr_html_().startswith("<iframe")


def test_findings_are_shown(ranking):
    findings = look_at_table(["Dog|x", "dog|x", "dog|x", "cat", "cat"])
    report = ranking.report(findings=findings)
    Page(report.html())
    sentence = "1 tag looks like another spelling: Dog|x (1 row) → dog|x (2), case"
    assert sentence in report.html()


def test_image_files_are_shown_when_they_are_small_images(tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 100)
    (tmp_path / "b.png").write_bytes(b"<svg onload=x>")
    (tmp_path / "c.png").write_bytes(b"\x89PNG" + b"0" * 400_000)
    paths = [tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.png", None]
    cards = CleanReport(make(), images=paths).cards()
    assert {card["row"] for card in cards if card["image"]} == {0}
    assert next(c for c in cards if c["row"] == 0)["image"].startswith("data:image/png;base64,")
    missing = CleanReport(make(), images=[tmp_path / "none.png"] * 4).cards()
    assert not any(card["image"] for card in missing)


def test_nothing_judged_still_makes_a_page():
    everything = make()
    nothing = np.zeros(8, dtype=bool)
    none = ranked(4, ["a", "b"], everything.row, everything.column, np.full(8, 0.5), nothing)
    text = none.report().html()
    Page(text)
    assert "No tag is left to rank" in text
    assert "none is ranked" in text


def test_the_report_says_what_is_known(digits, ranking):
    text = ranking.report().html()
    assert "at your request, <b>not checked</b>" in text
    assert "schirn review TABLE" in text
    # First the cards, then what to do, then numbers, and at the end what the words mean.
    places = [text.index(f">{each}<") for each in ("Next steps", "Numbers", "Tag by tag", "Terms")]
    assert places == sorted(places)
    assert text.index('class="card"') < places[0]
    ranking = find_noisy_labels(digits.X, digits.candidates)
    assert "Nothing is removed yet." in ranking.report().html()
    asked = ranking.questions(25)
    answered = ranking.answered(asked, digits.y_true[asked.row, asked.column] == 1)
    text = answered.report().html()
    Page(text)
    assert answered.sentence in text
    assert "Based on 25 answers" in text
    assert "not checked" not in text
    assert "five minutes" not in text


def suggesting():
    """Four rows; of three tags that are not listed, two may be missing."""
    names = ["a", "b"]
    missing = MissingTags(
        np.array([1, 2, 3]), np.array([1, 1, 1]), np.array([0.3, 0.95, 0.7]), names
    )
    row, column, judged = np.arange(4), np.zeros(4, dtype=int), np.ones(4, dtype=bool)
    return ranked(4, names, row, column, np.array([0.1, 0.2, 0.9, 0.95]), judged, missing=missing)


def test_tags_that_may_be_missing_are_shown_beside_suspects():
    report = suggesting().report(texts=["one", "two", "three", "four"])
    cards = report.suggestions()
    assert [(card["id"], card["label"], card["suggested"]) for card in cards] == [
        ("3", "b", True),
        ("4", "b", True),
    ]
    assert [tag["name"] for tag in cards[0]["tags"]] == ["a"]
    page = Page(report.html())
    assert len(page.cards) == 6
    assert ">May be missing<" in report.html()


def answered(ranking, digits, n_rounds=3):
    for _ in range(n_rounds):
        asked = ranking.questions(50)
        ranking = ranking.answered(asked, digits.y_true[asked.row, asked.column] == 1)
    return ranking


def test_the_trade_off_is_drawn(digits):
    ranking = find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)
    assert "<svg" not in ranking.report().html()
    ranking = answered(ranking, digits)
    lines = ranking.trade_off()
    assert len({line.removed for line in lines}) > 1
    text = ranking.report().html()
    Page(text)
    svg = text[text.index("<svg") : text.index("</svg>")]
    heights = [float(height) for height in re.findall(r'<rect.* height="([\d.]+)"', svg)]
    removed = np.array([line.removed for line in lines])
    np.testing.assert_allclose(heights, max(heights) * removed / removed.max(), atol=0.06)
    for line in lines:
        assert f">{line.removed:,}</text>" in svg
        assert f">{line.precision:.0%}</text>" in svg
    assert svg.count('class="chosen"') == 1
    caption = text[text.index("<figcaption") : text.index("</figcaption>")]
    assert f"The target now is {ranking.precision:.0%}" in caption
    other = ranking.at(precision=0.85).report().html()
    assert other.count('<rect class="chosen"') == 1
    assert 'y="192">85%</text>' in other


def test_every_number_of_a_card_and_of_the_test_has_a_caption(ranking):
    text = ranking.report().html()
    cards = re.findall(r'<li class="card">\s*<h3>.*</h3>', text)
    assert len(cards) >= 20
    assert all(card.endswith("<small>correct</small></b></h3>") for card in cards)
    assert "100 random wrong tags" not in text
    assert "of tags put on random rows as a test are among the most suspicious 10%" in text
