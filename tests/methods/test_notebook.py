import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from schirn import Schirn, Sieve, load, methods, save
from schirn.methods._notebook import summary


@pytest.fixture(scope="module")
def fitted(small):
    names = ["<b>bold", *"bcdef"]
    return Sieve().fit(small.X, small.candidates, label_names=names)


def text_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_before_fit_there_is_only_the_diagram():
    assert summary(Sieve()) == ""
    assert "schirn-summary" not in Sieve()._repr_html_()
    assert "Sieve" in Sieve()._repr_html_()


def test_after_fit_the_counts_are_those_of_the_attributes(fitted, small):
    listed, wrong = int(small.candidates.sum()), int(fitted.noise_.sum())
    text = text_of(summary(fitted))
    assert f"200 rows, 6 labels, {listed} candidates; {wrong} of them" in text.replace(" ,", ",")
    worst = int(np.argmax(fitted.noise_.sum(axis=0)))
    name = ["&lt;b&gt;bold", *"bcdef"][worst]
    counts = f"{fitted.noise_[:, worst].sum()} of {int(small.candidates[:, worst].sum())}"
    assert f"{name} {counts}" in text


def test_names_are_escaped(fitted):
    assert "<b>bold" not in summary(fitted)
    assert "&lt;b&gt;bold" in summary(fitted)


def test_the_bundle_has_both(fitted):
    bundle = fitted._repr_mimebundle_()
    assert bundle["text/plain"] == repr(fitted)
    assert "sk-" in bundle["text/html"]
    assert bundle["text/html"].endswith(summary(fitted))
    assert fitted._repr_html_().endswith(summary(fitted))


def test_display_text_switches_it_off(fitted):
    with config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert fitted._repr_mimebundle_() == {"text/plain": repr(fitted)}


def test_a_pipeline_still_draws_itself(fitted, small):
    pipeline = make_pipeline(StandardScaler(), Schirn(fit_intercept=True)).fit(
        small.X, small.candidates
    )
    assert "StandardScaler" in pipeline._repr_html_()


def test_sparse_verdicts_give_the_same(fitted, small):
    dense = summary(fitted)
    other = Sieve().fit(small.X, small.candidates, label_names=["<b>bold", *"bcdef"])
    other.noise_ = sp.csr_array(other.noise_)
    other.label_confidence_ = sp.csr_array(other.label_confidence_)
    assert summary(other) == dense


def test_a_model_without_verdicts_has_no_summary(fitted, tmp_path):
    save(fitted, tmp_path / "model.schirn", include_training=False)
    assert summary(load(tmp_path / "model.schirn")) == ""


def test_nothing_wrong_and_nothing_listed(fitted, small):
    clean = Sieve().fit(small.X, small.candidates)
    clean.noise_ = np.zeros_like(clean.noise_)
    assert "0 of them (0.0%) were judged wrong" in re.sub("</?b>", "", summary(clean))
    assert "<table" not in summary(clean)
    clean.label_confidence_ = np.zeros_like(clean.label_confidence_)
    assert "0 of them (none)" in re.sub("</?b>", "", summary(clean))


@pytest.mark.parametrize("name", sorted(set(methods()) - {"PARD"}))
def test_every_method_has_it(name, small):
    model = methods()[name]().fit(small.X[:80], small.candidates[:80])
    assert "80</b> rows" in summary(model)
    assert "NotebookView" not in repr(model)
