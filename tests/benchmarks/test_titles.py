"""The generator of product titles: every knob does what it says."""

import doctest
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def titles(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return pytest.importorskip("benchmarks.titles", reason="benchmarks/ is not here")


def wrong_share(table):
    return (table.listed > table.truth).sum() / table.listed.sum()


def missing_share(table):
    return (table.listed < table.truth).sum() / table.truth.sum()


def test_example(titles):
    result = doctest.testmod(titles)
    assert result.attempted
    assert not result.failed


def test_same_seed_same_table(titles):
    first, second, other = (titles.make_titles(200, random_state=seed) for seed in (3, 3, 4))
    assert first.texts == second.texts
    assert (first.listed == second.listed).all()
    assert first.texts != other.texts


@pytest.mark.parametrize("n_tags", [1, 2, 30, 45, 300])
def test_shapes(titles, n_tags):
    table = titles.make_titles(400, n_tags, wrong=0.0)
    assert len(table.texts) == 400
    assert len(set(table.labels)) == n_tags
    assert table.truth.shape == table.listed.shape == (400, n_tags)
    assert table.truth.dtype == table.listed.dtype == np.uint8
    assert (table.truth == table.listed).all()
    assert all(table.texts)


def test_titles_state_their_tags(titles):
    """Without unstated tags every tag has one of its phrases in the title."""
    phrases = {tag: words for tags in titles.FACETS.values() for tag, words in tags.items()}

    def stated(table):
        return np.mean(
            [
                any(f" {phrase} " in f" {text} " for phrase in phrases[tag])
                for text, row in zip(table.texts, table.truth, strict=True)
                for tag in table.names_of(row)
            ]
        )

    assert stated(titles.make_titles(500, unstated=0.0)) == 1
    assert stated(titles.make_titles(2000, unstated=0.3)) == pytest.approx(0.7, abs=0.03)
    names = titles.make_titles(500, unstated=0.0)
    own = [
        f" {tag} " in f" {text} "
        for text, row in zip(names.texts, names.truth, strict=True)
        for tag in names.names_of(row)
    ]
    assert np.mean(own) < 0.5


@pytest.mark.parametrize("knobs", [{}, {"by_frequency": True}, {"confusable": 0.6, "swapped": 0.5}])
def test_shares_of_wrong_and_missing_tags(titles, knobs):
    table = titles.make_titles(wrong=0.15, **knobs)
    assert wrong_share(table) == pytest.approx(0.15, abs=0.001)
    assert (missing_share(table) > 0) == ("swapped" in knobs)
    table = titles.make_titles(wrong=0.0, dropped=0.1)
    assert wrong_share(table) == 0
    assert missing_share(table) == pytest.approx(0.1, abs=0.02)
    assert (titles.make_titles(300, dropped=1.0).listed.sum(axis=1) >= 1).all()


def test_wrong_tags_follow_frequency(titles):
    def correlation(**knobs):
        table = titles.make_titles(rare=1.0, wrong=0.2, **knobs)
        n_wrong = (table.listed > table.truth).sum(axis=0)
        return np.corrcoef(n_wrong, table.truth.sum(axis=0))[0, 1]

    assert correlation(by_frequency=True) > 0.9
    assert correlation() < 0.1


def test_confusable_tags_are_neighbours(titles):
    table = titles.make_titles(1000, confusable=1.0, swapped=1.0)
    row, column = np.nonzero(table.listed > table.truth)
    neighbours = {("coat", "jacket"), ("jacket", "coat"), ("red", "pink"), ("pink", "red")}
    pairs = set()
    for i, j in zip(row, column, strict=True):
        missing = np.flatnonzero(table.truth[i] > table.listed[i])
        pairs |= {(table.labels[j], table.labels[k]) for k in missing}
        facet = next(tags for tags in titles.FACETS.values() if table.labels[j] in tags)
        assert any(table.labels[k] in facet for k in missing)
    assert neighbours <= pairs
    assert (table.listed.sum(axis=1) == table.truth.sum(axis=1)).all()


def test_a_kind_implies_its_parent(titles):
    table = titles.make_titles(500, hierarchy=True)
    assert len(table.labels) == 30
    column = table.labels.index
    assert (table.truth[:, column("clothing")] >= table.truth[:, column("coat")]).all()
    assert table.truth[:, [column(parent) for parent in titles.PARENTS]].sum(axis=0).all()


def test_typos(titles):
    def unknown(**knobs):
        words = " ".join(titles.make_titles(1000, **knobs).texts).split(" ")
        return np.mean([word not in vocabulary for word in words])

    vocabulary = set(" ".join(titles.make_titles(1000).texts).split(" "))
    assert unknown(random_state=1) == 0
    # Some errors make another word, or none, such as two equal letters exchanged.
    assert unknown(random_state=1, typos=0.2) == pytest.approx(0.19, abs=0.02)


def test_noise_in_few_labels_or_rows(titles):
    few_labels = titles.make_titles(noisy_labels=0.1)
    few_rows = titles.make_titles(noisy_rows=0.1)
    assert (few_labels.listed > few_labels.truth).any(axis=0).sum() == 3
    assert (few_rows.listed > few_rows.truth).any(axis=1).sum() <= 300
    assert wrong_share(few_labels) == pytest.approx(0.1, abs=0.001)
    assert wrong_share(few_rows) == pytest.approx(0.1, abs=0.001)
    with pytest.raises(ValueError, match=r"wrong tags do not fit into \d+ cells"):
        titles.make_titles(100, noisy_rows=0.01, wrong=0.5)
    with pytest.raises(ValueError, match="confusable tags are wanted"):
        titles.make_titles(100, confusable=1.0, noisy_rows=0.01)


def test_copies(titles):
    table, single = titles.make_titles(1000, 300, copies=0.4), titles.make_titles(1000, 300)
    assert len(set(single.texts)) > 990
    assert len(set(table.texts)) <= 600
    assert wrong_share(table) == pytest.approx(0.1, abs=0.001)


def test_rare_labels(titles):
    counts = titles.make_titles(3000, 300, rare=1.0).truth.sum(axis=0)
    assert np.median(counts) < 15
    assert counts.max() > 500
