"""Audits in the program: the sample, the answers, the certificate and its check."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from cli.clean_helpers import make_items, read_csv, refused, write_csv

from schirn.cli import main


@pytest.fixture(scope="module")
def items():
    return make_items(300)


@pytest.fixture
def table(items, tmp_path):
    return write_csv(tmp_path / "items.csv", items)


def clean(table, *options):
    return main(["clean", table, "--text", "description", *map(str, options)])


def fill(path, items, **changed):
    """Answer all questions by the truth; a changed cell applies to every line."""
    rows = read_csv(path)
    for row in rows:
        row["right"] = "no" if row["tag"] in items[int(row["row"]) - 1][2] else "yes"
        row.update(changed)
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return rows


@pytest.fixture
def answered(table, items, tmp_path, capsys):
    path = tmp_path / "check.csv"
    assert clean(table, "--audit-sample", path) == 0
    fill(path, items)
    capsys.readouterr()
    return path


@pytest.fixture
def certificate(table, answered, tmp_path, capsys):
    assert clean(table, "--audit", answered, "-o", tmp_path / "cleaned.csv") == 0
    capsys.readouterr()
    return tmp_path / "cleaned.csv.certificate.json"


def test_the_whole_loop(table, items, tmp_path, capsys):
    sample, out, page = tmp_path / "check.csv", tmp_path / "cleaned.csv", tmp_path / "report.html"
    assert clean(table, "--audit-sample", sample, "--audit-size", "40", "--id", "id") == 0
    assert "--audit instead of --audit-sample" in capsys.readouterr().err
    rows = fill(sample, items)
    assert len(rows) == 40
    assert list(rows[0]) == ["row", "id", "text", "tag", "right", "sample"]
    assert clean(table, "--audit", sample, "-o", out, "--report", page, "--id", "id") == 0
    printed = capsys.readouterr()
    assert "What the checked tags say" in printed.out
    assert "With 95% confidence, at least" in printed.out
    assert f"wrote the certificate to {out}.certificate.json" in printed.err
    values = json.loads((tmp_path / "cleaned.csv.certificate.json").read_text())
    assert values["n_answers"] == values["n_wrong"] == 24
    assert f"at least {values['precision_at_least']:.1%} of" in page.read_text("utf-8")
    assert values["table_sha256"] in page.read_text("utf-8")
    # What was checked is decided.
    cleaned = read_csv(out)
    for row in rows:
        gone = row["tag"] in cleaned[int(row["row"]) - 1]["tags_removed"].split(";")
        assert gone == (row["right"] == "no")


def test_json(table, answered, capsys):
    assert clean(table, "--audit", answered, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["audit"]["n_answers"] == 50
    assert document["audit"]["certificate"]["n_answers"] == 30
    assert document["certificate"] is None


def test_a_second_sample_is_drawn_from_the_audited_verdicts(
    table, items, answered, tmp_path, capsys
):
    more = tmp_path / "more.csv"
    assert clean(table, "--audit", answered, "--audit-sample", more, "--audit-size", 30) == 0
    rows = fill(more, items)
    first = {(row["row"], row["tag"]) for row in read_csv(answered)}
    assert not first & {(row["row"], row["tag"]) for row in rows}
    capsys.readouterr()
    assert clean(table, "--audit", answered, "--audit", more, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["audit"]["n_answers"] == 30


def test_suggestions_are_audited_like_removals(tmp_path, capsys):
    # A fifth of the correct tags is not listed; the words of the text tell which.
    rng = np.random.default_rng(0)
    full = make_items(400)
    items = [
        (text, [t for t in tags if t in wrong or rng.random() > 0.2] or tags, wrong)
        for text, tags, wrong in full
    ]
    table = write_csv(tmp_path / "items.csv", items)
    sample, out, page = (tmp_path / name for name in ("check.csv", "cleaned.csv", "report.html"))
    assert clean(table, "--audit-sample", sample, "--audit-of", "suggestions") == 0
    rows = read_csv(sample)
    for row in rows:
        tags, wrong = full[int(row["row"]) - 1][1:]
        assert row["tag"] not in items[int(row["row"]) - 1][1]
        row["right"] = "yes" if row["tag"] in tags and row["tag"] not in wrong else "no"
    with sample.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    capsys.readouterr()
    options = ["--audit", sample, "-o", out, "--suggest", "--report", page]
    assert clean(table, *options) == 0
    assert "suggested tags are correct" in capsys.readouterr().out
    path = f"{out}.suggestions.certificate.json"
    values = json.loads(Path(path).read_text())
    assert values["of"] == "missing"
    assert not Path(f"{out}.certificate.json").exists()
    assert "suggested tags are correct" in page.read_text("utf-8")
    assert main(["certificate", "check", path, table]) == 0
    assert "of them correct" in capsys.readouterr().out
    # What a person rejected is not suggested any more.
    suggested = [row["tags_suggested"].split(";") for row in read_csv(out)]
    for row in rows:
        assert (row["tag"] in suggested[int(row["row"]) - 1]) == (row["right"] == "yes")


def test_answers_that_contradict_the_verdicts_keep_the_tags(table, items, tmp_path, capsys):
    sample = tmp_path / "check.csv"
    assert clean(table, "--audit-sample", sample) == 0
    fill(sample, items, right="yes")
    capsys.readouterr()
    assert clean(table, "--audit", sample, "-o", tmp_path / "cleaned.csv") == 0
    values = json.loads((tmp_path / "cleaned.csv.certificate.json").read_text())
    assert values["precision_at_least"] == 0
    assert values["n_wrong"] == 0


def test_refused(table, items, answered, tmp_path, capsys):
    argv = ["clean", table, "--text", "description"]
    assert "must end in .csv" in refused(capsys, *argv, "--audit-sample", str(tmp_path / "a.txt"))
    assert "is the input" in refused(capsys, *argv, "--audit-sample", table)
    given = ["--audit", str(answered)]
    assert "is the input" in refused(capsys, *argv, *given, "--audit-sample", str(answered))
    assert "--audit-sample" in refused(capsys, *argv, "--audit", str(tmp_path / "absent.csv"))
    assert "no column 'row'" in refused(capsys, *argv, "--audit", table)
    # Other options give other verdicts.
    words = refused(capsys, *argv, *given, "--min-count", "139")
    assert "the table or the options have changed" in words
    changed = write_csv(tmp_path / "changed.csv", items[:-1])
    words = refused(capsys, "clean", changed, "--text", "description", *given)
    assert "the table or the options have changed" in words
    fill(answered, items, right="perhaps")
    assert "'perhaps' is not an answer" in refused(capsys, *argv, *given)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "changed.csv", "check.csv", "items.csv",
    ]  # fmt: skip


def test_check_of_a_certificate_and_its_table(table, certificate, tmp_path, capsys):
    argv = ["certificate", "check", str(certificate)]
    for tables in ([], [table], [str(tmp_path / "cleaned.csv")]):
        assert main([*argv, *tables]) == 0
        assert "valid    With 95% confidence" in capsys.readouterr().out
    assert main([*argv, table, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["valid"] is True
    assert document["problem"] is None
    assert document["n_answers"] == 30


def test_a_certificate_of_an_earlier_run_is_named(table, certificate, tmp_path, capsys):
    assert clean(table, "-o", tmp_path / "cleaned.csv") == 0
    assert f"{certificate} is from an earlier run" in capsys.readouterr().err
    assert clean(table, "-o", tmp_path / "other.csv") == 0
    assert "earlier run" not in capsys.readouterr().err


def test_check_reads_tables_as_clean_does(items, certificate, tmp_path, capsys):
    other = write_csv(tmp_path / "other.csv", items, separator="|", delimiter="\t")
    argv = ["certificate", "check", str(certificate), other, "--delimiter"]
    assert main([*argv, "\t", "--separator", "|", "--labels", "tags"]) == 0
    capsys.readouterr()
    assert "must be one character" in refused(capsys, *argv, "ab")


def test_check_finds_another_table(table, items, certificate, tmp_path, capsys):
    text, tags, wrong = items[0]
    other = write_csv(tmp_path / "other.csv", [(text, [*tags, "new"], wrong), *items[1:]])
    assert main(["certificate", "check", str(certificate), other]) == 1
    assert "does not hold the tags" in capsys.readouterr().out
    # Other cells, and the order of tags, do not matter.
    same = write_csv(tmp_path / "same.csv", [("", tags[::-1], wrong) for _, tags, wrong in items])
    assert main(["certificate", "check", str(certificate), same]) == 0


def test_check_finds_changed_numbers(certificate, capsys):
    values = json.loads(certificate.read_text())
    for change in ({"precision_at_least": 0.99}, {"n_wrong": 29}, {"confidence": 0.99}):
        certificate.write_text(json.dumps(values | change))
        assert main(["certificate", "check", str(certificate)]) == 1
        assert capsys.readouterr().out.startswith("Not valid: the certificate ")
    assert main(["certificate", "check", str(certificate), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["valid"] is False


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 50_000, b"\xff", b" " * 200_000])
def test_check_of_something_else(tmp_path, capsys, content):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    words = refused(capsys, "certificate", "check", str(path))
    assert "not a certificate" in words or "too large" in words
    assert "No such file" in refused(capsys, "certificate", "check", str(tmp_path / "absent"))


def test_a_cell_that_a_spreadsheet_would_run_is_the_same_tag(tmp_path, capsys):
    items = make_items(300, names=["=a", "+b", "-c", "@d"])
    table = write_csv(tmp_path / "items.csv", items)
    sample, out = tmp_path / "check.csv", tmp_path / "cleaned.csv"
    assert clean(table, "--audit-sample", sample) == 0
    rows = read_csv(sample)
    for row in rows:
        row["right"] = "no"
    with sample.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert clean(table, "--audit", sample, "-o", out, "--force") == 0
    assert main(["certificate", "check", f"{out}.certificate.json", str(out)]) == 0


def test_check_of_merged_tags(items, tmp_path, capsys):
    """The certificate is about the merged tags, which the copy has and the table gets."""
    marked = [(text, [*tags, "Dog"] if i % 9 == 0 else tags, wrong)
              for i, (text, tags, wrong) in enumerate(items)]  # fmt: skip
    table, sample = write_csv(tmp_path / "items.csv", marked), tmp_path / "check.csv"
    merges, copy = tmp_path / "merges.csv", tmp_path / "cleaned.csv"
    merges.write_text("Dog,dog\n")
    assert clean(table, "--merge", merges, "--audit-sample", sample) == 0
    fill(sample, items)
    assert clean(table, "--merge", merges, "--audit", sample, "-o", copy) == 0
    check = ["certificate", "check", f"{copy}.certificate.json"]
    assert main([*check, table]) == 1
    assert main([*check, table, "--merge", str(merges)]) == 0
    assert main([*check, str(copy)]) == 0
    assert main([*check, str(copy), "--merge", str(merges)]) == 0
