import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from api_listing import walk
from app.cli.clean_helpers import refused

import schirn
from schirn.app.cli import commands, main
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.program.output import printable
from schirn.program.parser import build_parser


def python_m(*args, **options):
    command = [sys.executable, "-m", "schirn", *args]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run(command, capture_output=True, text=True, env=environment, **options)


def test_every_help_has_a_description_and_examples(capsys):
    parsers = list(walk(build_parser(commands())))
    assert len(parsers) >= 10
    for parser in parsers:
        assert main([*parser.prog.split()[1:], "--help"]) == 0
        text = capsys.readouterr().out
        assert "examples:" in text
        assert parser.description in text
        assert max(map(len, text.splitlines())) <= 100


def test_every_example_parses(capsys):
    parser = build_parser(commands())
    for command in walk(parser):
        for line in command.epilog.splitlines()[1:]:
            words = line.split("   ")[0 if not line.startswith("   ") else 1].split()
            words = words[words.index("schirn") + 1 :]
            words = words[: words.index(">")] if ">" in words else words
            assert parser.parse_args(words) is not None


def test_an_option_with_one_value_is_given_once(capsys):
    parser = build_parser(commands())
    for command in ("clean", "review", "fit", "vocabulary"):
        words = [command, "items.csv", "--vocabulary", "a.csv", "--vocabulary=b.csv"]
        assert main(words) == 2
        assert "--vocabulary: is given twice, but takes one value" in capsys.readouterr().err
    words = ["clean", "items.csv", "--answers", "a.csv", "--answers", "b.csv", "--threads", "1"]
    for _ in range(2):
        assert parser.parse_args(["--threads", "2", *words]).answers == ["a.csv", "b.csv"]


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"schirn {schirn.__version__}\n"


