"""`python -m schirn` is the program `schirn`."""

import sys

from schirn_program import main

if __name__ == "__main__":
    sys.exit(main())
