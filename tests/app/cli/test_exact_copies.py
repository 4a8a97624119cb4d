"""Tables come back exactly from every command, apart from the tags that change."""

import csv
import json
import os

import pytest
from app.cli.clean_helpers import make_items, read_csv, refused

from schirn.app.cli import main
from schirn.app.tables._changes import keyed_changes
from schirn.app.tables._files import open_table, write_copy
from schirn.cleaning import Change, ChangeList
from schirn.exceptions import DataError
from schirn.persist import load

QUICK = ["--text", "text", "--method", "CandidateRidge", "--remove-below", "0.5"]


@pytest.fixture
def odd(tmp_path):
    """A table with quotes, blank lines and line ends of all kinds, and tags like formulas."""
    names = ["@beach", "dog", "=sun", "city"]
    lines = [b'\xef\xbb\xbf"id",text,"tags",n\r\n\r\n']
    for i, (text, tags, _) in enumerate(make_items(names=names)):
        cell = ";".join(tags)
        quoted = f'"{text}\rand ""more"" "' if i % 2 else text
        end = ["\n", "\r\n", "\n\n"][i % 3]
        lines.append(
            f'{i},{quoted},"{cell}",{["007", "", chr(34) * 2, "1e400"][i % 4]}{end}'.encode()
        )
    path = tmp_path / "odd.csv"
    path.write_bytes(b"".join(lines).rstrip())
    return path


def test_clean_apply_undo_and_fit(odd, tmp_path, capsys):
    clean, done, back, changes, model, tagged = (
        str(tmp_path / name) for name in ("c.csv", "d.csv", "b.csv", "ch.csv", "m.schirn", "p.csv")
    )
    assert main(["clean", str(odd), *QUICK, "-o", clean, "--changes", changes, "--id", "id"]) == 0
    assert main(["apply", changes, str(odd), "-o", done]) == 0
    assert main(["undo", changes, done, "-o", back]) == 0
    content = odd.read_bytes()
    assert (tmp_path / "b.csv").read_bytes() == content
    # Each line that changes differs in its tags only.
    before, after = content.split(b"\n"), (tmp_path / "d.csv").read_bytes().split(b"\n")
    differ = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(differ) > 20
    for a, b in differ:
        assert (
            a.rpartition(b',"')[0].rpartition(b',"')[0]
            == b.rpartition(b',"')[0].rpartition(b',"')[0]
        )
        assert a.rpartition(b",")[2] == b.rpartition(b",")[2]
    capsys.readouterr()
    # The apostrophe against formulas is no part of a tag.
    assert any(row["tags"].startswith("'@") for row in read_csv(clean))
    assert main(["fit", clean, "--text", "text", "-o", model]) == 0
    assert load(model).method_.label_names_ == ["=sun", "@beach", "city", "dog"]
    assert main(["predict", model, str(odd), "-o", tagged]) == 0
    assert [row["n"] for row in read_csv(tagged)] == [row["n"] for row in read_csv(odd)]
    assert (tmp_path / "p.csv").read_bytes().startswith(content[:20])


def test_values_of_json_lines_keep_their_text(tmp_path):
    source, copy = tmp_path / "t.jsonl", tmp_path / "c.jsonl"
    line = '{"a": 1e400,"a": -0, "b":12345678.123456789012 , "t": "\\ud83d", "tags": ["x","y"]}\r\n'
    source.write_bytes(line.encode() + b'\n{"tags":[],"b":1}')
    with pytest.warns(UserWarning, match="half of a character"):
        table = open_table(source)
    write_copy(str(copy), table, {"tags": [["y"], ["z"]]}, {})
    expected = line.replace('["x","y"]', '["y"]') + '\n{"tags":["z"],"b":1}'
    assert copy.read_bytes() == expected.encode()


def test_rows_that_conflict_are_named_and_skipped(tmp_path, capsys):
    source, out, listed = tmp_path / "t.csv", tmp_path / "o.csv", str(tmp_path / "c.csv")
    source.write_text("id,tags\np,a;b\nq,a;b\nr,a\n")
    table = open_table(source)
    changes = [Change(row, "removal", "a", "") for row in range(3)]
    listing = ChangeList.from_cells(table.column("tags"), changes)
    keyed_changes(listing, table, "id").write(listed)
    source.write_text("id,tags\nnew,a;b\nr,a\nq,b\np,a;b\n")
    err = refused(capsys, "apply", listed, str(source), "-o", str(out))
    assert "the row 'q' holds 'b', but the list of changes expects 'a;b'" in err
    assert not out.exists()
    assert main(["apply", listed, str(source), "-o", str(out), "--partial", "--json"]) == 3
    captured = capsys.readouterr()
    assert "the row 'q' holds 'b'" in captured.err
    summary = json.loads(captured.out)
    assert (summary["rows_changed"], summary["conflicts"]) == (2, 1)
    assert out.read_text() == "id,tags\nnew,a;b\nr,\nq,b\np,b\n"


def test_a_quote_that_is_never_closed(tmp_path, capsys):
    (tmp_path / "t.csv").write_text('text,tags\nx,a\n"y,b\nz,c\n')
    err = refused(capsys, "clean", str(tmp_path / "t.csv"), "--text", "text")
    assert "t.csv: a quotation mark is opened but never closed" in err


@pytest.mark.parametrize("write", [json.dumps, repr])
def test_lists_in_cells_are_lists(tmp_path, capsys, write):
    source, out = tmp_path / "t.csv", tmp_path / "c.csv"
    with source.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "tags"])
        writer.writerows([text, write(tags)] for text, tags, _ in make_items())
    assert main(["clean", str(source), *QUICK, "--separator", ",", "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "(4 distinct, such as " in printed
    rows = zip(read_csv(source), read_csv(out), strict=True)
    for before, after in rows:
        tags = [
            eval(row[name])
            for row, name in ((before, "tags"), (after, "tags"), (after, "tags_removed"))
        ]
        assert sorted(tags[1] + tags[2]) == sorted(tags[0])


@pytest.mark.skipif(os.name != "posix", reason="pipes have names on POSIX only")
def test_a_copy_to_a_device(odd):
    assert main(["clean", str(odd), *QUICK, "-o", "/dev/null"]) == 2
    os.symlink("/dev/null", odd.with_name("null.csv"))
    assert main(["clean", str(odd), *QUICK, "-o", str(odd.with_name("null.csv"))]) == 0


def test_an_encoding_that_does_not_come_back(tmp_path):
    """Two spellings of one character in ISO-2022: the copy would have other bytes."""
    source = tmp_path / "t.csv"
    source.write_bytes(b'text,tags\n\x1b$B$"\x1b(B\x1b(B,a;b\nx,a\n')
    with pytest.raises(DataError, match="would change its bytes"):
        open_table(source, encoding="iso2022_jp")


def test_an_encoding_that_is_no_text(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("text,tags\nx,a\n")
    argv = ["clean", str(tmp_path / "t.csv"), "--text", "text", "--encoding"]
    for name in ("\udcff", "rot13", "no\0ne"):
        assert "there is no encoding" in refused(capsys, *argv, name)
