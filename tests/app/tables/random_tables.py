"""Random tables that are easily damaged, and what must hold for every copy of one.

The property tests and `python -m benchmarks.soak --programs tables` share them.
"""

import json
import random
import warnings
from pathlib import Path

from schirn.app.tables._changes import keyed_changes, read_changes, row_keys
from schirn.app.tables._files import open_table, write_copy
from schirn.cleaning import Change, ChangeList
from schirn.labels.cells import TagCells

LETTERS = [*"ab;,'\"=+-@|[]{} \t:", "é", "\u200f", "שלום", "🐕", "\u2028", "\x1f", "\x7f", "''"]
BREAKS = ["\r", "\n", "\r\n"]
NUMBERS = ["1e400", "12345678.123456789012", "-0", "007", "1" * 40, "0.1", "NA", ""]


def text_of(chance: random.Random, breaks: bool = True) -> str:
    letters = LETTERS + BREAKS * breaks
    return "".join(chance.choices(letters, k=chance.randint(0, 5)))


def tags_of(chance: random.Random, separator: str) -> list[str]:
    words = ["beach", "dog", "@dog", "=1+1", "-5", "'tis", "a b", "ה", text_of(chance, False)]
    tags = chance.sample(words, chance.randint(0, 3))
    return [tag for tag in map(str.strip, tags) if tag and separator.strip() not in tag]


def random_csv(chance: random.Random) -> tuple[bytes, dict[str, str]]:
    """Return a CSV table with a column of tags, and how to read it."""
    delimiter, separator = chance.choice([",", "\t", "|", ";"]), chance.choice([";", " | ", "/"])
    encoding = chance.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"])
    # Quotes where they are needed, around every cell of tags, or around some of them.
    always, ends = chance.random() < 0.3, chance.choice([["\n"], ["\r\n"], ["\r"], BREAKS])
    share = chance.choice([0.0, 0.0, 0.5])

    def raw(cell: str, quoted: bool) -> str:
        needed = any(sign in cell for sign in (delimiter, '"', "\r", "\n"))
        doubled = cell.replace('"', '""')
        return f'"{doubled}"' if needed or quoted else cell

    lines = [delimiter.join(["id", "text", raw("tags", always), "n"])]
    for i in range(chance.randint(1, 6)):
        space = chance.choice(["", " "])
        tags = tags_of(chance, separator)
        # A tag that holds the separator is in quotes.
        tags += [f'"red{separator}blue"'] * (chance.random() < 0.2)
        cell = f"{space}{separator}".join(tags)
        tag_cell = raw(cell, always or chance.random() < share)
        if share and cell and chance.random() < share and not {*cell} & {delimiter, *'"\r\n'}:
            # Quotes around a part of the cell.
            tag_cell = f'"{cell[:1]}"{cell[1:]}'
        cells = [str(i), raw(text_of(chance), chance.random() < 0.3), tag_cell]
        lines.append(delimiter.join([*cells, raw(chance.choice(NUMBERS), chance.random() < 0.2)]))
    text = ""
    for line in lines:
        text += line + chance.choice(ends) + chance.choice(["", "", "", chance.choice(ends)])
    if chance.random() < 0.3:
        text = text.rstrip("\r\n")
    content = text.encode(encoding, "ignore")
    return content, {"encoding": encoding, "delimiter": delimiter, "separator": separator}


def random_jsonl(chance: random.Random) -> tuple[bytes, dict[str, str]]:
    """Return JSON lines with values that no number or text of Python holds."""
    lists, ascii = chance.random() < 0.5, chance.random() < 0.5
    comma, colon = chance.choice([(", ", ": "), (",", ":")])
    lines = []
    for i in range(chance.randint(1, 6)):
        tags = tags_of(chance, ";")
        values = {
            "id": str(i),
            "n": chance.choice(["1e400", "-0", "12345678.123456789012", "null", "1" * 40]),
            "text": chance.choice([json.dumps(text_of(chance), ensure_ascii=ascii), '"\\ud83d"']),
            "tags": json.dumps(
                tags if lists else ";".join(tags), separators=(comma, colon), ensure_ascii=ascii
            ),
        }
        if chance.random() < 0.2:
            values["tags"] = values["tags"].replace("[", "[ ").replace("g", "\\u0067")
        if chance.random() < 0.1:
            del values["tags"]
        pairs = [f'"{key}"{colon}{value}' for key, value in values.items()]
        chance.shuffle(pairs)
        pairs += ['"n"' + colon + "2"] * (chance.random() < 0.2)
        lines.append("{" + comma.join(pairs) + "}")
    text = "".join(line + chance.choice(["\n", "\r\n", "\n\n"]) for line in lines)
    return text.encode(), {"encoding": "utf-8", "separator": ";"}


