"""Small valid files of every kind that schirn reads: the seeds that are then damaged."""

import gzip
import hashlib
import io
import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from scipy import io as matlab
from scipy import sparse

import schirn
from schirn.datasets import make_partial_multilabel
from schirn.lab.bench.results import FIELDS

Files = dict[str, bytes]


@cache
def corpus(kind: str) -> tuple[bytes, ...]:
    """Valid files of one kind, as bytes."""
    return tuple(SEEDS[kind]())


def _numbers():
    data = make_partial_multilabel(n_samples=7, n_features=3, n_labels=4, r=1, random_state=0)
    return np.round(data.X, 3), np.asarray(data.y_true), np.asarray(data.candidates)


def _npz() -> list[bytes]:
    X, Y, C = _numbers()
    csr, labels = sparse.csr_array(X), sparse.csr_array(C)
    masks = np.zeros((len(X), 2), np.uint8)
    masks[:4, 0] = masks[4:, 1] = 1
    names = np.array(list("abcd"))
    dense = {"X": X, "Y": Y, "C": C, "label_names": names, "n_train": 5}
    folds = {"train_mask": masks, "test_mask": 1 - masks}
    thin = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}
    thin |= {"C_indices": labels.indices, "C_indptr": labels.indptr, "label_names": names}
    return [_saved(np.savez, dense | folds), _saved(np.savez_compressed, thin)]


def _saved(save, arrays) -> bytes:
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def _mat5() -> list[bytes]:
    X, Y, C = _numbers()
    plain = {"data": X, "target": Y.T, "partial_labels": C.T}
    thin = {"data": sparse.csc_array(X), "target": sparse.csc_array(Y.T.astype(float))}
    return [
        _saved_mat(plain, do_compression=False),
        _saved_mat(plain, do_compression=True),
        _saved_mat(thin, do_compression=True),
        _saved_mat(thin, do_compression=False),
    ]


def _saved_mat(arrays, **options) -> bytes:
    buffer = io.BytesIO()
    matlab.savemat(buffer, arrays, **options)
    return buffer.getvalue()


def _arff() -> list[bytes]:
    dense = (
        "@relation 'Small: -C -2'\n% a comment\n@attribute 'size in m' real\n"
        "@attribute kind {small,'very large',\"x,y\"}\n@attribute dog {0,1}\n"
        "@attribute cat {NO,YES}\n@data\n0.5,small,1,NO\n-1e3,'very large',0,YES\n2,\"x,y\",1,YES\n"
    )
    thin = (
        "@relation r -C 2\n@attribute a {0,1}\n@attribute b {1,0}\n@attribute c numeric\n@data\n"
        "{0 1, 2 0.25}\n{1 0}\n{}\n"
    )
    return [dense.encode(), thin.encode()]


def _mulan() -> list[bytes]:
    return [
        b'<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">'
        b'\n<label name="dog"></label>\n<label name="cat"><!-- a cat --></label>\n</labels>\n'
    ]


def _svm() -> list[bytes]:
    return [b"3 4 3\n0,2 1:0.5 3:1e-3\n1 0:2\n 2:1 # none\n", b"1,5 1:0.5 9:-1\n2 3:1\n"]


def _csv() -> list[bytes]:
    return [
        b"red,blue,tags\n0.9,0.1,beach;dog\n0.2,0.7,dog\n,1e9,\n",
        'größe,label,truth\n1,"a;b\nc",a\n2,b;ä,b\n'.encode(),
    ]


def _jsonl() -> list[bytes]:
    return [
        b'{"x": 1.5, "tags": ["dog", "cat"]}\n{"x": 2, "tags": []}\n{"x": -1, "tags": ["cat"]}\n',
        b'{"x": 1, "y": {"z": 2}, "tags": "a;b"}\n{"x": 2, "tags": null}\n',
    ]


def _parquet() -> list[bytes]:
    import pandas

    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "n": [1, 2, 3], "tags": ["a;b", "b", ""]})
    lists = frame.assign(tags=[["a"], ["a", "b"], []])
    found = []
    for table, packing in ((frame, "snappy"), (lists, None), (frame, "gzip")):
        buffer = io.BytesIO()
        table.to_parquet(buffer, compression=packing)
        found.append(buffer.getvalue())
    return found


def _xlsx() -> list[bytes]:
    from openpyxl import Workbook

    book, buffer = Workbook(), io.BytesIO()
    for row in (["x", "n", "tags"], [1.5, 2, "a;b"], [2.5, True, "b"], [None, "=1+1", None]):
        book.active.append(row)
    book.save(buffer)
    return [buffer.getvalue()]


