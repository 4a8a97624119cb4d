import numpy as np
import pytest

from schirn import demo as demo_module
from schirn.demo import run_demo
from schirn.exceptions import InputError


@pytest.fixture(scope="module")
def demo():
    return run_demo()


def test_the_order_of_the_methods_is_what_it_should_be(demo):
    ridge, schirn, oracle = (row.measures["hamming_loss"] for row in demo.rows)
    assert oracle < schirn < ridge


def test_most_wrong_tags_are_found(demo):
    assert demo.schirn.noise["precision"] > 0.95
    assert demo.schirn.noise["recall"] > 0.85
    assert demo.schirn.noise["n_wrong"] == 2 * demo.train.n_samples


def test_parameters_are_chosen_without_the_truth(monkeypatch):
    targets = []

    def spy(method, X, target):
        targets.append((method.__name__, target))
        return {"lam": 1.0}

    monkeypatch.setattr(demo_module, "_choose", spy)
    found = run_demo()
    for name, target in targets:
        seen = found.train.y_true if name == "OracleRidge" else found.train.candidates
        np.testing.assert_array_equal(target, seen)


def test_the_sentence_holds_the_figures(demo):
    noise = demo.schirn.noise
    assert demo.sentence().startswith(
        f"Schirn struck out {noise['n_flagged']:,} of {noise['n_candidates']:,} tags; "
        f"{noise['precision']:.0%} of them"
    )


@pytest.mark.parametrize("noise", [0, 6, 2.5])
def test_noise_is_checked(noise):
    with pytest.raises(InputError, match="1 to 5"):
        run_demo(noise=noise)
