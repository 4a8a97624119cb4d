"""Questions in a file, and the answers read back."""

import numpy as np
import pandas as pd
import pytest

from schirn import find_noisy_labels
from schirn.app.workflow._answers import read_answers, write_questions
from schirn.cleaning import NoisyLabels, Questions
from schirn.exceptions import InputError


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
        "there is no row 9999999": ("row", "9999999"),
        "was asked about another row or tag": ("tag", "nothing"),
        "'audit' is not a question of this program": ("question", "audit"),
        "'' is not a question of this program": ("question", ""),
        "the question is about another table": (
            "question",
            f"listed:{'0' * 12}:" + table["question"][0].split(":", 2)[2],
        ),
    }
    for message, (column, value) in changes.items():
        changed = table.copy()
        changed.loc[0, column] = value
        changed.to_csv(path, index=False)
        with pytest.raises(InputError, match=message):
            read_answers([path], ranking)
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
    with pytest.raises(InputError, match=f"row {row + 1} has changed since"):
        read_answers([path], ranking, content=changed)
    with pytest.raises(InputError, match="has changed since"):
        read_answers([path], ranking)
    # A row with the same text and another name.
    ids = [f"id {i}" for i in range(ranking.n_rows)]
    write_questions(path, questions, ranking, ids=ids)
    table = pd.read_csv(path, dtype=str).assign(right="no")
    table.to_csv(path, index=False)
    assert read_answers([path], ranking, ids=ids)[0].n_answers == 12
    assert read_answers([path], ranking)[0].n_answers == 12
    with pytest.raises(InputError, match="was asked about another row"):
        read_answers([path], ranking, ids=ids[::-1])


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
