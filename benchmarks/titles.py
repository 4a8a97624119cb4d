"""Generated product titles with tags, some of them wrong or missing.

>>> from benchmarks.titles import make_titles
>>> table = make_titles(random_state=1)
>>> table.texts[4]
'and style recliner fit with foldable gents grey'
>>> table.names_of(table.truth[4])
['men', 'foldable', 'armchair', 'grey']
>>> table.names_of(table.listed[4])
['men', 'iron', 'foldable', 'armchair', 'grey']

A title states each of its tags through one of several phrases ("for him" for the tag "men"), in any
order, among words that state nothing. Every knob is one reason why wrong tags are hard to find.
"""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

# Phrases that state a tag, by facet and tag. Two neighbours of a facet, first and second, third and
# fourth, are confusable.
FACETS: dict[str, dict[str, tuple[str, ...]]] = {
    "kind": {
        "coat": ("coat", "overcoat", "trench"),
        "jacket": ("jacket", "blazer", "windbreaker"),
        "pan": ("pan", "skillet", "wok"),
        "pot": ("pot", "saucepan", "casserole"),
        "sofa": ("sofa", "couch", "settee"),
        "armchair": ("armchair", "recliner", "easy chair"),
        "boots": ("boots", "ankle boot", "wellies"),
        "sneakers": ("sneakers", "trainers", "running shoes"),
        "dress": ("dress", "gown", "frock"),
        "skirt": ("skirt", "mini skirt", "kilt"),
        "mug": ("mug", "tumbler", "beaker"),
        "bowl": ("bowl", "dish", "ramekin"),
    },
    "colour": {
        "blue": ("blue", "navy", "azure"),
        "green": ("green", "olive", "mint"),
        "red": ("red", "crimson", "scarlet"),
        "pink": ("pink", "rose", "fuchsia"),
        "grey": ("grey", "gray", "slate"),
        "black": ("black", "jet", "ebony"),
        "white": ("white", "snow", "chalk"),
        "beige": ("beige", "sand", "cream"),
    },
    "material": {
        "cotton": ("cotton", "jersey", "denim"),
        "linen": ("linen", "flax", "hemp blend"),
        "steel": ("steel", "stainless", "inox"),
        "iron": ("iron", "cast", "enamelled"),
        "leather": ("leather", "suede", "nappa"),
        "velvet": ("velvet", "plush", "corduroy"),
        "wool": ("wool", "cashmere", "merino"),
        "fleece": ("fleece", "sherpa", "teddy"),
    },
    "audience": {
        "men": ("men", "mens", "for him", "gents"),
        "women": ("women", "womens", "for her", "ladies"),
        "kids": ("kids", "children", "for kids", "junior"),
        "baby": ("baby", "infant", "toddler"),
    },
    "season": {
        "winter": ("winter", "cold weather", "xmas"),
        "autumn": ("autumn", "fall", "harvest"),
        "summer": ("summer", "holiday", "beach"),
        "spring": ("spring", "easter", "garden party"),
    },
    "feature": {
        "waterproof": ("waterproof", "rainproof", "dry tech"),
        "washable": ("washable", "machine wash", "easy care"),
        "foldable": ("foldable", "folding", "compact"),
        "stackable": ("stackable", "nesting", "space saving"),
        "organic": ("organic", "eco", "fair trade"),
        "vintage": ("vintage", "retro", "classic look"),
        "handmade": ("handmade", "artisan", "hand crafted"),
        "limited": ("limited edition", "exclusive", "numbered"),
    },
}
# Share of the titles that have a tag of the facet.
SHARES = {"kind": 1, "colour": 0.8, "material": 0.6, "audience": 0.5, "season": 0.4, "feature": 0.4}
PARENTS = {
    "clothing": ("coat", "jacket", "boots", "sneakers", "dress", "skirt"),
    "kitchen": ("pan", "pot", "mug", "bowl"),
    "furniture": ("sofa", "armchair"),
}
# A title that names the child hardly ever names the parent.
STATED_PARENTS = 0.2
FILLERS = (
    *("new", "sale", "set", "style", "gift", "best", "top", "quality", "with", "and", "the"),
    *("size", "premium", "original", "basic", "deluxe", "home", "pack", "large", "small", "medium"),
    *("slim", "soft", "light", "modern", "design", "brand", "offer", "fit", "daily", "free"),
    *("shipping", "collection", "model", "series", "deal", "bundle", "plus", "pro", "max"),
)
SYLLABLES = [c + v for c in "bdfgklmnprstvwz" for v in "aeiou"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, eq=False)
class Titles:
    """Product titles with their true and their listed tags.

    Attributes
    ----------
    texts : list of n str
    labels : list of l str
        Names of the tags.
    truth, listed : (n, l) uint8 arrays
        Tags that are correct, and tags as somebody entered them.
    neighbour : (l,) int array
        Column of the confusable tag of every tag, -1 if it has none.
    """

    texts: list[str]
    labels: list[str]
    truth: Array
    listed: Array
    neighbour: Array

    def names_of(self, row: Array) -> list[str]:
        """Return the names of the tags in one row of `truth` or `listed`."""
        return [self.labels[j] for j in np.flatnonzero(row)]


