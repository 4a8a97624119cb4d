import datetime
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import beta, binom, hypergeom

from schirn import find_noisy_labels
from schirn.cleaning import Certificate, MissingTags, NoisyLabels
from schirn.cleaning.audit import _logistic, _tag_offsets, precision_bound
from schirn.cleaning.ranker import PlantedTags
from schirn.cleaning.trust import assess
from schirn.datasets import load_digits_attributes
from schirn.exceptions import InputError

DAY = "2026-11-16"


def verdicts(n=400, labels=10, *, slope=1.0, offset=0.0, seed=0, threshold=0.5):
    """Verdicts whose confidences q err by a known logistic curve, and whether each tag is right."""
    rng = np.random.default_rng(seed)
    row, column = np.divmod(np.flatnonzero(rng.random(n * labels) < 0.4), labels)
    score = 2 * rng.standard_normal(len(row))
    right = rng.random(len(row)) < 1 / (1 + np.exp(-(offset + slope * score)))
    q = 1 / (1 + np.exp(-score))
    found = NoisyLabels(
        n_rows=n,
        label_names=[f"tag {j}" for j in range(labels)],
        row=row,
        column=column,
        confidence=q,
        removed=q < threshold,
        judged=np.ones(len(row), dtype=bool),
        threshold=threshold,
        method="none",
    )
    return found, right


def check(found, right, n=50, seed=0, **options):
    cells = found.audit_sample(n, random_state=seed)
    return cells, found.audited(cells, right[cells.index], date=DAY, **options)


@pytest.mark.parametrize("n", [1, 7, 30])
def test_the_bound_is_that_of_clopper_and_pearson(n):
    for wrong in range(n + 1):
        bound = precision_bound(wrong, n)
        expected = 0 if wrong == 0 else beta.ppf(0.05, wrong, n - wrong + 1)
        assert bound == pytest.approx(expected)
        # As many wrong tags as were seen have probability 0.05 at the bound.
        if wrong:
            assert binom.sf(wrong - 1, n, bound) == pytest.approx(0.05)


def test_in_a_finite_set_the_bound_inverts_the_hypergeometric_law():
    n, size = 12, 40
    for wrong in range(n + 1):
        numbers = range(wrong, size - n + wrong + 1)
        likely = [k for k in numbers if hypergeom.sf(wrong - 1, size, k, n) > 0.05]
        assert precision_bound(wrong, n, 0.95, size) == min(likely) / size
        assert precision_bound(wrong, n, 0.95, size) >= precision_bound(wrong, n)
    assert precision_bound(33, size, 0.95, size) == 33 / size


def test_in_a_finite_set_the_bound_holds_for_every_number_of_wrong_tags():
    n, size = 10, 25
    for k in range(size + 1):
        seen = np.arange(n + 1)
        holds = [precision_bound(x, n, 0.95, size) <= k / size for x in seen if x <= k]
        p = hypergeom.pmf(seen[: len(holds)], size, k, n)
        assert p[np.array(holds)].sum() >= 0.95 - 1e-12


def test_a_sample_has_two_purposes_and_known_weights():
    found, _ = verdicts()
    cells = found.audit_sample(50, random_state=3)
    assert len(cells) == 50
    assert (cells.purpose == "calibration").sum() == 20
    inside = cells.purpose == "certificate"
    assert inside.sum() == 30
    assert found.removed[cells.index[inside]].all()
    assert len(np.unique(cells.index)) == 50
    assert cells.weight.sum() == pytest.approx(len(found.row))
    assert cells.weight[inside][0] == found.removed.sum() / found.removed[cells.index].sum()
    np.testing.assert_array_equal(cells.row, found.row[cells.index])
    np.testing.assert_array_equal(cells.column, found.column[cells.index])
    assert cells.label[0] == found.label_names[cells.column[0]]


