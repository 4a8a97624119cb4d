"""`schirn bench`."""

import argparse
from collections import Counter
from collections.abc import Collection
from typing import Any

from schirn._input import suggest
from schirn.datasets.noise import KINDS
from schirn.exceptions import InputError
from schirn.lab.bench import (
    AUTO,
    DEFAULT_METHODS,
    FEATURES,
    TUNINGS,
    counts_text,
    names_of,
    overview_table,
    parse_level,
    settings_text,
    tie_warnings,
)
from schirn.lab.bench import run as run_bench
from schirn.lab.bench.stats import DEFAULT_TEST, TESTS
from schirn.lab.bench.suite import (
    DESIGN_NOTE,
    count_runs,
    design_sets,
    read_suite,
    run_suite,
    suite_names,
    summary,
)
from schirn.lab.cli._options import parse_methods
from schirn.program.output import note, print_json, printable, say, table, working
from schirn.program.parser import add_options, assignment

# A first part of a suite, which a newcomer can wait for.
_SUITE_SECONDS = 540.0
OPTIONS = f"""
--datasets LIST:names  names or files, each followed by :R for R wrong labels per row, or by :own
--suite {"|".join(suite_names())}  a fixed suite of runs, which replaces --datasets and the options
    under 'comparison'
--part LIST:names  parts of the suite (default: all)
--tracks LIST:names  tracks of the suite (default: all)
--methods LIST:names = {",".join(DEFAULT_METHODS)}  names, module:Class, NAME=METHOD for a variant,
    all, or baselines
-o, --output DIR  folder of the results (default: the name of the suite)
[comparison]
--r LIST:names  numbers of wrong labels per row, for data sets without :R
--folds K:positive = 5  number of folds
--stored-folds  use the folds that come with a data set
--seeds LIST:naturals = 0  one repetition per seed
--tuning {"|".join(TUNINGS)} = candidates  none: recommended parameters; candidates: on held-out
    candidates; oracle: on the true labels of the test rows
--search-rows N:positive  search on at most N training rows of each fold (default: all)
--features {"|".join(FEATURES)} = raw  features of all methods: as in the file (raw), scaled
    according to their kind (auto), or Gaussian kernel features (kernel)
--noise {"|".join(KINDS)} = legacy  kind of noise
--noise-seed S:natural  seed of the noise (default: R for legacy, else the seed of the run)
--param METHOD.NAME=VALUE...  fix a parameter (repeatable)
--grid METHOD.NAME=[...]...  values to search instead of the default grid (repeatable)
--option NAME=VALUE:assignment...  reader option for data sets given as files, such as labels=tags
    (repeatable)
[execution]
--jobs N:natural = 1  number of processes (default: 1; 0: run everything in this process)
--time-limit T:duration  stop a run after this time, such as 90, 9m or 2h
--stop-after T:duration  stop after this time, such as 2h; the same command resumes it (default: 9m
    for a suite, else never)
--retry  repeat runs that failed or timed out
[report]
--report  write report.html, tables (Markdown, LaTeX, CSV), figures (SVG, PDF), the protocol as a
    paragraph and BibTeX to the folder
--reference METHOD  method that the others are tested against, or none (default: Sieve, else
    Schirn); implies --report
--test {"|".join(TESTS)}  corrected: corrected resampled t-test over folds (default); paired:
    the t-test of the papers, which finds too many differences; implies --report
"""


def run(args: argparse.Namespace) -> int:
    """Compare methods by cross-validation, and write one result per fit to a folder.

    Run the same command again to resume after an interruption. Nothing is tuned on true labels
    except with --tuning oracle.

    Examples
    --------
    schirn bench --datasets digits_attributes:2 --output out
    schirn bench --datasets birds:3,scene:1 --methods Schirn,NLR --folds 5 --output out
    schirn bench --datasets mine.npz:2 --methods mypkg:MyMethod,Sieve --jobs 4 --output out
    schirn bench --datasets my.npz:2 --methods mypkg:MyMethod,Sieve --reference MyMethod -o out
    schirn bench --datasets birds --r 3,7 --methods all --time-limit 600 --output out
    schirn bench --datasets emotions:1 --methods flat=Schirn --param flat.beta=0 --output out
    schirn bench --suite pml-2 --methods mypkg:MyMethod,Sieve,CandidateRidge
    """
    if (args.suite is None) == (args.datasets is None):
        raise InputError("give either --datasets or --suite")
    output = args.output or args.suite
    if output is None:
        raise InputError("name the folder of the results with --output")
    methods = parse_methods(args.methods)
    reference = _reference(args.reference, methods)
    execution = {
        "output": output,
        "jobs": args.jobs,
        "threads": args.threads,
        "retry": args.retry,
        "stop_after": args.stop_after or (_SUITE_SECONDS if args.suite else None),
    }
    with working("comparing methods", args):
        compare_methods = _run_suite if args.suite else _run_datasets
        results = compare_methods(args, methods, execution)
    counts = Counter(result["status"] for result in results)
    if args.json:
        print_json({"output": output, "counts": counts, "results": results})
    elif args.suite:
        _print_suite(results, output, args, len(methods))
    else:
        _print(results, output)
    if (args.report or args.reference or args.test) and counts["done"]:
        # Drawing needs packages that a plain comparison does not.
        from schirn.lab.bench.report import write_outputs

        test = args.test or DEFAULT_TEST
        design = design_sets(read_suite(args.suite)) if args.suite else ()
        page = write_outputs(results, output, reference=reference, test=test, design=design)[0]
        note(f"report and tables: {printable(str(page))}")
    if args.suite:
        # A line names all data sets that are not here.
        results = [result for result in results if result["status"] != "skipped"]
    return _verdict(results, counts)


