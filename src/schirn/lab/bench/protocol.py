"""The protocol of a benchmark: a paragraph for a paper, and its references."""

import math
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files

import schirn
from schirn.estimators import methods
from schirn.lab.bench._comparison import (
    ALL_METRICS,
    Comparison,
    Contender,
    Result,
    compare,
    contender_notes,
)
from schirn.lab.bench._rendering import latex_escape
from schirn.lab.bench.running._methods import recommended
from schirn.lab.bench.stats import DEFAULT_TEST, TESTS
from schirn.metrics import METRICS

# Key of this library, which methods of its own cite.
_SOFTWARE = "schirn"
_FEATURES = {
    "raw": "unscaled features",
    "auto": "features scaled according to their kind",
    "kernel": "the same kernel features for all methods",
}


def protocol_paragraph(
    results: Sequence[Result],
    *,
    test: str | None = DEFAULT_TEST,
    alpha: float = 0.05,
    latex: bool = False,
) -> str:
    r"""State the protocol in one paragraph, ready for a paper.

    Parameters
    ----------
    results : list of dict
        Results of a benchmark.
    test : {"corrected", "paired"} or None
        Significance test of the tables; None for tables without a reference method.
    alpha : float
        Significance level.
    latex : bool
        Write LaTeX that cites the entries of `bibtex`.

    Returns
    -------
    str

    Examples
    --------
    >>> from schirn.lab.bench.protocol import protocol_paragraph
    >>> results = [
    ...     {"dataset": "d", "r": 1, "method": m, "fold": f, "folds": 5, "seed": 0,
    ...      "tuning": "none", "metrics": {"one_error": 0.1}}
    ...     for m in ("Sieve", "NLR") for f in range(5)
    ... ]
    >>> print(protocol_paragraph(results, test=None).partition(" Results")[0])
    We compare Sieve and NLR on one data set: d (r = 1), with r wrong labels added to every row.
    """
    comparison = compare(results, next(iter(ALL_METRICS)))
    escape = latex_escape if latex else str
    names = [
        escape(c.label) + (f"~\\cite{{{key}}}" if latex and (key := _key(c.method)) else "")
        for c in comparison.contenders
    ]
    sentences = [
        _where(comparison, results),
        *_tuning(comparison, results),
        *_measures(results),
        *([] if test is None else [f"Significance: {TESTS[test]}, level {alpha:g}."]),
        *contender_notes(comparison.contenders),
        *_versions(results),
    ]
    return " ".join([f"We compare {_and(names)}", *map(escape, sentences)])


def bibtex(names: Sequence[str]) -> str:
    """Return the BibTeX entries of this library and of the papers of some methods.

    Parameters
    ----------
    names : list of str
        Names of methods; only methods of this library have entries.

    Returns
    -------
    str

    Examples
    --------
    >>> from schirn.lab.bench.protocol import bibtex
    >>> print(bibtex(["NLR", "CandidateRidge"]).count("@"))
    2
    """
    keys = dict.fromkeys([*filter(None, map(_key, names)), _SOFTWARE])
    return "\n".join(_entries()[key] for key in sorted(keys, key=_SOFTWARE.__eq__))


def _entries() -> dict[str, str]:
    """Return the entries of the papers by key."""
    text = files("schirn.lab.bench").joinpath("references.bib").read_text(encoding="utf-8")
    text = text.replace("VERSION", schirn.__version__)
    entries = [f"@{entry.rstrip()}\n" for entry in text.split("@") if entry.strip()]
    return {re.split("[{,]", entry)[1]: entry for entry in entries}


def _key(name: str) -> str:
    """Return the key of the entry for a method's reference; this library's for its own methods."""
    cls = methods().get(name)
    if cls is None:
        return ""
    title = f"title = {{{cls._info.reference}}}"
    return next((key for key, entry in _entries().items() if title in entry), _SOFTWARE)


