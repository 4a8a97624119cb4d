"""The program: proposals for the list of tags, answered in the file, never asked twice."""

import csv
import json
import re

import numpy as np
import pytest

from schirn.app.cli import main
from schirn.app.workflow import read_vocabulary

WORDS = {
    "coat": "warm winter zip hood sleeve",
    "pan": "steel fry handle kitchen lid",
    "lamp": "light bulb shade desk bright",
}


@pytest.fixture
def table(tmp_path):
    """Kinds with a parent; a third of the pans are called Pan, and some lamps lack the parent."""
    rng = np.random.default_rng(0)
    parents = {"coat": "clothing", "pan": "kitchenware", "lamp": "furniture"}
    rows = []
    for i in range(240):
        kind = list(WORDS)[i % 3]
        name = "Pan" if kind == "pan" and rng.random() < 0.3 else kind
        tags = [name] if kind == "lamp" and rng.random() < 0.2 else [name, parents[kind]]
        if rng.random() < 0.95:
            tags.append("shop")
        rows.append((" ".join(rng.choice(WORDS[kind].split(), 4)), ";".join(tags)))
    with (tmp_path / "items.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("title", "tags"), *rows])
    return tmp_path / "items.csv"


def run(*words):
    return main([str(word) for word in words])


def test_proposals_are_printed_and_written(table, tmp_path, capsys):
    before = table.read_bytes()
    assert run("vocabulary", table, "--text", "title", "-o", tmp_path / "v.csv") == 0
    printed = capsys.readouterr()
    assert "merge" in printed.out
    assert "write yes or no into its column 'accept'" in printed.err
    assert f"or answer on a page: schirn review {table} --text title --vocabulary" in printed.err
    questions = {
        (line.action, line.tag, line.target) for line in read_vocabulary(tmp_path / "v.csv")
    }
    assert ("merge", "Pan", "pan") in questions
    assert table.read_bytes() == before


def test_answers_are_kept_and_nothing_is_asked_twice(table, tmp_path):
    path = tmp_path / "v.csv"
    run("vocabulary", table, "--text", "title", "-o", path, "--number", "2")
    with path.open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == 2
    for line, accept in zip(lines, ("yes", "no"), strict=True):
        line["accept"] = accept
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    run("vocabulary", table, "--text", "title", "-o", path)
    again = read_vocabulary(path)
    assert [line.accept for line in again][:2] == ["yes", "no"]
    asked = {(line["action"], line["tag"], line["target"]) for line in lines}
    assert asked.isdisjoint((line.action, line.tag, line.target) for line in again.open)


def test_all_spellings_are_accepted_at_once(tmp_path, capsys):
    path = tmp_path / "items.csv"
    names = ["Node" if k % 9 == 0 else "node" for k in range(80)]
    rows = [(f"t{k % 7} w{k % 5}", f"{name};x{k % 7}") for k, name in enumerate(names)]
    rows += [(f"word{k}", f"once{k};{'NODE' if k < 2 else 'node'}") for k in range(6)]
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([("text", "tags"), *rows])
    output = str(tmp_path / "v.csv")
    words = ["vocabulary", str(path), "--labels", "tags", "--text", "text", "--number", "2"]
    words += ["--once"]
    assert main([*words, "--accept", "spelling", "-o", output]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"(\d+) proposals in all; --number \1 lists them", printed)
    vocabulary = read_vocabulary(output)
    assert vocabulary.merges == {"Node": "node", "NODE": "node"}
    assert len(vocabulary.open) == 2


def test_the_summary_counts_all_proposals_and_names_the_next_step(tmp_path, capsys):
    path = tmp_path / "items.csv"
    names = ["Node" if k % 9 == 0 else "node" for k in range(80)]
    rows = [(f"t{k % 7} w{k % 5}", f"{name};x{k % 7}") for k, name in enumerate(names)]
    rows += [(f"word{k}", f"once{k};{'NODE' if k < 2 else 'node'}") for k in range(6)]
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([("text", "tags"), *rows])
    words = ["vocabulary", str(path), "--labels", "tags", "--text", "text"]
    assert main([*words, "--number", "1"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"^proposals +2 merge", printed.out, re.M)
    assert "6 tags are used once; --once proposes to drop them" in printed.out
    assert "--accept spelling accepts 2 merges of one name in several spellings" in printed.err
    assert main([*words, "--once", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["proposals"]["drop"], document["used_once"]) == (6, 0)
    assert [line["tag"] for line in document["lines"]][-6:] == [f"once{k}" for k in range(6)]
    assert main([*words, "--accept", "spelling"]) == 0
    assert "--accept spelling" not in capsys.readouterr().err


def test_rows_with_the_same_text(tmp_path, capsys):
    source = tmp_path / "items.csv"
    texts = [
        "Red dress, size M",
        "red dress size m",
        "size m; red dress",
        "blue coat",
        "one",
        "One",
    ]
    tags = ["dress;red", "dress; red", "dress", "coat", "a", "a;b"]
    with source.open("w", newline="") as stream:
        csv.writer(stream).writerows([("title", "tags"), *zip(texts, tags, strict=True)])
    changes, fixed, undone = (tmp_path / name for name in ("c.csv", "fixed.csv", "undone.csv"))
    assert run("vocabulary", source, "--text", "title", "--duplicates", changes) == 0
    out = capsys.readouterr().out
    assert "rows 1, 2, 3: red in 2 of 3" in out
    assert "1 tag of evenly divided groups" in out
    assert run("apply", changes, source, "-o", fixed) == 0
    with fixed.open(newline="") as stream:
        assert [row["tags"] for row in csv.DictReader(stream)] == [
            *("dress;red", "dress; red", "dress;red", "coat", "a", "a;b"),
        ]
    assert run("undo", changes, fixed, "-o", undone) == 0
    assert undone.read_bytes() == source.read_bytes()
    assert run("vocabulary", source, "--duplicates", changes, "-o", tmp_path / "v.csv") == 2


def test_json(table, tmp_path, capsys):
    assert run("vocabulary", table, "--text", "title", "--json", "--number", "1") == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["lines"]) == 1
    assert sum(document["proposals"].values()) == 1 + document["more_proposals"] > 1
    assert document["used_once"] == 0
    assert set(document["lines"][0]) == {
        *("action", "tag", "target", "rows", "rows_target", "both", "evidence", "accept"),
    }


def test_bad_arguments(table, tmp_path, capsys):
    assert run("vocabulary", table, "-o", tmp_path / "v.txt") == 2
    assert "must end in .csv" in capsys.readouterr().err
    assert run("vocabulary", table, "-o", table) == 2
    assert "is the input" in capsys.readouterr().err
    (tmp_path / "v.csv").write_text("from,to\na,b\nb,c\n")
    assert run("vocabulary", table, "--text", "title", "-o", tmp_path / "v.csv") == 2
    assert "lines 2 and 3" in capsys.readouterr().err
    assert (tmp_path / "v.csv").read_text() == "from,to\na,b\nb,c\n"


@pytest.fixture
def tagger(tmp_path):
    """A model of pans and lamps, fitted with a vocabulary that merges "Pan" into "pan"."""
    titles = [" ".join(WORDS[kind].split()[:4]) for kind in ("pan", "lamp")] * 15
    lines = [("title", "tags"), *zip(titles, ["pan", "lamp"] * 15, strict=True)]
    with (tmp_path / "train.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(lines)
    (tmp_path / "trained.csv").write_text("action,tag,target,accept\nmerge,Pan,pan,yes\n")
    model = tmp_path / "tagger.schirn"
    words = ("--text", "title", "--vocabulary", tmp_path / "trained.csv", "--method", "Sieve")
    assert run("fit", tmp_path / "train.csv", *words, "-o", model) == 0
    (tmp_path / "other.csv").write_text(
        "action,tag,target,accept\nmerge,wok,pan,yes\nimply,pan,lamp,yes\n"
    )
    (tmp_path / "new.csv").write_text("title,tags\nsteel fry,Pan\nsteel lid,wok\n")
    return model


def test_predict_applies_a_vocabulary_before_it_judges(tagger, tmp_path, capsys):
    judge = ("predict", tagger, tmp_path / "new.csv", "--disambiguate", "--json")
    other = ("--vocabulary", tmp_path / "other.csv")

    def judged(*words):
        capsys.readouterr()
        assert run(*judge, *words) == 0
        results = json.loads(capsys.readouterr().out)["results"]
        return [(line["row"], line["label"], line["verdict"] == "unseen") for line in results]

    assert judged() == [(1, "pan", False), (2, "wok", True)]
    merged = [(2, "pan", False), (1, "Pan", True)]
    assert sorted(judged(*other, "--implied", "suggest")) == sorted(merged)
    assert sorted(judged(*other)) == sorted([*merged, (2, "lamp", False)])


def test_predict_refuses_a_vocabulary_for_nothing(tagger, tmp_path, capsys):
    other = ("--vocabulary", tmp_path / "other.csv")
    assert run("predict", tagger, tmp_path / "new.csv", *other) == 2
    assert "--vocabulary needs --disambiguate" in capsys.readouterr().err
    absent = ("--disambiguate", "--vocabulary", tmp_path / "absent.csv")
    assert run("predict", tagger, tmp_path / "new.csv", *absent) == 2
    assert "absent.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [("pan", None), (None, "wok")]),
        ({"vocabulary": "other.csv"}, [(None, "Pan"), ("pan lamp", None)]),
        ({"vocabulary": "other.csv", "add_implied": False}, [(None, "Pan"), ("pan", None)]),
    ],
)
def test_the_server_applies_a_vocabulary_before_it_judges(tagger, tmp_path, options, expected):
    pytest.importorskip("httpx")
    pytest.importorskip("uvicorn")
    from starlette.testclient import TestClient

    from schirn.app.serving._workers import Application
    from schirn.app.serving.app import Limits

    if "vocabulary" in options:
        options = {**options, "vocabulary": str(tmp_path / options["vocabulary"])}
    application = Application(str(tagger), None, Limits(), tmp_path, ("*",), **options)
    client = TestClient(application.load())
    rows = [{"title": "steel fry", "tags": "Pan"}, {"title": "steel lid", "tags": ["wok"]}]
    answers = client.post("/judge", json={"rows": rows}).json()["rows"]
    for answer, (known, unseen) in zip(answers, expected, strict=True):
        assert set(answer["confidence"]) == set((known or "").split())
        assert answer["unseen"] == ([] if unseen is None else [unseen])


def test_a_server_with_a_bad_vocabulary_does_not_start(tagger, tmp_path, capsys):
    assert run("serve", tagger, "--vocabulary", tmp_path / "absent.csv") == 2
    assert "absent.csv" in capsys.readouterr().err
