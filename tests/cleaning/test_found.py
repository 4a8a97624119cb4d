import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from schirn import find_noisy_labels
from schirn.datasets import load_digits_attributes
from schirn.exceptions import InputError


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2)


@pytest.fixture(scope="module")
def found(digits):
    return find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)


def test_the_arrays_list_every_tag_once_by_row(digits, found):
    np.testing.assert_array_equal(np.argwhere(digits.candidates), np.c_[found.row, found.column])
    assert found.confidence.min() >= 0
    assert found.confidence.max() <= 1
    np.testing.assert_array_equal(found.removed, found.confidence < 0.5)
    assert set(found.verdict) == {"kept", "removed"}
    names = np.array(digits.label_names)
    assert found.clean_lists()[5] == names[found.clean[5] == 1].tolist()
    np.testing.assert_array_equal(found.matrix() > 0, digits.candidates == 1)


def test_summaries_count(found):
    whole = found.summary()
    labels = found.labels()
    assert whole["tags"] == sum(label.candidates for label in labels) == len(found.row)
    assert whole["removed"] == sum(label.removed for label in labels) == found.removed.sum()
    close = (found.confidence > 0.2) & (found.confidence < 0.8)
    assert whole["close_calls"] == close.sum()
    first = labels[0]
    assert first.removed == max(label.removed for label in labels)
    mine = found.label == first.name
    assert first.noise_rate == pytest.approx((1 - found.confidence[mine]).mean())
    assert (
        found.confidence[mine].min()
        == found.matrix()[first.worst[0], found.label_names.index(first.name)]
    )


def test_tables(found, tmp_path):
    frame = found.to_pandas()
    assert list(frame.columns) == ["row", "label", "confidence", "verdict"]
    found.to_csv(tmp_path / "tags.csv")
    again = pd.read_csv(tmp_path / "tags.csv")
    assert (again["verdict"] == frame["verdict"]).all()
    np.testing.assert_allclose(again["confidence"], frame["confidence"], rtol=1e-5)
    document = json.loads(found.to_json(tmp_path / "tags.json"))
    assert document == json.loads((tmp_path / "tags.json").read_text("utf-8"))
    assert document["summary"]["removed"] == found.removed.sum()
    assert len(document["tags"]) == len(frame)


def test_csv_labels_cannot_run_as_formulas(small, tmp_path):
    names = ["=1+1", "@b", "-c", "d", "e", "f"]
    found = find_noisy_labels(small.X, small.candidates, label_names=names, method="CandidateRidge")
    found.to_csv(tmp_path / "tags.csv")
    written = set(pd.read_csv(tmp_path / "tags.csv")["label"])
    assert written == {"'=1+1", "'@b", "'-c", "d", "e", "f"}


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_label_names_may_be_an_array_of_numbers(small, form, tmp_path):
    names = np.arange(10, 70, 10)
    C = form(small.candidates)
    found = find_noisy_labels(small.X, C, label_names=names, method="CandidateRidge")
    assert found.label_names == ["10", "20", "30", "40", "50", "60"]
    found.to_csv(tmp_path / "tags.csv")
    assert json.loads(found.to_json())["tags"][0]["label"] in found.label_names
    with pytest.raises(InputError, match="label_names holds '10' twice"):
        find_noisy_labels(small.X, C, label_names=[10] * 6)
