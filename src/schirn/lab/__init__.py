"""The lab: the compared methods, and everything that compares methods fairly.

`rivals` are the compared methods; `data` fetches and describes data sets; `bench` runs and reports
benchmarks, `leaderboard` collects their results, and `reproduction` reruns the paper; `rank`
computes exact ranks. The core does not import the lab; it finds its methods, commands and records
of model files by name (`schirn._plugins`).
"""

from typing import TYPE_CHECKING

from schirn._plugins import lazy_names

if TYPE_CHECKING:
    from schirn.lab.rivals import (
        COMES,
        FPML,
        GLC,
        MUSER,
        NLR,
        PAKS,
        PARD,
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

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "schirn.lab.rivals"))
