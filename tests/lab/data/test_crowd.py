"""Archives of crowd votes."""

import re

import numpy as np
import pytest

from schirn import Sieve
from schirn.datasets import load, read_npz
from schirn.exceptions import DataError, InputError
from schirn.lab.data import data_card


@pytest.fixture
def archive(tmp_path):
    def write(**changes):
        rng = np.random.default_rng(0)
        n, names = 60, ["cat", "dog", "sun"]
        truth = rng.random((n, 3)) < 0.4
        asked = np.array([(i, w) for i in range(n) for w in (i + np.arange(9)) % 20])
        right = rng.random((len(asked), 3)) < 0.85
        said = np.where(right, truth[asked[:, 0]], ~truth[asked[:, 0]])
        ballot, label = np.nonzero(said)
        content = {
            "texts": np.array(
                [" ".join(np.array(names)[row].tolist() * 2 + ["photo"]) for row in truth]
            ),
            "label_names": np.array(names),
            "asked": asked,
            "votes": np.column_stack([asked[ballot], label]),
        } | changes
        content = {key: value for key, value in content.items() if value is not None}
        np.savez(tmp_path / "crowd.npz", **content)
        return tmp_path / "crowd.npz", truth

    return write


def test_workers_make_candidates_and_the_others_the_truth(archive):
    path, truth = archive()
    data = load(path)
    assert (data.y_true == truth).mean() > 0.95
    assert (data.votes.voters == 3).all()
    assert (data.candidates == (data.votes.counts > 0)).all()
    assert (data.candidates >= data.y_true).mean() > 0.95
    assert 0.1 < 1 - data.y_true[data.candidates == 1].mean() < 0.5
    strict = load(path, share=1.0)
    assert (strict.y_true <= data.y_true).all()
    assert strict.y_true.sum() < data.y_true.sum()


def test_more_workers_list_more_and_seeds_differ(archive):
    path, _ = archive()
    few, many, other = (
        read_npz(path, workers=w, random_state=s) for w, s in ((1, 0), (6, 0), (1, 1))
    )
    assert many.candidates.sum() > few.candidates.sum()
    assert (few.candidates != other.candidates).any()
    assert (few.candidates == read_npz(path, workers=1).candidates).all()


@pytest.mark.filterwarnings("ignore::schirn.exceptions.EmptyCandidatesWarning")
def test_votes_reach_the_method(archive):
    data = load(archive()[0])
    model = Sieve().fit(data.X, data.candidates, label_names=data.label_names, votes=data.votes)
    assert model.vote_model_ is not None
    assert data.subset(slice(0, 5)).votes is None


def test_the_card_states_the_protocol(archive):
    text = data_card(load(archive()[0]))["description"]
    assert "any of 3 workers" in text
    assert "a consensus is not the truth" in " ".join(text.split())


def test_features_of_the_file_are_used(archive):
    path, _ = archive(X=np.ones((60, 4)), texts=None)
    assert load(path).X.shape == (60, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"texts": None}, "votes need 'texts' or features"),
        ({"asked": None}, "'asked' must be a table with 2 columns"),
        ({"votes": np.zeros((3, 2), int)}, "'votes' must be a table with 3 columns"),
        ({"votes": np.zeros((3, 3))}, "'votes' must hold whole numbers"),
        ({"votes": np.array([[0, 0, 7]])}, "column 2 of 'votes' has 7"),
        ({"asked": np.array([[-1, 0]])}, "column 0 of 'asked' has -1"),
        ({"asked": np.array([[0, 0]])}, "1 workers judged item 0"),
    ],
)
def test_damaged_archives_are_refused(archive, changes, message):
    with pytest.raises(DataError, match=message):
        load(archive(**changes)[0])


def test_too_many_workers_are_refused_with_the_option_that_helps(archive):
    path = archive()[0]
    with pytest.raises(DataError, match=r"workers judged item 0, but 99 are to make") as raised:
        load(path, workers=99)
    most = int(re.search(r"ask for at most (\d+)", str(raised.value))[1])
    assert f"schirn bench --datasets FILE --option workers={most}" in str(raised.value)
    assert load(path, workers=most).candidates is not None
    with pytest.raises(DataError, match="workers judged"):
        load(path, workers=most + 1)


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 1.5}, {"share": 0}])
def test_impossible_options(archive, options):
    with pytest.raises(InputError, match=next(iter(options))):
        load(archive()[0], **options)
