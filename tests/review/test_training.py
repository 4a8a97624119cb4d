import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import sparse

from schirn.review import open_session
from schirn.review._state import DROP, KEEP
from schirn.review._training import _COMMAND, Trainer, main, new_confidence


@pytest.fixture
def session(trainable):
    session = open_session(trainable)
    yield session
    session.journal.close()


def decide(session, times, action="keep"):
    for _ in range(times):
        current = session.view()["current"]
        session.decide(action, current["item"], current["label"], session.sequence)


def script(tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(text)
    return [sys.executable, str(path)]


def test_training_in_its_process_takes_over(session, trainable):
    trainer = Trainer(session, every=3)
    session.on_decision = trainer.start_if_due
    decide(session, 2)
    assert trainer.view()["status"] == "idle"
    assert trainer.view()["waiting"] == 1
    decide(session, 1, "drop")
    trainer.wait(60)
    assert trainer.view() == {"status": "done", "message": "", "waiting": 3, "trained_to": 3}
    assert len(np.unique(session.confidence)) > 20
    decided = np.isin(session.status, (KEEP, DROP))
    assert sorted(session.confidence[decided]) == [0, 1, 1]
    session.journal.close()
    again = open_session(trainable, write=False)
    assert again.confidence.tolist() == session.confidence.tolist()


def test_a_failure_is_shown_and_harmless(session, tmp_path):
    command = script(tmp_path, "import sys; sys.exit('first line\\nno <memory> left')")
    trainer = Trainer(session, every=2, command=command)
    session.on_decision = trainer.start_if_due
    before = session.confidence.tolist()
    decide(session, 2)
    trainer.wait(60)
    view = trainer.view()
    assert (view["status"], view["message"]) == ("failed", "no <memory> left")
    assert session.confidence.tolist() == before
    # It tries again only after as many decisions as before.
    assert view["waiting"] == 2
    decide(session, 1)
    assert trainer.view()["status"] == "failed"
    decide(session, 1)
    assert session.sequence == 4
    trainer.wait(60)


@pytest.mark.parametrize("text", ["print('nonsense')", "import os; os.abort()"])
def test_nonsense_and_a_crash_are_failures(session, tmp_path, text):
    trainer = Trainer(session, every=1, command=script(tmp_path, text))
    decide(session, 1)
    trainer.start_if_due()
    trainer.wait(60)
    assert trainer.view()["status"] == "failed"
    assert trainer.view()["message"]


def test_decisions_go_on_while_training_runs_and_stop_ends_it(session, tmp_path):
    trainer = Trainer(session, every=1, command=script(tmp_path, "import time; time.sleep(60)"))
    session.on_decision = trainer.start_if_due
    decide(session, 5)
    assert trainer.view()["status"] == "running"
    assert session.sequence == 5
    trainer.stop()
    assert trainer.view()["status"] == "failed"
    assert trainer._process.poll() is not None


def test_the_progress_of_the_process_is_shown(session, tmp_path):
    text = (
        "import sys, time\n"
        "print('a warning', file=sys.stderr)\n"
        "print('[3 s] training: round 2 of 8, 12%, about 9 s left', file=sys.stderr, flush=True)\n"
        "time.sleep(60)"
    )
    trainer = Trainer(session, every=1, command=script(tmp_path, text))
    decide(session, 1)
    trainer.start_if_due()
    limit = time.monotonic() + 60
    while not trainer.view()["message"] and time.monotonic() < limit:
        time.sleep(0.05)
    assert trainer.view()["message"] == "[3 s] training: round 2 of 8, 12%, about 9 s left"
    trainer.stop()


def test_off(session, folder):
    assert Trainer(session, every=0).view()["status"] == "off"
    plain = open_session(folder, write=False)
    view = Trainer(plain, every=5).view()
    assert (view["status"], view["waiting"]) == ("off", None)
    assert "no features" in view["message"]


def test_the_process_says_in_one_sentence_what_is_wrong(trainable, tmp_path, capsys):
    np.savez(trainable / "features.npz", X=np.eye(3))
    assert main(str(trainable), "0") == 1
    text = capsys.readouterr().err
    assert "3 rows, but the project has 60 items" in text
    assert text.count("\n") == 1


def test_no_features_and_no_usable_confidences(folder, trainable, capsys, monkeypatch):
    assert main(str(folder), "0") == 1
    assert "the project has no features to train on" in capsys.readouterr().err

    def fit(self, X, candidates, known, groups):
        self.label_confidence_ = np.full(candidates.shape, np.nan)

    monkeypatch.setattr("schirn.Sieve.fit", fit)
    assert main(str(trainable), "0") == 1
    captured = capsys.readouterr()
    assert "features.npz: training gave no usable confidences" in captured.err
    assert captured.out == ""


def test_confidences_of_other_tags_are_not_taken_over(session, tmp_path):
    text = "import sys, numpy; numpy.save(sys.stdout.buffer, numpy.ones(3))"
    trainer = Trainer(session, every=1, command=script(tmp_path, text))
    before = session.confidence.tolist()
    decide(session, 1)
    trainer.start_if_due()
    trainer.wait(60)
    assert "the wrong number of confidences" in trainer.view()["message"]
    decided = np.isin(session.status, (KEEP, DROP))
    assert [c for c, d in zip(before, decided, strict=True) if not d] == session.confidence[
        ~decided
    ].tolist()


def test_nothing_starts_after_the_end(session, tmp_path):
    """Also where the end comes between the decision to train and the start of the process."""
    trainer = Trainer(session, every=1, command=script(tmp_path, "open('started', 'w')"))
    trainer.wait(0)
    trainer.stop()
    decide(session, 1)
    trainer.start_if_due()
    assert trainer.view()["status"] == "idle"
    trainer._train(session.sequence)
    assert (trainer.view()["status"], trainer.view()["message"]) == ("failed", "stopped")
    assert trainer._process is None


def test_sparse_features(trainable, session):
    with np.load(trainable / "features.npz") as store:
        X = sparse.csr_array(store["X"])
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(trainable / "features.npz", **parts)
    found = new_confidence(session.project, session.status)
    assert found.shape == session.confidence.shape
    assert ((found >= 0) & (found <= 1)).all()


def test_features_of_an_encoder_are_not_scaled_again(trainable, session):
    with np.load(trainable / "features.npz") as store:
        parts = dict(store)
    parts["X"] = parts["X"] * np.logspace(-3, 3, parts["X"].shape[1])

    def trained(**more):
        np.savez(trainable / "features.npz", **{**parts, **more})
        return new_confidence(session.project, session.status)

    rescaled, as_they_are = trained(), trained(scaled=np.array(True))
    assert np.abs(rescaled - as_they_are).max() > 0.01
    np.testing.assert_array_equal(trained(scaled=np.array(False)), rescaled)
    np.testing.assert_array_equal(trained(scaled=np.array(["nonsense"])), rescaled)


def test_rows_that_were_checked_beforehand_are_known(session):
    project = session.project
    before = new_confidence(project, session.status)
    doubted = int(np.argmin(before))
    first = project.confidence.copy()
    first[doubted] = 1.0
    after = new_confidence(project._replace(confidence=first), session.status)
    assert before[doubted] < after[doubted] == 1
    dropped = session.status.copy()
    dropped[doubted] = DROP
    assert new_confidence(project._replace(confidence=first), dropped)[doubted] == 0


def test_training_ends_with_the_server(trainable):
    """The server holds the other end of stdin; nothing closes it before the training is over."""
    pipe = subprocess.PIPE
    command = [*_COMMAND, str(trainable), "0"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdin.close()
        assert process.wait(60) == 1
        assert process.stdout.read() == b""