def test_samples_are_reproducible_and_random():
    found, right = verdicts()
    draws = [found.audit_sample(50, random_state=seed).index.tolist() for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    first, second = (check(found, right)[1] for _ in range(2))
    np.testing.assert_array_equal(first.confidence, second.confidence)
    assert first.certificate == second.certificate


def test_every_tag_is_drawn_equally_often():
    found, _ = verdicts(n=20, labels=5)
    counts = np.zeros(len(found.row))
    draws = 2000
    for seed in range(draws):
        cells = found.audit_sample(10, random_state=seed)
        counts[cells.index] += 1
    for group in (found.removed, ~found.removed):
        mean = counts[group].mean()
        assert np.abs(counts[group] - mean).max() < 5 * np.sqrt(mean)


def test_without_answers_nothing_changes():
    found, right = verdicts()
    cells = found.audit_sample(20)
    for checked in (found.audited(None, None), found.audited(cells, [None] * 20)):
        np.testing.assert_allclose(checked.confidence, found.confidence, atol=1e-6)
        np.testing.assert_array_equal(checked.removed, found.removed)
        assert checked.threshold == pytest.approx(found.threshold)
        assert checked.certificate.precision_at_least == 0
        assert checked.certificate.n_answers == 0
        assert checked.audit.wrong_share_interval == (0, 1)
    assert found.certificate is None
    cells = found.audit_sample(1)
    assert found.audited(cells, right[cells.index]).audit.n_answers == 1


def test_answers_are_final_for_their_own_tags():
    found, right = verdicts()
    cells, checked = check(found, right)
    np.testing.assert_array_equal(checked.confidence[cells.index], right[cells.index])
    np.testing.assert_array_equal(checked.removed[cells.index], ~right[cells.index])
    rest = np.ones(len(found.row), dtype=bool)
    rest[cells.index] = False
    low = checked.confidence < checked.threshold
    np.testing.assert_array_equal(checked.removed[rest], low[rest])


def test_the_calibration_is_the_minimum_of_the_penalised_likelihood():
    found, right = verdicts(slope=0.6, offset=-1)
    rows = np.arange(200)
    checked = found.audited(None, None, extra=(found.row[rows], found.column[rows], right[rows]))
    short = found.audited(
        None, None, extra=(found.row[rows[:80]], found.column[rows[:80]], right[rows[:80]])
    )
    assert short.audit.covariates == []
    assert checked.audit.covariates == ["log tag frequency", "row size", "tag"]
    q, y = found.confidence[:80], right[:80]
    score, (a, b) = np.log(q / (1 - q)), (short.audit.slope, short.audit.offset)
    miss = 1 / (1 + np.exp(-(b + a * score))) - y
    assert (miss * score).sum() + 4 * (a - 1) == pytest.approx(0, abs=1e-6)
    assert miss.sum() + 0.5 * b == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("slope", "offset"), [(1, 0), (0.5, -1.5), (1, 2), (0, 0)])
def test_fifty_answers_bring_the_claimed_share_close(slope, offset):
    found, right = verdicts(slope=slope, offset=offset)
    true = np.mean(~right)
    errors, inside = [], []
    for seed in range(100):
        checked = check(found, right, seed=seed)[1]
        errors.append(abs(checked.wrong_share - true))
        low, high = checked.audit.wrong_share_interval
        inside.append(low <= true <= high)
    assert np.mean(errors) < 0.075
    assert np.mean(inside) >= 0.85


def test_twenty_answers_do_no_harm_to_calibrated_verdicts():
    found, right = verdicts(n=1000)
    loss = []
    for seed in range(50):
        cells, checked = check(found, right, n=20, seed=seed, precision=None)
        rest = np.delete(np.arange(len(right)), cells.index)
        before, after = ((o.removed != ~right)[rest].mean() for o in (found, checked))
        loss.append(after - before)
    assert np.mean(loss) < 0.015


