"""Look up the locked versions in the database of known weaknesses, if it can be reached.

python release/known_weaknesses.py .venv-release/bin/pip-audit

The exit code is 1 if a version has a known weakness, and 0 if the database does not answer: a
machine without it can still build, but the last line says that nothing was looked up.
"""

import subprocess
import sys
from pathlib import Path

LISTS = ("versions.txt", "tools.txt")
# What pip-audit says where it got no answer, rather than a bad one.
UNREACHABLE = ("ConnectionError", "ServiceError", "Could not connect", "not found on PyPI")


def main(program: str) -> int:
    """Look up every list; return the exit code."""
    code = 0
    for name in LISTS:
        path = Path(__file__).with_name(name)
        command = [program, "--strict", "--disable-pip", "--require-hashes", "--progress-spinner"]
        done = subprocess.run(
            [*command, "off", "-r", str(path)], capture_output=True, text=True, check=False
        )
        told = done.stdout + done.stderr
        if done.returncode and any(word in told for word in UNREACHABLE):
            reason = told.strip().splitlines()[-1]
            sys.stdout.write(f"{name}: NOT looked up, the database does not answer ({reason})\n")
            continue
        sys.stdout.write(told if done.returncode else f"{name}: no known weaknesses\n")
        code = code or done.returncode
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
