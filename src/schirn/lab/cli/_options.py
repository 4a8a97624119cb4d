"""Methods in the options of the lab."""

from schirn.estimators import methods as all_methods
from schirn.lab.bench import BASELINES, name_methods


def parse_methods(items: list[str]) -> dict[str, str]:
    """Turn an option into methods by their name in the results.

    Parameters
    ----------
    items : list of str
        Names, import paths, ``NAME=METHOD`` for a variant, or a group: "all", "baselines".

    Returns
    -------
    dict of str to str
    """
    groups = {"all": all_methods(), "baselines": BASELINES}
    plain_names = [item for item in items if "=" not in item and item not in groups]
    names = {method: name for name, method in name_methods(plain_names).items()}
    methods: dict[str, str] = {}
    for item in items:
        if item in groups:
            methods.update({name: name for name in groups[item]})
            continue
        name, equals, method = item.partition("=")
        methods[name if equals else names[item]] = method if equals else item
    return methods
