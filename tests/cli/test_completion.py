import shutil
import subprocess

import pytest
from api_listing import walk

from schirn import methods
from schirn.cli import commands, main
from schirn.cli.parser import build_parser

pytest.importorskip("shtab", reason="completion needs shtab")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files and a folder to complete."""
    path = tmp_path_factory.mktemp("completion")
    (path / "photos.csv").touch()
    (path / "my photos.csv").touch()
    (path / "project").mkdir()
    return path


def script(shell, folder, capsys):
    assert main(["completion", shell]) == 0
    path = folder / f"schirn.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


@pytest.fixture
def bash(folder, capsys):
    """What bash offers for a list of words, the last of which is being typed."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    source = script("bash", folder, capsys)

    def offers(*words):
        line = 'source "$1"; shift; COMP_WORDS=(schirn "$@"); COMP_CWORD=$#; _shtab_schirn; '
        line += 'printf "%s\\n" "${COMPREPLY[@]}"'
        command = ["bash", "--norc", "-c", line, "bash", str(source), *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
        return {word.strip() for word in done.stdout.splitlines()} - {""}

    return offers


def test_bash_completes_commands(bash):
    names = {command.__name__.rpartition(".")[2] for command in commands()}
    assert bash("") >= names
    assert bash("me") == {"methods"}
    assert bash("data", "") >= {"list", "show", "card", "fetch"}
    assert bash("data", "c") == {"card"}
    assert bash("xyz") == set()


def test_bash_completes_every_option_of_every_command(bash):
    for parser in walk(build_parser(commands())):
        flags = {flag for action in parser._actions for flag in action.option_strings}
        assert bash(*parser.prog.split()[1:], "-") == flags


def test_bash_completes_values(bash):
    assert bash("fit", "--method", "") == set(methods())
    assert bash("clean", "--method", "Si") == {"Sieve"}
    assert bash("bench", "--methods", "Sie") == {"Sieve"}
    assert bash("methods", "Si") == {"Sieve"}
    assert bash("--color", "") == {"auto", "always", "never"}
    assert bash("fit", "--part", "tr") == {"train"}
    assert bash("completion", "") >= {"bash", "zsh", "fish"}


def test_bash_completes_data_sets_and_files(bash):
    assert bash("fit", "dig") == {"digits_attributes"}
    assert bash("fit", "pho") == {"photos.csv"}
    assert bash("fit", "-o", "p") >= {"photos.csv"}
    assert {name.rstrip("/") for name in bash("review", "p")} == {"project"}


def test_data_sets_of_the_folder_are_offered(bash, folder, capsys, monkeypatch):
    sets = folder / "sets"
    sets.mkdir(exist_ok=True)
    for name in ("mine.npz", "odd $(name).npz"):
        (sets / name).touch()
    monkeypatch.setenv("SCHIRN_DATA", str(sets))
    text = script("bash", folder, capsys).read_text()
    assert "mine" in text
    assert "$(name)" not in text
    assert bash("fit", "mi") == {"mine"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_sound(shell, folder, capsys):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = script(shell, folder, capsys)
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_completes(folder, capsys):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    path = script("fish", folder, capsys)

    def offers(line):
        command = ["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
        return {entry.split("\t")[0] for entry in done.stdout.splitlines()}

    assert offers("schirn data ") == {"list", "show", "card", "fetch"}
    assert offers("schirn fit --method S") == {"Sieve", "Schirn"}
    assert offers("schirn --color ") == {"auto", "always", "never"}
    assert offers("schirn fit pho") == {"photos.csv"}
    assert offers("schirn review pro") == {"project/"}
    assert "--disambiguate" in offers("schirn predict --d")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_every_option_is_in_the_script(shell, folder, capsys):
    text = script(shell, folder, capsys).read_text()
    for parser in walk(build_parser(commands())):
        for action in parser._actions:
            for flag in action.option_strings:
                assert (flag if shell == "zsh" else flag.strip("-")) in text


def test_an_unknown_shell_is_refused(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "'tcsh'" in capsys.readouterr().err