@pytest.mark.parametrize("precision", [None, 0.9])
@pytest.mark.parametrize(("slope", "offset"), [(1, 0), (0.5, -1), (1, 2), (2, -2)])
def test_the_certificate_holds_whatever_the_answers_do_to_the_set(slope, offset, precision):
    found, right = verdicts(n=150, slope=slope, offset=offset)
    holds, sizes = [], set()
    for seed in range(200):
        _, checked = check(found, right, seed=seed, precision=precision)
        about = checked.audit.certified
        sizes.add(int(about.sum()))
        actual = np.mean(~right[about]) if about.any() else 1
        holds.append(checked.certificate.precision_at_least <= actual)
    assert len(sizes) > 5
    # 95% would give 190; fewer than 181 has probability 0.001.
    assert np.sum(holds) >= 181


def test_the_certificate_counts_only_cells_drawn_for_it():
    found, right = verdicts()
    cells, checked = check(found, right)
    inside = cells.index[cells.purpose == "certificate"]
    inside = inside[checked.audit.certified[inside]]
    certificate = checked.certificate
    assert certificate.n_answers == len(inside)
    assert certificate.n_wrong == np.sum(~right[inside])
    assert not checked.audit.certified[cells.index[cells.purpose == "calibration"]].any()
    assert not checked.audit.certified[~found.removed].any()
    expected = precision_bound(certificate.n_wrong, len(inside), 0.95, certificate.n_tags)
    assert certificate.precision_at_least == expected
    assert certificate.n_tags == checked.audit.certified.sum()


def test_extra_answers_move_confidences_but_not_the_certificate():
    found, right = verdicts(offset=-1.5)
    cells, plain = check(found, right)
    doubtful = np.argsort(np.abs(found.confidence - 0.5))[:80]
    extra = (found.row[doubtful], found.column[doubtful], right[doubtful])
    checked = found.audited(cells, right[cells.index], extra=extra, date=DAY)
    assert checked.certificate == plain.certificate
    assert checked.audit.offset != plain.audit.offset
    np.testing.assert_array_equal(checked.removed[doubtful], ~right[doubtful])
    # Nor do answers to the cells of the sample, given once more.
    again = (cells.row, cells.column, ~right[cells.index])
    repeated = found.audited(cells, right[cells.index], extra=again, date=DAY)
    np.testing.assert_array_equal(repeated.confidence, plain.confidence)


def test_all_wrong_and_all_right():
    found, _ = verdicts()
    m = len(found.row)
    wrong = check(found, np.zeros(m, dtype=bool))[1]
    assert wrong.certificate.n_wrong == wrong.certificate.n_answers == 30
    assert 0.9 < wrong.certificate.precision_at_least < 1
    assert wrong.certificate.more_answers_needed == 0
    assert wrong.wrong_share > found.noise_rate + 0.2
    assert wrong.removed.sum() > found.removed.sum()
    right = check(found, np.ones(m, dtype=bool))[1]
    assert right.certificate.precision_at_least == 0
    assert right.certificate.more_answers_needed is None
    assert right.wrong_share < found.noise_rate - 0.2


def test_more_answers_needed_is_enough_and_not_too_much():
    found, _ = verdicts(n=4000)
    certificate = check(found, np.zeros(len(found.row), dtype=bool), n=20)[1].certificate
    n, more = certificate.n_answers, certificate.more_answers_needed
    assert beta.ppf(0.05, n + more, 1) >= 0.9 > beta.ppf(0.05, n + more - 1, 1)


def test_checking_every_removed_tag_gives_the_share_itself():
    found, right = verdicts(n=20, labels=5)
    cells, checked = check(found, right, n=1000)
    certificate = checked.certificate
    assert certificate.n_answers == certificate.n_tags > 0
    assert certificate.precision_at_least == pytest.approx(certificate.n_wrong / certificate.n_tags)
    assert len(np.unique(cells.index)) == len(cells)


def test_tags_that_nobody_can_tell_are_left_out():
    found, right = verdicts()
    cells = found.audit_sample(50)
    answers = right[cells.index].astype(object)
    answers[::5] = None
    answers[1::10] = np.nan
    checked = found.audited(cells, answers)
    assert checked.audit.n_answers == 35
    assert checked.audit.n_untold == 15
    certificate = checked.certificate
    assert certificate.n_untold > 0
    assert certificate.method.startswith("Clopper-Pearson")
    bound = precision_bound(certificate.n_wrong, certificate.n_answers)
    assert certificate.precision_at_least == bound
    untold = cells.index[::5]
    assert ((checked.confidence[untold] > 0) & (checked.confidence[untold] < 1)).all()


