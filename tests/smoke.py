"""Install a wheel into an empty environment and run the code and commands of the README.

`python tests/smoke.py dist/schirn-0.3.0-py3-none-any.whl`, or `make smoke`.
"""

import csv
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import venv
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
TOPICS = {
    "beach": "sand waves sea sun towel shore",
    "dog": "paws bark leash tail puppy fetch",
    "snow": "ice white cold winter ski mountain",
}


def blocks(language):
    """The blocks of the README in a language, also those inside of lists."""
    text = README.read_text("utf-8")
    fences = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.M | re.S)
    return [textwrap.dedent(block) for _, block in fences]


def program_lines():
    """The calls of the program in the README, without comments."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    calls = [re.sub(r"\s+#.*", "", line) for line in lines if line.startswith("$ schirn ")]
    return [shlex.split(call)[2:] for call in calls]


def write_photos(path, first, rows):
    """Write a table of photos: a description, two numbers, and tags, some of them wrong."""
    names = list(TOPICS)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["description", "blue", "bright", "tags"])
        for k in range(first, first + rows):
            name, other = names[k % 3], names[(k + 1 + k % 2) % 3]
            words = TOPICS[name].split()
            text = f"{words[k % 6]} {words[(k + 1) % 6]} {words[(k * 5 + 2) % 6]}"
            tags = f"{name};{other}" if k % 4 == 0 else name
            writer.writerow([text, (k % 3) + k % 7 / 10, (k % 3 == 2) + k % 5 / 10, tags])


def answer(path):
    """Answer every question of a file."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = [{**row, "right": "yes"} for row in csv.DictReader(stream)]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def main(wheel):
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        venv.create(work / "empty", with_pip=True)
        python = work / "empty" / ("Scripts" if os.name == "nt" else "bin") / "python"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

        def run(*command):
            sys.stdout.write(f"$ {' '.join(map(str, command))}\n")
            sys.stdout.flush()
            subprocess.run(command, cwd=work, env=environment, check=True)

        run(python, "-m", "pip", "install", "--quiet", f"{Path(wheel).resolve()}[cli,table]")
        script = work / "readme.py"
        script.write_text("\n".join(blocks("python")), "utf-8")
        run(python, "-W", "error", script)
        write_photos(work / "photos.csv", 0, 120)
        write_photos(work / "new.csv", 120, 6)
        run(python, "-m", "schirn", "--version")
        run(python, "-m", "schirn", "doctor")
        for call in [["demo"], *program_lines()]:
            if call[0] == "review":
                # It serves a page until somebody stops it.
                continue
            if "--answers" in call:
                answer(work / call[call.index("--answers") + 1])
            run(python.with_name("schirn"), *call)
        for name in (
            "cleaned.csv",
            "report.html",
            "tagger.schirn",
            "tagged.csv",
            "vocabulary.csv",
            "schirn-demo.html",
        ):
            if not (work / name).stat().st_size:
                raise SystemExit(f"{name} is empty")


if __name__ == "__main__":
    main(sys.argv[1])
