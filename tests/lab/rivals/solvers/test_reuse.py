"""What fits of one fold share is computed once, and never kept beyond the fold."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn import lab
from schirn.lab.rivals.solvers import fingerprint, reused, shared_work


class Counted:
    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        return self.count


def test_a_result_is_kept_within_its_fold_alone():
    compute = Counted()
    for _ in range(2):
        with shared_work(("data", 0)):
            assert reused("a", compute, size=8) == 1
    with shared_work(("data", 0)):
        assert reused("b", compute, size=8) == 2
    with shared_work(("data", 1)):
        assert reused("a", compute, size=8) == 3


def test_nothing_is_kept_outside_or_beyond_the_limit():
    compute = Counted()
    for expected in (1, 2):
        assert reused("c", compute, size=8) == expected
    with shared_work("large"):
        for expected in (3, 4):
            assert reused("c", compute, size=2**40) == expected


def test_fingerprints_tell_content_type_and_shape():
    arrays = [
        np.arange(6.0),
        np.arange(6.0).reshape(2, 3),
        np.arange(6),
        np.arange(1.0, 7),
        sp.csr_array(np.eye(2)),
        sp.csr_array(np.eye(2)[::-1]),
    ]
    assert len({fingerprint(array) for array in arrays}) == len(arrays)
    assert fingerprint(np.arange(6.0)) == fingerprint(np.arange(6.0).copy())


@pytest.mark.parametrize("order", [("ParticleMAP", "ParticleVLS"), ("ParticleVLS", "ParticleMAP")])
def test_both_variants_of_particle_share_their_machines(small, order, monkeypatch):
    """The scores are those of separate fits, to the last digit."""
    from schirn.lab.rivals.solvers import _pairwise

    calls = []
    train = _pairwise._trained

    def counted(X, K, credible, candidates, only_virtual, options):
        calls.append(only_virtual)
        return train(X, K, credible, candidates, only_virtual, options)

    monkeypatch.setattr(_pairwise, "_trained", counted)
    classes = [getattr(lab, name) for name in order]
    alone = [cls().fit(small.X, small.candidates).decision_function(small.X) for cls in classes]
    assert sorted(calls) == [False, False, True]
    calls.clear()
    with shared_work(("small", order)):
        shared = [cls().fit(small.X, small.candidates) for cls in classes]
    assert sorted(calls) == [False, True]
    for model, scores in zip(shared, alone, strict=True):
        np.testing.assert_array_equal(model.decision_function(small.X), scores)
