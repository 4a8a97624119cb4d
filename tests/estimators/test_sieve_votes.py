"""Sieve with the votes of several annotators."""

import numpy as np
import pytest

from schirn import Sieve, load, save
from schirn.cleaning import votes_to_candidates
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.metrics import noise_auc

ANNOTATORS, CARELESS = 12, 4


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(
        n_samples=240, n_features=8, n_labels=6, cardinality=2.0, r=0, random_state=0
    )


@pytest.fixture(scope="module")
def votes(data):
    """Three of twelve annotators look at each row; four of the twelve are careless."""
    rng, cells = np.random.RandomState(0), []
    sensitivity = np.where(np.arange(ANNOTATORS) < CARELESS, 0.4, 0.9)
    false = np.where(np.arange(ANNOTATORS) < CARELESS, 0.35, 0.05)
    for i, truth in enumerate(data.y_true == 1):
        for who in rng.choice(ANNOTATORS, 3, replace=False):
            chosen = rng.rand(6) < np.where(truth, sensitivity[who], false[who])
            # A ballot without a label still counts as a look at the row.
            cells += [(i, who, f"tag {j}") for j in np.flatnonzero(chosen)] or [(i, who, None)]
    return votes_to_candidates(*zip(*cells, strict=True), order=range(len(data.X)))


def fit(data, votes, given=None, **options):
    model = Sieve(**options)
    return model.fit(data.X, votes.candidates, label_names=votes.label_names, votes=given)


@pytest.fixture(scope="module")
def voted(data, votes):
    return fit(data, votes, votes)


def auc(data, votes, confidence):
    return noise_auc(data.y_true, votes.candidates, confidence)


def test_votes_and_features_beat_either_alone(data, votes, voted):
    together = auc(data, votes, voted.label_confidence_)
    assert together > auc(data, votes, fit(data, votes).label_confidence_) + 0.03
    assert together > auc(data, votes, votes.prior) + 0.03
    listed = votes.candidates == 1
    doubt = 1 - voted.label_confidence_[listed].mean()
    assert doubt == pytest.approx((data.y_true == 0)[listed].mean(), abs=0.12)


def test_every_annotator_gets_a_quality(votes, voted):
    model = voted.vote_model_
    careless = np.asarray(votes.workers) < CARELESS
    assert model.annotator_sensitivity.shape == (ANNOTATORS,)
    assert (
        model.annotator_sensitivity[careless].max() < model.annotator_sensitivity[~careless].min()
    )
    assert model.log_ratio is None


def test_counts_alone_help_less_than_identities(data, votes, voted):
    counted = fit(data, votes, (votes.counts, votes.voters))
    assert counted.vote_model_.annotator_sensitivity is None
    several, alone = (auc(data, votes, m.label_confidence_) for m in (counted, fit(data, votes)))
    assert alone < several <= auc(data, votes, voted.label_confidence_)
    same = fit(data, votes, (votes.counts.tolist(), 3))
    np.testing.assert_array_equal(same.label_confidence_, counted.label_confidence_)


def test_labels_are_matched_by_name(data, votes, voted):
    order = [3, 0, 5, 1, 4, 2]
    names = [votes.label_names[j] for j in order]
    model = Sieve().fit(data.X, votes.candidates[:, order], label_names=names, votes=votes)
    np.testing.assert_allclose(
        model.label_confidence_, voted.label_confidence_[:, order], atol=1e-8
    )


def test_many_rows_use_the_votes_too(data, votes, voted):
    model = fit(data, votes, votes, max_kernel_rows=50, n_landmarks=60)
    together = auc(data, votes, model.label_confidence_)
    assert together > auc(data, votes, votes.prior) + 0.03
    assert np.corrcoef(model.label_confidence_.ravel(), voted.label_confidence_.ravel())[0, 1] > 0.9


def test_known_labels_count_more_than_votes(data, votes):
    known = np.zeros(votes.candidates.shape, dtype=int)
    known[:40] = np.where(data.y_true[:40] == 1, 1, -1) * votes.candidates[:40]
    model = Sieve()
    model.fit(data.X, votes.candidates, label_names=votes.label_names, votes=votes, known=known)
    np.testing.assert_array_equal(model.label_confidence_[:40], data.y_true[:40] * (known[:40] > 0))


def test_without_votes_there_is_no_vote_model(data, votes):
    assert fit(data, votes).vote_model_ is None


def test_a_saved_model_keeps_the_qualities(data, voted, tmp_path):
    save(voted, tmp_path / "model.schirn")
    again = load(tmp_path / "model.schirn")
    np.testing.assert_array_equal(
        again.vote_model_.annotator_sensitivity, voted.vote_model_.annotator_sensitivity
    )
    np.testing.assert_array_equal(again.predict(data.X), voted.predict(data.X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: (v.counts[:, :3], 3), r"counts of shape \(240, 6\) .* not \(240, 3\)"),
        (lambda v: (v.counts, v.voters[:5]), r"not \(240, 6\) and \(5,\)"),
        (lambda v: (v.counts + 3, 3), r"row 0, label 'tag \d' has [456] votes of 3 voters"),
        (lambda v: (-1 - v.counts, 3), "row 0, label 'tag 0' has -[12] votes of 3 voters"),
        (lambda v: (v.counts * np.nan, 3), "has nan votes of 3 voters"),
        (lambda v: ("many", 3), "votes must hold numbers"),
        (lambda v: v.counts, "a pair \\(counts, voters\\), not ndarray"),
        (lambda v: v._replace(label_names=list("abcdef")), "votes has no label 'tag 0'"),
        (
            lambda v: v._replace(counts=v.counts[:9], voters=v.voters[:9]),
            r"not \(9, 6\) and \(9,\)",
        ),
    ],
)
def test_bad_votes_raise(data, votes, change, message):
    with pytest.raises(InputError, match=message) as error:
        fit(data, votes, change(votes))
    assert error.value.parameter == "votes"


def test_certain_votes_leave_the_objective_finite():
    small = make_partial_multilabel(n_samples=48, n_features=6, n_labels=4, r=1, random_state=0)
    rows, labels = np.nonzero(small.candidates)
    cells = [(i, w, str(j)) for i, j in zip(rows, labels, strict=True) for w in range(5)]
    unanimous = votes_to_candidates(*zip(*cells, strict=True), order=range(48))
    model = Sieve().fit(small.X, unanimous.candidates, votes=unanimous)
    assert np.isfinite(model.objective_).all()
