import json

import numpy as np
import pytest

from schirn import CandidateRidge, Sieve, find_noisy_labels
from schirn.cleaning import votes_to_candidates
from schirn.datasets import load_digits_attributes
from schirn.exceptions import InputError


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2).subset(range(600))


@pytest.fixture(scope="module")
def found(digits):
    return find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)


def pixels(data, n, draw):
    varying = np.flatnonzero(data.X.std(axis=0) > 0)
    return data.X[:, np.random.default_rng(draw).choice(varying, n, replace=False)]


def wrong(data, found):
    return data.y_true[found.row, found.column] == 0


def test_planted_tags_predict_the_precision_of_the_removals(digits, found):
    trust = found.trust
    assert trust.level == "good"
    assert trust.planted > 3000
    assert trust.caught == pytest.approx(found.removed[wrong(digits, found)].mean(), abs=0.02)
    assert trust.flagged == pytest.approx(found.removed.mean())
    assert trust.ratio == pytest.approx(trust.caught / trust.flagged)
    assert trust.wrong_share == pytest.approx(1 / 3, abs=0.01)
    right = wrong(digits, found)[found.removed].mean()
    assert trust.expected_precision == pytest.approx(right, abs=0.02)
    assert f"about {trust.expected_precision:.0%} of the removals should be right" in trust.sentence
    assert found.held_back == 0


def test_with_the_true_share_of_wrong_tags_the_precision_is_that_of_weak_features_too():
    data = load_digits_attributes(r=2)
    found = find_noisy_labels(pixels(data, 6, 2), data.candidates, precision=None)
    right = wrong(data, found)[found.removed].mean()
    assert right < 0.7
    assert wrong(data, found).mean() * found.trust.ratio == pytest.approx(right, abs=0.05)


def test_each_label_has_its_check(digits, found):
    labels = {label.name: label for label in found.trust.labels}
    assert list(labels) == digits.label_names
    assert sum(label.planted for label in labels.values()) == found.trust.planted
    one = found.column == 3
    assert labels[digits.label_names[3]].flagged == pytest.approx(found.removed[one].mean())
    caught = sum(label.planted * label.caught for label in labels.values())
    assert caught == pytest.approx(found.trust.planted * found.trust.caught)


@pytest.mark.parametrize("method", ["Sieve", "CandidateRidge"])
def test_nothing_is_removed_if_the_features_say_nothing(digits, method):
    X = np.random.default_rng(0).standard_normal((600, 20))
    found = find_noisy_labels(X, digits.candidates, method=method)
    assert found.trust.level == "none"
    assert found.trust.expected_precision == 0
    assert not found.removed.any()
    assert "The features say too little about the tags" in found.trust.sentence
    assert "Learn from other columns, from texts, or from the output of an encoder" in (
        found.trust.sentence
    )


@pytest.mark.slow
@pytest.mark.parametrize(("n", "draw"), [(1, 0), (3, 1), (6, 2)])
def test_removals_of_weak_features_are_held_back(n, draw):
    data = load_digits_attributes(r=2)
    X = pixels(data, n, draw)
    found = find_noisy_labels(X, data.candidates)
    every = find_noisy_labels(X, data.candidates, precision=None, keep_one=False)
    assert found.trust.level != "good"
    np.testing.assert_array_equal(found.confidence, every.confidence)
    assert every.held_back == 0
    assert found.held_back == every.removed.sum()
    assert not found.removed.any()


def test_weak_trust_removes_the_least_likely_tags_only(digits):
    found = find_noisy_labels(digits.X, digits.candidates, method=CandidateRidge())
    every = find_noisy_labels(digits.X, digits.candidates, method=CandidateRidge(), precision=None)
    trust = found.trust
    assert trust.level == every.trust.level == "weak"
    assert 0 < trust.threshold < 0.5
    assert trust.expected_precision < 0.9
    assert "only the least likely tags are removed" in trust.sentence
    assert 0 < found.removed.sum() < every.removed.sum()
    np.testing.assert_array_equal(found.removed, found.confidence < trust.threshold)
    assert found.held_back == (found.confidence < 0.5).sum() - found.removed.sum()
    right = [wrong(digits, f)[f.removed].mean() for f in (found, every)]
    assert right[0] >= 0.9 > right[1]


def test_a_lower_precision_removes_more(digits):
    removed = [
        find_noisy_labels(
            digits.X, digits.candidates, method="CandidateRidge", precision=precision
        ).removed.sum()
        for precision in (1.0, 0.95, 0.9, 0.7)
    ]
    assert removed == sorted(removed)
    assert removed[0] < removed[-1]


def test_folds_of_sieve_use_its_cautious_share(digits):
    found = find_noisy_labels(digits.X, digits.candidates, cv=3)
    assert found.trust.level == "good"
    assert found.trust.wrong_share == pytest.approx(1 / 3, abs=0.02)
    assert found.trust.expected_precision > 0.95


