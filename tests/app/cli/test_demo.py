import sys

import pytest
from demo_helpers import quick_demo

from schirn.app.cli import main


@pytest.fixture(scope="module")
def demo():
    return quick_demo()


@pytest.fixture(autouse=True)
def run_once(demo, monkeypatch):
    monkeypatch.setattr("schirn.app.cli._demo.run_demo", lambda *_: demo)


def test_table_sentence_and_page(demo, tmp_path, monkeypatch, capsys):
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    for sentence in (*demo.rank_sentences(), *demo.ask_sentences(), *demo.act_sentences()):
        assert sentence in out
    assert demo.commands in out
    assert str(tmp_path / "schirn-demo.html") in out
    for result in demo.results:
        line = next(line for line in out.splitlines() if line.startswith(f"{result.name} "))
        assert f"{result.measures['average_precision']:.3f}" in line
    text = (tmp_path / "schirn-demo.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")


def test_without_the_template_package_the_table_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["demo", "-o", str(tmp_path / "x.html")]) == 0
    captured = capsys.readouterr()
    assert "The answers remove" in captured.out
    assert 'pip install "jinja2>=' in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "x.html").exists()


def test_an_unwritable_page(tmp_path, capsys):
    pytest.importorskip("jinja2")
    assert main(["demo", "-o", str(tmp_path / "absent" / "x.html")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_wrong_arguments(capsys):
    assert main(["demo", "--noise", "two"]) == 2
    assert "must be a whole number of at least 1, not 'two'" in capsys.readouterr().err