def make_titles(
    n_rows: int = 3000,
    n_tags: int = 30,
    *,
    unstated: float = 0.02,
    silent: float = 0.0,
    wrong: float = 0.1,
    dropped: float = 0.0,
    by_frequency: bool = False,
    confusable: float = 0.0,
    swapped: float = 0.0,
    hierarchy: bool = False,
    typos: float = 0.0,
    noisy_labels: float = 1.0,
    noisy_rows: float = 1.0,
    copies: float = 0.0,
    rare: float = 0.0,
    random_state: int = 0,
) -> Titles:
    """Generate product titles with wrong tags.

    Parameters
    ----------
    n_rows : int
    n_tags : int
        Tags beyond the 44 of the catalogue are invented product lines, two per title.
    unstated : float
        Share of the correct tags that the title does not state.
    silent : float
        Share of the labels that no title ever states.
    wrong : float
        Share of the listed tags that are wrong.
    dropped : float
        Share of the correct tags that are not listed, as far as every row keeps one tag.
    by_frequency : bool
        Whether a wrong tag is drawn with a weight that is the frequency of the tag, not uniformly.
    confusable : float
        Share of the wrong tags that are the confusable neighbour of a correct tag of the row.
    swapped : float
        Share of these confusable tags that are listed instead of the correct one.
    hierarchy : bool
        Whether a kind implies a parent, such as "clothing": three of the tags are parents.
    typos : float
        Share of the words with a typing error.
    noisy_labels, noisy_rows : float
        Share of the tags, and of the rows, in which all wrong tags are.
    copies : float
        Share of the rows that repeat the title and the correct tags of another row. Their wrong and
        dropped tags are their own.
    rare : float
        Exponent of the Zipf law of the tags within a facet: 0 makes them equally frequent, 1 gives
        a long tail.
    random_state : int
    """
    rng = np.random.default_rng(random_state)
    facets, phrases = _vocabulary(n_tags, hierarchy)
    truth = _true_tags(n_rows, facets, list(phrases), rare, rng)
    # Drawn apart, so that tables without silent labels stay as they are.
    is_silent = np.random.default_rng(random_state + 1).random(len(phrases)) < silent
    texts = _titles(truth * ~is_silent, list(phrases.values()), unstated, typos, rng)
    source = np.arange(n_rows)
    is_copy = rng.permutation(n_rows) < min(round(copies * n_rows), n_rows - 1)
    source[is_copy] = rng.choice(source[~is_copy], is_copy.sum())
    texts, truth = [texts[i] for i in source], truth[source]
    listed = _without_dropped(truth, dropped, rng)
    rows, columns = (
        rng.choice(size, max(1, round(share * size)), replace=False)
        for size, share in ((n_rows, noisy_rows), (len(phrases), noisy_labels))
    )
    # Swapped tags do not make the list longer.
    n_wrong = round(wrong * int(listed.sum()) / (1 - wrong * (1 - confusable * swapped)))
    n_confused = round(confusable * n_wrong)
    allowed = np.zeros(truth.shape, dtype=bool)
    allowed[np.ix_(rows, columns)] = True
    neighbour = _neighbours(facets, len(phrases))
    _confuse(listed, truth, allowed, neighbour, n_confused, swapped, rng)
    weights = truth.sum(axis=0)[columns] + 1.0 if by_frequency else np.ones(len(columns))
    _add_wrong(listed, truth, rows, columns, weights, n_wrong - n_confused, rng)
    return Titles(texts, list(phrases), truth, listed, neighbour)


