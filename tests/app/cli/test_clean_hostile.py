"""Bad and hostile tables through the real command."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from app.cli.clean_helpers import make_items, make_project, read_csv, refused, write_csv

from schirn.app.cli import main


@pytest.fixture(scope="module")
def items():
    return make_items()


def test_duplicate_ids_fall_back_to_row_numbers(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    folder = tmp_path / "p"
    assert make_project(source, folder, "--text", "description", "--id", "code") == 0
    err = capsys.readouterr().err
    assert "the id '000' occurs more than once" in err
    assert f"schirn review {source} --project {folder} --export FILE" in err
    assert json.loads((folder / "project.json").read_text("utf-8"))["ids"] == [
        str(i + 1) for i in range(160)
    ]


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
        # A cell that stays as it is gets no apostrophe; one that changes is the program's.
        assert new["tags"].startswith("'=") <= (new["tags"] != old["tags"])
        assert new["tags"].startswith("=") <= (new["tags"] == old["tags"])
        kept = new["tags"].removeprefix("'")
        assert set(filter(None, kept.split(";"))) <= set(old["tags"].split(";"))
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


def run_measured(*argv):
    """Run the program in a process of its own; exit code, stderr and peak memory in MB."""
    code = (
        "import sys; from schirn.app.cli import main; "
        "from schirn.lab.bench.running._memory import peak_memory; "
        "code = main(sys.argv[1:]); print(peak_memory()); sys.exit(code)"
    )
    ran = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True)
    return ran.returncode, ran.stderr, float(ran.stdout.split()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in kilobytes on Linux only")
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_line_without_end_is_refused_before_it_is_in_memory(tmp_path, suffix):
    path = tmp_path / f"items{suffix}"
    with path.open("wb") as stream:
        stream.write(b"{}\n{}\n" if suffix == ".jsonl" else b"description,tags\nfirst,dog\n")
        # A hole, which takes no room on the disk, behind a line of letters.
        stream.write(b"word " * 4_000_000)
        stream.truncate(2**30)
    code, error, peak = run_measured("clean", str(path), "--text", "description")
    assert code == 2
    assert f"{path}: line 3 is longer than 16,777,216 characters" in error
    assert error.count("\n") == 1
    assert peak < 400
    assert path.stat().st_size == 2**30


def test_a_header_of_a_million_columns(tmp_path, capsys):
    path = tmp_path / "items.csv"
    path.write_text(f"tags{1_000_000 * ','}\ndog{1_000_000 * ','}\n")
    assert "1,000,000 columns have no name" in refused(capsys, "clean", str(path))


def test_a_file_over_the_limit(items, tmp_path, monkeypatch, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    monkeypatch.setenv("SCHIRN_MAX_BYTES", "1000")
    assert "more than max_bytes=1,000" in refused(capsys, "clean", source)


def test_a_limit_of_memory_is_a_number_and_refuses_no_table(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    argv = ["clean", source, "--text", "description", "--max-memory"]
    assert "number of gigabytes, not 'lots'" in refused(capsys, *argv, "lots")
    assert main([*argv, "0.00005"]) == 0


def test_mixed_and_wide_encodings(items, tmp_path, capsys):
    source = tmp_path / "items.csv"
    plain = write_csv(source, items)
    text = source.read_text("utf-8")
    lines = text.replace("picture", "café").encode().split(b"\n")
    lines[99] = lines[99].replace("é".encode(), b"\xe9")
    mixed = b"\n".join(lines)
    source.write_bytes(mixed)
    argv = ["clean", plain, "--text", "description"]
    assert "line 100 is not utf-8 text (byte 0xe9)" in refused(capsys, *argv)
    out = tmp_path / "c.csv"
    # Latin-1 takes every byte as it is, and writes it back so.
    assert main([*argv, "--encoding", "latin-1", "-o", str(out)]) == 0
    copied = out.read_bytes().replace(b"\r\n", b"\n").split(b"\n")
    assert all(new.startswith(old.split(b",")[0]) for new, old in zip(copied, lines, strict=True))
    assert b"caf\xe9" in copied[99]
    assert "café".encode() in copied[98]
    assert source.read_bytes() == mixed
    capsys.readouterr()
    source.write_text(text, "utf-16")
    assert "this is UTF-16 text; give its encoding, utf-16" in refused(capsys, *argv)
    assert main([*argv, "--encoding", "utf-16", "-o", str(out)]) == 0
    assert out.read_text("utf-16").startswith("id,description")


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
    assert "give the encoding of the file, such as latin-1" in sentence
    argv = ["clean", plain, "--text", "description", "--encoding", "latin-1", "-o", str(out)]
    assert main(argv) == 0
    assert "café" in out.read_text("latin-1")
    capsys.readouterr()
    assert "no encoding 'klingon'" in refused(capsys, *argv[:5], "klingon")


@pytest.mark.slow
def test_fifty_thousand_distinct_tags(items, tmp_path, capsys):
    many = [
        (text, [*tags, *(f"rare {313 * i + k}" for k in range(313))], wrong)
        for i, (text, tags, wrong) in enumerate(items)
    ]
    source = write_csv(tmp_path / "items.csv", many)
    out, page = tmp_path / "c.csv", tmp_path / "r.html"
    argv = [
        "clean",
        source,
        "--text",
        "description",
        "--json",
        "-o",
        str(out),
        "--remove-below",
        "0.5",
    ]
    assert main([*argv, "--report", str(page)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["labels"] == 50_084
    assert report["unjudged"] == 50_080
    assert report["removed"] > 10
    text = page.read_text("utf-8")
    assert "the 100 tags with the most removals, of 50,084." in text
    assert len(text) < 2_000_000
    assert all("rare" in row["tags"] for row in read_csv(out))


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
    assert "so none is ranked" in capsys.readouterr().out
    assert "so none is ranked" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "argv", "words"),
    [
        ("", [], "the file is empty"),
        ("tags,a\nx,1,2\n", [], "line 2 has 3 cells, but the header has 2"),
        ("tags,tags\nx,1\n", [], "2 columns are called 'tags'"),
        ("a,b\nx,1\n", [], "which column holds the tags?"),
        ("tags,a\nx,1\ny,2\n", ["--labels", "tgas"], "did you mean 'tags'?"),
        ("tags,a\n,1\n,3\n", [], "holds no tags"),
        ("tags,a,b b\nx,p,pp\ny,q,qq\n", [], "no column of numbers, categories or"),
        ("tags,a,b b\nx,p,pp\ny,q,qq\n", [], "a column of text such as 'b b', or"),
        ("tags,a\nx,1\ny,inf\nx,2\n", [], "row 2, column 'a': 'inf' is not a number"),
        ("tags,a\nx,\ny,\n", ["--columns", "a"], "the column 'a' holds no numbers"),
        ("tags,a\nx,p\ny,q\n", ["--categories", "a"], "no category of 'a' occurs twice"),
        ("tags,a\nx,p\ny,q\n", ["--categories", "b"], "there is no column 'b'"),
        ("tags,a\nx,!\ny,?\n", ["--text", "a"], "the texts have no words"),
        ("tags,a,b\nx,1,3\ny,2,5\n", ["--known-clean", "a"], "'2' is neither yes nor no"),
        ("tags,a\nx,1\ny,4\n", ["--image", "i"], "there is no column 'i'"),
        ("tags,a\nx,1\ny,4\n", ["--id", "i"], "there is no column 'i'"),
        ("tags,a\nx,1\ny,4\n", ["--group", "i"], "there is no column 'i'"),
        ("tags,a\nx,1\n", ["--method", "CandidateRidge"], "1 row cannot be split into folds"),
        ("tags,a\nx,1\ny,4\n", ["--features", "no.npy"], "no.npy: there is no such file"),
        (
            "tags,a\nx,1\ny,4\n",
            ["--features", "no.csv"],
            "'no.csv' is neither an .npy file nor a",
        ),
        (
            "tags,a\nx,1\ny,4\n",
            ["--text", "a", "--features", "x.npy"],
            "or embeddings instead of other columns",
        ),
        ("tags,a\nx,1\ny,4\n", ["--remove-below", "2"], "from 0 to 1, not '2'"),
        ("tags,a\nx,1\ny,4\n", ["--method", "Siev"], "did you mean 'Sieve'?"),
        ("tags,a\nx,1\ny,4\n", ["--method", "OracleRidge"], "needs the true labels"),
        ("tags,a,tags_removed\nx,1,y\ny,4,z\n", ["-o", "OUT.csv"], "perhaps from an earlier run"),
        ("tags,a\nx,1\ny,4\n", ["-o", "IN.csv"], "is the input, which is never changed"),
        ("tags,a\nx,1\ny,4\n", ["--report", "IN.csv"], "is the input, which is never changed"),
        ("tags,a\nx,1\ny,4\n", ["-o", "OUT.pdf"], "must end as that of a table"),
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
    assert make_project(source, project, "--text", "description") == 2
    assert [p.name for p in tmp_path.iterdir()] == ["items.csv"]


def test_removing_a_tag_never_makes_a_formula(items, tmp_path):
    """The copy of a cell is changed by the program, so a spreadsheet must not run it."""
    link = '=HYPERLINK("http://evil.example")'
    source = tmp_path / "items.csv"
    write_csv(source, [(text, [*tags, link], wrong) for text, tags, wrong in items])
    output = tmp_path / "c.csv"
    argv = ["clean", str(source), "--text", "description", "-o", str(output)]
    assert main([*argv, "--allow-empty", "--remove-below", "1"]) == 0
    before, after = read_csv(source), read_csv(output)
    assert any(row["tags"] == f"'{link}" for row in after)
    for old, new in zip(before, after, strict=True):
        assert not new["tags"].startswith(("=", "+", "-", "@"))
        assert new["tags"] == old["tags"] or new["tags"].lstrip("'") in old["tags"]


def test_cells_that_stay_are_not_touched(items, tmp_path):
    source = tmp_path / "items.csv"
    write_csv(source, [(text, ["=1+1", *tags], wrong) for text, tags, wrong in items])
    output = tmp_path / "c.csv"
    argv = ["clean", str(source), "--text", "description", "-o", str(output)]
    assert main(argv) == 0
    assert [r["tags"] for r in read_csv(output)] == [r["tags"] for r in read_csv(source)]


@pytest.mark.parametrize("cell", ["/etc/passwd.png", "../secret.png", "//host/share/x.png",
                                  "\\\\host\\share\\x.png", "link/secret.png"])  # fmt: skip
def test_images_come_from_the_folder_of_the_table(items, tmp_path, capsys, cell):
    folder, page = tmp_path / "table", tmp_path / "r.html"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    for path in (folder / "own.png", tmp_path / "secret.png"):
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 20)
    source = folder / "items.csv"
    with source.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["description", "tags", "file"])
        for i, (text, tags, _) in enumerate(items):
            writer.writerow([text, ";".join(tags), cell if i == 1 else "own.png"])
    argv = ["clean", str(source), "--text", "description", "--image", "file", "--report", str(page)]
    told = refused(capsys, *argv)
    assert "row 2, column 'file'" in told
    assert told.endswith("(see --image-root)\n")
    assert not page.exists()


def test_images_from_another_folder(items, tmp_path):
    folder, page = tmp_path / "table", tmp_path / "r.html"
    folder.mkdir()
    (tmp_path / "other.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 20)
    source = folder / "items.csv"
    with source.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["description", "tags", "file"])
        writer.writerows([text, ";".join(tags), "other.png"] for text, tags, _ in items)
    argv = ["clean", str(source), "--text", "description", "--image", "file", "--report", str(page)]
    assert main([*argv, "--image-root", str(tmp_path)]) == 0
    assert "data:image/png" in page.read_text("utf-8")


def test_a_project_that_cannot_be_written_is_refused_before_training(
    items, tmp_path, monkeypatch, capsys
):
    source = write_csv(tmp_path / "items.csv", items)
    never = "schirn.app.workflow._table_cleaning.find_noisy_labels"
    monkeypatch.setattr(never, lambda *_, **__: 1 / 0)
    # Root may write everywhere, so the system is asked through a door that can be closed.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert make_project(source, tmp_path / "p", "--text", "description") == 2
    assert "no permission to write" in capsys.readouterr().err


def test_a_project_is_on_the_disk_before_it_has_its_name(items, tmp_path, monkeypatch):
    source, target = write_csv(tmp_path / "items.csv", items), tmp_path / "p"
    synced, real, replace = set(), os.fsync, os.replace

    def fsync(handle):
        synced.add(os.fstat(handle).st_ino)
        real(handle)

    def named(part, path):
        inside = Path(part).iterdir() if Path(part).is_dir() else ()
        assert {found.stat().st_ino for found in inside} <= synced
        assert Path(part).stat().st_ino in synced
        replace(part, path)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", named)
    assert make_project(source, target, "--text", "description") == 0
    assert tmp_path.stat().st_ino in synced
    assert sorted(path.name for path in target.iterdir()) == [
        "journal.jsonl", "project.json", "table.csv", "tags.npz"
    ]  # fmt: skip


def test_json_with_halves_of_characters_becomes_a_usable_project(items, tmp_path, capsys):
    source = tmp_path / "items.jsonl"
    rows = [
        {"description": f"{text} \ud83d", "tags": [*tags, "x\ud83d"]} for text, tags, _ in items
    ]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    project = tmp_path / "p"
    assert make_project(source, project, "--text", "description") == 0
    assert "line 1 holds half of a character" in capsys.readouterr().err
    assert main(["review", str(project), "--export", str(tmp_path / "tags.jsonl")]) == 0
    # The copy is exact; the labels of the project are those that every file can hold.
    assert (tmp_path / "tags.jsonl").read_bytes() == source.read_bytes()
    assert "x\ufffd" in json.loads((project / "project.json").read_text("utf-8"))["labels"]


def test_a_whole_number_beyond_all_floats(tmp_path, capsys):
    source = tmp_path / "x.jsonl"
    source.write_text(f'{{"a": 1{"0" * 400}, "tags": "x"}}\n' * 3)
    assert "no column of numbers" in refused(capsys, "clean", str(source))
    assert "not a number" in refused(capsys, "clean", str(source), "--columns", "a")
    source.write_text(f'{{"a": [1{"0" * 400}], "tags": "x"}}\n' * 3)
    assert "lists of numbers" in refused(capsys, "clean", str(source), "--features", "a")