def test_the_threshold_meets_the_wanted_precision():
    found, right = verdicts(n=3000)
    for precision in (0.8, 0.95):
        checked = check(found, right, n=500, precision=precision)[1]
        low = checked.confidence < checked.audit.threshold
        assert abs(np.mean(~right[low]) - precision) < 0.05
    assert np.mean(~right[checked.removed]) > 0.91
    assert checked.removed.sum() < found.removed.sum()


def test_verdicts_that_were_held_back_must_earn_their_removal():
    found, good = verdicts(slope=2)
    held = replace(found, removed=np.zeros(len(found.row), dtype=bool))
    cells, checked = check(held, good)
    assert (cells.purpose == "certificate").sum() == 30
    assert checked.removed.mean() > 0.3
    assert checked.certificate.precision_at_least > 0.6
    noise = np.random.default_rng(0).random(len(found.row)) < 0.65
    removed = [check(held, noise, seed=seed)[1].removed.mean() for seed in range(20)]
    assert np.mean(removed) < 0.05


def test_the_limits_of_every_row_are_kept():
    found, _ = verdicts()
    wrong = np.zeros(len(found.row), dtype=bool)
    plain = check(found, wrong, n=20)[1]
    rows, counts = np.unique(found.row[plain.removed], return_counts=True)
    assert counts.max() > 2
    assert len(rows) > len(np.unique(found.row[~plain.removed]))
    limited = replace(found, max_remove_per_row=1, keep_one=True)
    cells, checked = check(limited, wrong, n=20)
    rest = np.isin(found.row, cells.row, invert=True)
    assert np.unique(found.row[checked.removed & rest], return_counts=True)[1].max() == 1
    kept = replace(found, keep_one=True)
    cells, checked = check(kept, wrong, n=20)
    rest = np.isin(found.row, cells.row, invert=True)
    assert set(found.row[rest]) == set(found.row[~checked.removed & rest])
    assert not (checked.audit.certified & ~checked.removed)[rest].any()


def test_a_second_audit_certifies_the_new_set():
    found, right = verdicts(offset=-2)
    first, checked = check(found, right, precision=0.7)
    grown = checked.removed & ~found.removed
    assert grown.sum() > 100
    second, twice = check(checked, right, seed=1)
    assert not np.isin(second.index, first.index).any()
    assert twice.certificate.n_tags > checked.certificate.n_tags
    np.testing.assert_array_equal(twice.removed[first.index], ~right[first.index])


def test_known_tags_are_neither_drawn_nor_changed():
    digits = load_digits_attributes(r=2).subset(range(300))
    known = np.zeros(digits.candidates.shape)
    known[:150] = np.where(digits.y_true[:150] == 1, 1, -1)
    known[digits.candidates == 0] = 0
    found = find_noisy_labels(digits.X, digits.candidates, known=known)
    cells = found.audit_sample(50)
    assert (cells.row >= 150).all()
    checked = found.audited(cells, digits.y_true[cells.row, cells.column])
    sure = found.row < 150
    np.testing.assert_array_equal(checked.confidence[sure], found.confidence[sure])
    np.testing.assert_array_equal(checked.removed[sure], found.removed[sure])
    low, high = checked.audit.wrong_share_interval
    assert low <= 1 / 3 <= high


