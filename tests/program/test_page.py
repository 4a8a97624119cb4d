import base64
import struct
import zlib

import numpy as np
import pytest

from schirn.program.page import png_uri, render


def test_png_holds_the_pixels():
    image = np.array([[0.0, 0.5, 1.0], [1.0, 0.0, 2.0]])
    png = base64.b64decode(png_uri(image).partition(",")[2])
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        name, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        (crc,) = struct.unpack(">I", png[place + 8 + size : place + 12 + size])
        assert crc == zlib.crc32(name + body)
        chunks[name], place = body, place + 12 + size
    assert struct.unpack(">IIBB", chunks[b"IHDR"][:10]) == (3, 2, 8, 0)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(2, 4)
    assert lines[:, 1:].tolist() == [[255, 128, 0], [0, 255, 0]]


def test_a_name_that_a_template_lacks_is_an_error():
    jinja2 = pytest.importorskip("jinja2")
    with pytest.raises(jinja2.UndefinedError):
        render("schirn.app.report", "clean.html")
