"""Cleaning a table with Python objects: columns, decisions, question files, nightly updates."""

from schirn.app.workflow._answers import FileAnswers as FileAnswers
from schirn.app.workflow._answers import RowIdentity as RowIdentity
from schirn.app.workflow._answers import has_answers as has_answers
from schirn.app.workflow._answers import read_answers as read_answers
from schirn.app.workflow._answers import read_answers_by_id as read_answers_by_id
from schirn.app.workflow._answers import write_questions as write_questions
from schirn.app.workflow._answers import write_questions_by_id as write_questions_by_id
from schirn.app.workflow._columns import Features as Features
from schirn.app.workflow._columns import TagTable as TagTable
from schirn.app.workflow._columns import check_new_columns as check_new_columns
from schirn.app.workflow._columns import columns_to_stream as columns_to_stream
from schirn.app.workflow._columns import image_files as image_files
from schirn.app.workflow._columns import is_inside as is_inside
from schirn.app.workflow._columns import matrix_for as matrix_for
from schirn.app.workflow._decisions import NOT_SURE as NOT_SURE
from schirn.app.workflow._decisions import OPEN as OPEN
from schirn.app.workflow._decisions import RIGHT as RIGHT
from schirn.app.workflow._decisions import WRONG as WRONG
from schirn.app.workflow._decisions import Carried, Decision, Decisions, RowContent
from schirn.app.workflow._decisions import ask_again as ask_again
from schirn.app.workflow._label_studio import TOKEN_VARIABLE as TOKEN_VARIABLE
from schirn.app.workflow._label_studio import LabelStudio
from schirn.app.workflow._label_studio import is_local_host as is_local_host
from schirn.app.workflow._label_tools import LABEL_CONFIG as LABEL_CONFIG
from schirn.app.workflow._label_tools import LABEL_STUDIO as LABEL_STUDIO
from schirn.app.workflow._label_tools import TOOLS as TOOLS
from schirn.app.workflow._label_tools import (
    Task,
    TaskAnswer,
    read_tasks,
    write_argilla_answers,
    write_tasks,
)
from schirn.app.workflow._label_tools import config_path as config_path
from schirn.app.workflow._label_tools import is_task_file as is_task_file
from schirn.app.workflow._models import make_model as make_model
from schirn.app.workflow._models import to_device as to_device
from schirn.app.workflow._nightly import Update, update_tags
from schirn.app.workflow._opinions import OpinionFile as OpinionFile
from schirn.app.workflow._opinions import OpinionRecord as OpinionRecord
from schirn.app.workflow._opinions import read_opinion_file as read_opinion_file
from schirn.app.workflow._opinions import write_prompts as write_prompts
from schirn.app.workflow._options import CleaningOptions
from schirn.app.workflow._ranking_store import RankingStore, StoredRanking
from schirn.app.workflow._table_cleaning import TableCleaning
from schirn.app.workflow._table_update import TableUpdate
from schirn.app.workflow._tag_state import TagState
from schirn.app.workflow._tag_state import state_after_training as state_after_training
from schirn.app.workflow._tag_state import state_path as state_path
from schirn.app.workflow._vocabulary import read_vocabulary, write_vocabulary
from schirn.app.workflow._vocabulary import vocabulary_in_training as vocabulary_in_training

__all__ = [
    "Carried",
    "CleaningOptions",
    "Decision",
    "Decisions",
    "LabelStudio",
    "RankingStore",
    "RowContent",
    "StoredRanking",
    "TableCleaning",
    "TableUpdate",
    "TagState",
    "Task",
    "TaskAnswer",
    "Update",
    "read_tasks",
    "read_vocabulary",
    "update_tags",
    "write_argilla_answers",
    "write_tasks",
    "write_vocabulary",
]
