"""Files of vocabulary: reading, writing, and what is refused."""

import pytest

from schirn.app.workflow import read_vocabulary, write_vocabulary
from schirn.cleaning import Vocabulary, VocabularyLine
from schirn.exceptions import DataError

LINES = [
    VocabularyLine("merge", "Dog", "dog", 12, 340, 1, "case; 8% together", "yes", 0.87),
    VocabularyLine("imply", "poodle", "dog", 4, 340, 3, "80% of its rows", "no", 0.6),
    VocabularyLine("split", "=1+1", "", 40, evidence='two clusters: "a", b'),
    VocabularyLine("keep", "type;script"),
]


def test_a_vocabulary_comes_back(tmp_path):
    write_vocabulary(Vocabulary(LINES), tmp_path / "v.csv")
    assert list(read_vocabulary(tmp_path / "v.csv")) == LINES
    header = (tmp_path / "v.csv").read_text().splitlines()[0]
    assert header == "action,tag,target,rows,rows_target,both,evidence,accept"


def test_a_vocabulary_without_lines_comes_back(tmp_path):
    write_vocabulary(Vocabulary(), tmp_path / "v.csv")
    assert len(read_vocabulary(tmp_path / "v.csv")) == 0


def test_formulas_are_texts_in_the_file(tmp_path):
    write_vocabulary(Vocabulary(LINES), tmp_path / "v.csv")
    assert "\n=1+1" not in (tmp_path / "v.csv").read_text()
    assert ",=1+1," not in (tmp_path / "v.csv").read_text()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.csv", "from,to,why,from_rows,to_rows\nDog,dog,case,1,2\nKid,kids,plural,1,2\n"),
        ("m.csv", "Dog,dog\nKid,kids\n"),
        ("m.csv", "Dog;dog\nKid;kids\n"),
        ("m.tsv", "from\tto\nDog\tdog\n\nKid\tkids\n"),
        ("m.csv", "action,tag,target,accept\nmerge,Dog,dog,yes\nmerge,Kid,kids,y\ndrop,x,,no\n"),
    ],
)
def test_lists_of_merges_are_read(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert read_vocabulary(tmp_path / name).merges == {"Dog": "dog", "Kid": "kids"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("from,to\na,b\nb,c\n", "lines 2 and 3: 'a' is merged into 'b', which is merged into 'c'"),
        ("a,b\nb,a\n", "lines 1 and 2: 'a' is merged into 'b', which is merged into 'a'"),
        ("from,to\na,a\n", "line 2: merge of 'a' with itself"),
        ("a,b\na,c\n", "lines 1 and 2: 'a' is merged into 'b' as well as into 'c'"),
        ("from,to\na,\n", "line 2: merge needs a tag and a target"),
        ("action,tag,accept\ndrop,a,perhaps\n", "line 2: accept must be yes, no or empty"),
        ("action,tag\nmelt,a\n", "line 2: the action must be one of"),
        ("action,name\ndrop,a\n", "a vocabulary has the columns action, tag, not action, name"),
        ("a\nb\n", "a vocabulary has the columns action, tag, not a"),
    ],
)
def test_files_that_are_refused(tmp_path, content, message):
    (tmp_path / "v.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_vocabulary(tmp_path / "v.csv")


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(DataError, match="nothere"):
        read_vocabulary(tmp_path / "nothere.csv")
