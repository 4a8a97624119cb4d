"""Start of the program `schirn`: outside of the package, to catch Ctrl-C during its import."""

import gc
import sys


def main() -> int:
    """Import and run the program; return the exit code."""
    # Cells of tables are many small objects without cycles, which need no search for garbage.
    gc.set_threshold(100_000, 50, 100)
    try:
        from schirn.app.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("schirn: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
