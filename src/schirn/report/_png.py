"""Small grey images as data URIs, without an image library."""

import base64
import struct
import zlib

import numpy as np

Array = np.ndarray


def png_uri(image: Array) -> str:
    """Return an image with values 0 (paper) to 1 (ink) as a data URI of a grey PNG.

    >>> png_uri(np.zeros((2, 2)))[:22]
    'data:image/png;base64,'
    """
    grey = np.rint(255 * (1 - np.clip(image, 0, 1))).astype(np.uint8)
    height, width = grey.shape
    # Each line starts with the filter byte 0: stored as is.
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), grey]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = (("IHDR", header), ("IDAT", zlib.compress(lines, 9)), ("IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name.encode(), body) for name, body in chunks)
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
