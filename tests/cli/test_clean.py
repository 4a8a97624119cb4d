import csv
import hashlib
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from schirn.cli import main
from schirn.datasets import load_digits_attributes, read_npz

WORDS = {
    "beach": "sand wave shore palm",
    "dog": "bark tail leash puppy",
    "sunset": "orange dusk horizon glow",
    "city": "street tower traffic neon",
}


def make_items(n=160, names=None, seed=0):
    """Texts, noisy tags and the wrong ones; names replace the four tags."""
    rng = np.random.default_rng(seed)
    names = dict(zip(WORDS, names or WORDS, strict=True))
    items = []
    for i in range(n):
        true = rng.choice(list(WORDS), size=rng.integers(1, 3), replace=False).tolist()
        words = [w for tag in true for w in rng.permutation(WORDS[tag].split())[:3]]
        wrong = [t for t in WORDS if t not in true and rng.random() < 0.15]
        tags = rng.permutation([*true, *wrong]).tolist()
        text = f"picture {i} " + " ".join(words)
        items.append((text, [names[t] for t in tags], {names[t] for t in wrong}))
    return items


@pytest.fixture(scope="module")
def items():
    return make_items()


def write_csv(path, items, separator=";", **options):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, **options)
        writer.writerow(["id", "description", "tags", "code"])
        for i, (text, tags, _) in enumerate(items):
            writer.writerow([f"{i:04d}", text, separator.join(tags), f"00{i % 7}"])
    return str(path)


def read_csv(path, **options):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, **options))


