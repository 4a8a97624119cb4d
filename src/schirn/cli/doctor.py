"""`schirn doctor`: what is on this machine, and what to do about it."""

import argparse
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import schirn
from schirn.cli import _environment as environment
from schirn.cli._output import coloured, facts, print_json, say, table
from schirn.cli._parser import add_command

_EXAMPLES = """
schirn doctor
schirn doctor --json
"""
_GIB = 2.0**30


def add(found: Any) -> None:
    """Add the command."""
    add_command(
        found,
        "doctor",
        run,
        help="check the installation: packages, threads, GPU, data folders",
        description="Show what schirn finds on this machine and what could be better. The exit "
        "code is 1 if something is broken, else 0.",
        examples=_EXAMPLES,
    )


def run(args: argparse.Namespace) -> int:
    """Look at everything; print it; return 1 if something is broken."""
    state = examine()
    state["broken"], state["advice"] = broken(state), advice(state)
    if args.json:
        print_json(state)
    else:
        _show(state)
    return int(bool(state["broken"]))


def examine() -> dict[str, Any]:
    """Everything that can be found out, as one document."""
    return {
        "schirn": {"version": schirn.__version__, "path": str(Path(schirn.__file__).parent)},
        "python": environment.interpreter(),
        "packages": environment.packages(),
        "linear_algebra": environment.linear_algebra(),
        "processors": environment.processors(),
        "memory": environment.memory(),
        "gpu": environment.gpus(),
        "data": environment.data_folders(),
        "terminal": environment.terminal() | {"colours": coloured(sys.stdout)},
        "self_test": self_test(),
    }


