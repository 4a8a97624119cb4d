"""`python -m schirn` is the program `schirn`."""

import sys

from schirn.cli import main

if __name__ == "__main__":
    sys.exit(main())