def _json() -> list[bytes]:
    record = {"id": "1", "fields": {"x": "p q"}, "metadata": {"n": 1}, "vectors": {"v": [0.5]}}
    record |= {"suggestions": {}, "responses": {"t": [{"value": ["a", "b"], "user_id": "u"}]}}
    flat = [{"x": "p", "t": {"choices": ["a", "b"]}}, {"x": "q", "t": "a"}]
    return [json.dumps(rows).encode() for rows in ([record] * 2, flat)]


def _changes() -> list[bytes]:
    from schirn.cleaning import Change, ChangeList

    wanted = [
        Change(0, "merge", "dgo", "dog", 0.9, "a typo"),
        Change(0, "removal", "cat", "", 0.7),
        Change(1, "addition", "", "=sun"),
        Change(2, "rename", "8", "9"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        ChangeList.from_cells(TAGS, wanted).write(path)
        return [path.read_bytes()]


def _packed(kind: str):
    return lambda: [gzip.compress(seed, mtime=0) for seed in corpus(kind)]


def _model() -> list[bytes]:
    X, _, C = _numbers()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        for model in (schirn.CandidateRidge(), schirn.Sieve()):
            schirn.save(model.fit(X, C), path, notes={"feature_names": ["a", "b", "c"]})
            found.append(path.read_bytes())
    return found


def _bench_row() -> list[bytes]:
    text = {"status": "done", "key": "0" * 40, "dataset": "birds", "noise": "legacy"}
    text |= {"tuning": "none", "features": "own", "split": "kfold"}
    numbers = {"format": 1, "r": 1, "noise_seed": 1, "seed": 0, "folds": 2, "finished": 1.5}
    shared = {
        **dict.fromkeys(FIELDS),
        **text,
        **numbers,
        "metrics": {"average_precision": 0.5},
        "params": {},
    }
    rows = [{**shared, "fold": fold, "method": "NLR"} for fold in (0, 1)]
    return ["".join(json.dumps(row) + "\n" for row in rows).encode()]


def _scores() -> list[bytes]:
    _, Y, C = _numbers()
    bits = np.packbits(Y.astype(bool), axis=1)
    arrays = {"scores": np.zeros((7, 4), np.float32), "truth": bits, "predicted": bits}
    inside = C == 1
    arrays |= {"candidate_truth": Y[inside] == 1, "noise": Y[inside] == 0}
    return [_saved(np.savez_compressed, arrays)]


LABELS = ["dog", "cat", "beach"]
REVIEWED = b"id,text,tags\na,,dog;cat\nb,<b>,beach\n"


def _project() -> list[bytes]:
    from schirn.app.review._project import checksum

    table = {"file": "table.csv", "column": "tags", "separator": ";", "text": ["text"]}
    table["content"] = []
    table["vocabulary"] = []
    table["sha256"] = hashlib.sha256(REVIEWED).hexdigest()
    head = {"format": "schirn-review", "version": 6, "labels": LABELS, "table": table}
    head |= {"method": "Sieve", "ids": ["a", "b"], "texts": ["", "<b>"]}
    head |= {"precision": 0.9, "keep_one": True, "opinions": []}
    with tempfile.NamedTemporaryFile() as tags:
        tags.write(_review_tags()[0])
        tags.flush()
        head["sha256"] = checksum(head, Path(tags.name))
    return [json.dumps(head).encode()]


def _review_tags() -> list[bytes]:
    stream = io.BytesIO()
    is_listed = np.array([True, True, False, True])
    np.savez(
        stream,
        row=np.array([0, 0, 0, 1]),
        column=np.array([LABELS.index(label) for label in ("dog", "cat", "beach", "beach")]),
        confidence=np.array([0.6, 0.1, 0.9, 0.4]),
        kept=np.array([True, False, False, False]),
        judged=np.ones(4, bool),
        listed=is_listed,
    )
    return [stream.getvalue()]


def write_review(folder: Path) -> None:
    """Write a review project without decisions."""
    (folder / "project.json").write_bytes(corpus("project")[0])
    (folder / "tags.npz").write_bytes(corpus("review_tags")[0])
    (folder / "table.csv").write_bytes(REVIEWED)


def _journal() -> list[bytes]:
    from schirn.app.review import open_session

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_review(folder)
        session = open_session(folder)
        session.decide("keep", "a", "dog", session.sequence)
        session.decide("drop", "a", "cat", session.sequence)
        session.undo(session.sequence)
        session.decide("skip", "a", "cat", session.sequence)
        session.decide("keep", "a", "cat", session.sequence)
        record = {"action": "swap", "item": "a", "label": "dog", "to": "beach"}
        session.act(record, session.sequence)
        session.undo(session.sequence)
        session.act({"action": "remove", "tags": [0]}, session.sequence)
        for item, label in (("b", "beach"), ("a", "dog"), ("a", "cat"), ("a", "beach")):
            session.decide("drop", item, label, session.sequence)
        session.journal.close()
        return [(folder / "journal.jsonl").read_bytes()]


def ranking(folder: Path):
    """The ranking of the project above, which is written to the folder."""
    from schirn.app.review._project import read_project

    write_review(folder)
    return read_project(folder).ranking()


def _answers() -> list[bytes]:
    from schirn.app.workflow._answers import write_questions

    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "x.csv")
        ranked = ranking(Path(name))
        write_questions(path, ranked.questions(3), ranked)
        asked = path.read_bytes()
    return [asked.replace(b",,listed", answer + b"listed") for answer in (b",no,", b",yes,")]


def _certificate() -> list[bytes]:
    with tempfile.TemporaryDirectory() as name:
        certificate = ranking(Path(name)).remove(3).certify()
    asked = certificate.questions(3)
    answers = ([0] * len(asked), [None, *[0] * (len(asked) - 1)])
    # On one line, as the damages of JSON need it.
    made = (certificate.answered(asked, right).to_dict() for right in answers)
    return [json.dumps({**document, "date": "2026-11-16"}).encode() for document in made]


def _confidence() -> list[bytes]:
    return [_saved(np.savez, {"confidence": np.zeros(3), "seq": 1, "project": np.array("x")})]


TAGS = ["dog; dgo;cat", None, ["dog", 8]]
TABLE = b"a,tags\n1,b\n"


def _record() -> list[bytes]:
    found = hashlib.sha256(TABLE).hexdigest()
    return [json.dumps({"url": "x", "bytes": 1, "sha256": found, "options": {"n": 2}}).encode()]


def _embeddings() -> list[bytes]:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((3, 2)))
    return [buffer.getvalue()]


