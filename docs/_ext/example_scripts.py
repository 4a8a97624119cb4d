"""Directive that shows the example scripts outside the gallery: docstring and code."""

import ast
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FOLDER = Path(__file__).parents[2] / "examples"


class ExampleScripts(SphinxDirective):
    """One section for every example whose name does not start with `plot_`."""

    def run(self) -> list[nodes.Node]:
        """Return sections with the docstring and the code of the scripts."""
        paths = sorted(FOLDER.glob("*.py"))
        return [self._section(path) for path in paths if not path.name.startswith(("plot_", "_"))]

    def _section(self, path: Path) -> nodes.section:
        self.env.note_dependency(str(path))
        text = path.read_text("utf-8")
        purpose = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[:2]
        section = nodes.section(ids=[nodes.make_id(path.stem)])
        section += nodes.title(text=path.name)
        section += [nodes.paragraph(text=" ".join(paragraph.split())) for paragraph in purpose]
        section += nodes.literal_block(text, text, language="python")
        return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive `example-scripts`."""
    app.add_directive("example-scripts", ExampleScripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
