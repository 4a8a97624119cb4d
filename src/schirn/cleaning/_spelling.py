"""Similar spellings of tag names, in any language.

Names are compared by their letters only, without dictionary or grammar. Whether two names mean the
same is decided by their use (`schirn.cleaning._tag_use`).

>>> from schirn.cleaning._spelling import name_key, spelling_of
>>> name_key("Node-JS") == name_key("nodejs")
True
>>> spelling_of("lighting", "ligthing")
'typing error'
>>> spelling_of("pan", "sofa")
''
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

# Between two letters or digits, but not between two digits: 3.5 is not 35.
_GAP = re.compile(r"(?<=\w)(?:(?<!\d)[\s\-'’_.·]+|[\s\-'’_.·]+(?!\d))(?=\w)")
_WORDS = re.compile(r"[\s\-'’_./·]+")
_LAST_LETTERS = re.compile(r"[^\W\d_]*$")
# Letters before the "es" of a regular plural, as in boxes and matches.
_BEFORE_ES = ("s", "x", "z", "ch", "sh", "o")
# Minimum lengths of a key without case and gaps and of a stem, and maximum length of an ending.
_SHORTEST_KEY = 3
_SHORTEST_STEM = 3
_LONGEST_ENDING = 3
# Minimum length of a name for typing errors, and maximum length of a name that is compared.
_LONG_NAME = 6
_LONGEST_NAME = 60
# Maximum number of names with a common stem or shape that are compared pair by pair.
_LARGEST_GROUP = 40

_ONE_NAME = frozenset({"case", "spaces and hyphens"})
SAME_NAME = _ONE_NAME | {"accents"}
"""Spellings that hardly ever tell two meanings apart."""
PLURAL = "plural"
"""Spelling of a name and its regular plural."""


def name_key(name: str) -> str:
    """Return the name without case, gaps and invisible characters.

    Parameters
    ----------
    name : str
        Name of a tag.

    Returns
    -------
    str
        The unchanged name if fewer than three characters are left: US is not us.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    visible = "".join(c for c in folded if unicodedata.category(c) != "Cf")
    key = _GAP.sub("", visible.strip())
    return key if len(key) >= _SHORTEST_KEY else name


def without_accents(text: str) -> str:
    """Return the text without combining marks."""
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text)
    return "".join(c for c in parts if not unicodedata.combining(c))


def spelling_of(first: str, second: str) -> str:
    """Return the difference in spelling of two names, "" if they are not spelled alike.

    Parameters
    ----------
    first, second : str
        Names of tags.

    Returns
    -------
    str
        "case", "spaces and hyphens", "accents", "order of words", "plural", "ending",
        "typing error", or "".
    """
    if first.casefold() == second.casefold():
        return "case"
    first_key = name_key(first)
    second_key = name_key(second)
    if first_key == second_key:
        return "spaces and hyphens"
    first_plain = without_accents(first_key)
    second_plain = without_accents(second_key)
    if first_plain == second_plain:
        return "accents"
    if _has_other_order(words_of(first), words_of(second)):
        return "order of words"
    if first_plain in _singulars(second) or second_plain in _singulars(first):
        return PLURAL
    # Swapped letters are no ending, even if they are the last ones.
    if _is_swap(first_plain, second_plain):
        return "typing error"
    if _share_stem(first_plain, second_plain):
        return "ending"
    if _is_typing_error(first_plain, second_plain):
        return "typing error"
    return ""


def is_one_name(first: str, second: str) -> bool:
    """Whether two names differ in case, spaces and hyphens only; an apostrophe may make another.

    Parameters
    ----------
    first, second : str
    """
    has_apostrophe = any(sign in first + second for sign in "'’")
    return not has_apostrophe and spelling_of(first, second) in _ONE_NAME


