"""Execute a plan: run the fits, then write tables, figures and pages into one folder."""

import io
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from schirn._optional import optional
from schirn.exceptions import DataError, InputError
from schirn.lab.bench import (
    Batch,
    Engine,
    default_threads,
    importable_here,
    results_of,
    to_dense,
)
from schirn.lab.bench.figures import STYLE
from schirn.lab.bench.report import write_file, write_outputs, write_table
from schirn.lab.bench.results import Result
from schirn.lab.reproduction import _ablations as ablations
from schirn.lab.reproduction import _studies as studies
from schirn.lab.reproduction import _sweeps
from schirn.lab.reproduction._kept import keep_results, progress_of, renew_kept, restore_results
from schirn.lab.reproduction._page import PAPER_TEST, pages
from schirn.lab.reproduction._plan import (
    STUDIES,
    Plan,
    authors,
    candidates_of,
    labelled,
    own_noise,
    plan_batches,
    preprocessed,
    studied,
    to_tie,
    with_noise,
)
from schirn.lab.reproduction._preprocessing import preprocessing
from schirn.lab.reproduction._splits import Setting, split_choice
from schirn.lab.reproduction._studies import Study


def reproduce(
    output: str | os.PathLike[str],
    plan: Plan,
    *,
    chosen: Sequence[str] = STUDIES,
    date: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    jobs: int = 0,
    threads: int | None = None,
    time_limit: float | None = None,
    retry: bool = False,
    stop_after: float | None = None,
    kept: str | os.PathLike[str] | None = None,
    renew: int = 0,
) -> list[Path]:
    """Run the tables and the studies of a plan; fits already finished in `output` are not repeated.

    Parameters
    ----------
    output : path
        Folder for results, tables, figures, ``report.html``, ``reproduction.md`` and its tables.
    plan : Plan
        From `make_plan`.
    chosen : list of str
        Names of the studies to run besides the tables.
    date : str, optional
        Date to print.
    say : callable, optional
        Called with a line of text before each step.
    jobs, threads, time_limit, retry, stop_after
        As in `schirn.lab.bench.run`.
    kept : path, optional
        File with the results of finished fits, ``.jsonl.gz``: fits in it are not run again, and it
        is updated every few minutes and at the end.
    renew : int
        Number of fits in this file to repeat for each method whose code has changed. If they agree,
        the others are not run again either.

    Returns
    -------
    list of Path
        The files written, ``reproduction.md`` first.
    """
    batches = _batches(output, plan, chosen)
    say(f"{sum(len(batch.runs) for batch in batches)} fits")
    if kept is not None and renew:
        with importable_here():
            for sentence in renew_kept(kept, batches, renew):
                say(sentence)
    keeper = _Keeper(kept, batches)
    with importable_here():
        engine = Engine(
            batches,
            jobs=jobs,
            threads=threads or default_threads(jobs),
            time_limit=time_limit,
            retry=retry,
            stop_after=stop_after,
            report=keeper.report,
        )
        try:
            engine.run()
        finally:
            keeper.write()
    results = {batch.folder.name: results_of(*batch) for batch in batches}
    finished = progress_of(batches, results)
    return _write_results(Path(output), plan, results, finished, chosen, date, say)


class _Keeper:
    """Writes the file of finished fits every few minutes."""

    _SECONDS = 180.0

    def __init__(self, path: str | os.PathLike[str] | None, batches: Sequence[Batch]):
        self.path = path
        self.batches = batches
        self._last = time.monotonic()
        if path is not None:
            restore_results(path, batches)

    def report(self, result: Result) -> None:
        """Called after every fit."""
        if time.monotonic() - self._last > self._SECONDS:
            self.write()

    def write(self) -> None:
        """Write the file, if there is to be one."""
        if self.path is not None:
            keep_results(self.path, self.batches)
        self._last = time.monotonic()


