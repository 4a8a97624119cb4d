import io
import json
import os
import subprocess
import sys
import warnings

import pytest
from api_listing import walk
from cli.clean_helpers import refused

import schirn
from schirn.cli import COMMANDS, main
from schirn.cli._output import printable
from schirn.cli._parser import build_parser
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError


def python_m(*args, **options):
    command = [sys.executable, "-m", "schirn", *args]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run(command, capture_output=True, text=True, env=environment, **options)


def test_every_help_has_a_description_and_examples(capsys):
    parsers = list(walk(build_parser(COMMANDS)))
    assert len(parsers) >= 10
    for parser in parsers:
        assert main([*parser.prog.split()[1:], "--help"]) == 0
        text = capsys.readouterr().out
        assert "examples:" in text
        assert parser.description in text
        assert max(map(len, text.splitlines())) <= 100


def test_every_example_parses(capsys):
    parser = build_parser(COMMANDS)
    for command in walk(parser):
        for line in command.epilog.splitlines()[1:]:
            words = line.split("   ")[0 if not line.startswith("   ") else 1].split()
            words = words[words.index("schirn") + 1 :]
            words = words[: words.index(">")] if ">" in words else words
            assert parser.parse_args(words) is not None


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"schirn {schirn.__version__}\n"


def test_no_command_and_unknown_command(capsys):
    assert "no command given (see schirn --help)" in refused(capsys)
    assert "no command given (see schirn data --help)" in refused(capsys, "data")
    assert "there is no command 'fti'; did you mean 'fit'" in refused(capsys, "fti")
    assert "there are demo, fit, predict" in refused(capsys, "xyzzy")
    assert "there is no command 'lst'; did you mean 'list'" in refused(capsys, "data", "lst")


def test_options_are_not_abbreviated_and_checked(capsys):
    assert "--jso" in refused(capsys, "methods", "--jso")
    assert "at least 1, not '0'" in refused(capsys, "--threads", "0", "methods")


def test_threads_before_and_after_the_command(capsys):
    from threadpoolctl import threadpool_info

    before = [library["num_threads"] for library in threadpool_info()]
    assert main(["--threads", "1", "methods"]) == 0
    assert main(["methods", "--threads", "1"]) == 0
    assert [library["num_threads"] for library in threadpool_info()] == before


@pytest.mark.parametrize("how", ["option", "variable"])
def test_debug_shows_the_error(monkeypatch, how):
    argv = ["data", "card", "no_such_set"]
    if how == "variable":
        monkeypatch.setenv("SCHIRN_DEBUG", "1")
    else:
        argv.append("--debug")
    with pytest.raises(schirn.exceptions.DataError):
        main(argv)


def test_control_c_is_130(capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("schirn.cli.data.read", stop)
    assert main(["data", "card", "digits_attributes"]) == 130
    assert capsys.readouterr().err == "schirn: interrupted\n"


def test_a_bug_is_not_hidden(monkeypatch):
    monkeypatch.setattr("schirn.cli.data.read", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["data", "card", "digits_attributes"])


def test_a_closed_pipe_is_quiet():
    command = f"{sys.executable} -m schirn data show digits_attributes --rows 1700 | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith("digits_attributes")


def test_python_m_and_exit_codes():
    done = python_m("methods", "--json")
    assert done.returncode == 0
    assert [entry["name"] for entry in json.loads(done.stdout)] == list(schirn.methods())
    failed = python_m("data", "card", "nothing_here")
    assert failed.returncode == 2
    assert failed.stderr.startswith("schirn: There is no data set 'nothing_here'")
    assert failed.stderr.count("\n") == 1


def test_an_ascii_terminal_gets_no_traceback():
    done = python_m("methods", "Schirn", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0


def test_control_characters_are_escaped():
    assert printable("a\x1b[31mb\n") == "a\\x1b[31mb\\n"


def test_rich_is_used_on_a_terminal_only(capsys, monkeypatch):
    pytest.importorskip("rich")
    main(["methods"])
    plain = capsys.readouterr().out
    assert "─" not in plain
    assert "\x1b" not in plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    main(["methods"])
    drawn = capsys.readouterr().out
    assert "─" in drawn
    assert "\x1b[3" not in drawn


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "not enough memory"),
        (MemoryError("8 GiB"), "not enough memory (8 GiB)"),
        (OSError(2, "No such file", "x.csv"), "x.csv: No such file"),
        (OSError("odd\n  thing"), "odd thing"),
        (InputError("two\nlines"), "two lines"),
    ],
)
def test_errors_in_one_line(error, sentence, capsys, monkeypatch):
    def fail(_):
        raise error

    monkeypatch.setattr("schirn.cli.data.read", fail)
    assert main(["data", "card", "digits_attributes"]) == 2
    assert capsys.readouterr().err == f"schirn: {sentence}\n"


def test_a_closed_pipe_without_a_file_descriptor(monkeypatch):
    def gone(_):
        raise BrokenPipeError

    monkeypatch.setattr("schirn.cli.data.read", gone)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert main(["data", "card", "digits_attributes"]) == 141
    assert sys.stdout.name == os.devnull
    sys.stdout.close()


def test_a_deprecation_is_shown_only_with_debug(capsys, monkeypatch):
    def warn(_):
        warnings.warn("old way", DeprecationWarning, stacklevel=1)
        warnings.warn("look here", UserWarning, stacklevel=1)
        return make_partial_multilabel(n_samples=10, n_labels=3, random_state=0)

    monkeypatch.setattr("schirn.cli.data.read", warn)
    assert main(["data", "card", "x"]) == 0
    assert capsys.readouterr().err == "schirn: note: look here\n"
    assert main(["data", "card", "x", "--debug"]) == 0
    assert "note: old way" in capsys.readouterr().err


def test_errors_name_the_option_that_was_typed(capsys, tmp_path):
    pytest.importorskip("pandas")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    argv = ["fit", "digits_attributes", "-o", str(tmp_path / "m")]
    assert "(see --noise)" in refused(capsys, "demo", "--noise", "9", "--no-page")
    assert "(see --labels)" in refused(capsys, "data", "card", str(tmp_path / "t.csv"))
    assert "(see --param lam)" in refused(capsys, *argv, "--param", "lam=-1")
    # A parameter of the method, not the columns of --features.
    assert "(see --param features)" in refused(capsys, *argv, "--param", "features=x")
    card = ["data", "card", "digits_attributes", "--option", "r=-1"]
    assert "(see --option r)" in refused(capsys, *card)
