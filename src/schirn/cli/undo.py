"""`schirn undo`: take back the changes of a list in a copy of a table."""

from typing import Any

from schirn.cli.apply import OPTIONS, run
from schirn.cli.parser import add_command

_EXAMPLES = """
schirn undo changes.csv cleaned.csv -o restored.csv
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "undo",
        run,
        description="Put back the tags as they were before schirn apply, in a copy of the table. "
        "If the tags of a changed row are not what schirn apply made of them, nothing is written. "
        "Without --output, the changes are only checked.",
        examples=_EXAMPLES,
        options=OPTIONS,
    )
    parser.set_defaults(forward=False)