def test_invalid_answers():
    found, right = verdicts()
    cells = found.audit_sample(20)
    for answers in (right[:19], np.ones((20, 1)), None):
        with pytest.raises(InputError, match="one answer for each of 20 cells"):
            found.audited(cells, answers)
    for answers in ([2] * 20, ["yes"] * 20):
        with pytest.raises(InputError, match="True, False or None"):
            found.audited(cells, answers)
    other, _ = verdicts(seed=1)
    with pytest.raises(InputError, match="other verdicts"):
        other.audited(cells, right[cells.index])
    with pytest.raises(InputError, match="audit_sample"):
        found.audited((cells.row, cells.column), right[cells.index])
    with pytest.raises(InputError, match="extra"):
        found.audited(None, [True])
    for name, value in {"precision": 0, "confidence": 1}.items():
        with pytest.raises(InputError, match=name):
            found.audited(cells, right[cells.index], **{name: value})
    with pytest.raises(InputError, match="n must be"):
        found.audit_sample(0)


def test_invalid_extra_answers():
    found, _ = verdicts()
    listed = found.matrix(np.ones(len(found.row)))
    row, column = np.argwhere(listed == 0)[0]
    for tag in ((row, column), (found.row[0], 10), (found.row[0], -1), (400, 0)):
        with pytest.raises(InputError, match="no such tag is listed"):
            found.audited(None, None, extra=([tag[0]], [tag[1]], [True]))
    with pytest.raises(InputError, match="rows, columns, right"):
        found.audited(None, None, extra=([0], [0]))
    with pytest.raises(InputError, match="same length"):
        found.audited(None, None, extra=([0, 1], [0], [True]))


def test_votes_are_a_covariate():
    found, right = verdicts()
    counts = np.where(found.matrix(right.astype(int)) == 1, 3, 1)
    rows = np.arange(150)
    extra = (found.row[rows], found.column[rows], right[rows])
    checked = found.audited(None, None, extra=extra, votes=(counts, 3))
    assert "votes" in checked.audit.covariates
    rest = slice(150, None)
    before, after = (np.mean((o.confidence[rest] > 0.5) == right[rest]) for o in (found, checked))
    assert after > before + 0.1


def test_answers_tell_which_tags_are_wrong_more_often():
    found, _ = verdicts(800)
    rng = np.random.default_rng(1)
    # Confidences say nothing: three of ten tags are almost always wrong.
    right = rng.random(len(found.row)) < np.where(found.column < 3, 0.05, 0.95)
    cells, checked = check(found, right, n=400)
    rest = np.setdiff1d(np.arange(len(right)), cells.index)
    assert checked.audit.covariates[-1] == "tag"
    assert np.mean((checked.confidence[rest] > 0.5) == right[rest]) > 0.9
    assert checked.removed[rest].sum() > 0.2 * len(rest)
    assert (~right[rest])[checked.removed[rest]].mean() > 0.9
    assert checked.confidence[rest].mean() == pytest.approx(right[rest].mean(), abs=0.05)


def test_offsets_of_tags_are_the_minimum_and_leave_answers_out():
    rng = np.random.default_rng(0)
    n, k, variance = 60, 7, 0.8
    s, name, w = rng.standard_normal(n), rng.integers(0, k, n), rng.uniform(0.5, 2, n)
    name[:k] = np.arange(k)
    y = (rng.random(n) < 1 / (1 + np.exp(-s))).astype(float)
    Z = np.column_stack([np.ones(n), s, np.eye(k)[name]])
    ridge, mean = np.r_[0.5, 4.0, np.full(k, 1 / variance)], np.eye(k + 2)[1]

    def dense(w):
        theta = _logistic(Z, y, w, mean, ridge)
        p = 1 / (1 + np.exp(-Z @ theta))
        np.testing.assert_allclose(Z.T @ (w * (p - y)) + ridge * (theta - mean), 0, atol=1e-6)
        H = (Z.T * (w * p * (1 - p))) @ Z + np.diag(ridge)
        loss = (w * (np.logaddexp(0, Z @ theta) - y * (Z @ theta))).sum()
        loss += (ridge * (theta - mean) ** 2).sum() / 2
        return theta, -loss - np.linalg.slogdet(H)[1] / 2 - k * np.log(variance) / 2

    slope, u, left_out, evidence = _tag_offsets(s, name, y, w, variance)
    theta, expected = dense(w)
    assert slope == pytest.approx(theta[1])
    np.testing.assert_allclose(u, theta[2:], atol=1e-6)
    assert evidence == pytest.approx(expected)
    for i in range(n):
        without = Z[i] @ dense(np.where(np.arange(n) == i, 0, w))[0]
        assert Z[i, :2] @ theta[:2] + left_out[i] == pytest.approx(without, abs=0.1)


