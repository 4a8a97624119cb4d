"""Configuration of the documentation site; `make docs` builds it without a network."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import schirn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "schirn"
author = "The schirn developers"
copyright = "the schirn developers, BSD-3-Clause"
release = version = schirn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "plain_fields",
    "sphinx.ext.napoleon",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
    "tag_cards",
    "gallery_links",
    "example_scripts",
    "leaderboard_pages",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "_templates",
    "sg_execution_times.rst",
    "gallery/sg_execution_times.rst",
]
default_role = "py:obj"
if importlib.util.find_spec("torch") is None:
    # The reference of schirn.deep requires PyTorch.
    exclude_patterns.append("api/deep.md")

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
# Console blocks start with "$ " and may contain Unicode.
suppress_warnings = ["config.cache", "misc.highlighting_failure"]

autosummary_generate = True


def _ours(fullname: str, member: str) -> bool:
    """Whether a member of a class is defined in schirn and not inherited from another package."""
    module, _, name = fullname.rpartition(".")
    for base in getattr(importlib.import_module(module), name).__mro__:
        if member in vars(base):
            return base.__module__.split(".")[0] == "schirn"
    return False


autosummary_context = {"ours": _ours}
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_use_param = True
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = "schirn"
html_static_path = ["_static"]
html_css_files = ["schirn.css"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_theme_options: dict[str, Any] = {
    "light_logo": "logo.svg",
    "dark_logo": "logo-dark.svg",
    "sidebar_hide_name": True,
    "light_css_variables": {
        "color-brand-primary": "#b3261e",
        "color-brand-content": "#9a3412",
        "color-api-name": "#1f2335",
        "font-stack": "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif",
        "font-stack--monospace": "ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', monospace",
    },
    "dark_css_variables": {
        "color-brand-primary": "#ff8a80",
        "color-brand-content": "#ffab91",
        "color-api-name": "#f0f0f5",
    },
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _figures(gallery_conf: dict[str, Any], filename: str) -> None:
    """Set one style for all figures of the gallery."""
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    plt.rcdefaults()
    plt.rcParams.update(
        {
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "axes.titlesize": "medium",
            "axes.edgecolor": "#8a8fa3",
            "axes.prop_cycle": plt.cycler(
                color=["#b3261e", "#0072B2", "#009E73", "#E69F00", "#6a4c93", "#56B4E9"]
            ),
            "axes.grid": True,
            "grid.color": "#e6e8ee",
            "axes.axisbelow": True,
            "legend.frameon": False,
        }
    )


def _not_in_gallery() -> str:
    """Return a pattern of the scripts without a title in their docstring, which are programs."""
    scripts = [
        path.name
        for path in (HERE.parent / "examples").glob("*.py")
        if not re.match(r'r?"""[^\n]+\n={4,}\n', path.read_text("utf-8"))
    ]
    return "|".join(re.escape(name) for name in scripts) or r"^$"


sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": _not_in_gallery(),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "capture_repr": (),
    "remove_config_comments": True,
    "reset_modules": (_figures,),
    "min_reported_time": 1,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "plot_gallery": "True",
    "show_memory": False,
    "write_computation_times": False,
    "doc_module": ("schirn",),
    "reference_url": {"schirn": None},
    "backreferences_dir": "gallery/backreferences",
    "inspect_global_variables": False,
    "nested_sections": False,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "thumbnail_size": (440, 300),
}
