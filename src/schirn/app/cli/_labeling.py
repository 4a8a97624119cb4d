"""The options of `clean` and `update` for labeling tools: Label Studio and Argilla."""

import argparse

from schirn.app.cli._reading import Outputs
from schirn.app.workflow import (
    LABEL_STUDIO,
    TOKEN_VARIABLE,
    TOOLS,
    LabelStudio,
    TableCleaning,
    TableUpdate,
    config_path,
)
from schirn.exceptions import InputError
from schirn.program.output import note, number

LABELING = f"""
--for {"|".join(TOOLS)}  write the questions as tasks that this tool imports (.json)
--show-predictions  show the likelier answer and its probability in the tool; this biases
    the answers
--label-studio URL  read the answers in a Label Studio project, and send it the --questions
--project ID:natural  number of the project
--token-env NAME = {TOKEN_VARIABLE}  environment variable that holds the token
"""


def labeling_tool(args: argparse.Namespace) -> str | None:
    """Return the labeling tool for the questions; None to write a table.

    Parameters
    ----------
    args : Namespace
        Arguments of the command.

    Returns
    -------
    str or None
    """
    tool: str | None = vars(args)["for"]
    return LABEL_STUDIO if tool is None and args.label_studio and args.questions else tool


def check_labeling(args: argparse.Namespace) -> None:
    """Raise InputError for incompatible options.

    Parameters
    ----------
    args : Namespace
        Arguments of the command.
    """
    tool: str | None = vars(args)["for"]
    if tool and not args.questions:
        raise InputError("--for needs --questions, the file of the tasks")
    if args.show_predictions and labeling_tool(args) is None:
        raise InputError("--show-predictions needs --for, since tables of questions show none")
    if bool(args.label_studio) != (args.project is not None):
        raise InputError("--label-studio and --project go together")
    if args.label_studio and tool not in (None, LABEL_STUDIO):
        raise InputError(f"--label-studio needs --for {LABEL_STUDIO}, not {tool}")


def _server(args: argparse.Namespace) -> LabelStudio | None:
    """Return the project on a server; None if there is none."""
    if not args.label_studio:
        return None
    return LabelStudio.from_environment(args.label_studio, args.project, args.token_env)


def fetch(args: argparse.Namespace, cleaning: TableCleaning | TableUpdate) -> None:
    """Fetch the answers of a project, if there is one.

    Parameters
    ----------
    args : Namespace
        Arguments of the command.
    cleaning : TableCleaning or TableUpdate
        The table that gets the answers.
    """
    server = _server(args)
    if server is not None:
        n_answers = cleaning.fetch_answers(server)
        note(f"read {number(n_answers, 'answer')} from project {args.project}")


def exchange(
    args: argparse.Namespace, cleaning: TableCleaning | TableUpdate, outputs: Outputs
) -> None:
    """Write the questions for people or a labeling tool, and send them to a project.

    Parameters
    ----------
    args : Namespace
        Arguments of the command.
    cleaning : TableCleaning or TableUpdate
        The table that asks.
    outputs : Outputs
        Files to write.
    """
    path = outputs.questions
    assert path is not None
    settings = {"show_predictions": args.show_predictions}
    cleaning.write_questions(path, tool=outputs.tool, **settings)
    server = _server(args)
    if server is not None:
        n_sent = cleaning.send_questions(server, **settings)
        note(f"sent {number(n_sent, 'task')} to project {args.project}")


def describe_import(args: argparse.Namespace, outputs: Outputs, command: str) -> str:
    """Return instructions for importing a file of tasks.

    Parameters
    ----------
    args : Namespace
        Arguments of the command.
    outputs : Outputs
        Written files.
    command : str
        The command that cleans the table.

    Returns
    -------
    str
    """
    if args.label_studio:
        address = f"--label-studio {args.label_studio} --project {args.project}"
        return f"answer the tasks in the project, then run: {command} {address}"
    path = outputs.questions or ""
    if outputs.tool == LABEL_STUDIO:
        place = f"a project with the labeling interface of {config_path(path)}"
    else:
        place = "a data set with the fields tag and text and the question right"
    return (
        f"import {path} into {place}, export it as JSON, then run: {command} --answers export.json"
    )
