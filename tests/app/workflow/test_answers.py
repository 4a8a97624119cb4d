"""Questions in a file, and the answers read back."""

from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from app.workflow.answer_helpers import read_answers

from schirn import find_noisy_labels
from schirn.app.workflow import RowIdentity, write_questions
from schirn.app.workflow import read_answers as read_files
from schirn.cleaning import NoisyLabels, Questions, Vocabulary, VocabularyLine
from schirn.exceptions import InputError
from schirn.labels.tags import read_tags


def by_row(questions):
    """Questions in the order of the file."""
    order = np.lexsort((questions.label.astype(str), questions.row))
    values = (questions.row, questions.column, questions.label, questions.confidence)
    return Questions(*(array[order] for array in values), questions.kind, questions.draw)


@pytest.fixture
def asked(small, tmp_path):
    """A ranking, its questions, their file, and a function that fills it in."""
    ranking = find_noisy_labels(small.X, small.candidates, method="CandidateRidge")
    questions, path = by_row(ranking.questions(12)), tmp_path / "questions.csv"
    write_questions(path, questions, ranking)

    def fill(words, **options):
        table = pd.read_csv(path, dtype=str)
        table["right"] = words
        table.to_csv(path, index=False, **options)
        return path

    return ranking, questions, path, fill


WORDS = ["yes", "no", "Right", " wrong ", "1", "0", "true", "FALSE", "?", "unsure", "", "no"]
TOLD = [1, 0, 1, 0, 1, 0, 1, 0, None, None, None, 0]


def answers_of(ranking):
    columns = zip(ranking.row.tolist(), ranking.column.tolist(), strict=True)
    told = dict(zip(columns, ranking.answer.tolist(), strict=True))
    return {cell: value for cell, value in told.items() if value == value}


def test_answers_are_those_of_the_library(asked):
    ranking, questions, _path, fill = asked
    read, certificate = read_answers([fill(WORDS)], ranking)
    assert certificate is None
    expected = ranking.answered(questions, TOLD)
    # An empty answer is none; "unsure" is.
    blank = int(questions.row[10]), int(questions.column[10])
    assert answers_of(read) == {
        cell: value for cell, value in answers_of(expected).items() if cell != blank
    }
    assert read.n_answers == 9


def test_the_file_does_not_tell_the_rank(asked):
    _, _, path, _ = asked
    table = pd.read_csv(path)
    assert list(table.columns) == ["row", "tag", "other_tags", "right", "question"]
    # Of round and row, only checksums differ from line to line.
    assert table["question"].str.rsplit(":", n=3).str[0].nunique() == 1
    assert table["right"].isna().all()


def test_the_other_tags_are_shown_and_need_not_come_back(asked):
    ranking, _, path, fill = asked

    def check(table):
        for line in table.fillna("").itertuples():
            of_row = (ranking.row == int(line.row) - 1) & (ranking.answer != 0)
            others = [label for label in ranking.label[of_row] if label != line.tag]
            assert line.other_tags == "; ".join(others)

    check(pd.read_csv(path, dtype=str))
    answered = read_answers([fill(WORDS)], ranking)[0]
    # Files of earlier versions lack the column.
    pd.read_csv(path, dtype=str).drop(columns="other_tags").to_csv(path, index=False)
    assert answers_of(read_answers([path], ranking)[0]) == answers_of(answered)
    # A tag that was called wrong is no longer among those of its row.
    ranking = answered
    write_questions(path, ranking.questions(200), ranking)
    check(pd.read_csv(path, dtype=str))


