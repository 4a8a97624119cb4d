"""The demonstration on images with partly wrong tags: rank them, ask, act.

The true tags are known here: they answer fifty questions in place of a person, and show the effect
of the answers. The ranking itself never sees them.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from schirn._input import Array
from schirn.cleaning import NoisyLabels, Questions, find_noisy_labels
from schirn.datasets import Dataset, load_digits_attributes
from schirn.estimators import (
    CandidateRidge,
    OracleRidge,
    PartialMultiLabelClassifier,
    Schirn,
    Sieve,
)
from schirn.exceptions import InputError
from schirn.metrics import evaluate, noise_report
from schirn.model_selection import CandidateSearchCV

N_SUSPECTS = 20
N_ANSWERS = 50
CLEANED = ", cleaned tags"
_COMMANDS = """\
schirn review photos.csv --labels tags --text description
schirn fit photos.csv --labels tags --text description -o tagger.schirn
schirn predict tagger.schirn new.csv -o tagged.csv"""
_LAMS = (0.1, 0.3, 1.0)
# Sieve is absent because it chooses its own parameters.
_GRIDS: dict[type[PartialMultiLabelClassifier], dict[str, tuple[float, ...]]] = {
    CandidateRidge: {"lam": _LAMS},
    Schirn: {"lam": _LAMS, "alpha": (0.0, 0.2), "beta": (0.05,)},
    Sieve: {},
    OracleRidge: {"lam": _LAMS},
}


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Result of one method: five metrics on unseen images, and its detection of wrong tags.

    `noise` is empty for methods trained on cleaned tags.
    """

    name: str
    params: dict[str, float]
    measures: dict[str, float]
    noise: dict[str, float]


@dataclass(frozen=True, eq=False)
class Demo:
    """Results of the demonstration, with the images whose tags are ranked.

    `ranking` has no answers, `answered` has fifty, and `commands` do the same for a table.
    """

    commands: ClassVar[str] = _COMMANDS
    noise: int
    seed: int
    train: Dataset
    digits: Array
    n_test: int
    ranking: NoisyLabels
    answered: NoisyLabels
    results: tuple[DemoResult, ...]

    def result(self, name: str) -> DemoResult:
        """Return the result of a method by its name."""
        return next(result for result in self.results if result.name == name)

    @cached_property
    def wrong(self) -> Array:
        """Mask of the listed tags that are truly wrong."""
        return self.train.y_true[self.ranking.row, self.ranking.column] == 0

    @cached_property
    def suspects(self) -> Questions:
        """The most suspicious tags, before any answer."""
        return self.ranking.suspects(N_SUSPECTS)

    @cached_property
    def suspect_is_wrong(self) -> Array:
        """Mask of the suspects that are truly wrong."""
        return self.train.y_true[self.suspects.row, self.suspects.column] == 0

    def rank_sentences(self) -> list[str]:
        """Describe the ranking without answers."""
        return [
            f"In fact, {self.suspect_is_wrong.sum()} of the {len(self.suspects)} most suspicious "
            f"tags are wrong.",
            self.ranking.sentence,
        ]

    def ask_sentences(self) -> list[str]:
        """Describe the share of wrong tags estimated from fifty answers."""
        return [self.answered.sentence, f"In fact, {self.wrong.mean():.0%} are wrong."]

    def act_sentences(self) -> list[str]:
        """Describe the removals, and their effect on a classifier."""
        removed = self.answered.removed
        n_right = int(self.wrong[removed].sum())
        raw, clean, sieve = (
            f"{measures['average_precision']:.3f} ({measures['hamming_loss']:.3f})"
            for measures in (
                self.result(name).measures
                for name in ("CandidateRidge", f"CandidateRidge{CLEANED}", "Sieve")
            )
        )
        return [
            f"The answers remove {removed.sum():,} of {len(removed):,} tags at a target precision "
            f"of {self.answered.precision:.0%}: {n_right:,} of them "
            f"({n_right / max(1, removed.sum()):.0%}) are wrong, out of {self.wrong.sum():,} wrong "
            f"tags in all.",
            f"Average precision (Hamming loss) on unseen images of a classifier that trusts every "
            f"tag: {raw} before cleaning, {clean} after; of Sieve, which expects wrong tags: "
            f"{sieve} without cleaning.",
        ]


def run_demo(noise: int = 2, seed: int = 0) -> Demo:
    """Add wrong tags to the digit images, rank the tags, and let the truth answer 50 questions.

    Four methods are trained on the uncleaned tags, and two of them also on the cleaned tags. All
    use the same features. The parameters of `CandidateRidge` and `Schirn` are chosen on held-out
    tags; `Sieve` needs none. Only the answers, `OracleRidge` and the final figures use the truth.

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
    >>> from schirn.app.demo import run_demo
    >>> demo = run_demo()
    >>> demo.ranking.n_answers, demo.answered.n_answers
    (0, 50)
    """
    if noise not in range(1, 6):
        raise InputError(
            f"noise must be 1 to 5 wrong tags per image, not {noise!r}", parameter="noise"
        )
    data = load_digits_attributes(r=noise, random_state=seed)
    train, test = train_test_split(np.arange(data.n_samples), test_size=0.3, random_state=seed)
    tagged = data.subset(train)
    pixels = data.X / 16
    gamma = 1 / (pixels.shape[1] * pixels[train].var())
    features = Nystroem(gamma=gamma, n_components=400, random_state=seed).fit(pixels[train])
    X = features.transform(pixels)
    # The matrices are small, so on a busy machine several threads would only wait for each other.
    with threadpool_limits(1):
        ranking = find_noisy_labels(tagged.X, tagged.candidates, label_names=tagged.label_names)
        answered = _answer(ranking, tagged, seed)
        results = []
        for method in _GRIDS:
            results.append(_run(method, X, data, tagged.candidates, train, test))
            if method in (CandidateRidge, Sieve):
                result = _run(method, X, data, answered.clean, train, test)
                results.append(replace(result, name=result.name + CLEANED, noise={}))
    return Demo(
        noise=noise,
        seed=seed,
        train=tagged,
        digits=np.asarray(load_digits().target)[train],
        n_test=len(test),
        ranking=ranking,
        answered=answered,
        results=tuple(results),
    )


def _answer(ranking: NoisyLabels, data: Dataset, seed: int) -> NoisyLabels:
    """Answer two steps of questions with the true tags."""
    for _ in range(2):
        questions = ranking.questions(N_ANSWERS // 2, random_state=seed)
        ranking = ranking.answered(questions, data.y_true[questions.row, questions.column] == 1)
    return ranking


def _run(
    method: type[PartialMultiLabelClassifier],
    X: Array,
    data: Dataset,
    candidates: Array,
    train: Array,
    test: Array,
) -> DemoResult:
    """Choose parameters, train and evaluate."""
    oracle = method is OracleRidge
    truth = data.y_true[train]
    extra = {"y_clean": truth} if oracle else {}
    params: dict[str, float] = {}
    if _GRIDS[method]:
        search = CandidateSearchCV(method(), _GRIDS[method], cv=3, refit=False, oracle=oracle)
        params = search.fit(X[train], candidates, **extra).best_params_
    model = method(**params).fit(X[train], candidates, **extra)
    scores = model.decision_function(X[test])
    predicted = model.predict(X[test])
    measures = evaluate(data.y_true[test], scores, y_pred=predicted)
    noise = {}
    if not oracle:
        noise = noise_report(truth, candidates, model.noise_, model.label_confidence_)
    return DemoResult(method.__name__, params, measures, noise)
