import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats

from schirn import find_noisy_labels
from schirn.cleaning import look_at_table
from schirn.cleaning.found import MissingTags, NoisyLabels
from schirn.datasets import load_digits_attributes
from schirn.report import CleanReport

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
def found(digits):
    return find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)


def make(n=4, labels=("a", "b"), confidence=None, threshold=0.5):
    """Every row carries every label."""
    row, column = np.divmod(np.arange(n * len(labels)), len(labels))
    confidence = np.linspace(0, 1, len(row)) if confidence is None else np.asarray(confidence)
    judged = np.ones(len(row), dtype=bool)
    removed = confidence < threshold
    return NoisyLabels(
        n, list(labels), row, column, confidence, removed, judged, threshold, "Sieve"
    )


def test_the_page_needs_nothing_else(digits, found):
    text = found.report(images=digits.images, title="digits").html()
    page = Page(text)
    assert page.resources
    assert all(resource.startswith("data:image/png;base64,") for resource in page.resources)
    assert not re.search(r"https?://|@import|url\(", text)
    assert len(page.cards) == 240
    assert f"<b>{found.removed.sum():,}</b>" in text
    assert f"<b>{found.noise_rate:.1%}</b>" in text


def test_cards_are_the_surest_and_the_closest(found):
    cards = found.report().cards()
    assert len({(card.row, card.label) for card in cards}) == len(cards) == 240
    confidence = [card.confidence for card in cards]
    assert confidence == sorted(confidence)
    assert confidence[:120] == np.sort(found.confidence)[:120].tolist()
    closest = found.confidence[np.argmin(np.abs(found.confidence - 0.5))]
    assert closest in confidence


def test_cards_show_row_text_and_tags():
    report = make(confidence=[0.1, 0.9, 0.8, 0.95, 0.7, 0.2, 1, 1]).report(
        texts=["first text", "b", "c", "x" * 5000], ids=["i-1", "i-2", "i-3", "i-4"]
    )
    first = report.cards()[0]
    assert (first.id, first.label, first.removed, first.text) == ("i-1", "a", True, "first text")
    assert [(tag["name"], tag["removed"]) for tag in first.tags] == [("a", True), ("b", False)]
    assert max(len(card.text) for card in report.cards()) < 500
    assert len(report.cards()) == 8
    assert "The cards show all 8 tags." in report.html()


def test_the_histogram_counts():
    report = make(confidence=[0.1, 0.9, 0.2, 0.8, 0.7, 0.3, 1, 1]).report()
    bars = report.histogram()
    assert sum(bar["n_tags"] for bar in bars) == 8
    assert bars[-1]["n_tags"] == 2
    assert [bar["removed"] for bar in bars] == [bar["high"] <= 0.5 for bar in bars]


def confused(n=400, seed=0, chosen="b"):
    """Every row has one of "b" to "e"; "a" is removed from 40 rows, of which 30 keep `chosen`."""
    rng = np.random.default_rng(seed)
    own = rng.integers(1, 5, n)
    order = rng.permutation(n)
    out = order[:40]
    if chosen:
        column = "abcde".index(chosen)
        out = np.r_[order[own[order] == column][:30], order[own[order] != column][:10]]
    right = np.setdiff1d(order, out)[:100]
    row = np.r_[np.arange(n), out, right]
    column = np.r_[own, np.zeros(len(out) + len(right), dtype=int)]
    removed = np.r_[np.zeros(n, dtype=bool), np.ones(len(out), dtype=bool), right < 0]
    order = np.lexsort((column, row))
    row, column, removed = row[order], column[order], removed[order]
    judged = np.ones(len(row), dtype=bool)
    confidence = np.where(removed, 0.1, 0.9)
    return NoisyLabels(n, list("abcde"), row, column, confidence, removed, judged, 0.5, "Sieve")


def test_a_tag_that_others_are_confused_with_is_listed():
    found = confused()
    (pair,) = found.report().confusions()
    assert (pair["removed"], pair["kept"], pair["n_rows"], pair["share"]) == ("a", "b", 30, 0.75)
    # "b" is in about a quarter of the rows that do not keep "a".
    rows = np.setdiff1d(np.arange(400), found.row[(found.column == 0) & ~found.removed])
    usual = np.isin(rows, found.row[found.column == 1]).mean()
    assert pair["usual"] == pytest.approx(usual)
    assert pair["p_value"] < 1e-4
    assert "Tags kept alongside removed ones" in found.report().html()


