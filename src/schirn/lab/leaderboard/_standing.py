"""What the results of a suite say, as Markdown: what was computed, ranks, tests and single sets.

Nothing is said about methods before every run of the suite has a result. Statements rest on the
data sets that were not used when Sieve was designed.
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
# Statuses of a run that has been tried to its end.
_TRIED = ("done", "timeout", "failed")
_BLOCK = re.compile(
    r"^(?P<begin>(?P<indent> *)<!-- leaderboard:(?P<name>\S+) -->\n)"
    r".*?"
    r"(?P<end>^ *<!-- /leaderboard -->)",
    re.S | re.M,
)


@dataclass(frozen=True)
class Progress:
    """Progress of the runs of a suite.

    Attributes
    ----------
    n_runs, n_planned : int
        Runs with a result, and runs of the whole suite with all methods.
    statuses : Counter of str
        Results by status.
    n_sets : dict of str to int
        Data sets by what exists of them: "complete", "partial" or "none".
    complete : tuple of str
        Data sets of which every run has a result, in the order of the suite.
    """

    n_runs: int
    n_planned: int
    statuses: Counter[str]
    n_sets: Mapping[str, int]
    complete: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """True if every run of the suite has a result."""
        return self.n_runs == self.n_planned


@dataclass(frozen=True)
class Standing:
    """The results of a suite, and their summaries as Markdown.

    Attributes
    ----------
    results : sequence of dict
        Results of the suite, also of methods and data sets that it does not have.
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
        """Number of runs of the suite with a result, and of planned runs."""
        counts = Counter(result["dataset"] for result in self.tried)
        complete = []
        n_sets: Counter[str] = Counter()
        for name, entry in self.suite["datasets"].items():
            n_planned = len(methods()) * count_runs({**self.suite, "datasets": {name: entry}})
            kind = "partial" if counts[name] else "none"
            if counts[name] == n_planned:
                kind = "complete"
                complete.append(name)
            n_sets[kind] += 1
        return Progress(
            len(self.tried),
            len(methods()) * count_runs(self.suite),
            Counter(result["status"] for result in self.tried),
            n_sets,
            tuple(complete),
        )

    def headline(self) -> str:
        """Return the result of the suite for Sieve, or the reason why there is none yet."""
        progress = self.progress
        if not progress.is_complete:
            return (
                f"{progress.n_runs:,} of its {progress.n_planned:,} runs have been computed so "
                "far, too few to rank methods."
            )
        held_out = self._held_out()
        sentences = []
        for track in self.suite["tracks"].values():
            table = RankTable([result for result in held_out if result["features"] == track])
            ranks = table.friedman
            worse, equal, better = table.probabilities(OURS)
            win, tie, loss = table.counts(OURS)
            sentences.append(
                f"With {track} features, on {len(ranks.blocks.names)} data sets that were not "
                f"used in its design, {OURS} has a mean rank of {ranks.ranks[OURS]:.1f} among "
                f"{len(ranks.ranks)} methods (critical difference "
                f"{ranks.critical_difference:.1f}). Compared with `{FLOOR}`, it is significantly "
                f"better in {win} of {win + tie + loss} settings, not significantly different in "
                f"{tie}, and significantly worse in {loss}; it is more than a point better with "
                f"probability {better:.2f}, practically equal with {equal:.2f}, and worse with "
                f"{worse:.2f}."
            )
        return "\n".join(sentences)

    def state(self) -> str:
        """Describe the computed part of the suite, and how to continue."""
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
        if progress.is_complete:
            lines.append(
                '<a href="leaderboard/index.html">Open the leaderboard</a>, with one line per '
                "method, or read the [tables](results/leaderboard.md)."
            )
            lines.append(self.headline())
        else:
            lines.append(
                "Until all of them are there, no ranks, tests or statements about methods are "
                "shown: the data sets that come first are not representative. The command below "
                "goes on where the stored results end, on any machine that has the data."
            )
        return "\n".join(lines)

    def ranks(self) -> str:
        """Return ranks, tests and costs per track, first for data sets not used in the design."""
        if not self.progress.is_complete:
            return "Not shown before every run of the suite has a result."
        groups = {
            "data sets not used in the design of Sieve": self._held_out(),
            "all data sets": self.tried,
        }
        sections = []
        for title, group in groups.items():
            for track in self.suite["tracks"].values():
                results = [result for result in group if result["features"] == track]
                sections.append(f"### {track.capitalize()} features, {title}")
                sections.append(RankTable(results).markdown())
        return "\n\n".join(sections)

    def sets(self) -> str:
        """Return one table per data set of which every run has a result."""
        if not self.progress.complete:
            return "No data set is complete yet."
        design = design_sets(self.suite)
        sections = []
        for name in self.progress.complete:
            mark = " (used in the design of Sieve)" if name in design else ""
            results = [result for result in self.tried if result["dataset"] == name]
            sections += [f"### {name}{mark}", set_table(results, self.suite)]
        return "\n\n".join(sections)

    def _held_out(self) -> list[Result]:
        """Return the results on data sets that were not used in the design of Sieve."""
        design = design_sets(self.suite)
        return [result for result in self.tried if result["dataset"] not in design]

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
