"""Cost and memory of very many rows on 1, 8 and 64 machines, computed from measured constants.

    python -m benchmarks.simulate
    python -m benchmarks.simulate --features 1000 --labels 1000

Nothing is run. Every constant was measured by another benchmark, which is named beside it; rows are
spread evenly over machines with one H200 each, and what a machine does is linear in its rows, as
between the two measured points. Waiting for messages is that of Dask on one machine: a real network
adds the time to carry the bytes, which are printed, and reading the rows, which takes longer than
everything else unless they are in memory already.
"""

import argparse
from typing import NamedTuple

GIGABYTE = 1e9
# Memory of one H200.
DEVICE_BYTES = 139 * 2**30

# python -m benchmarks.sieve_gpu --shape N,512,50: seconds and peak gigabytes of a fit.
SIEVE = {200_000: (1.75, 4.2), 2_000_000: (11.5, 24.1)}
SIEVE_SHAPE = 512, 50
# Sieve(n_landmarks, max_iter); ridges of both splits travel to the blocks, their sums come back.
LANDMARKS, SIEVE_ROUNDS, RIDGES, SPLITS = 1500, 8, 3, 2
# Exchanges with the workers in one round: probabilities, soft labels, scores, pool, judgement.
SIEVE_EXCHANGES = 5

# python -m benchmarks.gpu --shape 500000,1000,1000 --single: seconds of 100 rounds; products with
# fewer than 512 labels are not split into half precision.
SCHIRN_SHAPE, SCHIRN_SECONDS = (500_000, 1000, 1000), 6.93
# The second step of a round travels with the first one of the next.
SCHIRN_ROUNDS, SCHIRN_EXCHANGES = 100, 1

# python -m benchmarks.dask_workers: seconds of 100 rounds of Schirn with one and two workers. What
# does not halve is waiting.
DASK, DASK_EXCHANGES = (31.4, 19.4), 100

ROWS, MACHINES = (10**7, 10**8, 10**9), (1, 8, 64)


class Cost(NamedTuple):
    """Cost of one fit on equal machines."""

    gigabytes: float
    """Peak of one machine."""
    work: float
    """Seconds in which the machines compute."""
    waiting: float
    """Seconds in which they wait for messages."""
    per_round: float
    """Bytes to and from each machine in a round."""


def main() -> None:
    """Print a table for both methods."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--labels", type=int, default=50)
    args = parser.parse_args()
    d, l = args.features, args.labels
    print(f"{d} features, {l} labels; an exchange with the workers takes {exchange():.3f} s\n")
    print("| rows | machines | method | memory of each | computing | waiting | a round moves |")
    print("|--:|--:|---|--:|--:|--:|--:|")
    for n in ROWS:
        for machines in MACHINES:
            for name, cost_of in (("Sieve", sieve), ("Schirn", schirn)):
                if name == "Sieve" and (d, l) != SIEVE_SHAPE:
                    continue
                print(line(n, machines, name, cost_of(n, machines, d, l)))
    for name, cost_of in (("Sieve", sieve), ("Schirn", schirn)):
        if name == "Schirn" or (d, l) == SIEVE_SHAPE:
            most = largest(cost_of, d, l)
            even = balance(cost_of, d, l)
            print(
                f"\n{name}: at most {most / 1e6:.0f} million rows per machine; computing takes as "
                f"long as waiting at {even / 1e6:.1f} million rows per machine"
            )
    print(f"\nA billion rows of X in single precision: {4e9 * d / 1e12:.1f} TB")


def exchange() -> float:
    """Seconds that a step of all workers waits for messages."""
    one, two = DASK
    return (2 * two - one) / DASK_EXCHANGES


def sieve(n: float, machines: int, d: int, l: int) -> Cost:
    """Linear in the rows of a machine, between the two measured shapes."""
    (few, (time_few, memory_few)), (many, (time_many, memory_many)) = SIEVE.items()
    rows = n / machines
    share = (rows - few) / (many - few)
    seconds = time_few + share * (time_many - time_few)
    memory = memory_few + share * (memory_many - memory_few)
    steps = SIEVE_ROUNDS * SIEVE_EXCHANGES
    moved = 8 * SPLITS * (1 + RIDGES) * LANDMARKS * l
    return Cost(memory, seconds, exchange() * steps if machines > 1 else 0, moved)


def schirn(n: float, machines: int, d: int, l: int) -> Cost:
    """Operations of docs/scaling.md at the measured rate; X and three n x l arrays."""
    rows, (n0, d0, l0) = n / machines, SCHIRN_SHAPE
    rate = SCHIRN_ROUNDS * operations(n0, d0, l0) / SCHIRN_SECONDS
    seconds = SCHIRN_ROUNDS * operations(rows, d, l) / rate
    steps = SCHIRN_ROUNDS * SCHIRN_EXCHANGES
    memory = 4 * rows * (d + 3 * l) / GIGABYTE
    moved = 4 * (2 * d * l + 2 * l * l)
    return Cost(memory, seconds, exchange() * steps if machines > 1 else 0, moved)


def operations(n: float, d: float, l: float) -> float:
    """Operations of a round of Schirn."""
    return 2 * n * d * l + 4 * n * l**2 + 11 * l**3


def largest(cost_of, d: int, l: int) -> float:  # type: ignore[no-untyped-def]
    """Rows that fill the memory of one machine."""
    low, high = (cost_of(n, 1, d, l).gigabytes for n in (0, 10**6))
    return (DEVICE_BYTES / GIGABYTE - low) / (high - low) * 10**6


def balance(cost_of, d: int, l: int) -> float:  # type: ignore[no-untyped-def]
    """Rows per machine for which computing takes as long as waiting."""
    low, high = (cost_of(n, 1, d, l).work for n in (0, 10**6))
    return max(0.0, (cost_of(1, 2, d, l).waiting - low) / (high - low) * 10**6)


def line(n: int, machines: int, name: str, cost: Cost) -> str:
    """One line of the table."""
    start = f"| 10^{len(str(n)) - 1} | {machines} | {name} | {cost.gigabytes:,.0f} GB"
    if cost.gigabytes * GIGABYTE > DEVICE_BYTES:
        return f"{start} (does not fit) | – | – | – |"
    moved = f"{cost.per_round / 1e6:.1f} MB" if machines > 1 else "–"
    return f"{start} | {cost.work:,.1f} s | {cost.waiting:,.1f} s | {moved} |"


if __name__ == "__main__":
    main()