def test_random_removals_list_no_pair():
    listed = [confused(seed=seed, chosen="").report().confusions() for seed in range(100)]
    # At most one table in twenty, plus luck.
    assert sum(map(bool, listed)) <= 10
    assert "kept alongside" not in confused(seed=1, chosen="").report().html()


def test_a_tag_on_every_row_is_confused_with_nothing():
    found = make(n=40, labels="ab", confidence=[0.1, 0.9] * 40)
    assert found.report().confusions() == []


def test_rows_with_many_tags_are_compared_with_rows_with_many_tags():
    # Ten of the rows have all tags, and wrong ones are added to rows with all tags only.
    n, rng = 200, np.random.default_rng(0)
    kept = np.zeros((n, 4), dtype=bool)
    kept[np.arange(n), rng.integers(1, 4, n)] = True
    kept[:60, 1:] = True
    wrong = np.zeros_like(kept)
    wrong[:30, 0] = True
    row, column = np.nonzero(kept | wrong)
    removed = wrong[row, column]
    judged = np.ones(len(row), dtype=bool)
    confidence = np.where(removed, 0.1, 0.9)
    found = NoisyLabels(n, list("abcd"), row, column, confidence, removed, judged, 0.5, "Sieve")
    assert found.report().confusions() == []


def test_the_chance_is_at_least_that_of_random_draws():
    found = confused()
    (pair,) = found.report().confusions()
    rows = np.setdiff1d(np.arange(400), found.row[(found.column == 0) & ~found.removed])
    marked = np.isin(rows, found.row[found.column == 1]).sum()
    exact = stats.hypergeom.sf(29, len(rows), marked, 40)
    assert 4 * exact <= pair["p_value"] < 1e-4


@pytest.mark.parametrize("named", [True, False])
def test_verdicts_can_be_opened(digits, found, named):
    names = [f"pixel {j}" for j in range(digits.X.shape[1])] if named else None
    reasons = found.reasons(digits.X, feature_names=names)
    report = found.report(reasons=reasons, texts=[f"image {i}" for i in range(400)])
    text = report.html()
    page = Page(text)
    assert text.count('<details class="why">') == len(page.cards)
    card = report.cards()[0]
    why = reasons.explain(card.row, card.label)
    assert why.summary in text
    assert f"row {why.with_tag[0].row + 1}: image {why.with_tag[0].row}" in text
    assert (f"<span>{why.words[0].name}</span>" in text) == named
    assert ("linear model" in text) == named
    # Rows without a text are shown by their tags.
    row = why.with_tag[0].row
    kept = [found.label_names[j] for j in np.flatnonzero(found.clean[row])]
    assert f"row {row + 1}: {', '.join(kept)}"[:60] in found.report(reasons=reasons).html()
    # Without reasons, there is nothing to open.
    assert 'class="why"' not in found.report().html()
    assert len(text) < 1.2e6


