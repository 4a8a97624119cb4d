"""Damage to files: bytes flipped, cut, moved, repeated, replaced by what readers stumble over."""

from hypothesis import strategies as st

# Lengths and counts at the edges, as text and as bytes; brackets, quotes and names of the formats.
TOKENS = (
    b"", b"\0", b"\n", b"\r\n", b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 8,
    b"-1", b"0", b"1e999", b"nan", b"inf", b"9" * 25, b"9" * 5000, b"99999999999", b"1_0",
    b"\xc2\xb2", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"'", b'"', b"'" + b" " * 3000, b"\\", b"{",
    b"}", b"[" * 4000, b"[]", b"{}", b"null", b"true", b'"x"', b",", b";", b":", b"%", b"#", b"?",
    b"@data\n", b"@attribute a real\n", b"<!DOCTYPE", b"<label/>", b"PK\x03\x04", b"PK\x01\x02",
    b"<f8", b"|O", b"|S0", b"|V9", b"(-1, -8)", b"(1000000000000000000,)", b"True", b"__class__",
)  # fmt: skip


@st.composite
def damages(draw, seeds, at_most=6):
    """A seed with up to `at_most` damages; now and then bytes that were never a file."""
    if draw(st.integers(0, 39)) == 0:
        return draw(st.binary(max_size=200))
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, at_most))):
        data = _damage(draw, data, seeds)
    return data


def _damage(draw, data: bytes, seeds) -> bytes:
    start = draw(st.integers(0, len(data)))
    end = min(len(data), start + draw(st.sampled_from((0, 1, 2, 4, 8, 32, 1000))))
    kind = draw(st.sampled_from(("flip", "token", "byte", "cut", "drop", "repeat", "splice")))
    if kind == "flip" and start < len(data):
        flipped = bytes([data[start] ^ (1 << draw(st.integers(0, 7)))])
        return data[:start] + flipped + data[start + 1 :]
    if kind == "byte":
        return data[:start] + draw(st.binary(min_size=1, max_size=8)) + data[end:]
    if kind == "token":
        return data[:start] + draw(st.sampled_from(TOKENS)) + data[end:]
    if kind == "cut":
        return data[:start]
    if kind == "drop":
        return data[:start] + data[end:]
    if kind == "repeat":
        return data[:start] + data[start:end] * draw(st.integers(2, 50)) + data[end:]
    other = draw(st.sampled_from(seeds))
    return data[:start] + other[draw(st.integers(0, len(other))) :]


NUMBERS = st.sampled_from((0, -1, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan")))
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.just("array_0.npy"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@st.composite
def changed_json(draw, document):
    """A JSON document in which one to three places hold something else, or nothing."""
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        if not places:
            return draw(VALUES)
        holder, key = draw(st.sampled_from(places))
        if draw(st.booleans()):
            holder[key] = draw(VALUES)
        elif isinstance(holder, dict):
            value = holder.pop(key)
            if draw(st.booleans()):
                holder[draw(st.sampled_from(KINDS))] = value
        else:
            holder.append(holder.pop(key))
    return document


# What the values of a model file may be called.
KINDS = (
    "array", "number", "names", "list", "tuple", "dict", "sparse", "record", "estimator", "float",
    "label_names_", "coef_", "calibration_", "__class__", "fit", "predict", "_metadata_request",
)  # fmt: skip


def _places(value):
    """Every (holder, key) of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)
