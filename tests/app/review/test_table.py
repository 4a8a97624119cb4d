"""The table of a project: all columns and rows come back, with the tags replaced."""

import csv
import io
import json
import os

import numpy as np
import pytest
from app.review.review_helpers import replace_table

from schirn.app.cli import main
from schirn.app.review import open_session
from schirn.app.review._project import write_project
from schirn.app.review._table import MAX_IMAGE_BYTES, TableRoles
from schirn.app.tables._changes import read_changes
from schirn.app.tables._files import open_table
from schirn.cleaning import MissingTags, NoisyLabels
from schirn.exceptions import DataError, InputError

TAGS = ["dog; beach", "cat", "", "beach;dog;sea", "sea"]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def verdicts(separator=";"):
    """Verdicts on the tags above: dog is removed from the first row, which may lack sea."""
    names = ["beach", "cat", "dog", "sea"]
    lists = [[tag.strip() for tag in cell.split(separator) if tag.strip()] for cell in TAGS]
    pairs = [(i, names.index(tag)) for i, tags in enumerate(lists) for tag in sorted(tags)]
    row, column = np.array(pairs).T
    removed = (row == 0) & (column == 2)
    ranking = NoisyLabels.from_arrays(
        n_rows=5,
        label_names=names,
        row=row,
        column=column,
        confidence=np.where(removed, 0.2, 0.8),
        judged=np.ones(len(row), dtype=bool),
        method="Sieve",
        missing=MissingTags(np.array([0]), np.array([3]), np.array([0.9]), names),
    )
    return ranking.remove(below=0.5)


def make(tmp_path, source, **roles):
    """A project whose table is the file."""
    table = open_table(source)
    write_project(
        str(tmp_path / "project"),
        verdicts(),
        ids=[f"row {i}" for i in range(5)],
        texts=[f"Text {i}" for i in range(5)],
        table=table,
        source=str(source),
        roles=TableRoles("tags", ";", **roles),
    )
    return tmp_path / "project"


def write_csv(path, **more):
    """A table with cells that are easily damaged: quotes, line ends, spaces, leading zeros."""
    columns = {
        "id": ["007", "08", " 9 ", "", "1e3"],
        "text, long": ['say "hi"', "two\nlines", "ünï", "=1+1", "a,b"],
        "tags": TAGS,
        "price": ["1.50", "01.5", "NA", "", "-0"],
        **more,
    }
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def rows(path):
    return list(csv.reader(io.StringIO(path.read_text("utf-8"), newline="")))


def objects(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_csv_comes_back_byte_for_byte(tmp_path):
    source = write_csv(tmp_path / "items.csv")
    session = open_session(make(tmp_path, source))
    out = tmp_path / "out.csv"
    session.decide("keep", "row 0", "dog", 0)
    session.write_table(out)
    # Nothing is removed now, so not even the spaces between the tags differ.
    assert out.read_bytes() == source.read_bytes()
    session.undo(1)
    session.decide("keep", "row 0", "sea", 2)
    session.decide("drop", "row 1", "cat", 3)
    session.write_table(out)
    before, after = rows(source), rows(out)
    assert [row[2] for row in after] == ["tags", "beach;sea", "", "", "beach;dog;sea", "sea"]
    assert [row[:2] + row[3:] for row in after] == [row[:2] + row[3:] for row in before]
    session.journal.close()


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig", "utf-16"])
def test_other_encodings_and_delimiters(tmp_path, encoding, delimiter):
    source = tmp_path / "items.csv"
    lines = [("tags", "né"), *((t.replace(";", "|"), "ü") for t in TAGS)]
    text = "".join(f"{a}{delimiter}{b}\r\n" for a, b in lines)
    source.write_bytes(text.encode(encoding))
    table = open_table(source, encoding=encoding, delimiter=delimiter)
    found = verdicts()
    write_project(
        str(tmp_path / "p"), found, ids=list("abcde"), texts=[""] * 5,
        table=table, source=str(source), roles=TableRoles("tags", "|"),
    )  # fmt: skip
    session = open_session(tmp_path / "p", write=False)
    session.write_table(tmp_path / "out.csv")
    expected = text.replace("dog| beach", "beach", 1).encode(encoding)
    assert (tmp_path / "out.csv").read_bytes() == expected


def test_json_lines_keep_their_types(tmp_path):
    source = tmp_path / "items.jsonl"
    given = [{"n": i, "deep": {"a": [i, None]}, "tags": tags} for i, tags in enumerate(TAGS)]
    given[2] = {"tags": None, "only": "here"}
    source.write_text("".join(json.dumps(row) + "\n" for row in given))
    session = open_session(make(tmp_path, source), write=False)
    session.write_table(tmp_path / "out.jsonl")
    given[0]["tags"] = "beach"
    assert objects(tmp_path / "out.jsonl") == given


def test_parquet_keeps_its_types(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    lists = [[tag.strip() for tag in cell.split(";") if tag.strip()] for cell in TAGS]
    vectors = pa.array([[i, 0.5] for i in range(5)], pa.list_(pa.float32()))
    columns = {"tags": lists, "v": vectors, "n": pa.array([1, None, 3, 4, 5], pa.int16())}
    source = tmp_path / "items.parquet"
    pq.write_table(pa.table(columns), source)
    session = open_session(make(tmp_path, source), write=False)
    session.write_table(tmp_path / "out.parquet")
    before, after = pq.read_table(source), pq.read_table(tmp_path / "out.parquet")
    assert after.schema == before.schema
    assert after.drop(["tags"]).equals(before.drop(["tags"]))
    assert after["tags"].to_pylist() == [["beach"], *lists[1:]]


def test_a_table_that_has_changed_is_not_copied(tmp_path):
    source = write_csv(tmp_path / "items.csv")
    table = open_table(source)
    source.write_text("another file by now")
    with pytest.raises(DataError, match=r"items\.csv: the file has changed since it was read"):
        write_project(
            str(tmp_path / "p"), verdicts(), ids=list("abcde"), texts=[""] * 5,
            table=table, source=str(source), roles=TableRoles("tags", ";"),
        )  # fmt: skip
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("tags\na\n", "1 rows, but the project has 5 items"),
        ("other\na\nb\nc\nd\ne\n", "there is no column 'tags'"),
        ("\0", "binary"),
    ],
)
def test_a_damaged_table(tmp_path, content, says):
    folder = make(tmp_path, write_csv(tmp_path / "items.csv"))
    replace_table(folder, content)
    session = open_session(folder, write=False)
    with pytest.raises(DataError, match=says):
        session.write_table(tmp_path / "out.csv")


