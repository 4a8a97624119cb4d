"""Tables in files: reading, exact writing, lists of changes, checks."""

from schirn.app.tables._arrow import ParquetNumbers as ParquetNumbers
from schirn.app.tables._arrow import number_blocks as number_blocks
from schirn.app.tables._changes import foreign_separators as foreign_separators
from schirn.app.tables._changes import keyed_changes, read_changes, row_keys
from schirn.app.tables._changes import with_vocabulary as with_vocabulary
from schirn.app.tables._checks import KINDS as KINDS
from schirn.app.tables._checks import Finding, look_at_table
from schirn.app.tables._expect import DEFAULT_LIMITS as DEFAULT_LIMITS
from schirn.app.tables._expect import Expectations, RunSummary, Violation
from schirn.app.tables._expect import frequency_drift as frequency_drift
from schirn.app.tables._files import TABLES as TABLES
from schirn.app.tables._files import is_table_name as is_table_name
from schirn.app.tables._files import open_table
from schirn.app.tables._files import text_cells as text_cells
from schirn.app.tables._files import write_copy as write_copy
from schirn.app.tables._indicators import with_tag_column as with_tag_column
from schirn.app.tables._sql import WrittenBack, is_database, local_path, write_back
from schirn.app.tables._stream import RowStream as RowStream
from schirn.app.tables._stream import format_of as format_of
from schirn.app.tables._stream import unpacked as unpacked
from schirn.app.tables._table import Table

__all__ = [
    "Expectations",
    "Finding",
    "RunSummary",
    "Table",
    "Violation",
    "WrittenBack",
    "is_database",
    "keyed_changes",
    "local_path",
    "look_at_table",
    "open_table",
    "read_changes",
    "row_keys",
    "write_back",
]