def _where(comparison: Comparison, results: Sequence[Result]) -> str:
    """Describe the data sets, noise, folds and features."""
    levels: dict[str, list[str]] = {}
    for setting in comparison.settings:
        levels.setdefault(setting.dataset, []).extend([setting.level] if setting.level else [])
    sets = [
        f"{name} (r = {', '.join(values)})" if values else f"{name} (own candidates)"
        for name, values in levels.items()
    ]
    noise = [name for name in _values(results, "noise") if name != "own"]
    folds = _values(results, "folds") or [str(len(_values(results, "fold")))]
    seeds = _values(results, "seed")
    text = f"on {'one data set' if len(sets) == 1 else f'{len(sets)} data sets'}: {', '.join(sets)}"
    if any(levels.values()):
        text += (
            f", with {'a share r' if noise == ['rate'] else 'r'} wrong labels added to every row"
        )
        text += f" (kind of noise: {_and(noise)})" if noise else ""
    cross = [number for number in folds if number != "1"]
    split = ["one split, a fifth of the rows for tests"] if "1" in folds else []
    how = [f"{_and(cross)}-fold cross-validation"] if cross else []
    text += f". Results are means over {_and(how + split)}"
    if len(seeds) > 1:
        text += f", repeated with the seeds {_and(seeds)}"
    elif seeds:
        text += f" with seed {seeds[0]}"
    if noise_seeds := _values(results, "noise_seed"):
        text += f" (seeds of the noise: {_and(noise_seeds)})"
    used = [_FEATURES.get(name, f"{name} features") for name in _values(results, "features")]
    return text + (f", on {_and(used)}." if used else ".")


def _tuning(comparison: Comparison, results: Sequence[Result]) -> list[str]:
    """Describe how the parameters were chosen, with the number of points of each grid."""
    points: dict[str, int] = {}
    for result in results:
        if grid := result.get("grid"):
            points[str(result["method"])] = math.prod(len(values) for values in grid.values())

    def searched(chosen: Sequence[Contender]) -> str:
        sizes = {c: f" ({points[c.method]} points)" for c in chosen if c.method in points}
        return _and([c.label + sizes.get(c, "") for c in chosen])

    oracle = [c for c in comparison.contenders if c.oracle]
    fair = [
        c
        for c in comparison.contenders
        if c.method in points and c.tuning == "candidates" and not c.oracle and not c.ceiling
    ]
    inner = _values(results, "inner_folds")
    rows = _values(results, "search_rows")
    sentences = []
    if fair:
        details = [f"{_and(inner)} inner folds"] if inner else []
        details += [f"at most {_and(rows)} rows"] if rows else []
        folds = f" ({', '.join(details)})" if details else ""
        sentences.append(
            f"In every fold, the parameters of {searched(fair)} were chosen by a grid search on "
            f"the candidate labels of held-out training rows{folds}."
        )
    if oracle:
        sentences.append(
            f"The parameters of {searched(oracle)} were chosen on the true labels of the test "
            "rows, so that these results are optimistic."
        )
    defaults = [c for c in comparison.rivals if c not in fair and c not in oracle]
    if defaults:
        who = _and([c.label for c in defaults]) if fair or oracle else "All methods"
        sentences.append(
            f"{who} used recommended parameters, or chose them in `fit` from the candidates of all "
            "training rows."
        )
    sentences += fixed_parameters(results)
    return sentences


def fixed_parameters(results: Iterable[Result]) -> list[str]:
    """Return a sentence about the methods that ran with non-default parameters.

    Parameters
    ----------
    results : list of dict
        Results of a benchmark.

    Returns
    -------
    list of str
        One sentence, or nothing.
    """
    fixed: dict[str, dict[str, None]] = {}
    for result in results:
        for name, value in recommended(str(result["method"])).items():
            if result.get("params", {}).get(name) == value:
                fixed.setdefault(str(result["method"]), {})[f"{name}={value}"] = None
    descriptions = [f"{name} ({', '.join(values)})" for name, values in fixed.items()]
    return [f"Set differently from the default: {_and(descriptions)}."] if fixed else []


def _measures(results: Sequence[Result]) -> list[str]:
    known = [name for name in METRICS if any(name in (r.get("metrics") or {}) for r in results)]
    labels = [ALL_METRICS[name].name for name in known]
    return [f"Metrics on the true labels of the test rows: {_and(labels)}."] if labels else []


def _versions(results: Sequence[Result]) -> list[str]:
    versions: dict[str, dict[str, None]] = {}
    for result in results:
        for package, version in (result.get("versions") or {}).items():
            versions.setdefault(package, {})[str(version)] = None
    packages = [f"{name} {' and '.join(numbers)}" for name, numbers in versions.items()]
    return [f"Versions: {', '.join(packages)}."] if packages else []


def _values(results: Sequence[Result], name: str) -> list[str]:
    values = dict.fromkeys(result.get(name) for result in results)
    return [str(value) for value in values if value is not None]


def _and(items: Sequence[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
