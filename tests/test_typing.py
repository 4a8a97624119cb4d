"""What a type checker says of programs that use the library."""

from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")
ROOT = Path(__file__).parents[1]
PROGRAM = """\
from schirn import CandidateRidge, Schirn, Sieve
from schirn.features import TableFeatures, TagPipeline, TextFeatures

model = Sieve(lam=1.0, max_iter=3).fit([[0.0], [1.0]], [[0, 1], [1, 0]])
Schirn(alpha=1.0, verbose=True)
CandidateRidge(lam=1.0)
TagPipeline(text="title", method=Sieve(kernel="linear"))
TableFeatures(columns=["a"])
model.set_params(lam=2.0)
model.predict([[0.0]])
"""
WRONG = {
    "Sieve(nonsense=3)": 'Unexpected keyword argument "nonsense" for "Sieve"',
    "Schirn(nonsense=3)": 'Unexpected keyword argument "nonsense" for "Schirn"',
    "CandidateRidge(lamda=1.0)": 'Unexpected keyword argument "lamda" for "CandidateRidge"',
    "TagPipeline(txt='title')": 'Unexpected keyword argument "txt" for "TagPipeline"',
    "TextFeatures(nonsense=3)": 'Unexpected keyword argument "nonsense" for "TextFeatures"',
    "Sieve(max_iter='many')": 'Argument "max_iter" to "Sieve" has incompatible type "str"',
    "Sieve(1.0)": 'Too many positional arguments for "Sieve"',
    "model.kernal": '"Sieve" has no attribute "kernal"',
}


@pytest.mark.slow
def test_unknown_parameters_are_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(WRONG) + "\n")
    options = ["--config-file", "", "--ignore-missing-imports", "--follow-imports=silent"]
    out, err, _ = api.run([*options, "--cache-dir", str(tmp_path / "cache"), str(program)])
    assert not err
    errors = [line for line in out.splitlines() if ": error: " in line]
    first = PROGRAM.count("\n") + 1
    for k, message in enumerate(WRONG.values()):
        assert any(f"program.py:{first + k}: error: {message}" in line for line in errors), message
    assert len(errors) == len(WRONG), out