def test_text_and_id_are_shown_and_formulas_are_not_run(tmp_path):
    texts = ["red lamp", "blue chair", "=1+1"] * 10
    tags = [["lamp", "=x"], ["chair"], ["=x"]] * 10
    ranking = find_noisy_labels(texts, tags, method="CandidateRidge")
    path = tmp_path / "q.csv"
    ids = [f"@{i}" for i in range(30)]
    write_questions(path, ranking.questions(40), ranking, texts=texts, ids=ids)
    table = pd.read_csv(path)
    assert set(table["tag"]) == {"'=x", "lamp", "chair"}
    assert table["id"].str.startswith("'@").all()
    assert "'=1+1" in set(table["text"])
    table["right"] = "no"
    table.to_csv(path, index=False)
    assert read_answers([path], ranking)[0].n_answers == len(ranking.row)


def test_a_spreadsheet_may_reorder_and_save_with_semicolons(asked):
    ranking, _, path, fill = asked
    expected = read_answers([fill(WORDS)], ranking)[0]
    pd.read_csv(path, dtype=str).iloc[::-1].to_csv(path, index=False, sep=";")
    assert answers_of(read_answers([path], ranking)[0]) == answers_of(expected)


def test_files_add_up_and_repeats_are_harmless(asked, tmp_path):
    ranking, _, path, fill = asked
    first = read_answers([fill(WORDS)], ranking)[0]
    second = tmp_path / "second.csv"
    write_questions(second, first.questions(5), first)
    table = pd.read_csv(second, dtype=str)
    assert not set(zip(table["row"], table["tag"], strict=True)) & set(
        pd.read_csv(path, dtype=str)[["row", "tag"]].iloc[:9].itertuples(index=False, name=None)
    )
    table["right"] = "no"
    table.to_csv(second, index=False)
    both, reverse = (read_answers(paths, ranking)[0] for paths in ([path, second], [second, path]))
    assert both.n_answers == 9 + len(table)
    np.testing.assert_array_equal(both.removed, reverse.removed)
    assert read_answers([path, path], ranking)[0].n_answers == 9


def test_missing_tags_are_asked_in_the_same_way(small, tmp_path):
    ranking = find_noisy_labels(small.X, small.candidates)
    questions = by_row(ranking.questions(6, kind="missing"))
    path = tmp_path / "q.csv"
    write_questions(path, questions, ranking)
    table = pd.read_csv(path, dtype=str)
    table["right"] = ["yes", "no"] * 3
    table.to_csv(path, index=False)
    read = read_answers([path], ranking)[0]
    added = set(zip(read.missing.row[read.added], read.missing.column[read.added], strict=True))
    told = list(zip(questions.row, questions.column, strict=True))
    assert set(told[::2]) <= added
    assert not set(told[1::2]) & added
    assert read.n_answers == 0


def test_a_certificate_goes_on_in_files(small, tmp_path):
    ranking, path = find_noisy_labels(small.X, small.candidates).remove(30), tmp_path / "q.csv"
    certificate = ranking.certify()
    write_questions(path, certificate.questions(8), ranking, certificate=certificate)
    table = pd.read_csv(path, dtype=str)
    table["right"] = ["no"] * 7 + ["?"]
    table.to_csv(path, index=False)
    read, again = read_answers([path], ranking)
    expected = certificate.answered(by_row(certificate.questions(8)), [False] * 7 + [None])
    assert again.e_value == expected.e_value
    assert again.answers == expected.answers
    assert read.removed.sum() == ranking.removed.sum() - 1
    assert not read.is_checked
    with pytest.raises(InputError, match="another set of tags"):
        read_answers([path], ranking.remove(31))


def test_other_options_after_answers_draw_again_with_more_evidence(small, tmp_path):
    ranking = find_noisy_labels(small.X, small.candidates)
    first, second = tmp_path / "q1.csv", tmp_path / "q2.csv"
    certificate = ranking.remove(30).certify()

    def ask(path, certificate, word):
        write_questions(path, certificate.questions(6), ranking, certificate=certificate)
        table = pd.read_csv(path, dtype=str)
        table["right"] = word
        table.to_csv(path, index=False)

    ask(first, certificate, "yes")
    other, none = read_answers([first], ranking.remove(40), draw_again=True)
    assert none is None
    assert other.n_answers == 6
    again = other.certify()
    assert (again.draw, again.n_tags) == (1, other.removed.sum())
    assert again.needed > 10 * certificate.needed
    ask(second, again, "no")
    # Both files in any order; without the first one, the second is refused.
    for paths in ((first, second), (second, first)):
        read = read_answers(paths, ranking.remove(40))[1]
        assert (read.draw, len(read.answers), len(read.earlier)) == (1, 6, 6)
        assert read.e_value > 1
    with pytest.raises(InputError, match="another set of tags"):
        read_answers([second], ranking.remove(40))