def _vocabulary(
    n_tags: int, hierarchy: bool
) -> tuple[dict[str, list[int]], dict[str, tuple[str, ...]]]:
    """Columns of each facet, and the phrases of every tag."""
    facets: dict[str, list[int]] = {name: [] for name in FACETS}
    phrases: dict[str, tuple[str, ...]] = {}
    phrases |= {parent: (parent, f"{parent} department") for parent in PARENTS if hierarchy}
    # Pairs of all facets in turn, so that a short vocabulary has some of each.
    pairs = [(k // 2, name, tag) for name in FACETS for k, tag in enumerate(FACETS[name])]
    pairs.sort(key=lambda each: each[0])
    for _, name, tag in pairs[: max(n_tags - len(phrases), 0)]:
        facets[name].append(len(phrases))
        phrases[tag] = FACETS[name][tag]
    facets["line"] = list(range(len(phrases), n_tags))
    for k in range(len(facets["line"])):
        phrases[_invented_word(2 * k)] = (_invented_word(2 * k), _invented_word(2 * k + 1))
    return facets, phrases


def _invented_word(k: int) -> str:
    """Word of three syllables; the multiplier scatters neighbours."""
    base = len(SYLLABLES)
    k = (k + 1) * 7919 % base**3
    return SYLLABLES[k // base**2] + SYLLABLES[k // base % base] + SYLLABLES[k % base]


def _true_tags(
    n_rows: int,
    facets: dict[str, list[int]],
    labels: list[str],
    rare: float,
    rng: np.random.Generator,
) -> Array:
    """Draw at most one tag of every facet per row, and two product lines."""
    truth = np.zeros((n_rows, len(labels)), dtype=np.uint8)
    for name in [*FACETS, "line", "line"]:
        columns = facets[name]
        if columns:
            p = 1.0 / np.arange(1, len(columns) + 1) ** rare
            row = np.flatnonzero(rng.random(n_rows) < SHARES.get(name, 1))
            truth[row, rng.choice(columns, len(row), p=p / p.sum())] = 1
    for parent, children in PARENTS.items():
        columns = [labels.index(child) for child in children if child in labels]
        if parent in labels:
            truth[:, labels.index(parent)] = truth[:, columns].any(axis=1)
    return truth


def _titles(
    truth: Array,
    phrases: list[tuple[str, ...]],
    unstated: float,
    typos: float,
    rng: np.random.Generator,
) -> list[str]:
    """Return texts that state most tags of the rows, in any order, among filler words."""
    row, column = np.nonzero(truth)
    is_parent = np.array([words[0] in PARENTS for words in phrases])
    stated = rng.random(len(row)) < np.where(is_parent[column], STATED_PARENTS, 1 - unstated)
    row, column = row[stated], column[stated]
    variant = (rng.random(len(row)) * [len(phrases[j]) for j in column]).astype(int)
    p = 1.0 / np.arange(2, len(FILLERS) + 2)
    filler_row = np.repeat(np.arange(len(truth)), rng.integers(1, 5, len(truth)))
    fillers = rng.choice(FILLERS, len(filler_row), p=p / p.sum()).tolist()
    words = [phrases[j][k] for j, k in zip(column, variant, strict=True)] + fillers
    rows = np.concatenate([row, filler_row])
    titles: list[list[str]] = [[] for _ in range(len(truth))]
    for k in rng.permutation(len(words)):
        titles[rows[k]].append(words[k])
    texts = [" ".join(title) for title in titles]
    return [_mistype(text, typos, rng) for text in texts] if typos else texts


def _mistype(text: str, typos: float, rng: np.random.Generator) -> str:
    """Drop, double, exchange or replace a letter of some words."""
    words = text.split(" ")
    for k in np.flatnonzero(rng.random(len(words)) < typos):
        word = words[k]
        i, kind = rng.integers(len(word)), rng.integers(4)
        head, letter, tail = word[:i], word[i], word[i + 1 :]
        letters = ("", 2 * letter, tail[:1] + letter, LETTERS[rng.integers(len(LETTERS))])[kind]
        words[k] = head + letters + (tail[1:] if kind == 2 else tail) or word
    return " ".join(words)


def _without_dropped(truth: Array, dropped: float, rng: np.random.Generator) -> Array:
    """Return the tags without some; a row that would lose all of them keeps one."""
    keys = np.where(truth == 1, rng.random(truth.shape), -1)
    listed = (keys >= dropped) & (truth == 1)
    rows = np.flatnonzero(~listed.any(axis=1) & truth.any(axis=1))
    listed[rows, keys[rows].argmax(axis=1)] = True
    return listed.astype(np.uint8)


def _neighbours(facets: dict[str, list[int]], n_tags: int) -> Array:
    """Column of the confusable tag of every tag, -1 if it has none."""
    neighbour = np.full(n_tags, -1)
    for columns in facets.values():
        pairs = np.array(columns[: len(columns) // 2 * 2], dtype=int).reshape(-1, 2)
        neighbour[pairs] = pairs[:, ::-1]
    return neighbour


def _confuse(
    listed: Array,
    truth: Array,
    allowed: Array,
    neighbour: Array,
    count: int,
    swapped: float,
    rng: np.random.Generator,
) -> None:
    """List the neighbours of correct tags, some of them instead of these."""
    row, column = np.nonzero(truth)
    other = neighbour[column]
    possible = np.flatnonzero((other >= 0) & (truth[row, other] == 0) & allowed[row, other])
    if count > len(possible):
        raise ValueError(f"{count} confusable tags are wanted, but only {len(possible)} fit.")
    chosen = rng.choice(possible, count, replace=False)
    listed[row[chosen], other[chosen]] = 1
    instead = chosen[: round(swapped * count)]
    listed[row[instead], column[instead]] = 0


def _add_wrong(
    listed: Array,
    truth: Array,
    rows: Array,
    columns: Array,
    weights: Array,
    count: int,
    rng: np.random.Generator,
) -> None:
    """List wrong tags in random rows."""
    taken = (listed | truth)[np.ix_(rows, columns)]
    if count > taken.size - int(taken.sum()):
        raise ValueError(f"{count} wrong tags do not fit into {taken.size} cells.")
    while count:
        row = rng.choice(rows, count)
        column = rng.choice(columns, count, p=weights / weights.sum())
        _, first = np.unique(row * listed.shape[1] + column, return_index=True)
        row, column = row[first], column[first]
        free = (truth[row, column] == 0) & (listed[row, column] == 0)
        listed[row[free], column[free]] = 1
        count -= int(free.sum())