def test_a_table_with_other_tags(tmp_path):
    folder = make(tmp_path, write_csv(tmp_path / "items.csv"))
    replace_table(folder, (folder / "table.csv").read_text().replace("dog; beach", "cow"))
    with pytest.raises(InputError, match=r"row 1: 'dog' is not among the tags of 'cow'"):
        open_session(folder, write=False).changes()


def test_spellings_that_were_merged_before(tmp_path):
    """The verdicts are on merged tags, but the table has both spellings."""
    source = write_csv(tmp_path / "items.csv")
    content = source.read_text().replace("beach;dog;sea", "beach;dog;Dog;sea")
    source.write_text(content.replace("dog; beach", "Dog; beach"))
    session = open_session(make(tmp_path, source, vocabulary=({"from": "Dog", "to": "dog"},)))
    session.write_table(tmp_path / "out.csv")
    assert [row[2] for row in rows(tmp_path / "out.csv")[1:]] == [
        "beach", "cat", "", "beach;dog;sea", "sea",
    ]  # fmt: skip
    assert [c[:5] for c in session.changes()] == [
        (0, "removal", "Dog", "", 0.8), (3, "merge", "Dog", "dog", None),
    ]  # fmt: skip
    session.decide("drop", "row 3", "dog", 0)
    session.write_table(tmp_path / "out.csv")
    assert rows(tmp_path / "out.csv")[4][2] == "beach;sea"
    session.journal.close()


def test_a_damaged_table_stops_the_command(tmp_path, capsys):
    pytest.importorskip("uvicorn", reason="the review page needs uvicorn")
    folder = make(tmp_path, write_csv(tmp_path / "items.csv"))
    (folder / "table.csv").write_text("tags\na\n")
    assert main(["review", str(folder), "--no-browser"]) == 2
    assert "table.csv: damaged or edited (wrong checksum)" in capsys.readouterr().err