def test_hostile_answers(asked):
    ranking, _, path, fill = asked
    for words, message in (
        ([""] * 12, "there is no answer yet"),
        (["maybe"] * 12, "answer 1: 'maybe' is not an answer; write yes, no or ?"),
    ):
        with pytest.raises(InputError, match=message):
            read_answers([fill(words)], ranking)
    table = pd.read_csv(fill(WORDS), dtype=str)
    changes = {
        "the row must be a number from 1, not '0'": ("row", "0"),
        "'audit' is not a question of this program": ("question", "audit"),
        "'' is not a question of this program": ("question", ""),
    }
    for message, (column, value) in changes.items():
        changed = table.copy()
        changed.loc[0, column] = value
        changed.to_csv(path, index=False)
        with pytest.raises(InputError, match=message):
            read_answers([path], ranking)
    other_table = f"listed:{'0' * 12}:" + table["question"][0].split(":", 2)[2]
    for column, value in (("row", "9999999"), ("tag", "nothing"), ("question", other_table)):
        changed = table.copy()
        changed.loc[0, column] = value
        changed.to_csv(path, index=False)
        notes = []
        assert read_answers([path], ranking, on_note=notes.append)[0].n_answers == 8
        assert notes == [
            f"{path}: 1 of 11 answers do not count, since their rows or tags have changed, or the "
            f"lines were edited: 1"
        ]
    twice = pd.concat([table, table.iloc[:1].assign(right="no")])
    twice.to_csv(path, index=False)
    with pytest.raises(InputError, match=r"answer 13: says the opposite of .*answer 1"):
        read_answers([path], ranking)
    table.drop(columns="question").to_csv(path, index=False)
    with pytest.raises(InputError, match="there is no column 'question'"):
        read_answers([path], ranking)
    # Lines that have changed places, and a whole column that was emptied.
    table.assign(question=table["question"].to_numpy()[::-1]).to_csv(path, index=False)
    with pytest.raises(InputError, match="was asked about another row or tag"):
        read_answers([path], ranking)
    table.assign(question="").to_csv(path, index=False)
    with pytest.raises(InputError, match="is not a question of this program"):
        read_answers([path], ranking)


def test_answers_belong_to_what_the_row_held(asked, tmp_path):
    """Rows with equal tags have changed places, or a text was edited."""
    ranking, questions, path, _ = asked
    content = [f"text {i}" for i in range(ranking.n_rows)]
    write_questions(path, questions, ranking, content=content)
    table = pd.read_csv(path, dtype=str).assign(right="no")
    table.to_csv(path, index=False)
    assert read_answers([path], ranking, content=content)[0].n_answers == 12
    row = int(table["row"][3]) - 1
    changed = [*content]
    changed[row] = "another text"
    assert read_answers([path], ranking, content=changed)[0].n_answers == 12 - sum(
        table["row"] == str(row + 1)
    )
    with pytest.raises(InputError, match=r"has changed since; .* \(12 of 12 answers"):
        read_answers([path], ranking)
    # A row with the same text and another name.
    ids = [f"id {i}" for i in range(ranking.n_rows)]
    write_questions(path, questions, ranking, ids=ids)
    table = pd.read_csv(path, dtype=str).assign(right="no")
    table.to_csv(path, index=False)
    assert read_answers([path], ranking, ids=ids)[0].n_answers == 12
    assert read_answers([path], ranking)[0].n_answers == 12
    with pytest.raises(InputError, match="was asked about another row"):
        read_answers([path], ranking, ids=[f"other {i}" for i in range(ranking.n_rows)])