def test_a_certificate_survives_json_and_verifies(tmp_path):
    found, right = verdicts()
    checked = check(found, right)[1]
    path = tmp_path / "certificate.json"
    text = checked.certificate.to_json(path)
    assert path.read_text() == text
    certificate = Certificate.from_json(text)
    assert certificate == checked.certificate
    certificate.verify(checked)
    assert certificate.date == DAY
    assert "With 95% confidence, at least" in str(certificate)
    today = found.audited(None, None).certificate.date
    assert datetime.date.fromisoformat(today) <= datetime.date.today()
    with pytest.raises(InputError, match="not audited"):
        certificate.verify(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("precision_at_least", 0.99),
        ("precision_at_least", "0.99"),
        ("confidence", 0.999),
        ("confidence", "high"),
        ("n_answers", 500),
        ("n_wrong", 29),
        ("n_tags", 3),
        ("more_answers_needed", 7),
        ("sha256", "0" * 64),
    ],
)
def test_a_tampered_certificate_does_not_verify(name, value):
    found, right = verdicts()
    checked = check(found, right)[1]
    values = json.loads(checked.certificate.to_json())
    assert values[name] != value
    with pytest.raises(InputError, match=f"{name}|precision_at_least"):
        Certificate.from_json(json.dumps(values | {name: value})).verify(checked)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("precision_at_least", 0.99),
        ("precision_at_least", float("nan")),
        ("precision_at_least", 10**400),
        ("confidence", 0.999),
        ("confidence", 0.4),
        ("precision", 0),
        ("precision", 0.5),
        ("n_answers", 500),
        ("n_answers", 29.0),
        ("n_answers", True),
        ("n_wrong", 3),
        ("n_wrong", -1),
        ("n_wrong", 10**30),
        ("n_untold", 1),
        ("n_untold", -1),
        ("n_tags", 3),
        ("n_tags", 10**12),
        ("more_answers_needed", 7),
        ("more_answers_needed", "7"),
        ("method", "magic"),
        ("date", "yesterday"),
        ("sha256", None),
    ],
)
def test_a_certificate_that_contradicts_itself_does_not_verify(name, value):
    found, right = verdicts()
    certificate = check(found, right)[1].certificate
    certificate.verify()
    values = json.loads(certificate.to_json()) | {name: value}
    with pytest.raises(InputError):
        Certificate.from_json(json.dumps(values)).verify()


def test_the_hash_of_the_table_is_that_of_its_tags():
    found, right = verdicts()
    first = check(found, right)[1].certificate
    # Names in another order are the same tags.
    order = np.arange(10)[::-1]
    names = [found.label_names[j] for j in order]
    turned = replace(found, label_names=names, column=order[found.column])
    assert check(turned, right)[1].certificate == first
    assert first.table_sha256 != first.sha256
    other = check(replace(found, n_rows=found.n_rows + 1), right)[1].certificate
    assert other.table_sha256 != first.table_sha256


def test_a_certificate_of_other_tags_does_not_verify():
    found, right = verdicts()
    certificate = check(found, right)[1].certificate
    with pytest.raises(InputError, match="certificate says"):
        certificate.verify(check(*verdicts(seed=1))[1])
    for text in ("{", "[]", "{}"):
        with pytest.raises(InputError, match="certificate"):
            Certificate.from_json(text)


def squashed(kappa, **options):
    """Verdicts of a method that hardly believes them, as `Sieve` does if features are weak."""
    found, right = verdicts(slope=1, **options)
    q = 1 - kappa * (1 - found.confidence)
    return replace(found, confidence=q, removed=q < found.threshold), right


