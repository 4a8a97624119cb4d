"""The model of votes: sizes known from a simulation, and degenerate votes."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.votes import plain_vote_model

from schirn.labels.votes import Ballots
from schirn.noise.votes import frequency_shift, vote_model


def simulate(seed=0, n=800, l=6, k=4, annotators=30, careless=5):
    """Ballots of annotators, some of whom vote at random."""
    rng = np.random.RandomState(seed)
    truth = rng.rand(n, l) < 0.3
    sensitivity = np.where(np.arange(annotators) < careless, 0.35, 0.85)
    false = np.where(np.arange(annotators) < careless, 0.3, 0.04)
    who = np.array([rng.choice(annotators, k, replace=False) for _ in range(n)]).ravel()
    row = np.repeat(np.arange(n), k)
    chance = np.where(truth[row], sensitivity[who][:, None], false[who][:, None])
    chosen = sp.csr_array((rng.rand(*chance.shape) < chance).astype(float))
    counts = np.zeros((n, l))
    np.add.at(counts, row, chosen.toarray())
    return truth, counts, np.full(n, k), Ballots(row, who, chosen)


def auc(score, truth):
    order = np.argsort(np.argsort(score, kind="stable"), kind="stable")
    positive = truth.sum()
    return (order[truth].sum() - positive * (positive - 1) / 2) / (positive * (~truth).sum())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("named", [False, True], ids=["counts", "ballots"])
def test_equals_the_plain_transcription(seed, named):
    """Also for a label that nobody votes for, one that all vote for, and rows with few voters."""
    _, _, _, (row, who, chosen) = simulate(seed, n=40, l=4, k=3, annotators=6, careless=2)
    # Of the first row one ballot is left, and of the last row none.
    cast, votes = (np.arange(len(row)) >= 2) & (row < 39), chosen.toarray()
    votes[:, 2], votes[:, 3] = 0, 1
    row, who, votes = row[cast], who[cast], votes[cast]
    counts = np.zeros((40, 4))
    np.add.at(counts, row, votes)
    ballots = Ballots(row, who, sp.csr_array(votes)) if named else None
    voters = np.bincount(row, minlength=40)
    found = [value for value in vote_model(counts, voters, ballots) if value is not None]
    expected = plain_vote_model(counts, voters, ballots)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_rates_and_frequencies_are_found():
    truth, counts, voters, _ = simulate(careless=0)
    model = vote_model(counts, voters)
    assert abs(model.sensitivity - 0.85) < 0.02
    np.testing.assert_allclose(model.false_rates, 0.04, atol=0.01)
    np.testing.assert_allclose(model.frequency, truth.mean(axis=0), atol=0.02)
    assert model.annotator_sensitivity is None


def test_identities_find_careless_annotators_and_help():
    truth, counts, voters, ballots = simulate(careless=10)
    model = vote_model(counts, voters, ballots)
    careless, careful = np.arange(30) < 10, np.arange(30) >= 10
    assert model.annotator_sensitivity[careless].max() < model.annotator_sensitivity[careful].min()
    assert (
        model.annotator_false_factor[careless].min() > model.annotator_false_factor[careful].max()
    )
    listed = counts > 0
    better = auc(model.posterior[listed], truth[listed])
    assert better > auc(vote_model(counts, voters).posterior[listed], truth[listed]) + 0.01


def test_an_annotator_with_few_votes_is_near_the_average():
    _, counts, voters, ballots = simulate(careless=0)
    one = ballots._replace(annotator=np.where(np.arange(len(ballots.row)) == 0, 99, 1))
    model = vote_model(counts, voters, one)
    assert abs(model.annotator_sensitivity[99] - model.sensitivity) < 0.1


@pytest.mark.parametrize("counts", [np.zeros((4, 2)), np.ones((4, 2)), np.zeros((0, 2))])
def test_votes_that_say_nothing(counts):
    model = vote_model(counts, np.ones(len(counts)))
    assert np.isfinite(model.log_ratio).all()
    assert ((model.posterior >= 0) & (model.posterior <= 1)).all()


def test_rows_without_voters_have_no_evidence():
    counts, voters = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([2, 0])
    np.testing.assert_array_equal(vote_model(counts, voters).log_ratio[1], 0)


def test_shifted_log_odds_have_the_frequency():
    rng = np.random.RandomState(0)
    t = np.array([0.01, 0.4, 0.9])
    z = 3 * rng.randn(500, 3)
    z += frequency_shift(z, t)
    np.testing.assert_allclose((1 / (1 + np.exp(-z))).mean(axis=0), t, atol=1e-6)
