"""Lists of names and methods in the options of the lab."""

from schirn.lab.bench.baselines import BASELINES
from schirn.lab.bench.running.methods import result_name
from schirn.methods import methods as all_methods


def split_list(text: str) -> list[str]:
    """Split a comma-separated list."""
    return [item.strip() for item in text.split(",") if item.strip()]


def parse_methods(text: str) -> dict[str, str]:
    """Methods by their name in the results."""
    methods: dict[str, str] = {}
    groups = {"all": all_methods(), "baselines": BASELINES}
    for item in split_list(text):
        name, equals, method = item.partition("=")
        if not equals:
            name = method = result_name(item)
        methods.update({known: known for known in groups.get(item, ())} or {name: method})
    return methods
