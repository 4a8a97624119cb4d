"""Which damaged files to try on which reader."""

import gzip
import io
import json
import struct
import zipfile

from fuzz.corpus import corpus
from fuzz.mutate import Drawn, changed_json, damages
from fuzz.targets import header_of, seal
from hypothesis import strategies as st


@st.composite
def damaged(draw, target: str):
    """Files to try on a target, as hypothesis draws them."""
    return damaged_file(Drawn(draw), target)


def damaged_file(choose, target: str) -> bytes:
    """A file to try on a target."""
    if target == "sealed_model":
        return sealed_model(choose)
    by_bytes = bool(choose.number(0, 1))
    if target == "deep_model" and not by_bytes:
        return tensor_file(choose)
    if target.endswith("_gz") and not by_bytes:
        return gzip.compress(damages(choose, corpus(target.removesuffix("_gz"))), mtime=0)
    if target in ("npz", "scores", "confidence") and not by_bytes:
        return archive(choose, corpus(target))
    lines = ("project", "bench_rows", "journal", "clean_jsonl", "jsonl", "record")
    if target in (*lines, "certificate") and not by_bytes:
        return json_lines(choose, corpus(target))
    return damages(choose, corpus(target))


def sealed_model(choose) -> bytes:
    """A model file whose header says other things, under a checksum that fits."""
    data = choose.one_of(corpus("model"))
    header = changed_json(choose, header_of(data))
    return seal(data, json.dumps(header).encode())


def tensor_file(choose) -> bytes:
    """A file of tensors whose description says other things; lengths fit."""
    (data,) = corpus("deep_model")
    (size,) = struct.unpack("<Q", data[:8])
    header, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    about = changed_json(choose, json.loads(header["__metadata__"]["schirn"]))
    header["__metadata__"]["schirn"] = json.dumps(about)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + rest


def archive(choose, seeds) -> bytes:
    """A zip archive that is whole, with damaged, swapped or missing members."""
    buffer = io.BytesIO()
    packing = choose.one_of((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    with (
        zipfile.ZipFile(io.BytesIO(choose.one_of(seeds))) as old,
        zipfile.ZipFile(buffer, "w", packing) as new,
    ):
        parts = {name: old.read(name) for name in old.namelist()}
        names = sorted(parts)
        for _ in range(choose.number(1, 3)):
            name = choose.one_of(names)
            kind = choose.one_of(("swap", "damage", "drop"))
            if kind == "swap":
                parts[name] = parts[choose.one_of(names)]
            elif kind == "damage":
                parts[name] = damages(choose, [parts[name]], at_most=2)
            else:
                parts[name] = b""
        for name, data in parts.items():
            new.writestr(name, data)
    return buffer.getvalue()


def json_lines(choose, seeds) -> bytes:
    """Lines of valid JSON that say other things."""
    rows = [json.loads(line) for line in choose.one_of(seeds).splitlines()]
    changed = changed_json(choose, rows)
    lines = changed if isinstance(changed, list) else [changed]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()
