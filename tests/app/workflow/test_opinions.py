"""Prompts for a language model, and opinions read back from files."""

import json

import pandas as pd
import pytest

from schirn.app.cli import main
from schirn.app.review import begin_review, open_session
from schirn.app.workflow import CleaningOptions, TableCleaning
from schirn.app.workflow._opinions import read_opinion_file, write_prompts
from schirn.exceptions import InputError


@pytest.fixture
def table(tmp_path):
    """A table in which every fifth row has a wrong tag."""
    words = {"pan": "steel kitchen fry", "lamp": "light bulb glow", "chair": "wood seat sit"}
    names = list(words)
    rows = []
    for i in range(120):
        tag = names[i % 3]
        wrong = names[(i + 1) % 3]
        tags = f"{tag};{wrong}" if i % 5 == 0 else tag
        rows.append({"id": f"item {i}", "title": f"{words[tag]} number{i % 7}", "tags": tags})
    path = tmp_path / "items.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_prompts_say_all_that_a_model_needs(table, tmp_path):
    cleaning = TableCleaning(table, labels="tags", text="title", id="id")
    path = tmp_path / "prompts.jsonl"
    cleaning.write_prompts(path, 8)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 8
    line = lines[0]
    assert line["id"] == f"item {line['row'] - 1}"
    assert json.dumps(line["tag"]) in line["prompt"]
    assert line["text"] in line["prompt"]
    assert line["answers"] == ["yes", "no", "unsure"]
    suspects = cleaning.ranking.suspects(8)
    rows = [line["row"] - 1 for line in lines]
    assert rows[:6] == suspects.row.tolist()[:6]
    # The others are spread over all ranks.
    place = {cell: k for k, cell in enumerate(zip(*_suspects(cleaning, 144), strict=True))}
    ranks = [place[line["row"] - 1, line["tag"]] for line in lines[6:]]
    assert 6 <= ranks[0] < 30 < ranks[1]
    cleaning.write_prompts(path, 10_000)
    assert len(path.read_text().splitlines()) == len(cleaning.ranking.worklist.order)
    write_prompts(path, suspects, cleaning.texts, meanings={"pan": "for frying", "lamp": "light"})
    assert "(for frying)" in path.read_text() or "(light)" in path.read_text()


def _suspects(cleaning, n):
    suspects = cleaning.ranking.suspects(n)
    return suspects.row.tolist(), suspects.label.tolist()


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_opinions_come_back_tolerantly(tmp_path, suffix):
    path = tmp_path / f"replies.{suffix}"
    frame = pd.DataFrame(
        {
            "row": [1, 2, 3, 4, 99],
            "tag": ["pan", "lamp", "pan", "pan", "pan"],
            "answer": ["Yes.", "No, it is a chair.", "Hard to say", "0.25", "yes"],
        }
    )
    if suffix == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    said = read_opinion_file(path, 10, ["pan", "lamp"])
    expected = [(0, "pan", 1, "replies"), (1, "lamp", 0, "replies"), (3, "pan", 0.25, "replies")]
    assert said.records == expected
    assert (said.n_unreadable, said.n_unknown) == (1, 1)
    assert "3 opinions; 1 say neither yes nor no; 1 are about rows" in said.sentence
    frame.drop(columns="answer").to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(InputError, match="no column 'opinion'"):
        read_opinion_file(tmp_path / "bad.csv", 10, ["pan"])


def test_opinions_name_rows_by_id_and_voices_by_name(tmp_path):
    path = tmp_path / "replies.csv"
    path.write_text("id,tag,opinion,who\nb,pan,yes,Ada\na,pan,no,Bob\nz,pan,no,Bob\n")
    said = read_opinion_file(path, 2, ["pan"], ids=["a", "b"])
    assert said.records == [(1, "pan", 1.0, "Ada"), (0, "pan", 0.0, "Bob")]
    assert said.n_unknown == 1


def test_the_program_writes_prompts_and_reads_replies(table, tmp_path, capsys):
    prompts, replies = tmp_path / "prompts.jsonl", tmp_path / "replies.jsonl"
    words = ["clean", str(table), "--labels", "tags", "--text", "title"]
    assert main([*words, "--for-model", str(prompts), "--number", "60"]) == 0
    assert "wrote the prompts" in capsys.readouterr().err
    lines = [json.loads(line) for line in prompts.read_text().splitlines()]
    for line in lines:
        is_right = line["tag"] == ["pan", "lamp", "chair"][(line["row"] - 1) % 3]
        line["answer"] = "Yes, it is." if is_right else "No."
    replies.write_text("".join(json.dumps(line) + "\n" for line in lines))
    questions = tmp_path / "q.csv"
    assert main([*words, "--opinions", str(replies), "--questions", str(questions)]) == 0
    assert "60 opinions" in capsys.readouterr().err
    cleaning = TableCleaning(table, labels="tags", text="title", opinions=str(replies))
    voice = cleaning.ranking.voices()[0]
    assert (voice.who, voice.n_opinions) == ("replies", 60)
    assert main([*words, "--opinions", str(replies), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["voices"][0]["who"] == "replies"
    assert main([*words, "--opinions", str(replies)]) == 0
    facts = " ".join(capsys.readouterr().out.split())
    assert "opinions replies: 60 opinions" in facts
    assert main([*words, "--opinions", str(tmp_path / "none.csv"), "--json"]) == 2
    assert "there is no such file of opinions" in capsys.readouterr().err


def test_the_review_page_says_how_good_every_voice_is(table, tmp_path):
    cleaning = TableCleaning(table, labels="tags", text="title")
    order = cleaning.ranking.worklist.order
    columns = (cleaning.ranking.row[order] + 1, cleaning.ranking.label[order])
    replies = tmp_path / "replies.csv"
    frame = pd.DataFrame({"row": columns[0], "tag": columns[1]})
    frame["answer"] = [
        "yes" if tag == ["pan", "lamp", "chair"][(row - 1) % 3] else "no"
        for row, tag in zip(*columns, strict=True)
    ]
    frame.to_csv(replies, index=False)
    cleaning = TableCleaning(table, labels="tags", text="title", opinions=str(replies))
    session = begin_review(cleaning, tmp_path / "review")
    (sentence,) = session.view()["known"]["voices"]
    assert sentence == f"replies: {len(frame):,} opinions, none about an answered tag yet."
    asked = session.view()["current"]
    session.decide("keep", asked["item"], asked["label"], 0)
    session.journal.close()
    again = open_session(tmp_path / "review")
    (sentence,) = again.view()["known"]["voices"]
    assert "agree with your answers" in sentence
    again.journal.close()


def test_a_review_with_other_opinions_is_another_review(table, tmp_path, capsys):
    replies = tmp_path / "replies.csv"
    replies.write_text("row,tag,answer\n1,pan,yes\n")
    words = ["review", str(table), "--labels", "tags", "--text", "title", "--opinions"]
    options = CleaningOptions(labels="tags", text="title", opinions=[str(replies)])
    begin_review(TableCleaning(table, options), tmp_path / "items-review").journal.close()
    assert main([*words, str(replies), "--export", str(tmp_path / "c.csv")]) == 0
    replies.write_text("row,tag,answer\n1,pan,no\n")
    assert main([*words, str(replies), "--export", str(tmp_path / "d.csv")]) == 2
    assert "or to other options" in capsys.readouterr().err