def test_the_check_follows_the_random_state(digits, found):
    same = find_noisy_labels(digits.X, digits.candidates)
    other = find_noisy_labels(digits.X, digits.candidates, random_state=1)
    assert same.trust.caught == found.trust.caught
    assert {label.planted for label in same.trust.labels} != {
        label.planted for label in other.trust.labels
    }
    np.testing.assert_array_equal(other.confidence, found.confidence)


def test_whoever_names_the_noise_is_believed(digits):
    X = pixels(digits, 6, 2)
    plain = find_noisy_labels(X, digits.candidates)
    named = find_noisy_labels(X, digits.candidates, method=Sieve(noise_level=2))
    assert plain.trust.wrong_share < 0.3
    assert named.trust.wrong_share == pytest.approx(named.wrong_share)
    assert named.trust.expected_precision > plain.trust.expected_precision
    trusting = find_noisy_labels(X, digits.candidates, method=Sieve(noise_level=0))
    assert not trusting.removed.any()
    assert trusting.trust.level == "none"


def test_votes_are_believed(digits):
    rng = np.random.default_rng(0)
    ballots = [
        (i, w, j)
        for w in range(5)
        for i, j in np.argwhere(rng.random(digits.y_true.shape) < np.where(digits.y_true, 0.8, 0.1))
    ]
    votes = votes_to_candidates(*zip(*ballots, strict=True), order=range(600))
    found = find_noisy_labels(digits.X[:, 20:28], votes.candidates, votes=votes)
    assert found.trust.level == "good"
    assert found.trust.wrong_share == pytest.approx(found.wrong_share)
    right = wrong(digits, found)[found.removed].mean()
    assert found.trust.expected_precision == pytest.approx(right, abs=0.05)


def test_a_prior_counts_for_planted_tags_as_for_the_tags_they_replace(digits, found):
    sure = np.full(digits.candidates.shape, 0.999999)
    trusted = find_noisy_labels(digits.X, digits.candidates, prior=sure)
    assert trusted.trust.caught < found.trust.caught
    half = find_noisy_labels(digits.X, digits.candidates, prior=np.full(sure.shape, 0.5))
    assert half.trust.caught == found.trust.caught


def test_tags_known_to_be_wrong_are_removed_whatever_the_trust(digits):
    X = np.random.default_rng(0).standard_normal((600, 20))
    known = np.zeros(digits.candidates.shape)
    i, j = np.argwhere(digits.candidates == 1)[0]
    known[i, j] = -1
    found = find_noisy_labels(X, digits.candidates, known=known)
    assert found.trust.level == "none"
    assert found.removed.sum() == 1
    assert found.removed[(found.row == i) & (found.column == j)].all()


def test_a_row_keeps_its_most_likely_tag(digits):
    # Rows that list wrong tags only.
    C = digits.candidates.copy()
    C[:30] = np.where(digits.y_true[:30] == 1, 0, C[:30])
    empty = find_noisy_labels(digits.X, C, keep_one=False)
    kept = find_noisy_labels(digits.X, C)
    n_empty = empty.summary()["rows_left_without_tags"]
    assert n_empty > 10
    assert kept.summary()["rows_left_without_tags"] == 0
    changed = np.flatnonzero(empty.removed != kept.removed)
    assert len(changed) == n_empty
    confidence = np.where(C == 1, kept.matrix(), -1)
    np.testing.assert_array_equal(kept.confidence[changed], confidence[kept.row[changed]].max(1))
    # Unless all of them are known to be wrong.
    known = np.where(C == 1, -1, 0)
    known[1:] = 0
    known[1, np.flatnonzero(C[1])[0]] = -1
    found = find_noisy_labels(digits.X, C, known=known)
    assert found.removed[found.row == 0].all()
    assert not found.removed[found.row == 1].all()
    assert set(found.verdict[known[found.row, found.column] == -1]) == {"removed"}


def test_tags_that_cannot_be_judged_cannot_be_checked(small):
    rare = find_noisy_labels(small.X, small.candidates, min_count=1000)
    assert rare.trust.level == "none"
    assert "Every tag is too rare" in rare.trust.sentence
    both = np.ones((200, 2), dtype=np.uint8)
    both[:20, 0], both[20:40, 1] = 0, 0
    assert find_noisy_labels(small.X, both).trust.planted < 200


def test_the_check_is_in_summary_and_json(digits):
    found = find_noisy_labels(
        digits.X, digits.candidates, method="CandidateRidge", label_names=digits.label_names
    )
    whole = found.summary()
    assert whole["held_back"] == found.held_back > 0
    assert whole["trust"]["level"] == "weak"
    document = json.loads(found.to_json())
    assert document["summary"]["trust"]["caught"] == found.trust.caught
    assert len(document["trust"]["labels"]) == len(digits.label_names)


@pytest.mark.parametrize("precision", [-0.1, 1.1, "high"])
def test_a_bad_precision_raises(small, precision):
    with pytest.raises(InputError, match="precision must be a number of at least 0 and at most 1"):
        find_noisy_labels(small.X, small.candidates, precision=precision)
