"""Results of a suite as Markdown: what was computed, ranks, tests and single data sets.

All statements rest on complete seeds: methods are compared only after all of them have run on all
data sets with one seed. Statements about Sieve rest on the data sets that were not used to design
it.
"""

import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from schirn._files import atomic_write
from schirn.estimators import methods
from schirn.exceptions import InputError
from schirn.lab.bench import FLOOR
from schirn.lab.bench.results import Result
from schirn.lab.bench.suite import Suite, count_runs, design_sets
from schirn.lab.leaderboard._standing_tables import RankTable, set_table

OURS = "Sieve"
BLOCKS = ("headline", "state", "ranks", "sets")
"""Blocks of pages; each is a method of `Standing`."""
# Statuses of a run that needs no further attempt.
_TRIED = ("done", "timeout", "failed")
_BLOCK = re.compile(
    r"^(?P<begin>(?P<indent> *)<!-- leaderboard:(?P<name>\S+) -->\n)"
    r".*?"
    r"(?P<end>^ *<!-- /leaderboard -->)",
    re.S | re.M,
)


@dataclass(frozen=True)
class Progress:
    """How much of a suite has been computed.

    Attributes
    ----------
    n_runs, n_planned : int
        Runs with a result, and runs of the whole suite with all methods.
    statuses : Counter of str
        Results by status.
    n_sets : dict of str to int
        Number of data sets by state: "complete", "partial" or "none".
    seeds : tuple of int
        Seeds for which every run on all data sets has a result.
    """

    n_runs: int
    n_planned: int
    statuses: Counter[str]
    n_sets: Mapping[str, int]
    seeds: tuple[int, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every run of the suite has a result."""
        return self.n_runs == self.n_planned


@dataclass(frozen=True)
class Standing:
    """The results of a suite, and statements about them as Markdown.

    Attributes
    ----------
    results : sequence of dict
        Results of the suite; may include methods and data sets that it does not have.
    suite : dict
        Definition of the suite.
    """

    results: Sequence[Result]
    suite: Suite

    @cached_property
    def tried(self) -> list[Result]:
        """Results of the methods of this library on the data sets of the suite that were tried."""
        return [
            result
            for result in self.results
            if result["dataset"] in self.suite["datasets"]
            and result["method"] in methods()
            and result["status"] in _TRIED
        ]

    @cached_property
    def progress(self) -> Progress:
        """How many runs of the suite have a result."""
        counts = Counter((result["dataset"], result["seed"]) for result in self.tried)
        n_sets: Counter[str] = Counter()
        unfinished: set[int] = set()
        for name, entry in self.suite["datasets"].items():
            seeds = range(self.suite["seeds"][entry["part"]])
            n_planned = len(methods()) * count_runs({**self.suite, "datasets": {name: entry}})
            unfinished |= {seed for seed in seeds if counts[name, seed] * len(seeds) < n_planned}
            n_tried = sum(counts[name, seed] for seed in seeds)
            n_sets["complete" if n_tried == n_planned else "partial" if n_tried else "none"] += 1
        return Progress(
            len(self.tried),
            len(methods()) * count_runs(self.suite),
            Counter(result["status"] for result in self.tried),
            n_sets,
            tuple(seed for seed in range(self._most_seeds) if seed not in unfinished),
        )

    @property
    def _most_seeds(self) -> int:
        """Number of seeds of the data sets that have most."""
        return max(self.suite["seeds"][entry["part"]] for entry in self.suite["datasets"].values())

    @cached_property
    def shown(self) -> list[Result]:
        """Results with the seeds for which every run has a result."""
        seeds = self.progress.seeds
        return [result for result in self.tried if result["seed"] in seeds]

    def headline(self) -> str:
        """The mean ranks of Sieve in one sentence, or that there are none yet."""
        if not self.shown:
            return (
                f"{self.progress.n_runs:,} of its {self.progress.n_planned:,} runs have been "
                "computed so far, too few to rank methods."
            )
        ranks = {track: table.friedman for track, table in self._held_out_tables.items()}
        first = next(iter(ranks.values()))
        places = [f"{test.ranks[OURS]:.1f} with {track} features" for track, test in ranks.items()]
        so_far = "On" if self.progress.is_complete else f"With {self._counted_seeds}, on"
        return (
            f"{so_far} {len(first.blocks.names)} data sets that were not used in its design, "
            f"{OURS} has a mean rank of {' and '.join(places)} among {len(first.ranks)} methods "
            f"(critical difference {first.critical_difference:.1f})."
        )

    @cached_property
    def _held_out_tables(self) -> dict[str, RankTable]:
        """Ranks by track on data sets that were not used in the design of Sieve."""
        design = design_sets(self.suite)
        return {
            track: RankTable(
                [r for r in self.shown if r["dataset"] not in design and r["features"] == track]
            )
            for track in self.suite["tracks"].values()
            if self.shown
        }

    def summary(self) -> str:
        """Results of the tests about Sieve in each track."""
        sentences = []
        for track, table in self._held_out_tables.items():
            ranks = table.friedman
            worse, equal, better = table.probabilities(OURS)
            win, tie, loss = table.counts(OURS)
            n_tested = win + tie + loss
            tests = (
                f"it is significantly better in {win} of {n_tested} settings, not significantly "
                f"different in {tie}, and significantly worse in {loss}; "
            )
            sentences.append(
                f"With {track} features, on {len(ranks.blocks.names)} data sets that were not "
                f"used in its design, {OURS} has a mean rank of {ranks.ranks[OURS]:.1f} among "
                f"{len(ranks.ranks)} methods (critical difference "
                f"{ranks.critical_difference:.1f}). Compared with `{FLOOR}`, "
                f"{tests if n_tested else ''}over data sets it is mostly more than a point better "
                f"with probability {better:.2f}, mostly within a point with {equal:.2f}, and "
                f"mostly more than a point worse with {worse:.2f} (Bayesian signed rank test)."
            )
        return "\n".join(sentences)

    def state(self) -> str:
        """Which part of the suite was computed, and how to continue."""
        progress = self.progress
        statuses = progress.statuses
        counts = [f"{statuses[name]:,} {name}" for name in _TRIED if statuses[name]]
        lines = [
            f"{progress.n_runs:,} of {progress.n_planned:,} runs ({len(methods())} methods) have "
            f"a result: {', '.join(counts) or 'none'}.",
            f"Of {len(self.suite['datasets'])} data sets, {progress.n_sets.get('complete', 0)} "
            f"are complete, {progress.n_sets.get('partial', 0)} are computed in part, and "
            f"{progress.n_sets.get('none', 0)} not at all.",
        ]
        if not progress.is_complete:
            lines.append(
                "The command below continues where the stored results end, on any machine that "
                "has the data."
            )
        if not self.shown:
            lines.append(
                "No ranks, tests or statements about methods are shown before all methods have "
                "run on all data sets with one seed: the data sets that come first are not "
                "representative."
            )
            return "\n".join(lines)
        if progress.is_complete:
            lines.append(
                '<a href="leaderboard/index.html">Open the leaderboard</a>, with one line per '
                "method, or read the [tables](results/leaderboard.md)."
            )
        lines += [self._seeds_shown(), self.summary()]
        return "\n".join(line for line in lines if line)

    @property
    def _counted_seeds(self) -> str:
        """Number of the seeds that are shown, and of their runs."""
        n_seeds = len(self.progress.seeds)
        runs = f"{len(self.shown):,} of {self.progress.n_planned:,} runs"
        return f"{n_seeds} of {self._most_seeds} seeds ({runs})"

    def _seeds_shown(self) -> str:
        """Which results the tables rest on, unless all of them."""
        progress = self.progress
        if progress.is_complete:
            return ""
        sentence = (
            f"The [tables](results/leaderboard.md) rest on {self._counted_seeds}, with which all "
            "methods have run on all data sets."
        )
        if len(progress.seeds) == 1:
            sentence += " With one seed, no difference within a setting can be significant."
        return sentence

    def ranks(self) -> str:
        """Ranks, tests and costs in each track: first the sets not used in the design."""
        if not self.shown:
            return "Not shown before all methods have run on all data sets with one seed."
        tables = {
            "data sets not used in the design of Sieve": self._held_out_tables,
            "all data sets": {
                track: RankTable([r for r in self.shown if r["features"] == track])
                for track in self.suite["tracks"].values()
            },
        }
        return "\n\n".join(
            f"### {track.capitalize()} features, {title}\n\n{table.markdown()}"
            for title, by_track in tables.items()
            for track, table in by_track.items()
        )

    def sets(self) -> str:
        """One table per data set."""
        if not self.shown:
            return "Not shown before all methods have run on all data sets with one seed."
        design = design_sets(self.suite)
        sections = []
        for name in self.suite["datasets"]:
            mark = " (used in the design of Sieve)" if name in design else ""
            results = [result for result in self.shown if result["dataset"] == name]
            sections += [f"### {name}{mark}", set_table(results, self.suite)]
        return "\n\n".join(sections)

    def fill(self, text: str, where: str) -> str:
        """Write the marked blocks of a text.

        A block begins with ``<!-- leaderboard:NAME -->`` and ends with ``<!-- /leaderboard -->``;
        NAME is one of `BLOCKS`.

        Parameters
        ----------
        text : str
            Markdown.
        where : str
            Name of the page, for errors.

        Returns
        -------
        str

        Raises
        ------
        InputError
            If the text has no block, or one with an unknown name.
        """

        def block(match: re.Match[str]) -> str:
            name = match["name"]
            if name not in BLOCKS:
                raise InputError(f"{where}: no block {name!r}; one of {', '.join(BLOCKS)}")
            content = textwrap.indent(getattr(self, name)(), match["indent"])
            return f"{match['begin']}{content}\n{match['end']}"

        new, count = _BLOCK.subn(block, text)
        if not count:
            raise InputError(f"{where}: the page has no block <!-- leaderboard:NAME -->")
        return new

    def write_blocks(self, page: Path) -> None:
        """Write the marked blocks of a page; see `fill`.

        Parameters
        ----------
        page : Path
            Markdown file.
        """
        old = page.read_text("utf-8")
        new = self.fill(old, str(page))
        if new != old:
            with atomic_write(page) as stream:
                stream.write(new.encode())
