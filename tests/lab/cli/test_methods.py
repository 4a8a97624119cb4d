import json
import re
from pathlib import Path

import schirn
from schirn.app.cli import main


def test_the_list_names_every_method(capsys):
    assert main(["methods"]) == 0
    out = capsys.readouterr().out
    for name, cls in schirn.methods().items():
        line = next(line for line in out.splitlines() if line.startswith(name))
        assert cls._info.family in line
        assert cls._info.cost in line


def test_reconstructed_methods_are_marked(capsys, monkeypatch):
    monkeypatch.setattr(
        schirn.CandidateRidge, "_info", schirn.CandidateRidge._info._replace(reconstructed=True)
    )
    main(["methods"])
    out = capsys.readouterr().out
    assert "CandidateRidge *" in out
    assert "* reconstructed from" in out


def test_the_documentation_marks_the_same_methods(capsys):
    page = Path(__file__).parents[3] / "docs" / "methods.md"
    lines = re.findall(r"^\| (`.*) \| .* \| (.*) \|$", page.read_text("utf-8"), re.M)
    documented = {
        name
        for names, basis in lines
        for name in re.findall(r"`(\w+)`", names)
        if "reconstructed" in basis
    }
    main(["methods"])
    printed = set(re.findall(r"^(\w+) \*", capsys.readouterr().out, re.M))
    assert (
        printed
        == documented
        == {"FPML", "PMLLRS", "GLC", "PAKS", "PARD", "PMLLC", "PMLFP", "MUSER"}
    )


def test_no_mark_is_explained_where_none_is_shown(capsys, monkeypatch):
    monkeypatch.setattr("schirn.lab.cli._methods.all_methods", lambda: {"Schirn": schirn.Schirn})
    main(["methods"])
    out = capsys.readouterr().out
    assert "Schirn" in out
    assert "reconstructed" not in out


def test_an_unknown_method_is_named(capsys):
    assert main(["methods", "Shirn"]) == 2
    assert "there is no method 'Shirn'; did you mean 'Schirn'?" in capsys.readouterr().err


def test_one_method(capsys):
    assert main(["methods", "schirn"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("method         Schirn\n")
    assert "Penalty for declaring" in out
    assert main(["methods", "Schirn", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"] == schirn.Schirn().get_params()
