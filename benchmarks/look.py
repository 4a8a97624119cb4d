"""Look at a table before judging it: the time it takes.

python -m benchmarks.look
"""

import random
import string
import time

from schirn.app.tables import look_at_table
from schirn.features import TextFeatures

ROWS = (10_000, 30_000, 100_000)


def main() -> None:
    """Print the table."""
    print("rows and tags  look_at_table  tf-idf of the same texts   (processor seconds)")
    for n in ROWS:
        tags, texts = table(n)
        seconds = timed(look_at_table, tags, texts=texts)
        print(f"{n:13,}  {seconds:13.1f}  {timed(TextFeatures().fit_transform, texts):24.1f}")


def table(n: int) -> tuple[list[list[str]], list[str]]:
    """Rows with five tags of n and sixty words of 20,000, the first ones far more often."""
    rng = random.Random(0)
    names = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(4, 16))) for _ in range(n)]
    words = names[:20_000]

    def draw(some: list[str], k: int) -> list[str]:
        return [some[int(rng.paretovariate(0.5)) % len(some)] for _ in range(k)]

    tags = [[*draw(names, 4), names[i]] for i in range(n)]
    return tags, [" ".join(draw(words, 60)) for _ in range(n)]


def timed(work, *args, **options) -> float:  # type: ignore[no-untyped-def]
    """Processor time of a call."""
    start = time.process_time()
    work(*args, **options)
    return time.process_time() - start


if __name__ == "__main__":
    main()
