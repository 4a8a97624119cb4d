"""Files that once broke a reader: crashed it, hung it, or made it take memory without bound."""

import gzip
import io
import json
import struct
import zipfile

import numpy as np
from fuzz.corpus import corpus
from fuzz.targets import header_of, seal
from scipy import io as matlab
from scipy import sparse


def _mat_with_wild_pointers() -> bytes:
    buffer = io.BytesIO()
    X = sparse.csc_array(np.ones((2, 3)))
    matlab.savemat(buffer, {"data": X, "target": np.ones((2, 1))}, do_compression=False)
    good, bad = (np.array(p, np.int32).tobytes() for p in ([0, 2, 4, 6], [0, 2, 900, 6]))
    return buffer.getvalue().replace(good, bad)


def _mat_of_unknown_type() -> bytes:
    buffer = io.BytesIO()
    matlab.savemat(buffer, {"data": np.ones((2, 3)), "target": np.ones((2, 1))})
    return buffer.getvalue().replace(struct.pack("<II", 9, 48), struct.pack("<II", 10, 48))


def _npz(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _npz_with_wild_pointers() -> bytes:
    # The last pointer says that there are no entries, and nobody looks at the others.
    parts = {"data": np.ones(2), "indices": np.arange(2), "indptr": np.array([0, 2**30, 0])}
    return _npz(**parts, shape=np.array([2, 2]), Y=np.eye(2))


def _npz_of_text() -> bytes:
    return _npz(X=np.eye(2), Y_indices=np.array(["a"]), Y_indptr=np.array([0, 1, 1]))


def _npz_member(content: bytes, kind: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        archive.writestr("X.npy", content)
        archive.writestr("Y.npy", content)
    return buffer.getvalue()


def _npy(header: str) -> bytes:
    text = header.encode() + b" " * (118 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def _broken_lzma() -> bytes:
    data = bytearray(_npz_member(b"\x93NUMPY" + bytes(300), zipfile.ZIP_LZMA))
    place = data.index(b"X.npy") + 20
    data[place : place + 4] = b"\xff" * 4
    return bytes(data)


def _header(change) -> bytes:
    data = corpus("model")[0]
    header = header_of(data)
    change(header)
    return seal(data, json.dumps(header).encode())


def _row(**values) -> bytes:
    row = {**json.loads(corpus("bench_rows")[0].splitlines()[0]), **values}
    return (json.dumps(row) + "\n").encode()


def _journal(**values) -> bytes:
    head, first = (json.loads(line) for line in corpus("journal")[0].splitlines()[:2])
    return "".join(json.dumps(line) + "\n" for line in (head, first | values)).encode()


_ARFF = b"@relation 'r -C 1'\n@attribute a {x,y}\n@attribute b {0,1}\n@data\n"
_WIDE = b"@relation 'r -C 1'\n" + b"".join(b"@attribute a%d {1,0}\n" % k for k in range(2000))
_SIZES = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }"


def _project_with(**changes) -> bytes:
    head = {"format": "schirn-review", "version": 2, "labels": ["dog", "cat", "beach"]}
    return json.dumps({**head, "n_items": 2, **changes}).encode()


def _npz_of_no_letters() -> bytes:
    names = np.frombuffer(struct.pack("<II", 0x41, 0x7FFFFFFF), "<U1")
    return _npz(X=np.eye(2), Y=np.eye(2), label_names=names)


CRASHES = [
    ("npz", _npz_of_no_letters),
    ("project", json.dumps({"format": "[" * 4000}).encode()),
    ("project", lambda: _project_with(table={"file": "table.\n"})),
    ("clean_csv", b"a," + b"[" * 4000 + b"\n1,2\n"),
    ("clean_jsonl", b'{"' + b"9" * 5000 + b'": 1}\n'),
    ("mat5", _mat_with_wild_pointers),
    ("mat5", _mat_of_unknown_type),
    ("npz", _npz_with_wild_pointers),
    ("npz", _npz_of_text),
    ("npz", _broken_lzma),
    ("npz", lambda: _npz(X=np.eye(2), Y=np.eye(2), n_train=np.array([1, 2]))),
    ("npz", lambda: _npz(X=np.eye(2), Y=np.eye(2), label_names=np.array("ab"))),
    ("npz", lambda: _npz(X=np.eye(2), Y_indices=np.array([2**50]), Y_indptr=np.array([0, 1, 1]))),
    ("npz", lambda: _npz_member(_npy(_SIZES % "(-1, -8)") + bytes(64))),
    ("npz", lambda: _npz_member(_npy(_SIZES % "(1000000000000000000, 9)"))),
    ("npz", lambda: _npz_member(_npy("z" + _SIZES % "(1, 1)") + bytes(8))),
    ("npz", lambda: _npz_member(_npy(_SIZES % "(1, 1)").replace(b"<f8", b"|O8") + bytes(8))),
    ("embeddings", lambda: _npy("z" + _SIZES % "(3, 2)") + bytes(48)),
    ("embeddings", lambda: _npy(_SIZES % "(1000000000000000000,)")),
    ("svm", b"2 4 99999999999999\n0 1:1\n1 1:1\n"),
    ("svm", b"1 99999999999999999999999999:1\n"),
    ("svm", b"99999999999999 1:1\n"),
    ("svm", b"9" * 5000 + b" 1 1\n"),
    ("svm", "² ² ²\n0 1:1\n".encode()),
    ("svm_gz", gzip.compress(b"99999999999999 1:1\n", mtime=0)),
    ("arff", _ARFF + b"'" + b" " * 20000 + b"\n"),
    ("arff", "@relation 'r -C 1'\n@attribute a {0,1}\n@data\n{² 1}\n".encode()),
    ("arff", _ARFF.replace(b"-C 1", b"-C " + b"9" * 5000) + b"x,1\n"),
    ("arff", _WIDE + b"@data\n" + b"{}\n" * 200_000),
    ("arff", _WIDE + b"@data\n" + b"1\n" * 2_000_000),
    ("bench_rows", b"[" * 100_000 + b"\n"),
    ("bench_rows", _row(finished="yesterday") + _row(finished=1.0)),
    ("bench_rows", _row(dataset=["a"])),
    ("journal", lambda: _journal(item=["a"])),
    ("journal", lambda: _journal(label={})),
    ("journal", lambda: _journal(action=["keep"] * 1000)),
    ("clean_jsonl", b"{}\n{}\n"),
    ("record", b'["a"]'),
    ("record", b"[" * 100_000),
    ("sealed_model", lambda: _header(lambda h: h.update(version=[[[]]]))),
    ("sealed_model", lambda: _header(lambda h: h["arrays"][0].update(shape=[-1, -8]))),
    ("sealed_model", lambda: _header(lambda h: h["arrays"][0].update(shape=[10**18]))),
    ("sealed_model", lambda: _header(lambda h: h["arrays"][0].update(dtype="|O"))),
    ("sealed_model", lambda: _header(lambda h: h["model"].update({"class": ["Sieve"] * 500}))),
]
