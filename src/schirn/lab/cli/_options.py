"""Methods in the options of the lab."""

from schirn.estimators import methods as all_methods
from schirn.lab.bench import BASELINES, result_name


def parse_methods(names: list[str]) -> dict[str, str]:
    """Methods by their name in the results."""
    methods: dict[str, str] = {}
    groups = {"all": all_methods(), "baselines": BASELINES}
    for item in names:
        name, equals, method = item.partition("=")
        if not equals:
            name = method = result_name(item)
        methods.update({known: known for known in groups.get(item, ())} or {name: method})
    return methods
