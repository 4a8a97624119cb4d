"""Turn links to example files, which work on the code host, into links to the gallery."""

import re

from sphinx.application import Sphinx

_EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/(plot_\w+)\.py\)")


def to_gallery(text: str, depth: int) -> str:
    """Rewrite the links of a page `depth` folders below docs/.

    >>> to_gallery("[one](../examples/plot_1.py)", 0)
    '[one](gallery/plot_1.rst)'
    """
    return _EXAMPLE.sub(rf"]({'../' * depth}gallery/\1.rst)", text)


def _rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = to_gallery(source[0], docname.count("/"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Rewrite every page when it is read."""
    app.connect("source-read", _rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