def ranking_of(rows):
    """A ranking of rows of tags in an order that depends on row and tag alone."""
    tags = read_tags(rows, None)
    cells = zip(tags.row.tolist(), tags.column.tolist(), strict=True)
    confidence = np.array([crc32(f"{i} {tags.names[j]}".encode()) / 2**32 for i, j in cells])
    judged = np.ones(len(tags.row), dtype=bool)
    cells = (tags.row, tags.column, confidence, judged)
    return NoisyLabels.from_arrays(tags.n_rows, tags.names, *cells, "made up")


def asked_about(path, rows, texts, ids, n=25, **options):
    """Ask about rows; every tag with a digit in its name is wrong. Return the answers."""
    ranking = ranking_of(rows)
    questions = ranking.questions(n)
    write_questions(path, questions, ranking, content=texts, ids=ids, **options)
    table = pd.read_csv(path, dtype=str)
    table["right"] = np.where(table["tag"].str.contains(r"\d"), "no", "yes")
    table.to_csv(path, index=False)
    return table


ROWS = [["node", "web"] if i % 2 else ["Node", f"x{i % 4}", "web"] for i in range(80)]
TEXTS = [f"text {i}" for i in range(80)]
IDS = [f"id {i}" for i in range(80)]


@pytest.mark.parametrize("has_ids", [False, True])
def test_a_changed_table_keeps_the_answers_about_its_other_rows(has_ids, tmp_path):
    path = tmp_path / "q.csv"
    table = asked_about(path, ROWS, TEXTS, IDS if has_ids else None)
    place = [int(row) - 1 for row in table["row"]]
    deleted, edited, bare = place[3], place[9], place[12]
    rows = [*ROWS, ["web", "node"]]
    texts = [*TEXTS, "a new row"]
    texts[edited] = "other words"
    rows[bare] = [tag for tag in rows[bare] if tag != table["tag"][12]]
    keep = [i for i in range(81) if i != deleted]
    ids = [[*IDS, "new"][i] for i in keep] if has_ids else None
    notes = []
    read, _ = read_answers(
        [path],
        ranking_of([rows[i] for i in keep]),
        content=[texts[i] for i in keep],
        ids=ids,
        on_note=notes.append,
    )
    lost = {deleted, edited}
    expected = {
        (keep.index(i), tag): word
        for i, tag, word in zip(place, table["tag"], table["right"], strict=True)
        if i not in lost and (i, tag) != (bare, table["tag"][12])
    }
    told = np.flatnonzero(~np.isnan(read.answer))
    words = {
        (int(read.row[k]), read.label[k]): "yes" if read.answer[k] else "no" for k in told.tolist()
    }
    assert words == expected
    n_lost = len(table) - len(expected)
    assert notes[0].startswith(f"{path}: {n_lost} of 25 answers do not count, since")
    # What is asked next counts as a later round.
    assert read.questions(5).round.number == 2


def test_a_table_of_other_rows_is_refused_before_it_is_ranked(tmp_path):
    path = tmp_path / "q.csv"
    asked_about(path, ROWS, TEXTS, None)
    tags = read_tags([row[::-1] for row in ROWS[::-1]], None)
    with pytest.raises(InputError, match="the question is about another table, or its") as info:
        read_files([path], tags, RowIdentity(content=[f"other {text}" for text in TEXTS]))
    assert info.value.parameter == "decisions"


