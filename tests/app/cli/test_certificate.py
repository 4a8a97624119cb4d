"""Certificates in the program: questions, the file, and its check."""

import json

import pandas as pd
import pytest
from app.cli.clean_helpers import make_items, read_csv, write_csv
from app.cli.test_clean_answers import clean, fill

from schirn.app.cli import main


@pytest.fixture(scope="module")
def items():
    return make_items(300)


@pytest.fixture(scope="module")
def certified(items, tmp_path_factory):
    """A table, its copy, and the certificate of 40 ordered removals."""
    folder = tmp_path_factory.mktemp("certified")
    table, path = write_csv(folder / "items.csv", items), folder / "q.csv"
    out, order = folder / "cleaned.csv", ("--remove", "40", "--precision", "0.6")
    assert clean(table, *order, "--certify", "--questions", path, "--number", "40") == 0
    fill(path, items)
    assert clean(table, *order, "--answers", path, "-o", out) == 0
    return table, out, folder / "cleaned.csv.certificate.json"


def check(*argv):
    return main(["certificate", "check", *map(str, argv)])


def not_verified(capsys, *argv):
    assert check(*argv) == 3
    printed = capsys.readouterr().out
    assert printed.startswith("Not verified: ")
    return printed


def test_a_copy_is_verified(certified, capsys):
    table, copy, path = certified
    assert check(path, copy) == 0
    printed = capsys.readouterr().out
    assert "With 95% confidence, at least" in printed
    assert "removed tags are wrong" in printed
    assert check(path, copy, "--original", table, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verified"]
    assert document["certified"]
    assert document["problem"] is None
    assert document["options"]["method"] == "TextRanker"
    assert not document["options"]["checked"]


def test_the_table_alone_and_other_removals_are_not_verified(certified, tmp_path, capsys):
    table, copy, path = certified
    assert "no column of removed tags" in not_verified(capsys, path, table)
    assert "contradicts its answer" in not_verified(capsys, path, table, "--original", table)
    other = tmp_path / "other.csv"
    assert clean(table, "--remove", "41", "-o", other) == 0
    capsys.readouterr()
    not_verified(capsys, path, other)
    lines = copy.read_text().splitlines(keepends=True)
    (tmp_path / "short.csv").write_text("".join(lines[:-1]))
    assert "does not hold the tags" in not_verified(capsys, path, tmp_path / "short.csv")


def test_a_copy_that_keeps_its_removed_tags_is_not_verified(certified, tmp_path, capsys):
    _, copy, path = certified
    table = pd.read_csv(copy, dtype=str, keep_default_na=False)
    table["tags"] = (table["tags"] + ";" + table["tags_removed"]).str.strip(";")
    table.to_csv(tmp_path / "kept.csv", index=False)
    assert "is not changed in" in not_verified(capsys, path, tmp_path / "kept.csv")


def test_too_few_answers_make_no_file(items, tmp_path, capsys):
    table, path = write_csv(tmp_path / "items.csv", items), tmp_path / "q.csv"
    order, out = ("--remove", "40"), tmp_path / "c.csv"
    assert clean(table, *order, "--certify", "--questions", path, "--number", "3") == 0
    fill(path, items)
    assert clean(table, *order, "--answers", path, "-o", out) == 0
    printed = capsys.readouterr().out
    assert "Not yet certified" in printed
    assert "so far" in printed
    assert not (tmp_path / "c.csv.certificate.json").exists()
    # Answers to other removals do not count.
    assert clean(table, "--remove", "41", "--answers", path, "-o", out) == 2
    assert "another set of tags" in capsys.readouterr().err


def test_a_certificate_of_an_earlier_run_is_named(certified, capsys):
    table, copy, path = certified
    assert clean(table, "-o", copy.parent / "cleaned.csv", "--remove", "5") == 0
    assert "is from an earlier run" in capsys.readouterr().err
    not_verified(capsys, path, copy)
    order = ("--remove", "40", "--precision", "0.6")
    assert clean(table, *order, "--answers", copy.parent / "q.csv", "-o", copy) == 0
    assert check(path, copy) == 0


def test_a_file_that_cannot_be_read(certified, tmp_path, capsys):
    path = tmp_path / "c.json"
    for content, sentence in (("", "the file is empty"), ("\x00", "this is a binary file")):
        path.write_text(content)
        assert check(path, certified[1]) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{}", "[1]", '{"format": "schirn-certificate"}'])
def test_something_else_is_not_verified(content, certified, tmp_path, capsys):
    path = tmp_path / "c.json"
    path.write_text(content)
    not_verified(capsys, path, certified[1])


def test_forged_and_shortened_files(certified, tmp_path, capsys):
    _, copy, path = certified
    values, forged = json.loads(path.read_text()), tmp_path / "forged.json"
    for change in (
        {"e_value": 1e6},
        {"target": 0.99},
        {"answers": values["answers"][1:]},
        {"answers": []},
        {"table_sha256": "0" * 64},
        {"tags_sha256": "0" * 64},
        {"draw": 3},
        {"sentence": values["sentence"].replace("at least", "at least 99.9% or")},
        {"e_value": float("nan")},
        {"precision_at_least": float("nan")},
        {"earlier_answers": [[10**8, "dog", True]]},
        {"earlier_answers": [[0, "no tag", True]]},
        {"changes": [[0, "dog", True]]},
    ):
        forged.write_text(json.dumps({**values, **change}))
        not_verified(capsys, forged, copy)
    forged.write_text(path.read_text().rstrip()[:-1] + ', "sentence": "It is certified"}')
    assert "the key 'sentence' occurs twice" in not_verified(capsys, forged, copy)
    assert main(["certificate", "check", str(tmp_path / "none.json"), str(copy)]) == 2


def test_a_cell_that_a_spreadsheet_would_run_is_the_same_tag(tmp_path, capsys):
    items = make_items(300, names=["=a", "+b", "-c", "@d"])
    table, path, out = write_csv(tmp_path / "t.csv", items), tmp_path / "q.csv", tmp_path / "c.csv"
    order = ("--remove", "30", "--precision", "0.5")
    assert clean(table, *order, "--certify", "--questions", path, "--number", "30") == 0
    fill(path, [(text, tags, set(tags)) for text, tags, _ in items])
    rows = read_csv(path)
    assert all(row["tag"].startswith("'") for row in rows)
    path.write_text(path.read_text().replace(",yes,", ",no,"))
    assert clean(table, *order, "--answers", path, "-o", out) == 0
    assert check(f"{out}.certificate.json", out) == 0


def test_merged_tags(items, tmp_path):
    """The certificate is about the merged tags, which the copy has and the table gets."""
    marked = [(text, [*tags, "Dog"] if i % 9 == 0 else tags, wrong)
              for i, (text, tags, wrong) in enumerate(items)]  # fmt: skip
    table, path = write_csv(tmp_path / "items.csv", marked), tmp_path / "q.csv"
    merges, copy = tmp_path / "merges.csv", tmp_path / "cleaned.csv"
    merges.write_text("Dog,dog\n")
    order = ("--vocabulary", merges, "--remove", "30", "--precision", "0.5")
    assert clean(table, *order, "--certify", "--questions", path, "--number", "30") == 0
    fill(path, items)
    assert clean(table, *order, "--answers", path, "-o", copy) == 0
    certificate = f"{copy}.certificate.json"
    assert check(certificate, copy) == 0
    assert check(certificate, copy, "--original", table) == 3
    assert check(certificate, copy, "--original", table, "--vocabulary", merges) == 0


def test_a_certificate_without_end(certified, capsys):
    assert check("/dev/zero", certified[1]) == 2
    assert "/dev/zero: this is a pipe or a device" in capsys.readouterr().err


@pytest.mark.parametrize("labels", [[], ["--labels", "beach,dog,sunset,city"]])
def test_lists_in_cells_and_one_column_per_tag(labels, items, tmp_path):
    frame = pd.DataFrame({"description": [text for text, _, _ in items]})
    if labels:
        for name in labels[1].split(","):
            frame[name] = [int(name in tags) for _, tags, _ in items]
    else:
        frame["tags"] = [json.dumps(tags) for _, tags, _ in items]
    table, path, copy = (tmp_path / name for name in ("t.csv", "q.csv", "c.csv"))
    frame.to_csv(table, index=False)
    order = (*labels, "--remove", "30", "--precision", "0.5")
    assert clean(str(table), *order, "--certify", "--questions", path, "--number", "30") == 0
    fill(path, items)
    assert clean(str(table), *order, "--answers", path, "-o", copy) == 0
    assert check(f"{copy}.certificate.json", copy, *labels) == 0
    assert check(f"{copy}.certificate.json", copy, *labels, "--original", table) == 0
    assert check(f"{copy}.certificate.json", table, *labels, "--original", table) == 3


def test_changed_answers_are_counted_in_the_certificate(items, tmp_path, capsys):
    table, path = write_csv(tmp_path / "items.csv", items), tmp_path / "q.csv"
    order = ("--remove", "40", "--id", "id", "--decisions", tmp_path / "d.jsonl")
    assert clean(table, *order, "--certify", "--questions", path, "--number", "40") == 0
    rows = read_csv(path)
    for n_right in (10, 0):
        for i, row in enumerate(rows):
            row["right"] = "yes" if i < n_right else "no"
        pd.DataFrame(rows).to_csv(path, index=False)
        capsys.readouterr()
        assert clean(table, *order, "--answers", path, "-o", tmp_path / "c.csv") == 0
        printed = capsys.readouterr().out
        if n_right:
            assert "an answer or a rule keeps 10 tags" in printed
            assert "every row keeps" not in printed
    assert "(40 answers, 10 of them changed)" in printed
    certificate = tmp_path / "c.csv.certificate.json"
    assert json.loads(certificate.read_text("utf-8"))["n_changed"] == 10
    assert check(certificate, tmp_path / "c.csv") == 0
    assert "10 of them changed" in capsys.readouterr().out
