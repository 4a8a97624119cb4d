"""What wins where: findings from the results of the leaderboard, as Markdown.

    python -m benchmarks.leaderboard_findings

A setting is a data set with a kind of noise and features; its value is the mean over all seeds.
Of each track the methods count that have a number in all settings; methods that see true labels
are left out.
"""

import argparse
import math
from collections import Counter
from collections.abc import Sequence

from benchmarks.sieve import DEVELOPMENT
from schirn.lab.leaderboard.pages import Board, Place, make_board, read_results

OURS = "Sieve"
LOW, HIGH = "CandidateRidge", "OracleRidge"
# Noise that the suite adds, and noise that people made.
KINDS = {"added noise": False, "real noise": True}


def score(board: Board, place: Place, method: str, column: str = "average_precision") -> float:
    """Value of a method in a setting, in percent."""
    return 100 * board.values[place, method].get(column, math.nan)


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


def table(board: Board) -> list[str]:
    """One line per kind of noise and features."""
    lines = [
        f"| noise | features | settings | {LOW} | {OURS} | best other | {HIGH} | {OURS} first in |",
        "|---|---|--:|--:|--:|---|--:|--:|",
    ]
    for track in board.tracks:
        places = [place for place in board.places if place.track == track]
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


def losses(board: Board, places: Sequence[Place]) -> list[str]:
    """Who is first, by how much Sieve is behind, and where it is below the candidate ridge."""
    winners: Counter[str] = Counter()
    distance, below = [], []
    for place in places:
        best = max(rivals(board, [place]), key=lambda m: score(board, place, m))
        winners[best] += 1
        if best != OURS:
            distance.append(score(board, place, best) - score(board, place, OURS))
        short = score(board, place, LOW) - score(board, place, OURS)
        if short > 0:
            below.append((short, f"{place.dataset}, {place.track.noise}, {place.track.features}"))
    ranked = ", ".join(f"{name} {count}" for name, count in winners.most_common())
    return [
        f"- First in {len(places)} settings: {ranked}.",
        f"- Where {OURS} is not first, it is {mean(distance):.1f} points behind on average, at "
        f"most {max(distance, default=0):.1f}.",
        f"- {OURS} is below {LOW} in {len(below)} of {len(places)} settings"
        + (f", by {mean([p for p, _ in below]):.1f} points on average, at most " if below else ".")
        + "".join(f"{points:.1f} ({where})." for points, where in sorted(below)[-1:]),
    ]


def main() -> None:
    """Print the findings."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", nargs="*", default=["benchmarks/leaderboard"])
    args = parser.parse_args()
    board = make_board(read_results(args.results))
    print("**Average precision in percent, mean over settings**\n")
    print("\n".join(table(board)))
    for title, is_real in KINDS.items():
        places = [place for place in board.places if (place.r is None) == is_real]
        others = [place for place in places if place.dataset not in dict(DEVELOPMENT)]
        names = ", ".join(sorted({place.dataset for place in others}))
        print("\n".join(["", f"**{title.capitalize()}**", "", *losses(board, places)]))
        heading = f"**{title.capitalize()}, sets not used in the design of {OURS}** ({names})"
        print("\n".join(["", heading, "", *losses(board, others)]))


if __name__ == "__main__":
    main()
