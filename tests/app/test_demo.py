import re
from pathlib import Path

import pytest

from schirn.app import demo as demo_module
from schirn.app.demo import run_demo
from schirn.exceptions import InputError
from schirn.model_selection import CandidateSearchCV

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo():
    return run_demo()


def losses(demo):
    return {result.name: result.measures["ranking_loss"] for result in demo.results}


def test_methods_come_in_the_expected_order(demo):
    loss = losses(demo)
    assert loss["OracleRidge"] < loss["Schirn"] < loss["CandidateRidge"]
    assert loss["Sieve"] < loss["Schirn"]


def test_cleaning_helps_a_classifier_that_trusts_every_tag(demo):
    loss = losses(demo)
    assert loss["CandidateRidge, cleaned tags"] < loss["CandidateRidge"]


def test_methods_find_most_wrong_tags(demo):
    for name, recall in (("Sieve", 0.98), ("Schirn", 0.85)):
        noise = demo.result(name).noise
        assert noise["precision"] > 0.95
        assert noise["recall"] > recall
        assert noise["n_wrong"] == 2 * demo.train.n_samples


def test_without_answers_nothing_is_removed(demo):
    assert demo.ranking.n_answers == 0
    assert not demo.ranking.removed.any()
    assert demo.suspect_is_wrong.mean() > 0.9


def test_fifty_answers_remove_wrong_tags_and_tell_their_share(demo):
    assert demo.answered.n_answers == 50
    assert demo.wrong.sum() == 2 * demo.train.n_samples
    removed = demo.answered.removed
    assert demo.wrong[removed].mean() > 0.85
    assert removed[demo.wrong].mean() > 0.5
    low, high = demo.answered.wrong_share_interval
    assert low <= demo.wrong.mean() <= high


def test_parameters_are_chosen_without_the_truth(monkeypatch):
    tuned_on = {}

    class Spy(CandidateSearchCV):
        def fit(self, X, y, **extra):
            super().fit(X, y, **extra)
            tuned_on[type(self.estimator).__name__] = self.tuned_on_
            return self

    monkeypatch.setattr(demo_module, "CandidateSearchCV", Spy)
    run_demo()
    assert tuned_on == {
        "CandidateRidge": "candidates",
        "Schirn": "candidates",
        "OracleRidge": "truth (oracle)",
    }


def test_the_sentences_hold_the_figures(demo):
    n_removed = demo.answered.removed.sum()
    n_right = (demo.answered.removed & demo.wrong).sum()
    removals, classifier = demo.act_sentences()
    assert f"remove {n_removed:,} of {len(demo.wrong):,} tags" in removals
    assert f"{n_right:,} of them ({n_right / n_removed:.0%}) are wrong" in removals
    for name in ("CandidateRidge", "CandidateRidge, cleaned tags", "Sieve"):
        for measure in ("average_precision", "hamming_loss"):
            assert f"{demo.result(name).measures[measure]:.3f}" in classifier
    assert f"{demo.wrong.mean():.0%}" in demo.ask_sentences()[1]
    assert str(demo.suspect_is_wrong.sum()) in demo.rank_sentences()[0]


NUMBER = r"\d[\d,.]*\d|\d"


def numbers(text):
    return [float(number.replace(",", "")) for number in re.findall(NUMBER, text)]


def test_the_readme_tells_what_the_demo_prints(demo):
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    removed = demo.answered.removed
    # The limit moves by a hundredth of the ranking: rounding differs between processors.
    told = re.search(r"fifty answers remove .*? of them rightly", text)[0]
    figures = [removed.sum(), len(removed), 100 * demo.wrong[removed].mean()]
    assert numbers(told) == pytest.approx(figures, rel=0.05)
    told = re.search(r"has an average precision of .*? on the true ones", text)[0]
    figures = [
        demo.result(name).measures["average_precision"]
        for name in ("Sieve", "CandidateRidge", "OracleRidge")
    ]
    assert numbers(told) == pytest.approx(figures, abs=0.002)
    assert f"{demo.train.n_samples:,} images" in text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_of_the_readme_tells_what_the_demo_prints(demo, theme):
    folder = ROOT / "docs" / "images"
    if not folder.is_dir():
        pytest.skip("a source distribution has no pictures")
    text = (folder / f"steps-{theme}.svg").read_text("utf-8")
    told = re.search(r'aria-label="([^"]+)"', text)[1]
    low, high = demo.answered.wrong_share_interval
    removed = demo.answered.removed
    figures = [1, 2, 50, 100 * low, 100 * high, 100 * demo.wrong.mean()]
    figures += [3, removed.sum(), len(removed), 100 * demo.wrong[removed].mean()]
    assert numbers(told) == pytest.approx(figures, rel=0.05, abs=1)


@pytest.mark.parametrize("noise", [0, 6, 2.5])
def test_noise_is_checked(noise):
    with pytest.raises(InputError, match="1 to 5"):
        run_demo(noise=noise)