def test_answers_see_through_caution():
    found, right = squashed(0.05)
    assert not found.removed.any()
    believed = verdicts()[0]
    for seed in range(10):
        _, checked = check(found, right, seed=seed)
        assert abs(checked.wrong_share - np.mean(~right)) < 0.2
        # The order stays, and tags that were sure of caution alone become clearly wrong.
        order = np.argsort(found.confidence)
        assert (np.diff(checked.confidence[order[:200]]) >= -1e-9).mean() > 0.8
        low = believed.confidence < 0.05
        assert checked.confidence[low].mean() < 0.2
        assert np.mean(~right[checked.removed]) > 0.75
    recall = [check(found, right, seed=s)[1].removed[~right].mean() for s in range(10)]
    assert np.mean(recall) > 0.3


def trusted(found, planted, share=0.5):
    trust = assess(
        found.confidence,
        found.column,
        PlantedTags(column=np.zeros(len(planted), dtype=int), log_odds=logit(planted)),
        share=share,
        threshold=found.threshold,
        precision=0.9,
        label_names=found.label_names,
    )
    return replace(found, trust=trust, removed=found.removed & (trust.level == "good"))


def test_answers_do_not_remove_what_planted_tags_cannot_tell_apart():
    # Half of the tags look wrong, and so do half of the planted ones.
    found, _ = verdicts()
    blind = trusted(found, np.random.default_rng(1).choice(found.confidence, 2000))
    assert blind.trust.level == "none"
    sees = trusted(found, np.full(2000, 0.01))
    noise = np.random.default_rng(0).random(len(found.row)) < 0.5
    wrong = np.zeros(len(found.row), dtype=bool)
    for seed in range(20):
        cells, checked = check(blind, noise, seed=seed)
        assert not np.delete(checked.removed, cells.index).any()
        assert checked.trust.level == "none"
        assert "planted tags do not allow any removal" in checked.trust.sentence
        # A few answers do not overrule the check, whatever they say.
        cells, checked = check(blind, wrong, n=20, seed=seed)
        assert not np.delete(checked.removed, cells.index).any()
        # If all are wrong, nothing has to be told apart.
        assert check(blind, wrong, seed=seed)[1].removed.mean() > 0.4
    assert sees.trust.limit(0.9) > sees.trust.limit(0.5) > sees.trust.limit(0.1)
    assert found.audited(None, None).trust is None


def test_untrusted_verdicts_are_certified_in_the_less_likely_half():
    found, right = squashed(0.05)
    blind = trusted(found, np.full(500, 0.99))
    assert blind.trust.level == "none"
    cells = blind.audit_sample(50)
    inside = cells.index[cells.purpose == "certificate"]
    assert len(inside) == 30
    assert (found.confidence[inside] <= np.median(found.confidence)).all()
    assert cells.weight.sum() == pytest.approx(len(found.row))
    sees = trusted(found, np.quantile(found.confidence, np.linspace(0, 0.3, 500)), share=0.0)
    holds = []
    for seed in range(100):
        _, checked = check(sees, right, seed=seed)
        about = checked.audit.certified
        actual = np.mean(~right[about]) if about.any() else 1
        holds.append(checked.certificate.precision_at_least <= actual)
        covered = about.sum() / max(1, checked.removed.sum())
        assert covered > 0.5 or not checked.removed.any()
    assert np.sum(holds) >= 88


def test_trust_after_an_audit_is_that_of_the_answers():
    found, right = verdicts(slope=2)
    before = trusted(found, np.quantile(found.confidence[~right], np.linspace(0, 1, 999)))
    _, checked = check(before, right)
    trust = checked.trust
    assert trust.level in ("good", "weak")
    assert trust.wrong_share == checked.wrong_share
    assert trust.sentence.startswith(f"By 50 answers, about {checked.wrong_share:.0%} of the tags")
    # Thresholds follow the confidences, so the check of a second audit fits them.
    rest = (checked.confidence > 0) & (checked.confidence < 1)
    for point in trust.curve[1:-1:7]:
        assert np.mean(checked.confidence[rest] < point.threshold) == pytest.approx(
            point.flagged, abs=0.03
        )
    json.dumps(checked.summary())


