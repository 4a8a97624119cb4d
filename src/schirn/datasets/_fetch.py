"""Download public data sets into a cache."""

OPENML: dict[str, int] = {
    "birds": 41464,
    "emotions": 41465,
    "enron": 41466,
    "genbase": 41467,
    "image": 41468,
    "langLog": 41469,
    "reuters": 41470,
    "scene": 41471,
    "slashdot": 41472,
    "yeast": 41473,
}