def test_answers_follow_the_vocabulary(tmp_path):
    path = tmp_path / "q.csv"
    table = asked_about(path, ROWS, TEXTS, None, n=60)
    lines = [
        VocabularyLine("merge", "Node", "node", accept="yes"),
        VocabularyLine("drop", "web", accept="yes"),
    ]
    vocabulary = Vocabulary(lines)
    notes = []
    read, _ = read_answers(
        [path],
        ranking_of(vocabulary.apply(ROWS).rows),
        content=TEXTS,
        vocabulary=vocabulary,
        on_note=notes.append,
    )
    n_dropped = int((table["tag"] == "web").sum())
    assert notes == [f"{path}: {n_dropped} of 60 answers are about tags that the vocabulary drops"]
    assert read.n_answers == 60 - n_dropped
    n_node = int(table["tag"].isin(["node", "Node"]).sum())
    assert (~np.isnan(read.answer[read.label == "node"])).sum() == n_node
    (sample,) = read.answers.samples
    assert sample.round.n_drawn == len(sample.tags)


def test_opposite_answers_about_two_names_of_a_tag_are_unsure(tmp_path):
    path = tmp_path / "q.csv"
    rows = [["Node", "node"]] * 12
    ranking = ranking_of(rows)
    write_questions(path, ranking.questions(24), ranking, content=TEXTS[:12])
    table = pd.read_csv(path, dtype=str)
    table["right"] = np.where((table["tag"] == "Node") & (table["row"] == "1"), "no", "yes")
    table.to_csv(path, index=False)
    vocabulary = Vocabulary([VocabularyLine("merge", "Node", "node", accept="yes")])
    merged = ranking_of(vocabulary.apply(rows).rows)
    read, _ = read_answers([path], merged, content=TEXTS[:12], vocabulary=vocabulary)
    assert read.answer.tolist() == [0.5] + [1] * 11


def test_a_round_speaks_for_the_tags_that_a_vocabulary_leaves(tmp_path):
    """As if a rule had dropped them: the share is that of the other tags."""
    path = tmp_path / "q.csv"
    rows = [["web", f"x{i % 3}"] if i % 3 == 0 else ["web", "good"] for i in range(900)]
    texts = [f"text {i}" for i in range(900)]
    asked_about(path, rows, texts, None, n=100)
    vocabulary = Vocabulary([VocabularyLine("drop", "web", accept="yes")])
    dropped = ranking_of(vocabulary.apply(rows).rows)
    read, _ = read_answers([path], dropped, content=texts, vocabulary=vocabulary)
    ruled = read_answers([path], ranking_of(rows).with_rule("web", "drop"), content=texts)[0]
    assert read.n_in_share == ruled.n_in_share == 900
    assert read.wrong_share == pytest.approx(ruled.wrong_share, abs=0.03)
    assert read.wrong_share_interval == pytest.approx(ruled.wrong_share_interval, abs=0.06)
    assert read.wrong_share_interval[0] < 1 / 3 < read.wrong_share_interval[1]


def test_tags_that_are_new_since_a_round_widen_its_interval(tmp_path):
    path = tmp_path / "q.csv"
    rows = [[f"x{i % 3}" if i % 3 == 0 else "good"] for i in range(900)]
    texts = [f"text {i}" for i in range(900)]
    asked_about(path, rows, texts, None, n=100)
    low, high = read_answers([path], ranking_of(rows), content=texts)[0].wrong_share_interval
    more = [*rows, *[["new"]] * 300]
    content = [*texts, *["a new row"] * 300]
    read, _ = read_answers([path], ranking_of(more), content=content)
    assert read.n_answers == 100
    assert read.wrong_share_interval[0] <= 0.75 * low
    assert read.wrong_share_interval[1] >= 0.75 * high + 0.25


def test_a_certificate_is_about_one_table(tmp_path):
    path = tmp_path / "q.csv"
    ranking = ranking_of(ROWS).remove(40)
    certificate = ranking.certify()
    write_questions(
        path, certificate.questions(20), ranking, certificate=certificate, content=TEXTS
    )
    table = pd.read_csv(path, dtype=str).assign(right="no")
    table.to_csv(path, index=False)
    assert read_answers([path], ranking, content=TEXTS)[1].n_answers == 20
    longer = ranking_of([*ROWS, ["other"]]).remove(40)
    content = [*TEXTS, "a new row"]
    with pytest.raises(InputError, match="another set of tags"):
        read_answers([path], longer, content=content)
    again, none = read_answers([path], longer, content=content, draw_again=True)
    assert none is None
    assert (again.draws, again.n_answers) == (1, 20)
    table.assign(tag="nothing").iloc[:1].to_csv(path, index=False)
    with pytest.raises(InputError, match="was asked about another row or tag"):
        read_answers([path], ranking, content=TEXTS)


