"""The demonstration: images with partly wrong tags, cleaned by four methods."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from schirn._input import Array
from schirn.datasets import Dataset, load_digits_attributes
from schirn.exceptions import InputError
from schirn.methods import CandidateRidge, OracleRidge, PartialMultiLabelClassifier, Schirn, Sieve
from schirn.metrics import evaluate, noise_report
from schirn.model_selection import CandidateSearchCV

_LAMS = (0.1, 0.3, 1.0)
# Sieve chooses its own parameters.
_GRIDS: dict[type[PartialMultiLabelClassifier], dict[str, tuple[float, ...]]] = {
    CandidateRidge: {"lam": _LAMS},
    Schirn: {"lam": _LAMS, "alpha": (0.0, 0.2), "beta": (0.05,)},
    Sieve: {},
    OracleRidge: {"lam": _LAMS},
}


@dataclass(frozen=True, eq=False)
class DemoResult:
    """One method: five measures on unseen images, and the wrong tags it found in training."""

    model: PartialMultiLabelClassifier
    params: dict[str, float]
    measures: dict[str, float]
    noise: dict[str, float]

    @property
    def name(self) -> str:
        """Name of the method."""
        return type(self.model).__name__


@dataclass(frozen=True, eq=False)
class Demo:
    """Results of the demonstration, with the images that the methods were trained on."""

    noise: int
    seed: int
    train: Dataset
    digits: Array
    n_test: int
    results: tuple[DemoResult, ...]
    seconds: float

    def result(self, name: str) -> DemoResult:
        """Return the result of a method by its name."""
        return next(result for result in self.results if result.name == name)

    def sentences(self) -> list[str]:
        """Describe in plain words what Sieve and Schirn found."""
        return [_sentence(self.result(name)) for name in ("Sieve", "Schirn")]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, ready for JSON."""
        return {
            "data": self.train.name,
            "noise": self.noise,
            "seed": self.seed,
            "rows": {"train": self.train.n_samples, "test": self.n_test},
            "methods": [
                {"name": r.name, "params": r.params, **r.measures, "noise_finding": r.noise}
                for r in self.results
            ],
            "sentences": self.sentences(),
            "seconds": round(self.seconds, 3),
        }


def run_demo(noise: int = 2, seed: int = 0) -> Demo:
    """Add wrong tags to the digit images, train four methods, and count what they find.

    All methods get the same features. The parameters of `CandidateRidge` and `Schirn` are chosen
    on held-out noisy tags; `Sieve` needs none. Only `OracleRidge` and the final figures use the
    true tags.

    Parameters
    ----------
    noise : int, default=2
        Number of wrong tags to add to each image, from 1 to 5.
    seed : int, default=0
        Seed of the noise and of the split into 70 % training and 30 % unseen images.

    Returns
    -------
    Demo

    Examples
    --------
    >>> from schirn.demo import run_demo
    >>> demo = run_demo()
    >>> [result.name for result in demo.results]
    ['CandidateRidge', 'Schirn', 'Sieve', 'OracleRidge']
    """
    if noise not in range(1, 6):
        raise InputError(
            f"noise must be 1 to 5 wrong tags per image, not {noise!r}", parameter="noise"
        )
    start = time.perf_counter()
    data = load_digits_attributes(r=noise, random_state=seed)
    train, test = train_test_split(np.arange(data.n_samples), test_size=0.3, random_state=seed)
    pixels = data.X / 16
    gamma = 1 / (pixels.shape[1] * pixels[train].var())
    features = Nystroem(gamma=gamma, n_components=400, random_state=seed).fit(pixels[train])
    X = features.transform(pixels)
    # The matrices are small: on a busy machine more threads would wait for one another.
    with threadpool_limits(1):
        results = tuple(_run(method, X, data, train, test) for method in _GRIDS)
    return Demo(
        noise=noise,
        seed=seed,
        train=data.subset(train),
        digits=np.asarray(load_digits().target)[train],
        n_test=len(test),
        results=results,
        seconds=time.perf_counter() - start,
    )


def _run(
    method: type[PartialMultiLabelClassifier], X: Array, data: Dataset, train: Array, test: Array
) -> DemoResult:
    """Choose parameters, train, measure."""
    oracle = method is OracleRidge
    truth, candidates = data.y_true[train], data.candidates[train]
    extra = {"y_clean": truth} if oracle else {}
    params: dict[str, float] = {}
    if _GRIDS[method]:
        search = CandidateSearchCV(method(), _GRIDS[method], cv=3, refit=False, oracle=oracle)
        params = search.fit(X[train], candidates, **extra).best_params_
    model = method(**params).fit(X[train], candidates, **extra)
    scores, predicted = model.decision_function(X[test]), model.predict(X[test])
    measures = evaluate(data.y_true[test], scores, y_pred=predicted)
    found = noise_report(truth, candidates, model.noise_, model.label_confidence_)
    return DemoResult(model, params, measures, found)


def _sentence(result: DemoResult) -> str:
    found = result.noise
    return (
        f"{result.name} removed {found['n_flagged']:,} of {found['n_candidates']:,} tags: "
        f"{found['precision']:.1%} of these were wrong, and it found {found['recall']:.1%} of the "
        f"{found['n_wrong']:,} wrong tags."
    )
