"""Results of a suite as Markdown: what was computed, ranks, tests and single data sets.

All statements rest on complete seeds: methods are compared only after all of them have run on all
data sets with one seed. Statements about Sieve rest on the data sets that were not used to design
it.
"""

import math
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
from schirn.lab.bench import FLOOR, ORACLE_MARK
from schirn.lab.bench.results import Result
from schirn.lab.bench.stats import Friedman, holm
from schirn.lab.bench.suite import Suite, count_runs, design_sets
from schirn.lab.leaderboard._standing_tables import (
    BETTER,
    BETTER_NOTE,
    RankTable,
    better_track,
    rank_notes,
    set_table,
)

OURS = "Sieve"
UNTOUCHED = ("generated_labels", "delicious", "eurlex4k")
"""Data sets on which no version of Sieve had been evaluated before its last change.

Earlier versions had been evaluated on all others: on those of the former suite pml-1, and on
mediamill, bibtex and corel5k by `benchmarks.sieve` and `benchmarks.sieve_ablation`. Those that are
not marked `design` in the suite took no part in a decision about Sieve, but its authors had seen
results on them.
"""
BLOCKS = ("headline", "state", "ranks", "sets")
"""Blocks of pages; each is a method of `Standing`."""
# Statuses of a run that has been tried to its end.
_TRIED = {
    "done": "done",
    "timeout": "timed out, or not repeated after a timeout with another seed",
    "failed": "failed",
}
_HELD_OUT = "data sets not used in the design of Sieve"
# The level of Wilcoxon's test.
_ALPHA = 0.05
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
        table = self._held_out_tables[BETTER]
        test = table.friedman
        in_fit = [
            name
            for name in sorted(test.ranks, key=test.ranks.__getitem__)
            if name in table.tuned_in_fit
        ]
        so_far = "On" if self.progress.is_complete else f"With {self._counted_seeds}, on"
        return (
            f"{so_far} {len(test.blocks.names)} data sets not used in its design, {OURS} has a "
            f"mean rank of {test.ranks[OURS]:.1f} among {len(test.ranks)} methods (critical "
            f"difference {test.critical_difference:.1f}), not significantly ahead of "
            f"{_level(test)}. Features are the better of two by test figures. Methods that tune in "
            f"`fit` ({', '.join(in_fit)}) use all training rows, the others search "
            f"{self.suite['search_points']} points on {self.suite['search_rows']} rows."
        )

    @cached_property
    def _held_out_tables(self) -> dict[str, RankTable]:
        """Ranks by track on data sets that were not used in the design of Sieve."""
        design = design_sets(self.suite)
        results = [result for result in self.shown if result["dataset"] not in design]
        if not results:
            return {}
        by_track = {
            track: [result for result in results if result["features"] == track]
            for track in self.suite["tracks"].values()
        }
        by_track[BETTER] = better_track(results)
        return {track: RankTable(rows) for track, rows in by_track.items()}

    def summary(self) -> str:
        """What the tests say about Sieve in each track."""
        tables = self._held_out_tables
        if not tables:
            return ""
        first = next(iter(tables.values())).friedman
        pvalues = holm([table.pvalue(OURS) for table in tables.values()])
        rows = [
            _in_track(track, table, pvalue)
            for (track, table), pvalue in zip(tables.items(), pvalues, strict=True)
        ]
        lines = [
            f"{OURS} among {len(first.ranks)} methods (critical difference "
            f"{first.critical_difference:.1f}) and against `{FLOOR}`, on "
            f"{len(first.blocks.names)} data sets not used in its design:",
            "",
            "| features | mean rank | not significantly ahead of | worse / equal / better | "
            "Wilcoxon's test | largest loss | won / not significant / lost |",
            "|---|--:|---|---|---|---|---|",
            *[f"| {' | '.join(row)} |" for row in rows],
            "",
            BETTER_NOTE,
            "Probabilities: Bayesian signed rank test; equal is within a point. Wilcoxon's test: "
            f"p-values with Holm's correction for the {len(rows)} rows. "
            f"{tables[BETTER].false_positives}".rstrip(),
            self._untouched_ranks(),
        ]
        return "\n".join(lines).rstrip()

    def _untouched_ranks(self) -> str:
        """State the mean ranks of Sieve on data sets that no earlier version had seen."""
        names = [name for name in UNTOUCHED if name in self.suite["datasets"]]
        if not names:
            return ""
        ranks = [
            f"{table.ranks_on(names)[OURS]:.1f} ({_marked(track)})"
            for track, table in self._held_out_tables.items()
        ]
        return (
            f"\nOn {', '.join(f'`{name}`' for name in names)}, where no earlier version of {OURS} "
            f"had been evaluated, its mean rank is {', '.join(ranks)}."
        )

    def state(self) -> str:
        """Which part of the suite was computed, and how to continue."""
        progress = self.progress
        statuses = progress.statuses
        counts = [f"{statuses[name]:,} {_TRIED[name]}" for name in _TRIED if statuses[name]]
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
        text = "\n".join(line for line in (*lines, self._seeds_shown()) if line)
        return f"{text}\n\n{self.summary()}"

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
            _HELD_OUT: self._held_out_tables,
            "all data sets": {
                track: RankTable([r for r in self.shown if r["features"] == track])
                for track in self.suite["tracks"].values()
            },
        }
        sections = [
            f"### {_marked(track).capitalize()} features, {title}\n\n"
            f"{table.markdown(by_metric=title == _HELD_OUT and track != BETTER)}"
            for title, by_track in tables.items()
            for track, table in by_track.items()
        ]
        return "\n\n".join([rank_notes(self.shown), *sections])

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


def _marked(track: str) -> str:
    """Return the name of a track, with a mark if test figures chose its features."""
    return track + ORACLE_MARK * (track == BETTER)


def _level(test: Friedman) -> str:
    """Return how many methods Sieve is not significantly ahead of, and whether the ridge is one."""
    level = [
        name
        for name, rank in test.ranks.items()
        if name != OURS and rank - test.ranks[OURS] <= test.critical_difference
    ]
    count = f"{len(level)} of {len(test.ranks) - 1} others"
    return f"{count}, `{FLOOR}` among them" if FLOOR in level else count


def _in_track(track: str, table: RankTable, pvalue: float) -> list[str]:
    """Return what a track says about Sieve, as cells."""
    verdict = "significant" if pvalue < _ALPHA else "not significant"
    advantages = table.advantages(OURS)
    name = min(advantages, key=advantages.__getitem__)
    loss = f"{-100 * advantages[name]:.1f} points on `{name}`" if advantages[name] < 0 else "none"
    counts = table.counts(OURS)
    return [
        _marked(track),
        f"{table.friedman.ranks[OURS]:.1f}",
        _level(table.friedman),
        " / ".join(f"{share:.2f}" for share in table.probabilities(OURS)),
        "-" if math.isnan(pvalue) else f"p = {pvalue:.2g}, {verdict}",
        loss,
        # One seed tests nothing.
        " / ".join(map(str, counts)) if any(counts) else "-",
    ]