def _deep_model() -> list[bytes]:
    from schirn.deep import DeepSieve

    X, _, C = _numbers()
    with tempfile.TemporaryDirectory() as folder:
        model = DeepSieve(hidden_sizes=(4,), max_iter=1, folds=2, device="cpu")
        model.fit(X.astype(np.float32), C).save(Path(folder, "model"))
        return [Path(folder, "model").read_bytes()]


def _vocabulary() -> list[bytes]:
    lines = b"action,tag,target,rows,evidence,accept\nmerge,Dog,dog,1,case,yes\ndrop,kid,,1,,no\n"
    return [lines, b"from,to,why\nDog,dog,case\n'=1,one,plural\n", b"Dog;dog\nkid;kids\n"]


def _expectations() -> list[bytes]:
    lines = ("wrong_share = 0.2", 'allowed_tags = ["dog", "cat"]', "[findings]", "spelling = 1")
    return ["\n".join((*lines, "")).encode()]


def _look() -> list[bytes]:
    return ["Kids kid kids\nlighting ligthing\n\nA dog\na dog!\ncafé cafe\n".encode()]


SEEDS = {
    "deep_model": _deep_model,
    "npz": _npz,
    "mat5": _mat5,
    "arff": _arff,
    "mulan": _mulan,
    "svm": _svm,
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "xlsx": _xlsx,
    "json": _json,
    "arff_gz": _packed("arff"),
    "svm_gz": _packed("svm"),
    "csv_gz": _packed("csv"),
    "jsonl_gz": _packed("jsonl"),
    "model": _model,
    "sealed_model": _model,
    "bench_rows": _bench_row,
    "scores": _scores,
    "project": _project,
    "review_tags": _review_tags,
    "journal": _journal,
    "confidence": _confidence,
    "answers": _answers,
    "certificate": _certificate,
    "record": _record,
    "clean_csv": _csv,
    "clean_jsonl": _jsonl,
    "clean_parquet": _parquet,
    "changes_csv": _changes,
    "vocabulary_csv": _vocabulary,
    "expectations": _expectations,
    "look": _look,
    "votes": _csv,
    "embeddings": _embeddings,
}
