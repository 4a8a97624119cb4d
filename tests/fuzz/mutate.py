"""Damage to files: bytes flipped, cut, moved, repeated, replaced by what readers stumble over.

Every function takes the choices from an object: `Drawn` asks hypothesis, which shrinks what breaks
a reader; `Random` is faster.
"""

import random
import string

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


class Drawn:
    """Choices of hypothesis."""

    def __init__(self, draw):
        self.draw = draw

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def one_of(self, options):
        return self.draw(st.sampled_from(options))

    def content(self, shortest, longest):
        return self.draw(st.binary(min_size=shortest, max_size=longest))

    def value(self):
        return self.draw(VALUES)


class Random:
    """Choices of a generator of random numbers."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self, low, high):
        return self.random.randint(low, high)

    def one_of(self, options):
        return self.random.choice(options)

    def content(self, shortest, longest):
        return self.random.randbytes(self.number(shortest, longest))

    def value(self, depth=0):
        kind = self.number(0, 7 if depth < 3 else 5)
        if kind < 3:
            return self.one_of(NUMBERS)
        if kind < 5:
            return "".join(self.random.choices(LETTERS, k=self.number(0, 5)))
        if kind == 5:
            return self.one_of((None, True, False, "array_0.npy"))
        inner = [self.value(depth + 1) for _ in range(self.number(0, 3))]
        return inner if kind == 6 else {str(self.value(3)): item for item in inner}


def damages(choose, seeds, at_most=6):
    """A seed with up to `at_most` damages; now and then bytes that were never a file."""
    if choose.number(0, 39) == 0:
        return choose.content(0, 200)
    data = choose.one_of(seeds)
    for _ in range(choose.number(1, at_most)):
        data = _damage(choose, data, seeds)
    return data


def _damage(choose, data: bytes, seeds) -> bytes:
    start = choose.number(0, len(data))
    end = min(len(data), start + choose.one_of((0, 1, 2, 4, 8, 32, 1000)))
    kind = choose.one_of(("flip", "token", "byte", "cut", "drop", "repeat", "splice"))
    if kind == "flip" and start < len(data):
        flipped = bytes([data[start] ^ (1 << choose.number(0, 7))])
        return data[:start] + flipped + data[start + 1 :]
    if kind == "byte":
        return data[:start] + choose.content(1, 8) + data[end:]
    if kind == "token":
        return data[:start] + choose.one_of(TOKENS) + data[end:]
    if kind == "cut":
        return data[:start]
    if kind == "drop":
        return data[:start] + data[end:]
    if kind == "repeat":
        return data[:start] + data[start:end] * choose.number(2, 50) + data[end:]
    other = choose.one_of(seeds)
    return data[:start] + other[choose.number(0, len(other)) :]


LETTERS = string.printable + "\xe9\u0662\ud83d\U0001f415"
NUMBERS = (0, -1, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(NUMBERS)
    | st.text(max_size=5)
    | st.just("array_0.npy"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def changed_json(choose, document):
    """A JSON document in which one to three places hold something else, or nothing."""
    for _ in range(choose.number(1, 3)):
        places = list(_places(document))
        if not places:
            return choose.value()
        holder, key = choose.one_of(places)
        if choose.number(0, 1):
            holder[key] = choose.value()
        elif isinstance(holder, dict):
            value = holder.pop(key)
            if choose.number(0, 1):
                holder[choose.one_of(KINDS)] = value
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
