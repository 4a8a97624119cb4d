"""The options of a cleaning, from Python, the parser and a file."""

import pytest

from schirn.app.cli import commands
from schirn.app.workflow import CleaningOptions
from schirn.exceptions import InputError
from schirn.program.parser import build_parser


def parsed(*words):
    args = build_parser(commands(), words[0]).parse_args(list(words))
    return CleaningOptions.from_args(args)


@pytest.mark.parametrize("command", ["clean", "review"])
def test_the_parser_has_the_same_defaults(command):
    assert parsed(command, "items.csv") == CleaningOptions()


def test_words_come_back_as_the_same_options():
    options = CleaningOptions(
        labels="tags",
        separator="|",
        text=["title", "text"],
        id="sku",
        precision=0.8,
        remove=3,
        seed=4,
        param={
            "max_iter": 3,
            "kernel": "linear",
            "name": "3",
            "flag": "True",
            "grid": {"a": [1, None]},
        },
        answers=["a.csv", "b c.csv"],
        suggest=True,
    )
    assert parsed("clean", "items.csv", *options.words()) == options
    assert "--decisions" not in CleaningOptions(decisions="d.jsonl", id="a").ranking_words()


def test_a_file_fills_the_options(tmp_path):
    path = tmp_path / "schirn.toml"
    path.write_text(
        'labels = "tags"\ntext = "title, note"\nport = 5\nmin-count = 3\n'
        "[clean]\nprecision = 0.7\nallow-empty = true\nparam = {max_iter = 3}\n"
        "[update]\nmodel = 'm.schirn'\n"
    )
    assert CleaningOptions.from_toml(str(path)) == CleaningOptions(
        labels="tags",
        text=["title", "note"],
        min_count=3,
        precision=0.7,
        allow_empty=True,
        param={"max_iter": 3},
    )
    path.write_text("[clean]\nprecison = 0.7\n")
    with pytest.raises(InputError, match="no option 'precison'; did you mean 'precision'"):
        CleaningOptions.from_toml(str(path))
    path.write_text("[clean\n")
    with pytest.raises(InputError, match="not TOML"):
        CleaningOptions.from_toml(str(path))


def test_a_project_file_fills_the_options(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text('[tool.schirn]\nlabels = "tags"\n[tool.other]\nlabels = "x"\n')
    assert CleaningOptions.from_toml(str(path)).labels == "tags"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"remove": 3, "remove_below": 0.5}, "only one of remove and remove_below"),
        ({"precision": 0}, "precision must be above 0"),
        ({"decisions": "d.csv", "id": "a"}, "must end in .jsonl"),
    ],
)
def test_options_that_do_not_go_together(options, words):
    with pytest.raises(InputError, match=words):
        CleaningOptions(**options)


def test_a_text_is_one_column():
    assert CleaningOptions(text="a,b").text == ("a,b",)
    assert CleaningOptions(text=["a", "b"]).text == ("a", "b")
    assert CleaningOptions(answers="q.csv").answers == ("q.csv",)
