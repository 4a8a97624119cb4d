"""Which damaged files to try on which reader."""

import gzip
import io
import json
import struct
import zipfile

from fuzz.corpus import corpus
from fuzz.mutate import changed_json, damages
from fuzz.targets import header_of, seal
from hypothesis import strategies as st


def damaged(target: str) -> st.SearchStrategy[bytes]:
    """Files to try on a target."""
    if target == "sealed_model":
        return sealed_models()
    if target == "deep_model":
        return tensor_files() | damages(corpus(target))
    if target.endswith("_gz"):
        inside = damages(corpus(target.removesuffix("_gz"))).map(gzip.compress)
        return inside | damages(corpus(target))
    if target in ("npz", "scores", "confidence"):
        return archives(corpus(target)) | damages(corpus(target))
    lines = ("items", "project", "bench_rows", "journal", "clean_jsonl", "jsonl", "record")
    if target in (*lines, "changes_jsonl", "certificate"):
        return json_lines(corpus(target)) | damages(corpus(target))
    return damages(corpus(target))


@st.composite
def sealed_models(draw):
    """A model file whose header says other things, under a checksum that fits."""
    data = draw(st.sampled_from(corpus("model")))
    header = draw(changed_json(header_of(data)))
    return seal(data, json.dumps(header).encode())


@st.composite
def tensor_files(draw):
    """A file of tensors whose description says other things; lengths fit."""
    (data,) = corpus("deep_model")
    (size,) = struct.unpack("<Q", data[:8])
    header, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    about = draw(changed_json(json.loads(header["__metadata__"]["schirn"])))
    header["__metadata__"]["schirn"] = json.dumps(about)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + rest


@st.composite
def archives(draw, seeds):
    """A zip archive that is whole, with damaged, swapped or missing members."""
    buffer = io.BytesIO()
    packing = draw(st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)))
    with (
        zipfile.ZipFile(io.BytesIO(draw(st.sampled_from(seeds)))) as old,
        zipfile.ZipFile(buffer, "w", packing) as new,
    ):
        parts = {name: old.read(name) for name in old.namelist()}
        names = st.sampled_from(sorted(parts))
        for _ in range(draw(st.integers(1, 3))):
            name = draw(names)
            kind = draw(st.sampled_from(("swap", "damage", "drop")))
            if kind == "swap":
                parts[name] = parts[draw(names)]
            elif kind == "damage":
                parts[name] = draw(damages([parts[name]], at_most=2))
            elif len(parts) > 1 and name in parts:
                parts[name] = b""
        for name, data in parts.items():
            new.writestr(name, data)
    return buffer.getvalue()


@st.composite
def json_lines(draw, seeds):
    """Lines of valid JSON that say other things."""
    rows = [json.loads(line) for line in draw(st.sampled_from(seeds)).splitlines()]
    changed = draw(changed_json(rows))
    lines = changed if isinstance(changed, list) else [changed]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()