def test_rounds_come_back_from_files(small, tmp_path):
    ranking = find_noisy_labels(small.X, small.candidates, method="CandidateRidge")
    paths, expected = [], ranking
    for k, order in enumerate((None, "suspicious", "limit")):
        asked = expected.questions(25, order=order)
        paths.append(tmp_path / f"q{k}.csv")
        write_questions(paths[-1], asked, expected)
        table = pd.read_csv(paths[-1], dtype=str)
        right = small.y_true[asked.row, asked.column] == 1
        expected = expected.answered(asked, right)
        told = dict(zip(zip(asked.row + 1, asked.label, strict=True), right, strict=True))
        cells = zip(table["row"].astype(int), table["tag"].astype(str), strict=True)
        table["right"] = ["yes" if told[cell] else "no" for cell in cells]
        table.to_csv(paths[-1], index=False)
    for order in (paths, paths[::-1]):
        read = read_answers(order, ranking)[0]
        assert read.wrong_share == pytest.approx(expected.wrong_share)
        assert read.wrong_share_interval == pytest.approx(expected.wrong_share_interval)
        numbers = [sample.round for sample in read.answers.samples]
        assert numbers == [sample.round for sample in expected.answers.samples]


def _of_chance(seed):
    """A ranking of 60 removals of which exactly 54 are wrong, so that 90% is just not exceeded."""
    rng = np.random.default_rng(seed)
    row, column = np.arange(100) // 2, np.arange(100) % 2
    confidence = np.linspace(0.1, 0.9, 100)
    judged = np.ones(100, dtype=bool)
    values = (row, column, confidence, judged, "made up")
    ranking = NoisyLabels.from_arrays(50, ["a", "b"], *values, keep_one=False)
    right = np.ones(100, dtype=bool)
    right[:60] = False
    right[rng.permutation(60)[:6]] = True
    return ranking.remove(60), right


@pytest.mark.parametrize("way", ["honest", "deleted", "emptied", "reordered", "moved", "redrawn"])
def test_no_misuse_of_a_file_makes_more_false_certificates(way, tmp_path):
    """60 people; at most 5% may be certified, and binomial(60, 0.05) exceeds 7 in 1% of tests."""
    rng = np.random.default_rng(0)
    n_false = 0
    path = tmp_path / "q.csv"
    for seed in range(60):
        ranking, right = _of_chance(seed)
        for draw in range(4 if way == "redrawn" else 1):
            certificate = ranking.certify(random_state=draw)
            write_questions(path, certificate.questions(60), ranking, certificate=certificate)
            lines = pd.read_csv(path, dtype=str, keep_default_na=False)
            place = 2 * (lines["row"].astype(int) - 1) + (lines["tag"] == "b")
            is_right = right[place]
            lines["right"] = np.where(is_right, "yes", "no")
            if way == "deleted":
                lines = lines[~is_right]
            elif way == "emptied":
                lines["question"] = ""
            elif way == "reordered":
                lines = lines.iloc[rng.permutation(len(lines))]
            elif way == "moved":
                # The answers that speak against the claim take questions that were never answered.
                lines["question"] = np.where(is_right, lines["question"][::-1], lines["question"])
            lines.to_csv(path, index=False)
            try:
                certified = read_answers([path], ranking)[1]
            except InputError:
                continue
            if certified is not None and certified.certified:
                n_false += 1
                break
    assert n_false <= 7
    assert n_false == 0 or way not in ("emptied", "moved")