def alike_pairs(names: Sequence[str]) -> dict[tuple[int, int], str]:
    """Return the pairs of names that are spelled alike, and their differences.

    Names are grouped by features that similar names share, so the cost grows with the number of
    names, not of pairs.

    Parameters
    ----------
    names : sequence of str
        Distinct names of tags.

    Returns
    -------
    dict from (int, int) to str
        From the positions of two names, the smaller one first, to the result of `spelling_of`.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for j, name in enumerate(names):
        for shape in set(_shapes(name)):
            groups[shape].append(j)
    alike: dict[tuple[int, int], str] = {}
    for members in groups.values():
        if not 1 < len(members) <= _LARGEST_GROUP:
            continue
        for position, first in enumerate(members):
            for second in members[position + 1 :]:
                pair = (first, second)
                if pair not in alike:
                    alike[pair] = spelling_of(names[first], names[second])
    return {pair: spelling for pair, spelling in alike.items() if spelling}


def words_of(name: str) -> list[str]:
    """Return the words of a name, in lower case and without accents."""
    folded = without_accents(unicodedata.normalize("NFKC", name).casefold())
    return [word for word in _WORDS.split(folded) if word]


def _has_other_order(first: list[str], second: list[str]) -> bool:
    return first != second and sorted(first) == sorted(second)


def _shapes(name: str) -> Iterator[tuple[str, str]]:
    """Yield the features that a name shares with every name spelled alike."""
    key = without_accents(name_key(name))
    if len(key) > _LONGEST_NAME:
        return
    yield "key", key
    words = words_of(name)
    if len(words) > 1:
        yield "words", " ".join(sorted(words))
    yield from (("singular", text) for text in (key, *_singulars(name)))
    for stem in _stems(key):
        yield "stem", stem
    # Two strings one error apart are equal after deleting at most one letter of each.
    if len(key) >= _LONG_NAME - 1:
        yield from (("typo", text) for text in _deletions(key))


def _stems(key: str) -> Iterator[str]:
    """Yield the prefixes of a key that may be its stem."""
    for n_ending in range(_LONGEST_ENDING + 1):
        length = len(key) - n_ending
        if length >= _SHORTEST_STEM and length >= 0.6 * len(key):
            yield key[:length]


def _singulars(name: str) -> list[str]:
    """Return the keys of the names of which this one may be the regular plural, as in English."""
    key = without_accents(name_key(name))
    words = words_of(name)
    # The last word alone has a plural: io-ts are not several iot.
    if not words or len(words[-1]) <= _SHORTEST_STEM:
        return []
    forms = []
    if key.endswith("s") and not key.endswith("ss"):
        forms.append(key[:-1])
    if key.endswith("es") and key[:-2].endswith(_BEFORE_ES):
        forms.append(key[:-2])
    if key.endswith("ies"):
        forms.append(f"{key[:-3]}y")
    return [form for form in forms if _n_last_letters(form) >= _SHORTEST_STEM]


def _n_last_letters(text: str) -> int:
    """Return the number of letters after the last other character."""
    letters = _LAST_LETTERS.search(text)
    return len(letters[0]) if letters else 0


def _share_stem(first: str, second: str) -> bool:
    """Check whether the keys differ only in a short ending of letters of their last word."""
    n_shared = 0
    for one, two in zip(first, second, strict=False):
        if one != two:
            break
        n_shared += 1
    endings = first[n_shared:] + second[n_shared:]
    longest = max(len(first), len(second)) - n_shared
    # The stem starts at the word, so that two values of one facet, pdf and png, share no stem.
    n_stem = _n_last_letters(first[:n_shared])
    if not endings.isalpha() or longest > _LONGEST_ENDING:
        return False
    if n_stem < _SHORTEST_STEM or n_stem < 0.6 * (n_stem + longest):
        return False
    # One key is the stem of the other, or both share a long stem.
    return n_shared == min(len(first), len(second)) or n_stem > _SHORTEST_STEM


def _deletions(key: str) -> Iterable[str]:
    yield key
    for k in range(len(key)):
        yield key[:k] + key[k + 1 :]


def _is_swap(first: str, second: str) -> bool:
    """Check whether two neighbouring letters of a long name are swapped."""
    wrong, right = _difference(first, second)
    is_long = min(len(first), len(second)) >= _LONG_NAME
    return is_long and len(wrong) == 2 and wrong == right[::-1] and wrong.isalpha()


def _is_typing_error(first: str, second: str) -> bool:
    """Check whether one letter of a long name is missing, extra or wrong."""
    short, long = sorted((first, second), key=len)
    if len(short) < _LONG_NAME - 1 or len(long) < _LONG_NAME or len(long) - len(short) > 1:
        return False
    wrong, right = _difference(short, long)
    return len(right) <= 1 and (wrong + right).isalpha()


def _difference(first: str, second: str) -> tuple[str, str]:
    """Return the parts of two strings between their common beginning and their common end."""
    shortest = min(len(first), len(second))
    start = 0
    while start < shortest and first[start] == second[start]:
        start += 1
    end = 0
    while end < shortest - start and first[-1 - end] == second[-1 - end]:
        end += 1
    return first[start : len(first) - end], second[start : len(second) - end]
