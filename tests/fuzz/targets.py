"""Every reader as a function of one file that was damaged."""

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from fuzz.corpus import TABLE, TAGS, corpus, ranking, write_review

import schirn
from schirn.app.tables import Expectations, look_at_table
from schirn.app.tables._changes import read_changes
from schirn.app.workflow import read_vocabulary, write_vocabulary
from schirn.cleaning import Certificate, votes_to_candidates
from schirn.datasets import load
from schirn.lab.bench import read_rows
from schirn.lab.bench.results import IDENTITY
from schirn.lab.bench.running._scores import compute_metrics, read_arrays
from schirn.lab.data._registry import recorded_options
from schirn.persist import read_notes

Target = Callable[[Path, bytes], object]


def _file(name: str, **options) -> Target:
    def read(folder: Path, data: bytes) -> object:
        (folder / name).write_bytes(data)
        return load(folder / name, **options)

    return read


def _mulan(folder: Path, data: bytes) -> object:
    (folder / "x.xml").write_bytes(data)
    (folder / "x.arff").write_bytes(corpus("arff")[0])
    return load(folder / "x.arff")


def _model(folder: Path, data: bytes) -> object:
    path = folder / "x.schirn"
    path.write_bytes(data)
    read_notes(path)
    return schirn.load(path)


def seal(data: bytes, header: bytes) -> bytes:
    """A model file with another header, whose checksum fits."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, header if name == "header.json" else old.read(name))
        new.comment = f"schirn-model sha256:{hashlib.sha256(header).hexdigest()}".encode()
    return buffer.getvalue()


def header_of(data: bytes) -> dict:
    """The header of a model file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return json.loads(archive.read("header.json"))


def _deep_model(folder: Path, data: bytes) -> object:
    from schirn.deep import DeepSieve

    (folder / "x.safetensors").write_bytes(data)
    return DeepSieve.load(folder / "x.safetensors")


def _rows(folder: Path, data: bytes) -> object:
    (folder / "rows-x.jsonl").write_bytes(data)
    rows = read_rows(folder)
    assert all(name in row for row in rows for name in IDENTITY)
    return rows


def _scores(folder: Path, data: bytes) -> object:
    (folder / "x.npz").write_bytes(data)
    return compute_metrics(read_arrays(folder / "x.npz"))


def _review(name: str) -> Target:
    def read(folder: Path, data: bytes) -> object:
        from schirn.app.review import open_session

        write_review(folder)
        (folder / name).write_bytes(data)
        session = open_session(folder, write=False)
        session.view()
        session.changes()
        return session.final().tolist()

    return read


def _answers(folder: Path, data: bytes) -> object:
    from schirn.app.workflow import RowIdentity, read_answers
    from schirn.labels.tags import Tags

    (folder / "x.csv").write_bytes(data)
    ranked = ranking(folder)
    tags = Tags(ranked.row, ranked.column, ranked.n_rows, ranked.label_names)
    return read_answers([folder / "x.csv"], tags, RowIdentity()).apply(ranked)


def _certificate(folder: Path, data: bytes) -> object:
    certificate = Certificate.from_json(data.decode("utf-8", "replace"))
    return certificate.to_json()


def _record(folder: Path, data: bytes) -> object:
    (folder / "x.csv").write_bytes(TABLE)
    (folder / "x.csv.json").write_bytes(data)
    return recorded_options(folder / "x.csv")


def _clean(name: str) -> Target:
    def read(folder: Path, data: bytes) -> object:
        from schirn.app.tables._files import open_table
        from schirn.app.workflow._columns import TagTable

        (folder / name).write_bytes(data)
        table = open_table(str(folder / name), encoding="utf-8", delimiter=None)
        return TagTable(table, name).tags()

    return read


def _changes(folder: Path, data: bytes) -> object:
    """A list of changes, applied to the table for which it was written, and undone."""
    (folder / "x.csv").write_bytes(data)
    changes = read_changes(folder / "x.csv")
    return changes.undo(changes.apply(TAGS))


