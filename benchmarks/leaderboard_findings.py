"""What wins where: findings from the results of the leaderboard, as Markdown.

    python -m benchmarks.leaderboard_findings

Parameters are chosen on held-out candidates, or are the recommended ones. Only settings with at
least 15 methods count, and of each track the methods that have a number in all of them; methods
that see true labels are left out.
"""

import argparse
import math
from collections import Counter
from collections.abc import Sequence

from schirn.lab.leaderboard.pages import Board, Place, make_board, read_results

OURS = "Sieve"
LOW, HIGH = "CandidateRidge", "OracleRidge"
# Methods that a setting must have, references included, to be compared.
MOST = 15
TUNINGS = {"candidates": "tuned on candidates", "none": "recommended parameters"}


def score(board: Board, place: Place, method: str, column: str = "average_precision") -> float:
    """Value of a method in a setting, in percent."""
    return 100 * board.values[place, method].get(column, math.nan)


def comparable(board: Board, place: Place) -> bool:
    """Whether Sieve, both references and most methods have a number in a setting."""
    there = [m for m in board.contenders if not math.isnan(score(board, place, m))]
    return {OURS, LOW, HIGH} <= set(there) and len(there) >= MOST


def rivals(board: Board, places: Sequence[Place]) -> list[str]:
    """Methods that finished all settings and see no true labels."""
    return [
        method
        for method, contender in board.contenders.items()
        if not contender.ceiling and not any(math.isnan(score(board, p, method)) for p in places)
    ]


def mean(values: Sequence[float]) -> float:
    """Mean, or nan of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def table(board: Board, tuning: str) -> list[str]:
    """One line per kind of noise and features."""
    lines = [
        f"| noise | features | settings | {LOW} | {OURS} | best other | {HIGH} | {OURS} first in |",
        "|---|---|--:|--:|--:|---|--:|--:|",
    ]
    for track in board.tracks:
        if track.tuning != tuning:
            continue
        places = [p for p in board.places if p.track == track and comparable(board, p)]
        if not places:
            continue
        names = rivals(board, places)
        means = {m: mean([score(board, p, m) for p in places]) for m in (*names, HIGH)}
        other = max((m for m in names if m not in (OURS, LOW)), key=means.__getitem__)
        first = sum(score(board, p, OURS) >= max(score(board, p, m) for m in names) for p in places)
        lines.append(
            f"| {track.noise} | {track.features} | {len(places)} | {means[LOW]:.1f} | "
            f"{means[OURS]:.1f} | {other} {means[other]:.1f} | {means[HIGH]:.1f} | "
            f"{first} of {len(places)} |"
        )
    return lines


def losses(board: Board, tuning: str) -> list[str]:
    """Who is first where Sieve is not, and by how much; and settings below the candidate ridge."""
    winners: Counter[str] = Counter()
    distance, below, total = [], [], 0
    for place in board.places:
        if place.track.tuning != tuning or not comparable(board, place):
            continue
        names = rivals(board, [place])
        total += 1
        best = max(names, key=lambda m: score(board, place, m))
        winners[best] += 1
        if best != OURS:
            distance.append(score(board, place, best) - score(board, place, OURS))
        if score(board, place, OURS) < score(board, place, LOW):
            short = score(board, place, LOW) - score(board, place, OURS)
            below.append((short, f"{place.dataset}, {place.track.noise}, {place.track.features}"))
    if not total:
        return []
    worst, where = max(below, default=(0.0, "nowhere"))
    ranked = ", ".join(f"{name} {count}" for name, count in winners.most_common())
    return [
        f"- First in {total} settings, {TUNINGS[tuning]}: {ranked}.",
        f"- Where {OURS} is not first, it is {mean(distance):.1f} points behind on average, at "
        f"most {max(distance, default=0):.1f}.",
        f"- {OURS} is below {LOW} in {len(below)} of {total} settings, by "
        f"{mean([points for points, _ in below]):.1f} points on average, at most "
        f"{worst:.1f} ({where}).",
    ]


def main() -> None:
    """Print the findings."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", nargs="*", default=["benchmarks/leaderboard"])
    args = parser.parse_args()
    board = make_board(read_results(args.results))
    for tuning, title in TUNINGS.items():
        print(f"**Average precision, {title}**\n")
        print("\n".join([*table(board, tuning), "", *losses(board, tuning), ""]))


if __name__ == "__main__":
    main()