def test_everything_is_escaped():
    hostile = ["</script><script>x()</script>", '"><img src=x onerror=y()>']
    found = make(labels=hostile)
    report = found.report(
        texts=["<b onclick=z()>"] * 4,
        ids=["<i>"] * 4,
        title="</title><script>t()</script>",
        reasons=found.reasons(np.eye(4), feature_names=hostile * 2),
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
    found = make(n=100_000, labels=[f"tag {j}" for j in range(3)])
    text = found.report(texts=["some text"] * 100_000).html()
    assert "240 of 300,000 tags" in text
    assert len(text) < 400_000


def test_in_a_notebook(found):
    assert repr(found.report()).startswith("CleanReport(NoisyLabels(400 rows")
    assert found._repr_html_().startswith("<iframe")


def test_findings_are_shown(found):
    findings = look_at_table(["Dog|x", "dog|x", "dog|x", "cat", "cat"])
    report = found.report(findings=findings)
    Page(report.html())
    sentence = "1 tag looks like another spelling: Dog|x (1 row) → dog|x (2), case"
    assert sentence in report.html()


def test_image_files_are_shown_when_they_are_small_images(tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 100)
    (tmp_path / "b.png").write_bytes(b"<svg onload=x>")
    (tmp_path / "c.png").write_bytes(b"\x89PNG" + b"0" * 400_000)
    paths = [tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.png", None]
    cards = CleanReport(make(), images=paths).cards()
    assert {card.row for card in cards if card.image} == {0}
    assert next(c for c in cards if c.row == 0).image.startswith("data:image/png;base64,")
    missing = CleanReport(make(), images=[tmp_path / "none.png"] * 4).cards()
    assert not any(card.image for card in missing)


def test_nothing_judged_still_makes_a_page():
    found = make()
    none = NoisyLabels(
        4, ["a", "b"], found.row, found.column, np.full(8, 0.5),
        np.zeros(8, dtype=bool), np.zeros(8, dtype=bool), 0.5, "Sieve",
    )  # fmt: skip
    text = none.report().html()
    Page(text)
    assert "no tag could be judged" in text


def test_the_report_says_how_far_to_trust_it(digits, found):
    report = found.report()
    text = report.html()
    Page(text)
    assert text.index("How far to trust this: <b>good</b>") < text.index("How sure are")
    assert f"{found.trust.caught:.1%}" in text
    assert "How far to trust this" not in make().report().html()


def test_tags_that_are_held_back_are_shown_as_kept():
    digits = load_digits_attributes(r=2).subset(range(600))
    found = find_noisy_labels(digits.X, digits.candidates, method="CandidateRidge")
    assert found.held_back
    text = found.report().html()
    assert f"{found.held_back:,} of them are kept" in text
    highest = max(bar["high"] for bar in found.report().histogram() if bar["removed"])
    assert highest <= found.confidence[found.removed].max() < 0.5


def suggesting(missing_rate=0.2):
    """Four rows with a suggestion each, except the first."""
    names = ["a", "b"]
    missing = MissingTags(
        np.array([1, 2, 3]), np.array([0, 1, 0]), np.array([0.6, 0.95, 0.7]), names
    )
    found = make(n=4, labels="a", confidence=[0.1, 0.2, 0.9, 0.95])
    return replace(found, label_names=names, missing=missing, missing_rate=missing_rate)


def test_suggestions_are_shown_beside_removals():
    report = suggesting().report(texts=["one", "two", "three", "four"])
    cards = report.suggestions()
    assert [(card.id, card.label, card.verdict) for card in cards] == [
        ("3", "b", "suggested"),
        ("4", "a", "suggested"),
        ("2", "a", "suggested"),
    ]
    assert [tag["name"] for tag in cards[0].tags] == ["a"]
    page = Page(report.html())
    verdicts = [card["data-verdict"] for card in page.cards]
    assert sorted(verdicts) == ["kept"] * 2 + ["removed"] * 2 + ["suggested"] * 3
    assert "<b>3</b><span>tags are suggested, because about 20.0%" in report.html()
    assert "3 tags are suggested, of which about 75% should be right." in report.html()
    without = suggesting(missing_rate=0.0).report()
    assert without.suggestions() == []
    assert "suggested" not in without.html().partition("<script>")[0]


def test_the_curve_is_drawn_and_told(found):
    report = found.report()
    text, curve = report.html(), report.curve()
    Page(text)
    now = found.threshold_curve.at(0.5)
    assert curve["points"][curve["now"]] == now
    assert now.sentence in text
    xs, ys = zip(*(map(float, pair.split(",")) for pair in curve["precision"].split()), strict=True)
    assert list(xs) == sorted(xs)
    assert ys[xs.index(50.0)] == pytest.approx(100 * (1 - now.precision), abs=0.01)
    assert len(curve["precision_band"].split()) == 2 * len(xs)
    assert [point.threshold for point in curve["rows"]] == [k / 10 for k in range(1, 10)]
    assert "planted wrong tags and from the claimed share" in text
    assert make().report().curve() is None
    assert "another threshold" not in make().report().html()


def test_the_curve_of_an_audit_comes_from_the_answers(found, digits):
    cells = found.audit_sample(50)
    right = digits.y_true[cells.row, cells.column] == 1
    text = found.audited(cells, right).report().html()
    Page(text)
    assert "calibrated on the answers of a person" in text
