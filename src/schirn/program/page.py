"""Self-contained HTML pages: the template environment and inline images."""

import base64
import re
import struct
import zlib
from importlib.resources import files
from typing import Any

import numpy as np

from schirn._input import Array
from schirn._optional import optional

# First bytes of image files. SVG is left out, because it can contain scripts.
_IMAGES = re.compile(
    rb"(?P<png>\x89PNG\r\n\x1a\n)|(?P<jpeg>\xff\xd8\xff)|(?P<gif>GIF8[79]a)|(?P<bmp>BM)"
    rb"|(?P<webp>RIFF....WEBP)|(?P<avif>....ftypavi[fs])",
    re.DOTALL,
)


def render(
    package: str, template: str, *, extra: str = "cli", escape: bool = True, **context: Any
) -> str:
    """Render a template of a package; an undefined name is an error.

    Parameters
    ----------
    package : str
        Import name of the package whose folder ``templates`` holds the template.
    template : str
        File name of the template.
    extra : str
        Extra of schirn to recommend when Jinja is not installed.
    escape : bool
        Escape HTML; False for other formats.
    **context
        Names that the template uses.
    """
    jinja2 = optional("jinja2", extra, "Writing an HTML page")
    environment = jinja2.Environment(
        autoescape=escape, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files(package).joinpath("templates", template).read_text(encoding="utf-8")
    return str(environment.from_string(source).render(**context))


def image_type(content: bytes) -> str | None:
    """Return the media type of an image file by its first twelve bytes; None if it is none.

    >>> image_type(b"GIF89a"), image_type(b"<svg>")
    ('image/gif', None)
    """
    start = _IMAGES.match(content)
    return None if start is None else f"image/{start.lastgroup}"


def png_uri(image: Array) -> str:
    """Return an image with values from 0 (paper) to 1 (ink) as the data URI of a grey PNG.

    >>> png_uri(np.zeros((2, 2)))[:22]
    'data:image/png;base64,'
    """
    grey = np.rint(255 * (1 - np.clip(image, 0, 1))).astype(np.uint8)
    height, width = grey.shape
    # Each line starts with its filter: 0, no filter.
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), grey]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")):
        checksum = struct.pack(">I", zlib.crc32(name + body))
        png += struct.pack(">I", len(body)) + name + body + checksum
    return "data:image/png;base64," + base64.b64encode(png).decode()
