"""A table as one Python object, and the ranking that is stored beside it."""

import csv
import json
import os
import threading
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from app.workflow.test_label_tools import label as told

import schirn
from schirn.app.cli import main
from schirn.app.review import begin_review, open_session
from schirn.app.tables import open_table
from schirn.app.workflow import (
    CleaningOptions,
    RankingStore,
    StoredRanking,
    TableCleaning,
    _answers,
    read_vocabulary,
)
from schirn.cleaning import find_noisy_labels
from schirn.exceptions import InputError

WORDS = {"beach": "sand wave shore", "dog": "bark tail leash", "city": "street tower neon"}


def write_table(path, n=60, first="sand wave shore"):
    """Rows of two tags, the first of them with a wrong one."""
    names = list(WORDS)
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["sku", "title", "tags"])
        writer.writerow(["first", first, "dog"])
        for i in range(n):
            tag, other = names[i % 3], names[i // 3 % 3]
            writer.writerow([f"s{i}", f"{WORDS[tag]} {WORDS[other]} {i}", f"{tag};{other}"])
    return str(path)


@pytest.fixture
def source(tmp_path):
    return write_table(tmp_path / "items.csv")


@pytest.fixture
def ranked(monkeypatch):
    """Numbers of rows of the tables that were ranked."""
    calls = []

    def rank(X, tags, **options):
        calls.append(tags.n_rows)
        return find_noisy_labels(X, tags, **options)

    monkeypatch.setattr("schirn.app.workflow._table_cleaning.find_noisy_labels", rank)
    return calls


def cleaning_of(source, **options):
    return TableCleaning(source, **{"labels": "tags", "text": "title", **options})


def stored_files(source):
    return sorted(Path(source).parent.glob(".schirn/*.npz"))


def same(a, b):
    """Whether two rankings hold the same in every field, also in those added later."""
    pairs = [(a, b), (a.ranked, b.ranked), (a.missing, b.missing)]
    for first, second in pairs:
        for field in fields(first):
            x, y = getattr(first, field.name), getattr(second, field.name)
            if isinstance(x, np.ndarray):
                assert x.dtype.kind == y.dtype.kind, field.name
                np.testing.assert_array_equal(x, y, field.name)
            elif field.name not in ("ranked", "missing", "answers", "policy"):
                assert x == y, field.name
    return True


def test_a_table_is_ranked_once(source, ranked, monkeypatch):
    first = cleaning_of(source)
    assert same(first.ranked, first.ranking)
    assert not first.is_stored
    monkeypatch.setattr("schirn.features.TableFeatures.fit_transform", lambda *_: 1 / 0)
    second = cleaning_of(source, precision=0.8, allow_empty=True, number=3, suggest=True, remove=1)
    assert same(first.ranked.at(precision=0.8, keep_one=False), second.ranked)
    assert second.is_stored
    assert second.about == first.about
    assert ranked == [61]
    assert second.notes == [
        "uses the ranking stored in .schirn, since table, options and version are the same; "
        "--fresh ranks again"
    ]


def test_all_commands_share_the_ranking(source, tmp_path, ranked, capsys):
    read = ["--labels", "tags", "--text", "title"]
    questions = str(tmp_path / "q.csv")
    assert main(["clean", source, *read]) == 0
    assert "stored" not in capsys.readouterr().err
    assert main(["clean", source, *read, "--questions", questions]) == 0
    assert "note: uses the ranking stored in .schirn" in capsys.readouterr().err
    assert main(["clean", source, *read, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stored_ranking"]
    begin_review(cleaning_of(source), tmp_path / "review").journal.close()
    assert ranked == [61]
    assert main(["clean", source, *read, "--fresh"]) == 0
    assert ranked == [61, 61]


@pytest.mark.parametrize(
    "options",
    [
        {"min_count": 2},
        {"seed": 1},
        {"method": "CandidateRidge"},
        {"separator": ";"},
        {"text": None},
        {"param": {"max_iter": 3}},
        {"max_memory": 1.0},
    ],
)
def test_other_options_rank_again(source, ranked, options):
    assert cleaning_of(source).ranked.n_rows == 61
    assert not cleaning_of(source, **options).is_stored
    assert cleaning_of(source, **options).ranked.n_rows == 61
    assert len(ranked) == 2


def test_every_option_is_named_and_most_decide_about_the_ranks():
    key = CleaningOptions().ranking_key()
    others = {field.name for field in fields(CleaningOptions)} - set(key)
    assert others == {
        *("precision", "allow_empty", "remove", "remove_below", "add", "number", "suggest"),
        *("answers", "certify", "decisions", "name", "checkpoint", "fresh", "scheduler"),
        *("image_root", "opinions"),
    }


def test_a_changed_cell_or_file_ranks_again(source, tmp_path, ranked, monkeypatch):
    cleaning_of(source).act()
    write_table(source, first="bark tail leash")
    cleaning_of(source).act()
    assert len(ranked) == 2
    features = tmp_path / "x.npy"
    for seed in (0, 1, 1):
        np.save(features, np.random.default_rng(seed).normal(size=(61, 3)))
        TableCleaning(source, labels="tags", features=str(features)).act()
    assert len(ranked) == 4
    monkeypatch.setattr(schirn, "__version__", "99.0")
    cleaning_of(source).act()
    assert len(ranked) == 5


def test_known_clean_rows_are_stored(source, tmp_path, ranked):
    lines = Path(source).read_text().splitlines()
    checked = [f"{line},{'checked' if i == 0 else i % 2}" for i, line in enumerate(lines)]
    Path(source).write_text("\n".join(checked))
    first = cleaning_of(source, known_clean="checked").ranked
    second = cleaning_of(source, known_clean="checked").ranked
    assert (second.known == 1).sum() == (first.known == 1).sum() > 20
    assert same(first, second)
    cleaning_of(source).act()
    assert len(ranked) == 2


def damaged(content):
    """Copies of a file that nobody should read: cut, flipped, foreign, and of other sizes."""
    yield content[: len(content) // 2]
    yield b""
    yield b"\x80\x04cos\nsystem\n(S'touch hacked'\ntR."
    middle = len(content) // 2
    yield content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


def test_damaged_and_foreign_files_are_ignored(source, ranked):
    cleaning_of(source).act()
    (path,) = stored_files(source)
    content = path.read_bytes()
    for k, wrong in enumerate(damaged(content)):
        path.write_bytes(wrong)
        cleaning = cleaning_of(source)
        assert cleaning.ranked.n_rows == 61
        assert cleaning.is_stored is False or same(cleaning.ranked, cleaning_of(source).ranked)
        assert len(ranked) == 2 + k
    with np.load(path) as archive:
        arrays = dict(archive)
    head = json.loads(arrays["head"].tobytes())
    for change in (
        {"missing_column": arrays["missing_column"] + 99},
        {"confidence": arrays["confidence"] + 1},
        {"judged": arrays["judged"][:-1]},
        {"row": arrays["row"][::-1]},
        {"head": np.frombuffer(json.dumps({**head, "label_names": ["x"]}).encode(), np.uint8)},
        {"head": np.frombuffer(json.dumps({**head, "key": "x"}).encode(), np.uint8)},
        {"head": np.frombuffer(b"[1]", np.uint8)},
        {"head": np.array(["text"], dtype=object)},
    ):
        np.savez(path, **{**arrays, **change})
        before = len(ranked)
        cleaning_of(source).act()
        assert len(ranked) == before + 1, change


def test_a_stored_ranking_belongs_to_its_tags(source, ranked):
    """A copied or renamed file does not pass for the ranking of another table."""
    first = cleaning_of(source)
    key = first.options.ranking_key() | {"table": "anything"}
    store = RankingStore(source)
    assert store.write(key, StoredRanking(first.ranked, {"notes": []}))
    assert store.read(key, first.tags) is not None
    assert store.read(key, first.tags._replace(names=["a", "b", "c"])) is None
    assert store.read(key, first.tags._replace(row=first.tags.row[::-1])) is None
    assert store.read({**key, "seed": 5}, first.tags) is None


def test_opinions_are_not_stored(source):
    """They would be lost, so a ranking that holds some is not stored."""
    cleaning = cleaning_of(source)
    heard = cleaning.ranked.with_opinions({"Ada": np.ones((61, 3))})
    assert not RankingStore(source).write({}, StoredRanking(heard, {"notes": []}))
    assert RankingStore(source).write({}, StoredRanking(cleaning.ranked, {"notes": []}))


@pytest.mark.parametrize("obstacle", ["file", "read only", "no replace"])
def test_a_folder_that_cannot_be_written_is_no_error(source, ranked, monkeypatch, obstacle):
    folder = Path(source).parent / ".schirn"
    if obstacle == "file":
        folder.write_text("a file of this name")
    elif obstacle == "read only":
        monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(PermissionError))
    else:
        monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    for _ in range(2):
        assert cleaning_of(source).ranking.n_rows == 61
    assert len(ranked) == 2
    assert not stored_files(source)
    assert folder.exists() == (obstacle == "file")


def test_a_table_that_is_replaced_while_it_is_read_is_not_stored(source, ranked):
    cleaning = cleaning_of(source)
    assert cleaning.tags.n_rows == 61
    write_table(source, n=70)
    assert cleaning.ranked.n_rows == 61
    assert not stored_files(source)


def test_many_runs_at_once(source, ranked):
    """Whoever comes first writes; nobody reads half of a file."""
    results, errors = [], []

    def run():
        try:
            results.append(cleaning_of(source).ranked)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(same(results[0], other) for other in results)
    assert len(stored_files(source)) == 1
    assert cleaning_of(source).ranked is not None
    assert sorted(p.name for p in Path(source).parent.glob(".schirn/.*")) == [".gitignore"]


def test_few_rankings_of_a_table_are_kept(source):
    other = write_table(Path(source).with_name("other.csv"))
    cleaning_of(other, method="CandidateRidge").act()
    for seed in range(6):
        cleaning_of(source, method="CandidateRidge", seed=seed).act()
    names = [path.name for path in stored_files(source)]
    assert len(names) == 5
    assert sum(name.startswith("other.csv") for name in names) == 1
    assert cleaning_of(source, method="CandidateRidge", seed=5).act().is_stored


def test_likely_merges_need_no_ranks(tmp_path, ranked, capsys):
    path = tmp_path / "items.csv"
    lines = [f"{'sand and waves' if i % 2 else 'a dog'} {i},{tag}" for i, tag in spellings()]
    path.write_text("\n".join(["title,tags", *lines]))
    proposals = tmp_path / "vocabulary.csv"
    argv = ["vocabulary", str(path), "--text", "title", "-o", str(proposals)]
    assert main(argv) == 0
    assert not ranked
    assert not (tmp_path / ".schirn").exists()
    assert "merge,Lighthouse,lighthouse" in proposals.read_text()
    assert "wrong tags" not in capsys.readouterr().out


def spellings():
    return enumerate(["lighthouse", "dog"] * 20 + ["Lighthouse"])


def test_a_review_parses_its_table_once(source, tmp_path, monkeypatch):
    opened = []

    def count(path, **options):
        opened.append(Path(path).name)
        return open_table(path, **options)

    monkeypatch.setattr("schirn.app.workflow._table_cleaning.open_table", count)
    monkeypatch.setattr("schirn.app.review._table.open_table", count)
    monkeypatch.setattr("schirn.app.tables._csv_table.CsvTable._reopened", lambda *_: 1 / 0)
    session = begin_review(cleaning_of(source), tmp_path / "review")
    assert session.view()["current"]["label"] in WORDS
    assert session.describe(0)["others"] == [("sku", "first")]
    assert not session.changes()
    session.journal.close()
    assert opened == ["items.csv"]
    copy = tmp_path / "review" / "table.csv"
    assert copy.read_bytes() == Path(source).read_bytes()
    # Later, the project needs nothing but its own folder.
    Path(source).unlink()
    again = open_session(tmp_path / "review", write=False)
    assert again.describe(0)["others"] == [("sku", "first")]


def test_rank_ask_act(source, tmp_path):
    cleaning = cleaning_of(source, id="sku")
    questions = cleaning.questions(10)
    assert len(questions) == 10
    suspects = cleaning.ranking.suspects(1)
    assert (suspects.row[0], suspects.label[0]) == (0, "dog")
    cleaning.answer(suspects, [False])
    assert cleaning.apply()[0] == ""
    assert [(change.row, change.before) for change in cleaning.changes()] == [(0, "dog")]
    cleaning.export(tmp_path / "clean.csv")
    copy = open_table(tmp_path / "clean.csv")
    assert copy.column("tags") == cleaning.apply()
    assert copy.column("tags_removed")[0] == "dog"
    assert cleaning.report().html().startswith("<!DOCTYPE html>")
    assert "1 answers, 1 removed" in repr(cleaning)
    with pytest.raises(InputError, match="already has a column 'tags_removed'"):
        cleaning_of(str(tmp_path / "clean.csv")).export(tmp_path / "again.csv")


def test_suspects_are_a_frame(source):
    pytest.importorskip("pandas")
    cleaning = cleaning_of(source, id="sku")
    frame = cleaning.suspects(3)
    assert list(frame.columns) == ["row", "id", "text", "tag", "confidence"]
    assert frame.iloc[0][["row", "id", "tag"]].tolist() == [0, "first", "dog"]
    assert frame["confidence"].is_monotonic_increasing
    assert len(cleaning.frame(cleaning.questions(5))) == 5


def test_answers_from_files_and_notebooks_are_the_same(source, tmp_path):
    path = tmp_path / "q.csv"
    in_file = cleaning_of(source)
    in_file.write_questions(path, 10)
    questions = in_file.questions(10)
    right = [row > 0 for row in questions.row.tolist()]
    answers = dict(zip(zip(questions.row, questions.label, strict=True), right, strict=True))
    with path.open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    for line in lines:
        line["right"] = "yes" if answers[int(line["row"]) - 1, line["tag"]] else "no"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    in_file.read_answers(path)
    in_notebook = cleaning_of(source).answer(questions, right)
    from_options = cleaning_of(source, answers=str(path))
    for other in (in_notebook, from_options):
        np.testing.assert_array_equal(in_file.ranking.answer, other.ranking.answer)
        np.testing.assert_array_equal(in_file.ranking.confidence, other.ranking.confidence)
    assert in_file.ranking.n_answers == 10


def test_decisions_are_shared(source, tmp_path):
    options = {"id": "sku", "decisions": str(tmp_path / "d.jsonl"), "name": "Ada"}
    first = cleaning_of(source, **options)
    first.answer(first.ranking.suspects(1), [False])
    second = cleaning_of(source, **options)
    assert second.ranking.n_answers == 1
    assert len(second.carried.valid) == 1
    assert second.apply() == first.apply()


@pytest.mark.parametrize("tool", [None, "label-studio"])
@pytest.mark.parametrize("step", ["act", "questions", "changes", "apply", "report"])
def test_decisions_are_written_by_methods_and_not_by_the_property(source, tmp_path, tool, step):
    store = tmp_path / "d.jsonl"
    path = tmp_path / f"n.{'csv' if tool is None else 'json'}"
    options = {"id": "sku", "decisions": str(store)}
    cleaning_of(source, **options).write_questions(path, 3, tool=tool)
    fill_in(path, tool)
    cleaning = cleaning_of(source, answers=[path], **options)
    assert cleaning.ranking.n_answers == 3
    assert "NoisyLabels" in repr(cleaning)
    assert not store.exists()
    getattr(cleaning, step)()
    content = store.read_bytes()
    assert len(content.splitlines()) == 3
    cleaning.act()
    assert store.read_bytes() == content


def test_each_file_of_answers_is_read_once(source, tmp_path, monkeypatch):
    path = tmp_path / "n.csv"
    options = {"id": "sku", "decisions": str(tmp_path / "d.jsonl")}
    cleaning_of(source, **options).write_questions(path, 3)
    fill_in(path, None)
    opened = []
    # The files that are opened cannot be observed from outside.
    open_table = _answers.open_table
    monkeypatch.setattr(
        _answers, "open_table", lambda path, **more: opened.append(path) or open_table(path, **more)
    )
    assert cleaning_of(source, answers=[path], **options).act().ranking.n_answers == 3
    assert opened == [path]


def test_a_certificate_in_python(source):
    cleaning = cleaning_of(source, remove=5, certify=True, allow_empty=True)
    cleaning.ranking  # noqa: B018
    questions = cleaning.questions(3)
    cleaning.answer(questions, [False] * len(questions))
    assert cleaning.certificate is not None
    assert len(cleaning.certificate.answers) == 3


@pytest.mark.parametrize("tool", [None, "label-studio", "argilla"])
def test_draws_of_certificates_are_counted_in_the_decisions(source, tmp_path, tool):
    """Each attempt answers truthfully, and leaves its answers to the decisions."""
    options = {"id": "sku", "decisions": str(tmp_path / "d.jsonl"), "allow_empty": True}
    asked = set()
    for attempt in range(3):
        path = tmp_path / f"n{attempt}.{'csv' if tool is None else 'json'}"
        cleaning = cleaning_of(source, remove=30, certify=True, **options)
        cleaning.write_questions(path, 6, tool=tool)
        assert cleaning.certificate.draw == attempt
        fill_in(path, tool)
        read = cleaning_of(source, remove=30, answers=[path], **options).act()
        assert read.ranking.n_answers == 6 * (attempt + 1)
        assert read.certificate.draw == attempt
        assert len(read.certificate.answers) == 6
        asked |= set(read.certificate.answers)
        # The certificate continues where its answers are given again.
        more = cleaning_of(source, remove=30, certify=True, answers=[path], **options)
        assert set(more.questions(2).label)
        assert more.certificate.draw == attempt
        assert more.certificate.answers == read.certificate.answers
    assert len(asked) == 18
    # As before, answers without decisions start at the first draw.
    assert cleaning_of(source, remove=30).ranking.certify().draw == 0


def fill_in(path, tool):
    """Answer "no" to all questions, except the first."""
    if tool is None:
        lines = pd.read_csv(path, dtype=str, keep_default_na=False)
        lines["right"] = ["yes"] + ["no"] * (len(lines) - 1)
        lines.to_csv(path, index=False)
        return
    records = json.loads(path.read_text("utf-8"))
    for k, record in enumerate(records):
        told(record, "no" if k else "yes")
    path.write_text(json.dumps(records), "utf-8")


def test_orders_say_not_checked(source):
    cleaning = cleaning_of(source).remove(1)
    assert int(cleaning.ranking.removed.sum()) == 1
    assert not cleaning.ranking.is_checked
    assert cleaning.add(1).ranking.added.sum() == 1


def write_rules(tmp_path, *lines):
    path = tmp_path / "vocabulary.csv"
    path.write_text("\n".join(["action,tag,target,accept", *lines]) + "\n")
    return str(path)


def test_a_kept_tag_is_neither_asked_about_nor_removed(source, tmp_path):
    free = cleaning_of(source, remove=30)
    assert "dog" in free.ranking.label[free.ranking.removed]
    rules = write_rules(tmp_path, "keep,dog,,", "keep,nowhere,,yes", "keep,city,,no")
    cleaning = cleaning_of(source, vocabulary=rules, remove=30)
    ranking = cleaning.ranking
    assert ranking.rules == {"dog": "keep"}
    assert "dog" not in ranking.label[ranking.removed]
    assert ranking.removed.any()
    assert "dog" not in cleaning.questions(80).label
    is_dog = ranking.label == "dog"
    assert ranking.n_in_share == (~is_dog).sum()
    assert cleaning.decided_by_rules() == {"kept": is_dog.sum(), "removed": 0}


def test_a_kept_tag_has_its_name_after_merging(source, tmp_path):
    rules = write_rules(tmp_path, "merge,city,town,yes", "keep,town,,yes")
    assert cleaning_of(source, vocabulary=rules).ranking.rules == {"town": "keep"}


def test_a_dropped_tag_is_removed_once_and_leaves_the_share(source, tmp_path):
    before = cleaning_of(source)
    count = int((before.ranking.label == "dog").sum())
    cleaning = cleaning_of(source, vocabulary=write_rules(tmp_path, "drop,dog,,yes"))
    assert "dog" not in cleaning.ranking.label_names
    assert "dog" not in cleaning.questions(80).label
    removals = [change for change in cleaning.changes() if change.before == "dog"]
    assert len(removals) == count
    assert cleaning.decided_by_rules() == {"kept": 0, "removed": count}


def test_a_rule_is_written_and_gives_the_same_table_again(source, tmp_path):
    rules = write_rules(tmp_path, "merge,shore,beach,yes")
    cleaning = cleaning_of(source, vocabulary=rules)
    count = int((cleaning.ranking.label == "dog").sum())
    assert cleaning.with_rule("dog", "drop").with_rule("city", "keep") is cleaning
    assert cleaning.decided_by_rules()["removed"] == count
    again = cleaning_of(source, vocabulary=rules)
    assert again.apply() == cleaning.apply()
    assert again.decided_by_rules() == cleaning.decided_by_rules()
    with pytest.raises(InputError, match="the vocabulary drops 'dog'"):
        again.with_rule("dog", "ask")
    again.with_rule("city", "ask")
    assert cleaning_of(source, vocabulary=rules).ranking.rules == {}
    actions = [line.action for line in read_vocabulary(rules)]
    assert actions == ["merge", "drop"]


def test_a_rule_that_cannot_be_given_is_not_written(source, tmp_path):
    rules = write_rules(tmp_path, "keep,city,,")
    before = Path(rules).read_text()
    cleaning = cleaning_of(source, vocabulary=rules)
    for label, rule in (("doog", "keep"), ("dog", "burn")):
        with pytest.raises(InputError):
            cleaning.with_rule(label, rule)
    assert Path(rules).read_text() == before


def test_a_certificate_keeps_its_set(source):
    cleaning = cleaning_of(source, remove=5, certify=True, allow_empty=True)
    cleaning.ranking  # noqa: B018
    questions = cleaning.questions(3)
    cleaning.answer(questions, [False] * len(questions))
    steps = [
        lambda: cleaning.with_rule("dog", "keep"),
        lambda: cleaning.remove(7),
        lambda: cleaning.add(above=0.9),
    ]
    for step in steps:
        with pytest.raises(InputError, match="a certificate has begun"):
            step()
    # Who starts again may request what they like.
    assert cleaning.act().certificate is None
    assert cleaning.remove(7).ranking.removed.sum() == 7


def test_the_program_says_how_many_tags_rules_decide(source, tmp_path, capsys):
    rules = write_rules(tmp_path, "keep,dog,,", "drop,city,,yes")
    assert main(["clean", source, "--text", "title", "--vocabulary", rules]) == 0
    counts = cleaning_of(source, vocabulary=rules).decided_by_rules()
    words = f"{counts['kept']} tags kept, {counts['removed']} tags removed, without questions"
    assert words in " ".join(capsys.readouterr().out.split())


def test_answers_about_rows_of_numbers_do_not_move_to_others(tmp_path):
    """Rows with equal tags change places; no text and no id tells them apart."""
    rng = np.random.default_rng(0)
    tags = ["a", "b", "a;b"] * 20
    lines = [f"{x:.4f},{y:.4f},{t}" for (x, y), t in zip(rng.random((60, 2)), tags, strict=True)]
    path = tmp_path / "numbers.csv"
    questions = tmp_path / "q.csv"

    def write(rows):
        path.write_text("\n".join(["x,y,tags", *rows]) + "\n", "utf-8")

    def clean():
        return TableCleaning(path, labels="tags", columns=["x", "y"], answers=(str(questions),))

    write(lines)
    TableCleaning(path, labels="tags", columns=["x", "y"]).write_questions(questions, 5)
    asked = pd.read_csv(questions, dtype=str).assign(right="yes")
    asked.to_csv(questions, index=False)
    assert clean().ranking.n_answers == 5
    row = int(asked["row"][0]) - 1
    other = row + 3 if row + 3 < 60 else row - 3
    lines[row], lines[other] = lines[other], lines[row]
    write(lines)
    rows = asked["row"].astype(int) - 1
    cleaning = clean()
    assert cleaning.ranking.n_answers == (~rows.isin([row, other])).sum()
    assert any("answers do not count" in sentence for sentence in cleaning.notes)