def random_changes(chance: random.Random, cells: list, tag_cells: TagCells) -> list[Change]:
    changes = []
    for row, cell in enumerate(cells):
        for tag in dict.fromkeys(tag_cells.split(cell)):
            kind = chance.choice(["", "", "removal", "rename"])
            if kind:
                new = chance.choice(["sea", "=x", "so-called"]) if kind == "rename" else ""
                changes.append(Change(row, kind, tag, new))
        if chance.random() < 0.3:
            changes.append(Change(row, "addition", "", chance.choice(["cat", "+1", "so, so"])))
    return changes


def intended_tags(cells: list, changes: list[Change], tag_cells: TagCells) -> list[list[str]]:
    """Return the tags of each row after the changes, sorted."""
    rows = [{tag: tag for tag in tag_cells.split(cell)} for cell in cells]
    for row, _, before, after, *_ in changes:
        rows[row][before or f"new {after}"] = after
    return [sorted({*row.values()} - {""}) for row in rows]


def csv_cells(text: str, delimiter: str) -> list[list[str]]:
    """Return raw cells and line ends, record by record: a plain transcription of CSV."""
    records, cell, record, place = [], "", [], 0
    is_open = False
    while place < len(text):
        sign = text[place]
        if is_open:
            cell += sign
            if sign == '"' and text[place + 1 : place + 2] == '"':
                cell, place = cell + '"', place + 1
            elif sign == '"':
                is_open = False
        elif sign == '"' and not cell:
            cell, is_open = cell + sign, True
        elif sign == delimiter:
            record, cell = [*record, cell], ""
        elif sign in "\r\n":
            end = "\r\n" if text[place : place + 2] == "\r\n" else sign
            records.append([*record, cell, end])
            record, cell, place = [], "", place + len(end) - 1
        else:
            cell += sign
        place += 1
    return [*records, [*record, cell, ""]] if record or cell else records


def check_csv(folder: Path, chance: random.Random) -> None:
    """Change, add and undo in a random table; nothing else may change, byte for byte."""
    content, how = random_csv(chance)
    source, copy, back, wide = (folder / f"{name}.csv" for name in ("in", "out", "back", "wide"))
    source.write_bytes(content)
    separator = how.pop("separator")
    reading = dict(how)
    table = open_table(source, **reading)
    cells = table.column("tags")
    tag_cells = TagCells.of(cells, separator, spreadsheet=True)
    changes = random_changes(chance, cells, tag_cells)
    changes = [each for each in changes if separator not in each.after]
    about = {"separator": separator, "spreadsheet": True}
    listed = keyed_changes(ChangeList.from_cells(cells, changes, **about), table)
    listed.write(folder / "changes.csv")
    listed = read_changes(folder / "changes.csv")
    new = listed.apply(cells, spreadsheet=True, keys=row_keys(table, "tags"))
    write_copy(str(copy), table, {"tags": new}, {})
    codec = "utf-8" if how["encoding"] == "utf-8-sig" else how["encoding"]
    before, after = (
        [r for r in csv_cells(path.read_bytes().decode(codec), how["delimiter"]) if len(r) > 2]
        for path in (source, copy)
    )
    assert [r[:2] + r[3:] for r in before] == [r[:2] + r[3:] for r in after]
    changed = {each.row for each in changes}
    for i, (old, now) in enumerate(zip(before[1:], after[1:], strict=True)):
        assert i in changed or old == now
    opened = open_table(copy, **reading)
    found = [sorted(set(tag_cells.split(cell))) for cell in opened.column("tags")]
    assert found == intended_tags(cells, changes, tag_cells)
    assert not [c for c, old in zip(new, cells, strict=True) if c != old and c[:1] in set("=+-@")]
    undone = listed.undo(opened.column("tags"), spreadsheet=True, keys=row_keys(opened, "tags"))
    raw = listed.raw_places(len(undone), row_keys(opened, "tags"))
    write_copy(str(back), opened, {"tags": undone}, {}, raw={"tags": raw})
    assert back.read_bytes() == content
    more = [text_of(chance).encode(codec, "ignore").decode(codec) for _ in cells]
    write_copy(str(wide), table, {"tags": new}, {"more": more})
    assert open_table(wide, **reading).column("more") == more
    _check_other_readers([source, copy, wide], how)


