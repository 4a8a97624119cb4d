"""The lab: the compared methods, and everything that compares methods fairly.

`rivals` are the compared methods; `data` fetches and describes data sets; `bench` runs and reports
benchmarks, `leaderboard` collects their results, and `reproduction` reruns the paper; `rank`
computes exact ranks. The library does not import the lab: its methods,
commands, readers and records of model files are entry points.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schirn.lab.rivals import (
        COMES,
        FPML,
        GLC,
        MUSER,
        NLR,
        PAKS,
        PARD,
        PLAIN,
        PMLFP,
        PMLLC,
        PMLLENFN,
        PMLLRS,
        PMLMA,
        PMLNI,
        PMLPLR,
        OracleCOMES,
        ParticleMAP,
        ParticleVLS,
        priors_from_answers,
    )

__all__ = [
    "COMES",
    "FPML",
    "GLC",
    "MUSER",
    "NLR",
    "PAKS",
    "PARD",
    "PLAIN",
    "PMLFP",
    "PMLLC",
    "PMLLENFN",
    "PMLLRS",
    "PMLMA",
    "PMLNI",
    "PMLPLR",
    "OracleCOMES",
    "ParticleMAP",
    "ParticleVLS",
    "priors_from_answers",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("schirn.lab.rivals"), name)
