"""Nights with known truth: tags that were removed and written back still count as evidence."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from schirn.app.tables import Expectations
from schirn.app.workflow import Decision, Decisions, RowContent, update_tags

TAGS = [f"t{j}" for j in range(6)]


class Scores:
    """A tagger that reads the log-odds of all tags from the content of a row."""

    label_names_ = TAGS
    known = TAGS

    def __init__(self):
        self.features_ = self.method_ = self.calibration_ = self

    def transform(self, columns):
        cells = [cell.split() or ["0"] * len(TAGS) for cell in columns["scores"]]
        return np.array(cells, dtype=float)

    def held_out_scores(self, X):
        return X

    def probability(self, scores):
        return expit(scores)


class Shop:
    """A table that grows every night, its true tags, and the answers about it."""

    def __init__(self, folder, n_rows=1500):
        self.rng = np.random.default_rng(0)
        self.decisions = Decisions(folder / "decisions.jsonl")
        self.content = {}
        self.tags = {}
        self.truth = {}
        self.state = None
        self.add_rows(n_rows)

    def add_rows(self, n):
        for i in range(len(self.truth), len(self.truth) + n):
            own, other = self.rng.choice(len(TAGS), 2, replace=False)
            log_odds = np.where(np.arange(len(TAGS)) == own, 2.5, -2.5)
            log_odds = log_odds + 2 * self.rng.normal(size=len(TAGS))
            name = f"A{i}"
            self.content[name] = " ".join(f"{value:.4f}" for value in log_odds)
            self.truth[name] = TAGS[own]
            self.tags[name] = [TAGS[own], TAGS[other]][: 1 + (self.rng.random() < 0.5)]

    def update(self, **options):
        columns = {"scores": list(self.content.values())}
        rows = RowContent(list(self.content), columns, ["scores"])
        tags = [self.tags[name] for name in self.content]
        keywords = {"last": self.state, "decisions": self.decisions, **options}
        update = update_tags(Scores(), columns, tags, rows, **keywords)
        self.state = update.state
        return update

    def answer(self, update, n=25):
        """Answer questions according to the truth."""
        questions = update.ranking.questions(n)
        ids = list(self.content)
        cells = [(ids[i], tag) for i, tag in zip(questions.row, questions.label, strict=True)]
        self.decide(cells)
        return cells

    def decide(self, cells, answer=None):
        for name, tag in cells:
            value = answer or ("right" if tag == self.truth[name] else "wrong")
            self.decisions.add([Decision(name, tag, value)])

    def write_back(self, update):
        """Take the removed tags out of the table; return them."""
        ids = list(self.content)
        ranking = update.ranking
        removed = zip(ranking.row[ranking.removed], ranking.label[ranking.removed], strict=True)
        cells = [(ids[i], tag) for i, tag in removed]
        for name, tag in cells:
            self.tags[name] = [other for other in self.tags[name] if other != tag]
        return cells

    def n_wrong_left(self, update):
        kept = zip(
            update.ranking.row[~update.ranking.removed],
            update.ranking.label[~update.ranking.removed],
            strict=True,
        )
        ids = list(self.content)
        return sum(self.truth[ids[i]] != tag for i, tag in kept)

    def first_nights(self):
        update = self.update()
        for _ in range(3):
            self.answer(update)
            update = self.update()
        return update


def nights(folder, writes_back):
    """Return answers that count, new removals and wrong tags left of three nights."""
    folder.mkdir()
    shop = Shop(folder)
    update = shop.first_nights()
    figures = []
    for _ in range(3):
        if writes_back:
            shop.write_back(update)
        shop.add_rows(150)
        shop.answer(update)
        update = shop.update()
        counts = (update.ranking.n_answers, len(update.removed), shop.n_wrong_left(update))
        figures.append(counts)
    return np.array(figures)


def test_writing_back_removes_as_much_as_keeping_the_table(tmp_path):
    kept = nights(tmp_path / "kept", writes_back=False)
    written = nights(tmp_path / "written", writes_back=True)
    assert kept[-1, 1] > 20
    np.testing.assert_array_equal(kept[:, 0], [100, 125, 150])
    np.testing.assert_array_equal(written[:, 0], kept[:, 0])
    assert written[:, 1].sum() == pytest.approx(kept[:, 1].sum(), rel=0.2)
    np.testing.assert_allclose(written[:, 2], kept[:, 2], rtol=0.2)


def test_departed_tags_are_evidence_but_nobody_is_asked_and_nothing_listed(tmp_path):
    shop = Shop(tmp_path, 600)
    before = shop.first_nights()
    removed = shop.write_back(before)
    after = shop.update()
    ranking = after.ranking
    assert len(ranking.departed) == len(removed)
    assert ranking.n_answers == before.ranking.n_answers
    assert ranking.wrong_share_interval == pytest.approx(before.ranking.wrong_share_interval)
    assert not after.removed
    assert not ranking.removed.any()
    assert "removed earlier" in ranking.tags_in_share
    assert not {*removed} & {*shop.answer(after, 200)}
    assert not any(line["removed"] for line in ranking.labels())
    # They stay in the state night after night.
    assert len(shop.update().ranking.departed) == len(removed)


def test_departed_tags_leave_the_estimate_with_their_rows(tmp_path):
    shop = Shop(tmp_path, 600)
    removed = shop.write_back(shop.first_nights())
    names = list(dict.fromkeys(name for name, _ in removed))
    changed, gone = names[:2]
    n_lost = sum(name in (changed, gone) for name, _ in removed)
    shop.content[changed] = " ".join(["1.0"] * len(TAGS))
    del shop.content[gone]
    assert len(shop.update().ranking.departed) == len(removed) - n_lost


def test_a_departed_tag_that_comes_back_is_removed_again_unless_somebody_calls_it_right(tmp_path):
    shop = Shop(tmp_path, 600)
    removed = shop.write_back(shop.first_nights())
    shop.update()
    (first, tag), (other, other_tag) = removed[:2]
    shop.tags[first].append(tag)
    update = shop.update()
    assert len(update.ranking.departed) == len(removed) - 1
    assert int(update.ranking.removed.sum()) == 1
    shop.decide([(other, other_tag)], "right")
    missing = shop.update().ranking
    added = missing.missing.label[missing.added].tolist()
    assert added == [other_tag]


def test_a_state_without_departed_tags_of_an_older_file_is_read(tmp_path):
    shop = Shop(tmp_path, 300)
    shop.update()
    path = tmp_path / "older.npz"
    replace(shop.state, departed=np.zeros(0, dtype=bool)).write(path)
    shop.state = type(shop.state).read(path)
    assert not len(shop.update().ranking.departed)


def verdicts_of(update, name, shop):
    """Return which tags of a row are removed."""
    of_row = update.ranking.row == list(shop.content).index(name)
    labels = update.ranking.label[of_row].tolist()
    return dict(zip(labels, update.ranking.removed[of_row].tolist(), strict=True))


@pytest.mark.parametrize("is_quiet", [False, True])
def test_rows_that_lose_their_text_keep_their_verdicts(tmp_path, is_quiet):
    shop = Shop(tmp_path, 600)
    ranking = shop.first_nights().ranking
    by_model = ranking.removed & np.isnan(ranking.answer)
    names = [list(shop.content)[i] for i in np.unique(ranking.row[by_model])[:20]]
    before = {name: verdicts_of(shop.update(), name, shop) for name in names}
    texts = {name: shop.content[name] for name in names}
    for name in names:
        shop.content[name] = " "
    for _ in range(2):
        update = shop.update()
        if not is_quiet:
            shop.answer(update)
            update = shop.update()
        assert {name: verdicts_of(update, name, shop) for name in names} == before
        assert update.featureless == [list(shop.content).index(name) for name in names]
        assert not update.ranking.judged[np.isin(update.ranking.row, update.featureless)].any()
        assert not {cell[0] for cell in update.restored} & {*update.featureless}
    # A person's answer counts in any case.
    tag = next(tag for tag, is_removed in before[names[0]].items() if is_removed)
    shop.decide([(names[0], tag)], "right")
    assert not verdicts_of(shop.update(), names[0], shop)[tag]
    # They are judged again as soon as they have a text.
    shop.content.update(texts)
    update = shop.update()
    assert not update.featureless
    assert len(update.judged) == len(names)


def test_the_last_tag_of_a_row_stays_and_is_counted_until_it_may_go(tmp_path):
    shop = Shop(tmp_path, 600)
    for name in list(shop.content)[:40]:
        shop.tags[name] = [tag for tag in TAGS if tag != shop.truth[name]][:1]
    update = shop.first_nights()
    spared = update.last_tags
    assert len(spared) > 10
    assert not {*spared} & {*zip(*cells_removed(update), strict=True)}
    n_kept = np.bincount(update.ranking.row[~update.ranking.removed])
    assert all(n_kept[row] == 1 for row, _ in spared)
    # They count on nights without answers, too, and may go then.
    assert shop.update().last_tags == spared
    update = shop.update(keep_one=False)
    assert update.last_tags == []
    assert {*update.removed} == {*spared}
    assert shop.update(keep_one=False).removed == []


def cells_removed(update):
    ranking = update.ranking
    return ranking.row[ranking.removed].tolist(), ranking.label[ranking.removed].tolist()


def test_the_share_of_new_removals_is_known_once_answers_have_allowed_some(tmp_path):
    shop = Shop(tmp_path, 600)
    update = shop.first_nights()
    assert update.state.summary.new_removal_share < 0.1
    names = list(shop.content)
    # Somebody has shifted the column of tags by one row.
    tags = [shop.tags[name] for name in names]
    shop.tags = dict(zip(names, tags[1:] + tags[:1], strict=True))
    state = shop.state
    update = shop.update()
    open_removals = [cell for cell in update.removed if is_open(update, cell)]
    summary = update.state.summary
    assert summary.new_removal_share == len(open_removals) / len(update.ranking.row) > 0.2
    (violation,) = (
        each for each in Expectations().check(summary) if each.name == "drift.new_removals"
    )
    assert violation.limit == 0.2
    # The first night on which answers allow removals has no such limit.
    shop.state = replace(state, has_limit=False)
    assert shop.update().state.summary.new_removal_share == 0


def is_open(update, cell):
    ranking = update.ranking
    of_cell = (ranking.row == cell[0]) & (ranking.label == cell[1])
    return bool(np.isnan(ranking.answer[of_cell]).all())


def test_what_people_decide_is_neither_a_new_removal_nor_restored(tmp_path):
    shop = Shop(tmp_path, 600)
    update = shop.first_nights()
    removed = [(list(shop.content)[i], tag) for i, tag in zip(*cells_removed(update), strict=True)]
    assert len(removed) > 20
    shop.decide(removed, "right")
    update = shop.update()
    assert len(update.restored) == len(removed)
    assert update.state.summary.restored_share == 0


def test_an_edit_of_white_space_changes_nothing(tmp_path):
    shop = Shop(tmp_path, 600)
    before = shop.first_nights()
    shop.content = {
        name: "\t" + text.replace(" ", "  ") + " " for name, text in shop.content.items()
    }
    after = shop.update()
    assert (after.changed, after.judged) == ([], [])
    assert after.ranking.n_answers == before.ranking.n_answers
    np.testing.assert_array_equal(after.ranking.removed, before.ranking.removed)