def self_test() -> dict[str, Any]:
    """Train on a set whose wrong labels are known; a sound installation finds most of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = schirn.datasets.make_partial_multilabel(
                n_samples=200, n_features=12, n_labels=6, r=1, random_state=0
            )
            noise = schirn.Sieve().fit(data.X, data.candidates).noise_
    except Exception as error:
        # Whatever an unsound installation raises belongs into the report.
        failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return {"recall": None, "error": failure}
    wrong = (data.candidates == 1) & (data.y_true == 0)
    return {"recall": round(float(noise[wrong].mean()), 3), "error": None}


def broken(state: dict[str, Any]) -> list[str]:
    """One sentence for each thing that does not work."""
    found = [
        f"{entry['name']} {entry['version']} is too old, schirn needs {entry['oldest']} or newer: "
        f'pip install --upgrade "{entry["name"]}>={entry["oldest"]}"'
        for entry in state["packages"]
        if entry["too_old"]
    ]
    found += [
        f"{name} is installed but cannot be used ({failure}): install it again or remove it"
        for name, failure in state["gpu"]["failed"].items()
    ]
    found += [
        f"SCHIRN_DATA names the folder {folder['path']!r}, which cannot be read: correct the "
        f"variable or make the folder"
        for folder in state["data"]["SCHIRN_DATA"]
        if not folder["readable"]
    ]
    cache = state["data"]["cache"]
    if not cache["writable"]:
        found.append(
            f"downloads cannot be kept, since {cache['path']!r} cannot be written to: set "
            f"SCHIRN_CACHE to a folder of yours"
        )
    test = state["self_test"]
    if test["error"]:
        found.append(f"training a small model failed ({test['error']}): install schirn again")
    elif test["recall"] < 0.5:
        found.append(
            f"a small model found only {test['recall']:.0%} of the wrong labels: the linear "
            f"algebra library gives wrong results, install NumPy and SciPy again"
        )
    return found


def advice(state: dict[str, Any]) -> list[str]:
    """One sentence for each thing that works but could be better."""
    return [
        *_thread_advice(state["linear_algebra"], state["processors"]["usable"]),
        *_memory_advice(state["memory"]),
        *_gpu_advice(state),
    ]


def _thread_advice(libraries: list[dict[str, Any]], usable: int) -> list[str]:
    found = []
    most = max((library["num_threads"] for library in libraries), default=1)
    if most > usable:
        found.append(
            f"the linear algebra starts {most} threads for {usable} processors: set "
            f"OMP_NUM_THREADS={usable}, or say --threads {usable}"
        )
    for api, what in (("blas", "BLAS"), ("openmp", "OpenMP")):
        # Two copies of one kind are what pip brings, and do no harm.
        kinds = {_kind(library) for library in libraries if library["user_api"] == api}
        if len(kinds) > 1:
            found.append(
                f"two kinds of {what} libraries are in one process ({', '.join(sorted(kinds))}), "
                f"which can be slow or hang: install NumPy, SciPy and scikit-learn from one source"
            )
    return found


def _kind(library: dict[str, Any]) -> str:
    """The BLAS by its name; OpenMP, which threadpoolctl gives one name, by that of its file."""
    if library["user_api"] == "blas":
        return str(library["internal_api"])
    return re.split(r"[-.]", Path(library["filepath"]).name)[0]


def _memory_advice(memory: dict[str, Any]) -> list[str]:
    limits = [size for size in (memory["free"], memory["limit"]) if size is not None]
    if limits and min(limits) < _GIB:
        return [
            f"only {min(limits) / _GIB:.1f} GiB of memory can be used: large tables may not fit"
        ]
    return []


def _gpu_advice(state: dict[str, Any]) -> list[str]:
    installed = {entry["name"] for entry in state["packages"] if entry["version"]}
    if "torch" in installed and not state["gpu"]["devices"] and not state["gpu"]["failed"]:
        return ["PyTorch sees no GPU: deep models and PARD run on the processor"]
    return []


def _show(state: dict[str, Any]) -> None:
    """Print the document as a page of text."""
    python, processors = state["python"], state["processors"]
    facts(
        [
            ("schirn", f"{state['schirn']['version']} in {state['schirn']['path']}"),
            ("python", f"{python['version']} ({python['path']})"),
            ("system", python["system"]),
            ("processors", f"{processors['usable']} usable of {processors['machine']}"),
            ("memory", _memory(state["memory"])),
            ("gpu", ", ".join(d["name"] for d in state["gpu"]["devices"]) or "none seen"),
            ("data", _data(state["data"])),
            ("cache", _cache(state["data"]["cache"])),
            ("colours", "on" if state["terminal"]["colours"] else "off"),
            ("self-test", _test(state["self_test"])),
        ]
    )
    say()
    table(
        ("package", "found", "needs", "for"),
        [
            (p["name"], p["version"] or "-", f">={p['oldest']}", ", ".join(p["extras"]) or "schirn")
            for p in state["packages"]
        ],
    )
    say()
    table(
        ("library", "version", "threads", "file"),
        [
            (lib["internal_api"], lib["version"] or "-", lib["num_threads"], lib["filepath"])
            for lib in state["linear_algebra"]
        ],
        right="  r",
    )
    _show_findings(state)


def _show_findings(state: dict[str, Any]) -> None:
    say()
    for extra, names in missing_extras(state["packages"]).items():
        say(f'missing: {", ".join(names)} (pip install "schirn[{extra}]")')
    for sentence in state["advice"]:
        say(f"advice: {sentence}")
    for sentence in state["broken"]:
        say(f"broken: {sentence}")
    if not state["broken"]:
        say("Nothing is broken.")


def missing_extras(packages: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The packages that are not here, each under the smallest extra that brings it."""
    sizes = Counter(extra for entry in packages for extra in entry["extras"])
    found: dict[str, list[str]] = {}
    for entry in packages:
        if entry["version"] is None and entry["extras"]:
            smallest = min(entry["extras"], key=lambda extra: sizes[extra])
            found.setdefault(smallest, []).append(entry["name"])
    return found


def _memory(memory: dict[str, Any]) -> str:
    words = [("total", "in all"), ("free", "free"), ("limit", "granted")]
    parts = [f"{memory[key] / _GIB:.1f} GiB {word}" for key, word in words if memory[key]]
    return ", ".join(parts) or "unknown"


def _data(data: dict[str, Any]) -> str:
    folders = ", ".join(folder["path"] for folder in data["SCHIRN_DATA"])
    number = len(data["sets"])
    sets = "one set" if number == 1 else f"{number} sets"
    return f"{sets} in {folders}" if folders else "SCHIRN_DATA is not set; built-in sets only"


def _cache(cache: dict[str, Any]) -> str:
    state = "writable" if cache["writable"] else "cannot be written to"
    return f"{cache['path']} ({state}{'' if cache['exists'] else ', not made yet'})"


def _test(test: dict[str, Any]) -> str:
    return test["error"] or f"a small model found {test['recall']:.0%} of the wrong labels"