def test_changes_can_be_applied_and_undone(tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv")
    folder = make(tmp_path, source)
    session = open_session(folder, name="Bob")
    session.decide("keep", "row 0", "sea", 0)
    session.decide("drop", "row 1", "cat", 1)
    session.journal.close()
    listed, out, back = (tmp_path / name for name in ("changes.csv", "out.csv", "back.csv"))
    argv = ["review", str(folder), "--changes", str(listed), "--export", str(out)]
    assert main(argv) == 0
    kinds = {(c.row, c.change, c.before, c.after): c.why for c in read_changes(listed)}
    assert kinds.pop((0, "removal", "dog", "")).endswith("likely to be correct (Sieve, 1 answer)")
    assert kinds == {
        (0, "addition", "", "sea"): "added by Bob",
        (1, "removal", "cat", ""): "dropped by Bob",
    }
    assert [row[2] for row in rows(out)[1:]] == ["beach;sea", "", "", "beach;dog;sea", "sea"]
    assert main(["apply", str(listed), str(source), "-o", str(tmp_path / "same.csv")]) == 0
    assert (tmp_path / "same.csv").read_bytes() == out.read_bytes()
    assert main(["undo", str(listed), str(out), "-o", str(back)]) == 0
    assert back.read_bytes() == source.read_bytes()
    # A row that was added since does not matter.
    header, rest = source.read_bytes().split(b"\n", 1)
    source.write_bytes(b"\n".join([header, b"new,a text,dog;beach,1", rest]))
    assert main(["apply", str(listed), str(source), "-o", str(tmp_path / "moved.csv")]) == 0
    assert [row[2] for row in rows(tmp_path / "moved.csv")[2:]] == [row[2] for row in rows(out)[1:]]
    capsys.readouterr()


def test_program(tmp_path, capsys):
    folder = make(tmp_path, write_csv(tmp_path / "items.csv"))

    def run(*argv):
        code = main(["review", str(folder), *map(str, argv)])
        return code, capsys.readouterr().err

    code, err = run("--export", tmp_path / "a.csv", "--changes", tmp_path / "b.csv")
    assert code == 0
    assert "wrote 5 items to" in err
    n_changes = len(read_changes(tmp_path / "b.csv"))
    assert f"wrote {n_changes} changes to {tmp_path / 'b.csv'}" in err
    code, err = run("--export", tmp_path / "a.txt")
    assert (code, "must end as that of a table" in err) == (2, True)
    code, err = run("--export", tmp_path / "a.jsonl")
    assert (code, objects(tmp_path / "a.jsonl")[0]["tags"]) == (0, "beach")
    code, err = run("--changes", tmp_path / "a.txt")
    assert (code, "must end in .csv" in err) == (2, True)
    code, err = run("--export", tmp_path / "a.csv", "--changes", tmp_path / "a.csv")
    assert (code, "is given for both" in err) == (2, True)


def test_other_columns_and_huge_cells(tmp_path):
    source = write_csv(tmp_path / "items.csv", huge=["x" * 100_000, "", "", "", ""])
    session = open_session(make(tmp_path, source, text=("text, long",)), write=False)
    others = dict(session.describe(session.find("row 0", "dog"))["others"])
    assert list(others) == ["id", "price", "huge"]
    assert len(others["huge"]) < 3000
    # Empty cells say nothing.
    assert "id" not in dict(session.describe(session.find("row 3", "dog"))["others"])


@pytest.fixture
def pictures(tmp_path):
    root = tmp_path / "photos"
    (root / "deep").mkdir(parents=True)
    (root / "a.png").write_bytes(PNG)
    (root / "deep" / "b.jpg").write_bytes(b"\xff\xd8\xff" + bytes(9))
    (root / "page.png").write_bytes(b"<svg onload=alert(1)>")
    (tmp_path / "secret.png").write_bytes(PNG)
    return root


def images(tmp_path, root, names, image_root=None):
    source = write_csv(tmp_path / "items.csv", photo=names)
    folder = make(tmp_path, source, image="photo", image_root=str(root))
    return open_session(folder, write=False, image_root=image_root).table


def test_images(tmp_path, pictures):
    table = images(tmp_path, pictures, ["a.png", "deep/b.jpg", "", "gone.png", "page.png"])
    path, kind = table.image_file(0)
    assert (path.read_bytes(), kind) == (PNG, "image/png")
    assert table.image_file(1)[1] == "image/jpeg"
    assert [table.image_file(i) for i in (2, 3, 4)] == [None] * 3
    assert [table.image_name(i) for i in (2, 3)] == [None, "gone.png"]


def test_no_image_outside_of_the_folder(tmp_path, pictures):
    os.symlink(tmp_path / "secret.png", pictures / "link.png")
    names = ["../secret.png", str(tmp_path / "secret.png"), "link.png", "//host/x.png", "deep"]
    table = images(tmp_path, pictures, names)
    assert [table.image_file(i) for i in range(5)] == [None] * 5


def test_large_images_and_a_folder_that_has_moved(tmp_path, pictures):
    with (pictures / "large.png").open("wb") as stream:
        stream.write(PNG)
        stream.truncate(MAX_IMAGE_BYTES + 1)
    moved = tmp_path / "moved"
    names = ["a.png", "large.png", "a\0.png", "a.png", "a.png"]
    table = images(tmp_path, pictures, [n.replace("\0", "") for n in names])
    assert table.image_file(1) is None
    os.rename(pictures, moved)
    assert table.image_file(0) is None
    table = open_session(tmp_path / "project", write=False, image_root=str(moved)).table
    assert table.image_file(0) == (moved / "a.png", "image/png")
