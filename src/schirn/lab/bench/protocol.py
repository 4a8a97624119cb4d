"""The protocol of a benchmark: a paragraph for a paper, and its references."""

import math
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

import schirn
from schirn.estimators import methods
from schirn.lab.bench._comparison import (
    ALL_METRICS,
    Comparison,
    Contender,
    Result,
    compare,
    contender_notes,
    without_folders,
)
from schirn.lab.bench._rendering import latex_escape
from schirn.lab.bench.running._methods import SELF_TUNED, recommended
from schirn.lab.bench.stats import DEFAULT_TEST, TESTS
from schirn.metrics import METRICS

TEST_REFERENCES = {
    "demsar2006": "Demšar, 2006",
    "friedman1937": "Friedman, 1937",
    "holm1979": "Holm, 1979",
    "nadeau2003": "Nadeau and Bengio, 2003",
    "nemenyi1963": "Nemenyi, 1963",
}
"""Short references of the significance tests by the keys of their entries."""
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
        *_without_results(results),
        *_tuning(comparison, results),
        *_measures(results),
        *([] if test is None else _significance(_answered(results), test, alpha)),
        *contender_notes(comparison.contenders),
        *_versions(results),
    ]
    text = " ".join([f"We compare {_and(names)}", *map(escape, sentences)])
    if latex:
        text = re.sub("`([^`]*)`", r"\\texttt{\1}", text)
        return re.sub(" @(\\w+)@", r"~\\cite{\1}", text)
    return re.sub("@(\\w+)@", lambda match: f"({TEST_REFERENCES[match[1]]})", text)


def bibtex(names: Sequence[str]) -> str:
    """Return the BibTeX entries of this library and of the papers of some methods.

    Parameters
    ----------
    names : list of str
        Names of methods, or keys in `TEST_REFERENCES`. Methods of others have no entries.

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
    if name in TEST_REFERENCES:
        return name
    cls = methods().get(name)
    if cls is None:
        return ""
    title = f"title = {{{cls._info.reference}}}"
    return next((key for key, entry in _entries().items() if title in entry), _SOFTWARE)


def _where(comparison: Comparison, results: Sequence[Result]) -> str:
    """Describe the data sets, noise, folds and features."""
    levels: dict[str, list[str]] = {}
    answered = _answered(results)
    for setting in (s for s in comparison.settings if (s.dataset, s.r) in answered):
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


def _answered(results: Sequence[Result]) -> set[tuple[str, Any]]:
    """Return the data sets and noise levels with the result of a run."""
    return {(str(r["dataset"]), r.get("r")) for r in results if r.get("metrics")}


def _without_results(results: Sequence[Result]) -> list[str]:
    """State which data sets are left out because no run on them has a result, and why."""
    answered = {dataset for dataset, _ in _answered(results)}
    reasons = {
        str(r["dataset"]): without_folders(str(r.get("reason") or r.get("status")))
        for r in reversed(results)
        if r["dataset"] not in answered
    }
    # What to do about it is no part of a protocol.
    reasons = {name: reason.split(";")[0].rstrip(".") for name, reason in reasons.items()}
    left_out = [f"{name} ({reason})" for name, reason in reversed(reasons.items())]
    return [f"Left out, because no run has a result: {'; '.join(left_out)}."] if left_out else []


def _significance(answered: set[tuple[str, Any]], test: str, alpha: float) -> list[str]:
    """Describe the tests of the tables; keys between @ become citations."""
    source = " @nadeau2003@" if test == "corrected" else ""
    sentences = [f"Significance: {TESTS[test]}{source}, level {alpha:g}."]
    if len({dataset for dataset, _ in answered}) > 1:
        sentences.append(
            "Over data sets @demsar2006@: Friedman's test @friedman1937@, Nemenyi's test "
            "@nemenyi1963@ and Wilcoxon's signed-rank test with Holm's correction @holm1979@."
        )
    return sentences


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
    others = [c for c in comparison.rivals if c not in fair and c not in oracle]
    in_fit = [c.label for c in others if is_tuned_in_fit(c.method)]
    untuned = [c.label for c in others if not is_tuned_in_fit(c.method)]
    if in_fit:
        sentences.append(
            f"{_and(in_fit)} chose unset parameters in `fit`, from the candidates of all training "
            "rows."
        )
    if untuned:
        sentences.append(f"{_and(untuned)} used recommended parameters.")
    sentences += fixed_parameters(results)
    return sentences


def is_tuned_in_fit(method: str) -> bool:
    """Whether a method chooses its parameters in `fit`.

    Parameters
    ----------
    method : str
        Name of a method.

    Returns
    -------
    bool
    """
    return method in ("Sieve", *SELF_TUNED)


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
