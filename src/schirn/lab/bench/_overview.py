"""Overview of the results: mean and spread of one metric, and failed runs."""

import statistics
from collections import Counter, defaultdict

from schirn.lab.bench._comparison import MOST_TIED, value_of
from schirn.lab.bench.results import STATUSES, Result


def overview_table(results: list[Result], metric: str) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of the table."""
    methods = list(dict.fromkeys(method_label(result) for result in results))
    groups: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        by_method = groups.setdefault(dataset_label(result), defaultdict(list))
        by_method[method_label(result)].append(result)
    lines = [
        [name, *(_entry(by_method[method], metric) for method in methods)]
        for name, by_method in groups.items()
    ]
    return ["data set", *methods], lines


def _entry(results: list[Result], metric: str) -> str:
    values = [v for result in results if (v := result["metrics"].get(metric)) is not None]
    bad = Counter(result["status"] for result in results if result["status"] != "done")
    notes = [f"{count} {status}" for status, count in bad.items()]
    if values:
        spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        notes.insert(0, f"{statistics.fmean(values):.3f}{spread}")
    return ", ".join(notes) or "-"


def dataset_label(result: Result) -> str:
    """Name of a data set with its noise."""
    if result["r"] is None:
        return str(result["dataset"])
    kind = "" if result["noise"] == "legacy" else f" {result['noise']}"
    return f"{result['dataset']} r={result['r']}{kind}"


def method_label(result: Result) -> str:
    """Name of a method, marked if its parameters were chosen on the truth."""
    return f"{result['method']} (oracle)" if result["oracle"] else str(result["method"])


def settings_text(results: list[Result]) -> str:
    """Describe the tuning and the features of the results."""
    words = {
        "none": "recommended parameters",
        "candidates": "tuned on candidates",
        "oracle": "ORACLE: tuned on the true labels of the test rows",
    }
    tuning = ", ".join(
        words.get(name, name) for name in dict.fromkeys(r["tuning"] for r in results)
    )
    features = " and ".join(dict.fromkeys(r["features"] for r in results))
    return f"{tuning}; {features} features"


def tie_warnings(results: list[Result]) -> list[str]:
    """Warn about methods whose metrics depend on the rule for ties."""
    shares: dict[str, list[float]] = defaultdict(list)
    for result in results:
        share = value_of(result, "tied_rows")
        if share is not None:
            shares[method_label(result)].append(share)
    means = {name: statistics.fmean(values) for name, values in shares.items()}
    return [
        f"{name}: true and false labels have equal scores in {100 * share:.0f}% of the test rows; "
        "the field's rule for ties flatters such scores, see the values with ties at random"
        for name, share in means.items()
        if share > MOST_TIED
    ]


def counts_text(results: list[Result]) -> str:
    """Number of results by status."""
    counts = Counter(result["status"] for result in results)
    return ", ".join(f"{counts[name]} {name}" for name in STATUSES if counts[name])
