"""Start of the program `schirn`: outside of the package, to catch Ctrl-C during its import."""

import sys


def main() -> int:
    """Import and run the program; return the exit code."""
    try:
        from schirn.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("schirn: interrupted\n")
        return 130
