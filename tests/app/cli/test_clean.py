import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from app.cli.clean_helpers import WORDS, make_items, make_project, read_csv, refused, write_csv

from schirn.app.cli import main
from schirn.app.review._project import checksum, read_project
from schirn.datasets import load_digits_attributes


@pytest.fixture(scope="module")
def items():
    return make_items()


def check_copy(before, after, items):
    """The copy keeps rows and other cells; tags and removed tags are the old tags in order."""
    assert len(after) == len(before)
    right = found = 0
    for old, new, (_, tags, wrong) in zip(before, after, items, strict=True):
        assert {k: new[k] for k in ("id", "description", "code")} == {
            k: old[k] for k in ("id", "description", "code")
        }
        gone = [t for t in new["tags_removed"].split(";") if t]
        assert new["tags"] == ";".join(t for t in tags if t not in gone)
        shares = dict(pair.rsplit("=", 1) for pair in new["tags_confidence"].split(";"))
        assert list(shares) == tags
        assert all((float(v) < 0.5) == (t in gone) for t, v in shares.items())
        found += len(gone)
        right += len(wrong & set(gone))
    n_wrong = sum(len(wrong) for _, _, wrong in items)
    assert right >= 0.9 * found
    assert right >= 0.5 * n_wrong


def test_a_table_of_texts_is_cleaned(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    before = hashlib.sha256((tmp_path / "items.csv").read_bytes()).hexdigest()
    out, page = str(tmp_path / "cleaned.csv"), str(tmp_path / "report.html")
    argv = ["clean", source, "--labels", "tags", "--text", "description", "-o", out]
    assert main([*argv, "--remove-below", "0.5", "--report", page]) == 0
    captured = capsys.readouterr()
    assert "not checked" in captured.out
    assert f"wrote the output to {out}" in captured.err
    assert hashlib.sha256((tmp_path / "items.csv").read_bytes()).hexdigest() == before
    check_copy(read_csv(source), read_csv(out), items)
    shown = (tmp_path / "report.html").read_text("utf-8")
    assert "picture" in shown
    assert "Words or columns of this row" in shown
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [".schirn", "cleaned.csv", "items.csv", "report.html"]


def test_the_installed_program_says_the_same_as_json(items, tmp_path):
    source = write_csv(tmp_path / "items.csv", items)
    command = [sys.executable, "-m", "schirn", "clean", source, "--text", "description", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["rows"] == 160
    assert report["tags"] == sum(len(tags) for _, tags, _ in items)
    assert report["removed"] == sum(label["removed"] for label in report["label_summaries"])
    assert report["output"] is None
    assert sorted(p.name for p in tmp_path.iterdir()) == [".schirn", "items.csv"]


def test_spaces_and_unusual_cells_survive(items, tmp_path):
    source = write_csv(tmp_path / "items.csv", items, separator=" | ", lineterminator="\r\n")
    out = tmp_path / "cleaned.csv"
    argv = ["clean", source, "--text", "description", "--separator", "|", "-o", str(out)]
    assert main(argv) == 0
    assert out.read_bytes().count(b"\r\n") == 161
    for old, new in zip(read_csv(source), read_csv(out), strict=True):
        gone = set(filter(None, new["tags_removed"].split("|")))
        assert new["tags"] == " | ".join(t for t in old["tags"].split(" | ") if t not in gone)


def test_jsonl_and_parquet_keep_lists_and_types(items, tmp_path):
    records = [
        {"id": i, "description": text, "tags": tags, "nested": {"a": [1, None]}, "x": 0.1}
        for i, (text, tags, _) in enumerate(items)
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    pd.DataFrame(records).drop(columns="nested").to_parquet(tmp_path / "items.parquet")
    common = ["--text", "description", "--labels", "tags", "--remove-below", "0.5"]
    for name in ("items.jsonl", "items.parquet"):
        assert (
            main(["clean", str(tmp_path / name), *common, "-o", str(tmp_path / f"c_{name}")]) == 0
        )
    lines = (tmp_path / "c_items.jsonl").read_text("utf-8").splitlines()
    copies = [json.loads(line) for line in lines]
    for old, new in zip(records, copies, strict=True):
        assert new["nested"] == old["nested"]
        assert new["tags"] == [t for t in old["tags"] if t not in new["tags_removed"]]
        assert list(new["tags_confidence"]) == old["tags"]
    assert sum(len(copy["tags_removed"]) for copy in copies) > 10
    table = pd.read_parquet(tmp_path / "c_items.parquet")
    assert table["id"].dtype == np.int64
    assert [list(tags) for tags in table["tags"]] == [copy["tags"] for copy in copies]
    assert [
        {pair["tag"]: pair["confidence"] for pair in pairs} for pairs in table["tags_confidence"]
    ] == [copy["tags_confidence"] for copy in copies]


def test_embeddings_numbers_and_known_clean(tmp_path, capsys):
    digits = load_digits_attributes(r=2).subset(range(300))
    np.save(tmp_path / "emb.npy", digits.X)
    names = np.array(digits.label_names)
    listed = np.where(np.arange(300)[:, None] < 30, digits.y_true, digits.candidates)
    tags = [";".join(names[row == 1]) for row in listed]
    frame = pd.DataFrame({"number": np.arange(300), "tags": tags, "ok": np.arange(300) < 30})
    frame.to_csv(tmp_path / "e.csv", index=False)
    pixels = pd.DataFrame(digits.X, columns=[f"p{k}" for k in range(64)])
    pd.concat([frame, pixels], axis=1).to_csv(tmp_path / "n.csv", index=False)
    results = []
    for name, extra in (("e.csv", ["--features", str(tmp_path / "emb.npy")]), ("n.csv", [])):
        argv = ["clean", str(tmp_path / name), "--known-clean", "ok", *extra]
        argv += ["--remove-below", "0.5"]
        assert main([*argv, "-o", str(tmp_path / f"c_{name}"), "--json"]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["removed"] == results[1]["removed"] > 400
    assert "number" not in results[1]["learned_from"]
    copy = pd.read_csv(tmp_path / "c_n.csv")
    assert copy["tags_removed"][:30].isna().all()
    assert (copy["tags"][:30] == frame["tags"][:30]).all()
    assert main([*argv[:-2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 0


def test_the_project_is_what_review_reads(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    folder = tmp_path / "project"
    assert make_project(source, folder, "--text", "description", "--id", "id") == 0
    head = json.loads((folder / "project.json").read_text("utf-8"))
    assert head.pop("sha256") == checksum(head, folder / "tags.npz")
    source_bytes = Path(source).read_bytes()
    assert head.pop("source_sha256") == hashlib.sha256(source_bytes).hexdigest()
    assert head == {
        "format": "schirn-review",
        "version": 6,
        "labels": sorted(WORDS),
        "command": ["--id", "id", "--text", "description"],
        "method": "TextRanker",
        "ids": [f"{i:04d}" for i in range(160)],
        "texts": [text for text, _, _ in items],
        "precision": 0.9,
        "keep_one": True,
        "opinions": [],
        "table": {
            "file": "table.csv",
            "column": "tags",
            "separator": ";",
            "text": ["description"],
            "image": None,
            "image_root": None,
            "encoding": "utf-8",
            "delimiter": ",",
            "vocabulary": [],
            "add_implied": True,
            "id": "id",
            "content": ["description"],
            "sha256": hashlib.sha256(source_bytes).hexdigest(),
        },
    }
    assert read_csv(folder / "table.csv") == read_csv(Path(source))
    project = read_project(folder)
    assert project.kept[project.listed].all()
    for i, (_, tags, _) in enumerate(items):
        listed = [k for k in project.tags_of_row(i) if project.listed[k]]
        assert {project.labels[project.column[k]] for k in listed} == set(tags)
    # Without decisions, the review exports the table as it is.
    reviewed = tmp_path / "reviewed.csv"
    assert main(["review", str(folder), "--export", str(reviewed)]) == 0
    assert reviewed.read_bytes() == source_bytes


def test_a_project_needs_a_new_folder(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    argv = ["review", source, "--text", "description", "--terminal", "--project"]
    assert "does not exist" in refused(capsys, *argv, str(tmp_path / "no" / "new"))
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        assert "give a new or empty folder" in refused(capsys, *argv, str(taken))
    (tmp_path / "empty").mkdir()
    assert make_project(source, tmp_path / "empty", "--text", "description") == 0


def test_copies_of_a_text_share_a_fold(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", [*items, *items])
    assert main(["clean", source, "--text", "description"]) == 0
    assert "160 rows are copies of earlier ones, such as rows 1 and 161" in capsys.readouterr().out