def _reference(name: str | None, methods: Collection[str]) -> str | None:
    """Find the reference among the methods, before hours of work."""
    if name is None:
        return AUTO
    if name.lower() == "none":
        return None
    matches = [method for method in methods if name.lower() in names_of(method)]
    if len(matches) != 1:
        raise InputError(
            f"--reference {name} must be one of the methods, or none; {suggest(name, methods)}"
        )
    return matches[0]


def _run_datasets(
    args: argparse.Namespace, methods: dict[str, str], execution: dict[str, Any]
) -> list[dict[str, Any]]:
    """Compare methods on the data sets that are named."""
    return run_bench(
        args.datasets,
        methods,
        r=[parse_level(text) for text in args.r or ["own"]],
        folds=args.folds,
        seeds=args.seeds,
        tuning=args.tuning,
        search_rows=args.search_rows,
        features=args.features,
        noise=args.noise,
        noise_seed=args.noise_seed,
        stored_folds=args.stored_folds,
        params=_by_method("--param", args.param),
        grids=_grids(args.grid),
        reader_options=dict(args.option),
        time_limit=args.time_limit,
        **execution,
    )


def _run_suite(
    args: argparse.Namespace, methods: dict[str, str], execution: dict[str, Any]
) -> list[dict[str, Any]]:
    """Run a suite, which fixes everything about the comparison."""
    fixed = [
        *("r", "folds", "seeds", "tuning", "features", "noise", "param", "grid", "option"),
        *("search_rows", "noise_seed", "stored_folds", "time_limit"),
    ]
    parser = argparse.ArgumentParser()
    add_options(parser, OPTIONS)
    for name in fixed:
        if getattr(args, name) != parser.get_default(name):
            option = name.replace("_", "-")
            raise InputError(f"a suite fixes --{option}; leave it out, or name --datasets instead")
    return run_suite(args.suite, methods, parts=args.part, tracks=args.tracks, **execution)


def _print(results: list[dict[str, Any]], output: str) -> None:
    heads, lines = overview_table(results, "average_precision")
    say("Average precision, mean ± standard deviation over folds;")
    say(f"{settings_text(results)}.\n")
    table(heads, lines, align="l" + "r" * (len(heads) - 1))
    say(f"\n{counts_text(results)}; results in {printable(output)}")


def _print_suite(
    results: list[dict[str, Any]], output: str, args: argparse.Namespace, n_methods: int
) -> None:
    """Print the table of a suite, what is missing from it, and how to continue."""
    tried = [result for result in results if result["status"] != "skipped"]
    if any(result["status"] == "done" for result in tried):
        heads, *lines = summary(tried)
        say(f"Suite {args.suite}: average precision in percent, mean over settings ± 95% interval")
        say("over seeds; mean rank over data sets; P(better than CandidateRidge), Bayesian signed")
        say("rank.\n")
        table(heads, lines, align="l" + "r" * (len(heads) - 1))
        design = design_sets(read_suite(args.suite))
        shown = dict.fromkeys(r["dataset"] for r in tried if r["status"] == "done")
        if design & shown.keys():
            marked = ", ".join(f"{name}*" if name in design else name for name in shown)
            say(f"\nData sets: {marked}")
            say(DESIGN_NOTE)
        say(f"\n{counts_text(results)}; results in {printable(output)}")
    missing = dict.fromkeys(r["dataset"] for r in results if r["status"] == "skipped")
    if missing:
        names = ", ".join(missing)
        say(
            f"{len(missing)} data sets of the suite are missing: {names}; docs/data.md says where "
            "they come from, and SCHIRN_DATA names their folder"
        )
    n_runs = n_methods * count_runs(read_suite(args.suite), args.part, args.tracks)
    if len(results) < n_runs:
        say(
            f"{len(results)} of {n_runs} runs have a result, so the table is incomplete; the same "
            "command continues where it stopped, with --stop-after 8h for longer"
        )


def _verdict(results: list[dict[str, Any]], counts: Counter[str]) -> int:
    """Report what went wrong; return the exit code."""
    reasons = Counter((r["status"], r["reason"]) for r in results if r["status"] != "done")
    for (status, reason), count in reasons.most_common(5):
        note(f"{count} {status}: {reason}", error=True)
    if len(reasons) > 5:
        note(f"and {len(reasons) - 5} more reasons; see the results", error=True)
    finished = (r for r in results if r["status"] == "done" and r.get("reason"))
    doubts = [f"{result['method']}: {result['reason']}" for result in finished]
    for text in [*tie_warnings(results), *dict.fromkeys(doubts)]:
        note(text)
    bad = counts["failed"] + counts["timeout"]
    if bad:
        note(f"{bad} of {len(results)} runs failed or timed out", error=True)
    elif not counts["done"]:
        note("nothing was run: every data set was skipped", error=True)
    return int(bool(bad or not counts["done"]))


def _by_method(option: str, texts: list[str]) -> dict[str, dict[str, Any]]:
    """Parse METHOD.NAME=VALUE and group by method."""
    values: dict[str, dict[str, Any]] = {}
    for text in texts:
        target, equals, value = text.partition("=")
        method, dot, name = target.rpartition(".")
        if not equals or not dot or not name.isidentifier():
            raise InputError(f"{option} must look like METHOD.NAME=VALUE, not {text!r}")
        values.setdefault(method, {})[name] = assignment(f"{name}={value}")[1]
    return values


def _grids(texts: list[str]) -> dict[str, Any]:
    grids = _by_method("--grid", texts)
    for method, grid in grids.items():
        for name, values in grid.items():
            if not isinstance(values, list) or not values:
                raise InputError(
                    f"--grid {method}.{name} needs a list of values such as [0.1, 1], "
                    f"not {values!r}"
                )
    return grids