def refused(capsys, *argv):
    assert main(list(argv)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("schirn: ")
    assert captured.err.count("\n") == 1
    return captured.err


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
        shares = dict(part.rsplit("=", 1) for part in new["tags_confidence"].split(";"))
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
    assert main([*argv, "--report", page]) == 0
    captured = capsys.readouterr()
    assert "Tags removed most often" in captured.out
    assert f"wrote the output {out}" in captured.err
    assert hashlib.sha256((tmp_path / "items.csv").read_bytes()).hexdigest() == before
    check_copy(read_csv(source), read_csv(out), items)
    assert "picture" in (tmp_path / "report.html").read_text("utf-8")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cleaned.csv", "items.csv", "report.html"]


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
    assert [p.name for p in tmp_path.iterdir()] == ["items.csv"]


def test_spaces_and_unusual_cells_survive(items, tmp_path):
    source = write_csv(tmp_path / "items.csv", items, separator=" | ", lineterminator="\r\n")
    out = tmp_path / "cleaned.csv"
    argv = ["clean", source, "--text", "description", "--separator", "|", "-o", str(out)]
    assert main(argv) == 0
    assert out.read_bytes().count(b"\r\n") == 161
    for old, new in zip(read_csv(source), read_csv(out), strict=True):
        gone = set(filter(None, new["tags_removed"].split("|")))
        assert new["tags"] == " | ".join(t for t in old["tags"].split(" | ") if t not in gone)


def test_jsonl_parquet_and_folders_keep_lists_and_types(items, tmp_path):
    records = [
        {"id": i, "description": text, "tags": tags, "nested": {"a": [1, None]}, "x": 0.1}
        for i, (text, tags, _) in enumerate(items)
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.jsonl").write_text("\n".join(map(json.dumps, records[:60])), "utf-8")
    (folder / "z.jsonl").write_text("\n".join(map(json.dumps, records[60:])), "utf-8")
    pd.DataFrame(records).drop(columns="nested").to_parquet(tmp_path / "items.parquet")
    common = ["--text", "description", "--labels", "tags"]
    for name in ("items.jsonl", "items.parquet", "data"):
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
    parts = [tmp_path / "c_data" / name for name in ("deep/a.jsonl", "z.jsonl")]
    assert [line for part in parts for line in part.read_text("utf-8").splitlines()] == lines
    table = pd.read_parquet(tmp_path / "c_items.parquet")
    assert table["id"].dtype == np.int64
    assert [list(tags) for tags in table["tags"]] == [copy["tags"] for copy in copies]
    assert [dict(pairs) for pairs in table["tags_confidence"]] == [
        copy["tags_confidence"] for copy in copies
    ]


def test_embeddings_numbers_and_known_clean(tmp_path, capsys):
    digits = load_digits_attributes(r=2).subset(range(300))
    np.save(tmp_path / "emb.npy", digits.X)
    names = np.array(digits.label_names)
    tags = [";".join(names[row == 1]) for row in digits.candidates]
    frame = pd.DataFrame({"number": np.arange(300), "tags": tags, "ok": np.arange(300) < 30})
    frame.to_csv(tmp_path / "e.csv", index=False)
    pixels = pd.DataFrame(digits.X, columns=[f"p{k}" for k in range(64)])
    pd.concat([frame, pixels], axis=1).to_csv(tmp_path / "n.csv", index=False)
    results = []
    for name, extra in (("e.csv", ["--features", str(tmp_path / "emb.npy")]), ("n.csv", [])):
        argv = ["clean", str(tmp_path / name), "--known-clean", "ok", *extra]
        assert main([*argv, "-o", str(tmp_path / f"c_{name}"), "--json"]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["removed"] == results[1]["removed"] > 400
    assert "number" not in results[1]["learned_from"]
    copy = pd.read_csv(tmp_path / "c_n.csv")
    assert copy["tags_removed"][:30].isna().all()
    assert (copy["tags"][:30] == frame["tags"][:30]).all()
    assert main([*argv, "--max-remove-per-row", "1", "--json"]) == 0
    limited = json.loads(capsys.readouterr().out)
    assert limited["removed"] == limited["rows_changed"] == results[1]["rows_changed"]
    assert main([*argv, "--keep-threshold", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 0


def test_the_project_is_what_review_reads(items, tmp_path):
    from schirn.cleaning import text_features

    source = write_csv(tmp_path / "items.csv", items)
    folder = tmp_path / "project"
    argv = ["clean", source, "--text", "description", "--id", "id", "--project", str(folder)]
    out = tmp_path / "c.csv"
    assert main([*argv, "-o", str(out)]) == 0
    head = json.loads((folder / "project.json").read_text("utf-8"))
    assert head == {
        "format": "schirn-review",
        "version": 1,
        "labels": sorted(WORDS),
        "threshold": 0.5,
        "method": "Sieve",
        "n_items": 160,
        "features": "features.npz",
    }
    lines = [json.loads(line) for line in (folder / "items.jsonl").read_text("utf-8").splitlines()]
    for line, row, (text, tags, _) in zip(lines, read_csv(out), items, strict=True):
        assert (line["id"], line["text"]) == (row["id"], text)
        assert {tag["label"] for tag in line["tags"]} == set(tags)
        kept = {tag["label"] for tag in line["tags"] if tag["kept"]}
        assert kept == set(row["tags"].split(";")) - {""}
    data = read_npz(folder / "features.npz")
    texts = [text for text, _, _ in items]
    assert abs(data.X - text_features(texts)).max() == 0
    assert data.label_names == sorted(WORDS)
    assert main(argv) == 2


def test_duplicate_ids_fall_back_to_row_numbers(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    folder = tmp_path / "p"
    argv = ["clean", source, "--text", "description", "--id", "code", "--project", str(folder)]
    assert main(argv) == 0
    assert "the id '000' is there more than once" in capsys.readouterr().err
    lines = [json.loads(line) for line in (folder / "items.jsonl").read_text("utf-8").splitlines()]
    assert [line["id"] for line in lines] == [str(i + 1) for i in range(160)]


def test_copies_of_a_text_share_a_fold(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", [*items, *items])
    assert main(["clean", source, "--text", "description"]) == 0
    assert "160 texts are copies of others" in capsys.readouterr().err


HOSTILE = ["<script>alert(1)</script>", "=HYPERLINK(1)", '"><img src=x onerror=y>', "a</title>b"]


def test_hostile_tags_stay_text(tmp_path):
    items = make_items(names=HOSTILE)
    hostile = [(f"</p><script>evil()</script> {t}", tags, w) for t, tags, w in items]
    source = write_csv(tmp_path / "items.csv", hostile)
    out, page = tmp_path / "c.csv", tmp_path / "r.html"
    argv = ["clean", source, "--text", "description", "-o", str(out), "--report", str(page)]
    assert main(argv) == 0
    text = page.read_text("utf-8")
    assert text.count("<script>") == 1
    assert "<img src=x" not in text
    assert "&lt;script&gt;alert(1)" in text
    before, after = read_csv(source), read_csv(out)
    quoted = 0
    for old, new in zip(before, after, strict=True):
        assert new["description"] == old["description"]
        for column in ("tags_removed", "tags_confidence"):
            assert not new[column].startswith(("=", "+", "-", "@"))
            quoted += new[column].startswith("'=")
        # The column of tags is the user's own: no apostrophe is put in.
        assert not new["tags"].startswith("'")
        assert set(filter(None, new["tags"].split(";"))) <= set(old["tags"].split(";"))
    assert quoted > 0


def test_a_very_long_line(items, tmp_path):
    long = [(items[0][0] + " word" * 400_000, *items[0][1:]), *items[1:]]
    source = write_csv(tmp_path / "items.csv", long)
    out, page = tmp_path / "c.csv", tmp_path / "r.html"
    limit = csv.field_size_limit()
    argv = ["clean", source, "--text", "description", "-o", str(out), "--report", str(page)]
    assert main(argv) == 0
    assert csv.field_size_limit() == limit
    assert out.stat().st_size > 2_000_000
    assert page.stat().st_size < 1_000_000


def test_encodings(items, tmp_path, capsys):
    café = [(text.replace("picture", "café"), tags, wrong) for text, tags, wrong in items]
    source = tmp_path / "items.csv"
    plain = write_csv(source, café)
    text = source.read_text("utf-8")
    source.write_bytes(b"\xef\xbb\xbf" + text.encode())
    out = tmp_path / "c.csv"
    assert main(["clean", plain, "--text", "description", "-o", str(out)]) == 0
    assert out.read_bytes().startswith(b"\xef\xbb\xbfid,description")
    source.write_bytes(text.encode("latin-1"))
    capsys.readouterr()
    sentence = refused(capsys, "clean", plain, "--text", "description", "-o", str(out))
    assert "line 2 is not utf-8 text (byte 0xe9)" in sentence
    assert "--encoding latin-1" in sentence
    argv = ["clean", plain, "--text", "description", "--encoding", "latin-1", "-o", str(out)]
    assert main(argv) == 0
    assert "café" in out.read_text("latin-1")
    capsys.readouterr()
    assert "no encoding 'klingon'" in refused(capsys, *argv[:5], "klingon")


def test_many_distinct_tags(items, tmp_path, capsys):
    many = [
        (text, [*tags, *(f"rare {20 * i + k}" for k in range(20))], wrong)
        for i, (text, tags, wrong) in enumerate(items)
    ]
    source = write_csv(tmp_path / "items.csv", many)
    argv = ["clean", source, "--text", "description", "--json"]
    assert main([*argv, "--report", str(tmp_path / "r.html")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["labels"] == 3204
    assert report["unjudged"] == 3200
    assert report["removed"] > 10
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "The 100 tags with the most removals, of 3,204." in page


def test_one_tag_only(items, tmp_path, capsys):
    some = [(t, ["dog"] if "dog" in tags else [], w) for t, tags, w in items]
    source = write_csv(tmp_path / "some.csv", some)
    assert main(["clean", source, "--text", "description", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["unjudged"] == 0
    assert report["rows_without_tags"] > 0
    every = write_csv(tmp_path / "every.csv", [(t, ["dog"], w) for t, _, w in items])
    page = tmp_path / "r.html"
    assert main(["clean", every, "--text", "description", "--report", str(page)]) == 0
    assert "wrong tags    unknown" in capsys.readouterr().out
    assert "no tag could be judged" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "argv", "words"),
    [
        ("", [], "the file is empty"),
        ("tags,a\n", [], "the table has no rows"),
        ("tags,a\nx,1,2\n", [], "line 2 has 3 cells, but the header has 2"),
        ("tags,tags\nx,1\n", [], "two columns are called 'tags'"),
        ("a,b\nx,1\n", [], "which column holds the tags?"),
        ("tags,a\nx,1\ny,2\n", ["--labels", "tgas"], "did you mean 'tags'?"),
        ("tags,a\n,1\n,3\n", [], "holds no tags"),
        ("tags,a\nx,p\ny,q\n", [], "no column of numbers to learn from"),
        ("tags,a\nx,1\ny,\nx,2\n", [], "row 2, column 'a': '' is not a number"),
        ("tags,a\nx,1\ny,nan\nx,2\n", [], "row 2, column 'a': 'nan' is not a number"),
        ("tags,a\nx,!\ny,?\n", ["--text", "a"], "the texts hold no words"),
        ("tags,a,b\nx,1,3\ny,2,5\n", ["--known-clean", "a"], "'2' is neither yes nor no"),
        ("tags,a\nx,1\ny,4\n", ["--image", "i"], "there is no column 'i'"),
        ("tags,a\nx,1\ny,4\n", ["--id", "i"], "there is no column 'i'"),
        ("tags,a\nx,1\ny,4\n", ["--group", "i"], "there is no column 'i'"),
        ("tags,a\nx,1\n", [], "cannot be made of 1 rows"),
        ("tags,a\nx,1\ny,4\n", ["--features", "no.npy"], "no.npy: there is no such file"),
        ("tags,a\nx,1\ny,4\n", ["--features", "no.csv"], "give an .npy file"),
        ("tags,a\nx,1\ny,4\n", ["--text", "a", "--columns", "a"], "give one of"),
        ("tags,a\nx,1\ny,4\n", ["--keep-threshold", "2"], "from 0 to 1, not '2'"),
        ("tags,a\nx,1\ny,4\n", ["--method", "Siev"], "did you mean 'Sieve'?"),
        ("tags,a\nx,1\ny,4\n", ["--method", "OracleRidge"], "needs the true labels"),
        ("tags,a,tags_removed\nx,1,y\ny,4,z\n", ["-o", "OUT.csv"], "perhaps from an earlier run"),
        ("tags,a\nx,1\ny,4\n", ["-o", "IN.csv"], "is the input, which is never changed"),
        ("tags,a\nx,1\ny,4\n", ["--report", "IN.csv"], "is the input, which is never changed"),
        ("tags,a\nx,1\ny,4\n", ["-o", "OUT.parquet"], "the copy has the format of the input, .csv"),
        ("tags,a\nx,1\ny,4\n", ["-o", "no/such/place.csv"], "does not exist"),
        ("tags,a\nx,1\ny,4\n", ["--report", "OUT.txt"], "must end in .html"),
        ("tags,a\nx\0,1\n", [], "binary file"),
    ],
)
def test_bad_input_gets_one_sentence(tmp_path, monkeypatch, capsys, text, argv, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "IN.csv").write_text(text)
    assert words in refused(capsys, "clean", "IN.csv", *argv)
    assert (tmp_path / "IN.csv").read_text() == text
    assert [p.name for p in tmp_path.iterdir()] == ["IN.csv"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1 is not JSON"),
        ("[1]", "line 1 is not a JSON object"),
        ('{"tags": {"a": 1}, "x": 1}', "is neither a text of tags nor a list"),
    ],
)
def test_bad_json_lines(tmp_path, capsys, line, words):
    path = tmp_path / "items.jsonl"
    path.write_text(line + "\n")
    assert words in refused(capsys, "clean", str(path))


def test_a_link_to_the_input_is_the_input(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    (tmp_path / "link.csv").symlink_to(source)
    argv = ["clean", source, "--text", "description", "-o", str(tmp_path / "link.csv")]
    assert "is the input" in refused(capsys, *argv)


def test_nothing_is_left_when_the_work_fails(items, tmp_path, monkeypatch, capsys):
    source = write_csv(tmp_path / "items.csv", items)

    def fail(*args, **options):
        raise OSError(28, "No space left on device", "disk")

    monkeypatch.setattr("os.replace", fail)
    out = str(tmp_path / "c.csv")
    project = str(tmp_path / "p")
    assert main(["clean", source, "--text", "description", "-o", out]) == 2
    assert main(["clean", source, "--text", "description", "--project", project]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["items.csv"]
