"""Time to read a table of three rows and many columns, which must grow like its size.

python -m benchmarks.wide
"""

import random
import tempfile
import time
from pathlib import Path

from schirn.cleaning.columns import TagTable
from schirn.datasets import read_table
from schirn.tables.files import open_table

COLUMNS = (2_500, 5_000, 10_000, 20_000)


def main() -> None:
    """Print the processor time of both readers for every number of columns."""
    print("columns  read_table  schirn clean   (seconds)")
    with tempfile.TemporaryDirectory() as folder:
        for n in COLUMNS:
            path = Path(folder, f"{n}.csv")
            write(path, n)
            seconds = [timed(read_table, path), timed(features, path)]
            print(f"{n:7,}  {seconds[0]:10.2f}  {seconds[1]:12.2f}")


def write(path: Path, n: int) -> None:
    """Write three rows with tags and n numbers."""
    numbers = random.Random(0)
    lines = [["tags", *(f"c{j}" for j in range(n))]]
    lines += [[tags, *(f"{numbers.random():.3f}" for _ in range(n))] for tags in ("x;y", "y", "x")]
    path.write_text("".join(",".join(line) + "\n" for line in lines))


def features(path: Path) -> None:
    """Read the numbers as `schirn clean` does."""
    TagTable(open_table(path), str(path)).features()


def timed(work, *args) -> float:  # type: ignore[no-untyped-def]
    """Processor time of a call."""
    start = time.process_time()
    work(*args)
    return time.process_time() - start


if __name__ == "__main__":
    main()
