import pytest

from schirn import demo as demo_module
from schirn.demo import run_demo
from schirn.exceptions import InputError
from schirn.model_selection import CandidateSearchCV


@pytest.fixture(scope="module")
def demo():
    return run_demo()


def test_methods_come_in_the_expected_order(demo):
    ridge, schirn, sieve, oracle = (result.measures["hamming_loss"] for result in demo.results)
    assert oracle < schirn < ridge
    assert sieve < schirn


def test_most_wrong_tags_are_found(demo):
    for name, recall in (("Sieve", 0.98), ("Schirn", 0.85)):
        noise = demo.result(name).noise
        assert noise["precision"] > 0.95
        assert noise["recall"] > recall
        assert noise["n_wrong"] == 2 * demo.train.n_samples


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
    for name, sentence in zip(("Sieve", "Schirn"), demo.sentences(), strict=True):
        noise = demo.result(name).noise
        assert sentence.startswith(
            f"{name} removed {noise['n_flagged']:,} of {noise['n_candidates']:,} tags: "
            f"{noise['precision']:.1%} of these were wrong"
        )


@pytest.mark.parametrize("noise", [0, 6, 2.5])
def test_noise_is_checked(noise):
    with pytest.raises(InputError, match="1 to 5"):
        run_demo(noise=noise)