def _vocabulary(folder: Path, data: bytes) -> object:
    (folder / "x.csv").write_bytes(data)
    vocabulary = read_vocabulary(folder / "x.csv")
    write_vocabulary(vocabulary, folder / "y.csv")
    read_vocabulary(folder / "y.csv")
    return vocabulary.apply([["Dog", "kid"], ["dog"]])


def _expectations(folder: Path, data: bytes) -> object:
    (folder / "x.toml").write_bytes(data)
    return Expectations.read(folder / "x.toml").check_findings(look_at_table(["dog"]))


def _look(folder: Path, data: bytes) -> object:
    """Lines as texts, and their words as tags."""
    lines = data.decode("utf-8", "replace").splitlines() or [""]
    return look_at_table([line.split() for line in lines], texts=lines)


def _votes(folder: Path, data: bytes) -> object:
    from schirn.app.tables._files import open_table

    (folder / "x.csv").write_bytes(data)
    table = open_table(str(folder / "x.csv"), encoding="utf-8", delimiter=None)
    if not table.columns:
        return None
    columns = (table.columns * 3)[:3]
    return votes_to_candidates(*(table.column(name) for name in columns))


def _copied(name: str) -> Target:
    """Read a table, write a copy with one tag fewer, and a column more."""

    def read(folder: Path, data: bytes) -> object:
        from schirn.app.tables._files import open_table, write_copy
        from schirn.labels.cells import split_tags

        (folder / name).write_bytes(data)
        table = open_table(folder / name)
        changed = {}
        for column in [name for name in table.columns if table.holds(name, "list")]:
            changed[column] = [split_tags(cell, ";")[1:] for cell in table.column(column)]
        cells = [(table.column(name), table.numbers(name)) for name in table.columns]
        fresh = {"fresh column": ["a"] * table.n_rows}
        write_copy(str(folder / f"copy-{name}"), table, changed, fresh)
        return cells

    return read


def _embeddings(folder: Path, data: bytes) -> object:
    from schirn.app.tables._files import open_table
    from schirn.app.workflow._columns import TagTable

    (folder / "x.csv").write_bytes(corpus("csv")[0])
    (folder / "x.npy").write_bytes(data)
    table = open_table(str(folder / "x.csv"), encoding="utf-8", delimiter=None)
    return TagTable(table, "x.csv", features=str(folder / "x.npy")).features().X


TARGETS: dict[str, Target] = {
    "npz": _file("x.npz"),
    "xlsx": _copied("x.xlsx"),
    "json": _copied("x.json"),
    "mat5": _file("x.mat"),
    "arff": _file("x.arff", missing="zero"),
    "mulan": _mulan,
    "svm": _file("x.svm"),
    "csv": _file("x.csv"),
    "jsonl": _file("x.jsonl"),
    "parquet": _file("x.parquet"),
    "arff_gz": _file("x.arff.gz"),
    "svm_gz": _file("x.svm.gz"),
    "csv_gz": _file("x.csv.gz"),
    "jsonl_gz": _file("x.jsonl.gz"),
    "model": _model,
    "sealed_model": _model,
    "bench_rows": _rows,
    "scores": _scores,
    "project": _review("project.json"),
    "review_tags": _review("tags.npz"),
    "journal": _review("journal.jsonl"),
    "confidence": _review("confidence.npz"),
    "answers": _answers,
    "certificate": _certificate,
    "record": _record,
    "clean_csv": _clean("x.csv"),
    "clean_jsonl": _clean("x.jsonl"),
    "clean_parquet": _clean("x.parquet"),
    "changes_csv": _changes,
    "vocabulary_csv": _vocabulary,
    "expectations": _expectations,
    "look": _look,
    "votes": _votes,
    "embeddings": _embeddings,
}

if find_spec("torch") and find_spec("safetensors"):
    TARGETS["deep_model"] = _deep_model


def call(target: str, folder: Path, data: bytes) -> object:
    """Read one file; what the libraries below only warn about is not of interest here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TARGETS[target](folder, data)