def _check_other_readers(paths: list[Path], how: dict[str, str]) -> None:
    """What pandas and polars read of a table has as many rows in its copies."""
    import pandas as pd
    import polars as pl

    def pandas_rows(path: Path) -> int:
        options = {"sep": how["delimiter"], "encoding": how["encoding"]}
        return len(pd.read_csv(path, dtype=str, keep_default_na=False, **options))

    def polars_rows(path: Path) -> int:
        return pl.read_csv(path, separator=how["delimiter"], infer_schema=False).height

    readers = [pandas_rows]
    if how["encoding"].startswith("utf-8") and b"\r" not in paths[0].read_bytes():
        readers.append(polars_rows)
    for rows in readers:
        try:
            expected = rows(paths[0])
        except (pd.errors.ParserError, pl.exceptions.PolarsError):
            continue
        assert [rows(path) for path in paths] == [expected] * len(paths)


def check_jsonl(folder: Path, chance: random.Random) -> None:
    """Change and undo in random JSON lines; all other values keep their text."""
    content, _ = random_jsonl(chance)
    source, copy, back = (folder / f"{name}.jsonl" for name in ("in", "out", "back"))
    source.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = open_table(source)
        if "tags" not in table.columns:
            return
        cells = table.column("tags")
        tag_cells = TagCells.of(cells)
        changes = random_changes(chance, cells, tag_cells)
        listed = keyed_changes(ChangeList.from_cells(cells, changes), table)
        new = listed.apply(cells)
        write_copy(str(copy), table, {"tags": new}, {"more": [["x"]] * len(cells)})
        opened = open_table(copy)
        assert [sorted(set(tag_cells.split(cell))) for cell in opened.column("tags")] == (
            intended_tags(cells, changes, tag_cells)
        )
        write_copy(str(copy), table, {"tags": new}, {})
        opened = open_table(copy)
        undone = listed.undo(opened.column("tags"))
        raw = listed.raw_places(len(undone))
        write_copy(str(back), opened, {"tags": undone}, {}, raw={"tags": raw})
    before, after = (
        [_pairs(line) for line in path.read_bytes().decode().split("\n")] for path in (source, copy)
    )
    assert before == after
    assert back.read_bytes() == content


def check_parquet(folder: Path, chance: random.Random) -> None:
    """Change and undo in a random Parquet table; all other columns keep their type and values."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n, lists = chance.randint(1, 6), chance.random() < 0.5
    tags = [chance.choice([None, tags_of(chance, ";")]) for _ in range(n)]
    columns = {
        "id": pa.array([chance.choice([None, 2**63 - 1, -5]) for _ in range(n)]),
        "text": pa.array([text_of(chance) for _ in range(n)], pa.large_string()),
        "n": pa.array([chance.choice([None, 1e400, -0.0, 0.1]) for _ in range(n)], pa.float32()),
        "kind": pa.array([chance.choice("ab") for _ in range(n)]).dictionary_encode(),
        "vector": pa.array([[1, 2]] * n, pa.list_(pa.int8(), 2)),
        "when": pa.array([chance.randint(0, 9**9)] * n, pa.timestamp("us", "UTC")),
        "tags": tags if lists else [None if each is None else ";".join(each) for each in tags],
    }
    columns["tags"] = pa.array(columns["tags"], pa.list_(pa.string()) if lists else pa.string())
    fields = [pa.field(k, v.type, v.null_count > 0, {"about": k}) for k, v in columns.items()]
    schema = pa.schema(fields, {"source": "test"})
    paths = [folder / f"{name}.parquet" for name in ("in", "out", "back")]
    pq.write_table(pa.table(list(columns.values()), schema=schema), paths[0])
    table = open_table(paths[0])
    cells, how = table.column("tags"), table.cell_options("tags")
    tag_cells = TagCells.of(cells, **how)
    changes = random_changes(chance, cells, tag_cells)
    listed = ChangeList.from_cells(cells, changes, **how)
    write_copy(str(paths[1]), table, {"tags": listed.apply(cells, **how)}, {"more": ["x"] * n})
    opened = open_table(paths[1])
    found = [sorted(set(tag_cells.split(cell))) for cell in opened.column("tags")]
    assert found == intended_tags(cells, changes, tag_cells)
    undone = listed.undo(opened.column("tags"), **how)
    write_copy(str(paths[2]), opened, {"tags": undone}, {})
    before, *copies = (pq.read_table(path) for path in paths)
    for copy in copies:
        for name in list(columns)[:-1]:
            field = before.schema.field(name)
            assert copy.schema.field(name).equals(field, check_metadata=True)
            assert copy.column(name).equals(before.column(name))
        assert copy.schema.metadata[b"source"] == b"test"
    assert copies[1].column("tags").equals(before.column("tags"))


def _pairs(line: str) -> object:
    """Return the members of an object other than its tags, with the text of their numbers."""
    if not line.strip():
        return line
    options = {"parse_float": str, "parse_int": str, "parse_constant": str}
    pairs = json.loads(line, object_pairs_hook=list, **options)
    return [pair for pair in pairs if pair[0] != "tags"], line[line.rindex("}") :]