def test_the_bare_program_prints_help_and_bare_data_lists(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: schirn ")
    assert main(["data"]) == 0
    listed = capsys.readouterr().out
    assert main(["data", "list"]) == 0
    assert capsys.readouterr().out == listed


def test_no_command_and_unknown_command(capsys):
    assert "no command given (see schirn --help)" in refused(capsys, "--debug")
    assert "no command given (see schirn certificate --help)" in refused(capsys, "certificate")
    assert "there is no command 'fti'; did you mean 'fit'" in refused(capsys, "fti")
    assert "choose from demo, review, clean" in refused(capsys, "xyzzy")
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

    monkeypatch.setattr("schirn.lab.cli._data.read", stop)
    assert main(["data", "card", "digits_attributes"]) == 130
    assert capsys.readouterr().err == "schirn: interrupted\n"


def test_a_bug_gets_one_sentence_and_its_traceback_with_debug(capsys, monkeypatch):
    monkeypatch.setattr("schirn.lab.cli._data.read", lambda _: 1 / 0)
    assert main(["data", "card", "digits_attributes"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("schirn: this should not have happened (ZeroDivisionError: division by")
    assert "--debug" in told
    assert told.count("\n") == 1
    with pytest.raises(ZeroDivisionError):
        main(["data", "card", "digits_attributes", "--debug"])


def test_control_c_while_the_parser_is_built(capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("schirn.app.cli.build_parser", stop)
    assert main(["methods"]) == 130
    assert capsys.readouterr().err == "schirn: interrupted\n"


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
def test_control_c_during_the_import(tmp_path):
    """The package is replaced by one that is interrupted while it is imported."""
    (tmp_path / "schirn").mkdir()
    stop = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "schirn" / "__init__.py").write_text(stop)
    folders = [str(tmp_path), str(Path(schirn.__file__).parents[1])]
    code = "import sys; from schirn_program import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (130, "schirn: interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="the shell of POSIX closes the streams")
@pytest.mark.parametrize(
    ("streams", "code"),
    [(">&-", 0), (">/dev/null 2>&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 2)],
)
def test_streams_that_take_nothing(streams, code):
    if "/dev/full" in streams and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    command = f"{sys.executable} -m schirn methods {streams}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == code
    assert done.stderr == ("schirn: No space left on device\n" if code else "")


DIGITS, BRACKETS = "9" * 400, "[" * 100_000


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["bench", "--datasets", "digits_attributes", "--seeds", "²"], "not '²'"),
        (["bench", "--datasets", "digits_attributes", "--seeds", "9" * 5000], "be a whole number"),
        (["bench", "--datasets", "digits_attributes", "--r", "²"], "a noise level is a number"),
        (["fit", "digits_attributes", "--param", f"lam={DIGITS}"], "lam: a number of 400 digits"),
        (["fit", "digits_attributes", "--param", f"lam=-{DIGITS}"], "lam: a number of 401 digits"),
        (["fit", "digits_attributes", "--param", f"lam={BRACKETS}"], "lam: too many brackets"),
        (["fit", "digits_attributes", "--labels", BRACKETS], "JSON list (too many brackets)"),
    ],
    ids=range(7),
)  # fmt: skip
def test_odd_values_get_one_sentence(argv, words, tmp_path, capsys):
    told = refused(capsys, *argv, "-o" if argv[0] == "fit" else "--output", str(tmp_path / "x"))
    assert words in told
    assert "Error" not in told


def test_data_without_rows_or_features(tmp_path, capsys):
    np.savez(tmp_path / "rows.npz", X=np.zeros((0, 3)), Y=np.zeros((0, 2)))
    np.savez(tmp_path / "features.npz", X=np.zeros((3, 0)), Y=np.ones((3, 2)))
    model = ["-o", str(tmp_path / "x.schirn")]
    for argv in (
        ["fit", str(tmp_path / "rows.npz"), *model],
        ["data", "card", str(tmp_path / "rows.npz")],
    ):
        assert "has no rows" in refused(capsys, *argv)
    assert "has no features" in refused(capsys, "fit", str(tmp_path / "features.npz"), *model)


def test_a_user_without_a_home(capsys, monkeypatch):
    """As in a container whose user is not in the list of users."""
    for name in ("SCHIRN_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pathlib.Path.home", nobody)
    monkeypatch.setenv("SCHIRN_DATA", "~nosuchuser/data")
    assert main(["data", "list"]) == 0
    assert main(["data", "card", "digits_attributes"]) == 0
    assert main(["doctor", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert "SCHIRN_CACHE" in refused(capsys, "data", "fetch", "emoji_keywords")


def nobody():
    raise RuntimeError("Could not determine home directory.")


def test_a_closed_pipe_is_quiet(tmp_path, monkeypatch):
    for number in range(1500):
        (tmp_path / f"{'x' * 50}{number}.npz").touch()
    monkeypatch.setenv("SCHIRN_DATA", str(tmp_path))
    command = f"{sys.executable} -m schirn data list | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith("name ")


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

    monkeypatch.setattr("schirn.lab.cli._data.read", fail)
    assert main(["data", "card", "digits_attributes"]) == 2
    assert capsys.readouterr().err == f"schirn: {sentence}\n"


def test_a_closed_pipe_without_a_file_descriptor(monkeypatch):
    def gone(_):
        raise BrokenPipeError

    monkeypatch.setattr("schirn.lab.cli._data.read", gone)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert main(["data", "card", "digits_attributes"]) == 141
    assert sys.stdout.name == os.devnull
    sys.stdout.close()


def test_a_deprecation_is_shown_only_with_debug(capsys, monkeypatch):
    def warn(_):
        warnings.warn("old way", DeprecationWarning, stacklevel=1)
        warnings.warn("look here", UserWarning, stacklevel=1)
        return make_partial_multilabel(n_samples=10, n_labels=3, random_state=0)

    monkeypatch.setattr("schirn.lab.cli._data.read", warn)
    assert main(["data", "card", "x"]) == 0
    assert capsys.readouterr().err == "schirn: note: look here\n"
    assert main(["data", "card", "x", "--debug"]) == 0
    assert "note: old way" in capsys.readouterr().err


def test_errors_name_the_option_that_was_typed(capsys, tmp_path):
    pytest.importorskip("pandas")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    argv = ["fit", "digits_attributes", "-o", str(tmp_path / "m")]
    assert "(see --noise)" in refused(capsys, "demo", "--noise", "9")
    assert "(see --labels)" in refused(capsys, "data", "card", str(tmp_path / "t.csv"))
    assert "(see --param lam)" in refused(capsys, *argv, "--param", "lam=-1")
    # A parameter of the method, not the columns of --features.
    assert "(see --param features)" in refused(capsys, *argv, "--param", "features=x")