def _write_results(
    folder: Path,
    plan: Plan,
    results: Mapping[str, list[Result]],
    finished: Mapping[str, str],
    chosen: Sequence[str],
    date: str | None,
    say: Callable[[str], None],
) -> list[Path]:
    """Write tables, figures and pages from finished fits; return the files."""
    by_name = {study.name: study for study in _studies(plan, results, chosen, say)}
    say("tables and figures")
    written = []
    for name, study in by_name.items():
        text = "".join(f"{json.dumps(r, ensure_ascii=False)}\n" for r in study.records)
        written.append(write_file(folder / f"{name}.jsonl", text.encode()))
        written += write_table(folder, study.table)
    if "sensitivity" in by_name:
        written += _write_sensitivity(folder / "figures", by_name["sensitivity"])
    title = "Reproduction of the published experiments"
    if not results["rows"]:
        raise DataError("no fit of the tables is finished; run the same command again to continue")
    written += write_outputs(results["rows"], folder, title=title, date=date, test=PAPER_TEST)
    if results["kernel"]:
        title += ", with kernel features"
        kernel_folder = folder / "kernel"
        written += write_outputs(
            results["kernel"], kernel_folder, title=title, date=date, test=PAPER_TEST
        )
    figures = {path.stem: path.name for path in sorted((folder / "figures").glob("*.svg"))}
    texts = pages(
        results,
        by_name,
        figures,
        part=plan.part,
        skipped=plan.skipped,
        finished=finished,
        date=date,
    )
    return [*(write_file(folder / name, text.encode()) for name, text in texts.items()), *written]


def _write_sensitivity(folder: Path, study: Study) -> list[Path]:
    """Draw the curves of the study, if there are any."""
    curves = _sweeps.sensitivity_curves(study.records)
    if not curves:
        return []
    matplotlib = optional("matplotlib", "plot", "Drawing a figure")
    stream = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure = _sweeps.sensitivity_figure(curves)
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return [write_file(folder / "sensitivity.svg", stream.getvalue())]


def _batches(output: str | os.PathLike[str], plan: Plan, chosen: Sequence[str]) -> list[Batch]:
    """Plan all fits; raise if there are none."""
    unknown = [name for name in chosen if name not in STUDIES]
    if unknown:
        raise InputError(f"there is no study {unknown[0]!r}; the studies are {', '.join(STUDIES)}")
    if not plan.sources:
        name, reason = next(iter(plan.skipped.items()))
        raise DataError(
            f"none of the data sets is available; set SCHIRN_DATA to their folder "
            f"({name}: {reason})"
        )
    return plan_batches(plan, Path(output), chosen)


def _studies(
    plan: Plan,
    results: Mapping[str, list[Result]],
    chosen: Sequence[str],
    say: Callable[[str], None],
) -> Iterable[Study]:
    """Make the chosen studies from the available data and the finished fits."""
    part = plan.part
    loaded = [(source.load(), level) for source, level in studied(plan)]
    noisy = [(data, candidates_of(data, level)) for data, level in loaded]
    originals = [(data, data.candidates) for data in own_noise(plan)]
    titles = [f"{d.name}{'' if level is None else f' r={level}'}" for d, level in loaded]
    triples = [(title, d.X, c) for title, (d, c) in zip(titles, noisy, strict=True)]
    matrices = [(title, c, d.y_true) for title, (d, c) in zip(titles, noisy, strict=True)]
    matrices += [(d.name, c, d.y_true) for d, c in originals]
    tied = to_tie(plan)
    theirs = authors(plan)
    makers: dict[str, tuple[bool, Callable[[], Study]]] = {
        "label_ranks": (True, lambda: studies.label_ranks(labelled(plan))),
        "prediction_ranks": (True, lambda: studies.prediction_ranks(originals or noisy)),
        "theorem": (True, lambda: studies.theorem(matrices, part.draws)),
        "singular_values": (True, lambda: studies.singular_values(matrices)),
        "convergence": (bool(noisy), lambda: studies.convergence(triples)),
        "ablation": (bool(noisy), lambda: ablations.ablation(results["ablation"])),
        "cooccurrence": (
            bool(tied),
            lambda: ablations.cooccurrence(results["cooccurrence"], tied),
        ),
        "sensitivity": (bool(noisy), lambda: _sweeps.sensitivity(results["sensitivity"])),
        "authors_folds": (
            bool(theirs),
            lambda: _sweeps.authors_folds(results["authors_folds"], theirs[0]),
        ),
        "preprocessing": (
            bool(preprocessed(plan)),
            lambda: preprocessing(results["preprocessing"], results["rows"]),
        ),
        "split_choice": (
            bool(with_noise(plan)),
            lambda: split_choice(_split_settings(plan), part.splits),
        ),
    }
    for name, (possible, make) in makers.items():
        if name in chosen and possible:
            say(f"study: {name.replace('_', ' ')}")
            yield make()


def _split_settings(plan: Plan) -> Iterable[Setting]:
    """Yield the settings of the study of splits."""
    for name, level, data in with_noise(plan):
        yield name, level, data.X, to_dense(data.y_true), to_dense(candidates_of(data, level))
