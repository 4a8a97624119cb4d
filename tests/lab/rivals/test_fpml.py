import numpy as np
import pytest
from lab.rivals.folds import two_folds

from schirn.datasets import make_partial_multilabel
from schirn.lab import FPML

FROZEN_SCORES = [
    [-0.72573977, -0.44384574, -0.39397122, -0.32195959],
    [0.10038513, 0.14139184, 0.07582549, -0.00242227],
]
FROZEN_NOISE = 119


@pytest.mark.parametrize(
    ("name", "r", "k", "expected"),
    [
        ("scene", 1, 6, 79.3),
        ("scene", 2, 4, 71.5),
        ("scene", 3, 3, 69.7),
        ("birds", 3, 5, 40.0),
        ("medical", 3, 36, 84.0),
        ("medical", 7, 11, 72.7),
        ("enron", 3, 26, 68.0),
        ("yeastmf", None, 20, 37.8),
    ],
)
def test_check_values(real, name, r, k, expected):
    # Other noise draws and folds than those behind the expected values.
    assert two_folds(FPML(n_components=k), real(name), r) == pytest.approx(expected, abs=3)


@pytest.mark.parametrize(("l", "k"), [(4, 2), (6, 2), (7, 3), (30, 10)])
def test_default_number_of_components(l, k):
    data = make_partial_multilabel(n_samples=80, n_features=40, n_labels=l, r=0, random_state=0)
    model = FPML().fit(data.X, data.candidates)
    other = FPML(n_components=k).fit(data.X, data.candidates)
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_start_is_drawn_from_the_seed(small):
    fits = [FPML(random_state=s).fit(small.X, small.candidates).coef_ for s in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])
    svd = [FPML(init="svd", random_state=s).fit(small.X, small.candidates).coef_ for s in (0, 1)]
    np.testing.assert_array_equal(svd[0], svd[1])


def test_noise_is_low_confidence(small):
    model = FPML(n_components=5).fit(small.X, small.candidates)
    listed = small.candidates == 1
    np.testing.assert_array_equal(model.noise_, listed & (model.label_confidence_ < 0.5))
    assert 0 < model.noise_.sum() < listed.sum()


def test_frozen_result():
    data = make_partial_multilabel(
        n_samples=60, n_features=5, n_labels=4, cardinality=1.5, r=1, random_state=3
    )
    model = FPML(n_components=3).fit(data.X, data.candidates)
    np.testing.assert_allclose(model.decision_function(data.X[:2]), FROZEN_SCORES, atol=1e-6)
    assert int(model.noise_.sum()) == FROZEN_NOISE
