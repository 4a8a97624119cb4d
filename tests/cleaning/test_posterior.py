"""The posterior of hits along a ranking, against its plain transcription."""

import numpy as np
import pytest

from schirn.cleaning.posterior import RankPosterior, normal_scores
from tests.reference import rank_posterior as plain


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(3)
    score = normal_scores(np.arange(80))[np.sort(rng.choice(80, 20, replace=False))]
    return score, rng.random(20) < 1 / (1 + np.exp(1 + 2 * score))


def test_agrees_with_the_plain_transcription(answers):
    open_score = normal_scores(np.arange(60))
    weights = plain.posterior(*answers)
    posterior = RankPosterior(*answers, open_score)
    expected = [plain.hit_probability(weights, s) for s in open_score]
    np.testing.assert_allclose(posterior.hit_probability(open_score), expected, rtol=1e-9)
    for target in (0.5, 0.7, 0.9):
        assert posterior.limit(target) == plain.limit(weights, open_score, target)
        for probability in (0.3, 0.6):
            expected_limit = plain.sure_limit(weights, open_score, target, probability)
            assert posterior.limit(target, probability) == expected_limit
    for count in (12, 60):
        interval = plain.share_interval(weights, open_score[:count])
        np.testing.assert_allclose(posterior.share_interval(count), interval, rtol=1e-9)
    assert posterior.expected_hits(7) == pytest.approx(sum(expected[:7]))


def test_bins_change_little(answers):
    open_score = normal_scores(np.arange(1030))
    posterior, weights = RankPosterior(*answers, open_score), plain.posterior(*answers)
    expected = [plain.hit_probability(weights, s) for s in open_score[::103]]
    np.testing.assert_allclose(posterior.hit_probability(open_score[::103]), expected, atol=0.02)


def test_limit_follows_the_answers():
    scores, open_score = (
        normal_scores(np.arange(1000))[::20],
        normal_scores(np.arange(1000)),
    )
    step = RankPosterior(scores, np.arange(50) < 10, open_score)
    assert 70 < step.limit(0.9) < 280
    # The expected share would allow more; but the share could be far below the target.
    k = step.limit(0.9)
    assert step.share_interval(k)[0] > 0.92
    assert step.limit(0.7) > 1.5 * k
    mean, low, high = step.share_interval(1000)
    assert low < 0.2 < high
    assert low <= mean <= high
    assert step.share_interval(100)[0] > 0.9
    assert RankPosterior(scores, np.zeros(50, bool), open_score).limit(0.9) == 0
    everything = RankPosterior(scores, np.ones(50, bool), open_score)
    assert everything.limit(0.9) == 1000


def test_no_answers_and_no_open_tags():
    nothing = np.zeros(0)
    prior = RankPosterior(nothing, nothing > 0, normal_scores(np.arange(10)))
    mean, low, high = prior.share_interval(10)
    assert 0 <= low < mean < high <= 1
    done = RankPosterior(np.array([0.0]), np.array([True]), nothing)
    assert done.limit(0.5) == 0
    assert np.isnan(done.share_interval(3)).all()
    assert done.expected_hits(3) == 0


def test_the_interval_of_the_number_of_hits_holds_the_true_number():
    rng = np.random.default_rng(0)
    score = np.sort(normal_scores(rng.random(4000)))
    held = []
    for _ in range(60):
        # The law of the prior.
        slope = np.exp(rng.normal())
        floor = rng.choice([0, 0.07, 0.2, 0.45])
        is_hit = rng.random(4000) < (1 - floor) / (1 + np.exp(slope * score + 3 * rng.normal()))
        answered = rng.choice(4000, 50, replace=False)
        posterior = RankPosterior(score[answered], is_hit[answered], score)
        low, high = posterior.hits_interval(score[:100])
        assert 0 <= low <= posterior.expected_hits(100) + 1
        assert high <= 100
        held.append(low <= is_hit[:100].sum() <= high)
    assert 0.8 <= np.mean(held)
    assert posterior.hits_interval(score[:0]) == (0, 0)