def suggested(n=300, share=0.8, seed=0):
    """Verdicts with suggestions whose confidences are too high, and whether each is correct."""
    found, _ = verdicts()
    rng = np.random.default_rng(seed)
    row, column = np.argwhere(found.matrix(np.ones(len(found.row))) == 0)[:n].T
    p = 0.5 + 0.5 * rng.random(n)
    right = rng.random(n) < share * p
    return replace(found, missing=MissingTags(row, column, p, found.label_names)), right


def test_suggestions_are_audited_like_removals():
    found, right = suggested()
    cells = found.audit_sample(50, of="missing")
    assert cells.of == "missing"
    np.testing.assert_array_equal(cells.row, found.missing.row[cells.index])
    checked = found.audited(cells, right[cells.index], date=DAY, precision=0.5)
    assert checked.certificate is None
    np.testing.assert_array_equal(checked.removed, found.removed)
    np.testing.assert_array_equal(checked.confidence, found.confidence)
    missing = checked.missing
    np.testing.assert_array_equal(missing.confidence[cells.index], right[cells.index])
    np.testing.assert_array_equal(missing.accepted[cells.index], right[cells.index])
    assert abs(missing.confidence.mean() - right.mean()) < 0.2
    assert len(checked.suggestions()) == missing.accepted.sum()
    certificate = missing.certificate
    assert "suggested tags are correct" in str(certificate)
    assert str(certificate) in checked.missing_sentence
    Certificate.from_json(certificate.to_json()).verify(checked)
    with pytest.raises(InputError, match="n_wrong"):
        replace(certificate, n_wrong=certificate.n_wrong - 1).verify(checked)
    with pytest.raises(InputError, match="not audited"):
        certificate.verify(found)
    # A second audit draws other suggestions.
    again = checked.audit_sample(20, of="missing", random_state=1)
    assert not np.isin(again.index, cells.index).any()


def test_the_certificate_of_suggestions_holds():
    found, right = suggested()
    holds = []
    for seed in range(200):
        cells = found.audit_sample(50, of="missing", random_state=seed)
        missing = found.audited(cells, right[cells.index], precision=0.6).missing
        about = missing.audit.certified
        actual = right[about].mean() if about.any() else 1
        holds.append(missing.certificate.precision_at_least <= actual)
    assert np.sum(holds) >= 181


def test_suggestions_can_be_few_or_none():
    found, _ = verdicts()
    for each, answers in ((found, []), (suggested(3)[0], [True, None, False])):
        cells = each.audit_sample(50, of="missing")
        missing = each.audited(cells, answers).missing
        assert len(missing) == len(answers)
        assert missing.certificate.n_tags <= len(answers)
        assert missing.audit.n_answers == len(answers) - answers.count(None)
    with pytest.raises(InputError, match="of must be one of"):
        found.audit_sample(50, of="all")
    with pytest.raises(InputError, match="one answer for each of 3 cells"):
        each.audited(cells, [True])
    with pytest.raises(InputError, match="extra"):
        each.audited(cells, answers, extra=([0], [0], [True]))


def test_dropped_tags_are_suggested_as_often_as_the_check_says():
    digits = load_digits_attributes(r=2)
    dropped = (digits.y_true == 1) & (np.random.default_rng(0).random(digits.y_true.shape) < 0.25)
    found = find_noisy_labels(digits.X, np.where(dropped, 0, digits.candidates))
    missing = found.suggestions()
    assert len(missing) > 100
    assert digits.y_true[missing.row, missing.column].mean() > 0.9
    share = dropped[missing.row, missing.column].sum() / dropped.sum()
    assert missing.caught == pytest.approx(share, abs=0.05)
    assert found.missing_rate == pytest.approx(0.25, abs=0.05)
    assert f"about {missing.caught:.0%} are found" in found.missing_sentence
