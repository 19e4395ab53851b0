"""The documentation site: `make docs`. Nothing is fetched when it is built or read."""

import sys
from pathlib import Path
from typing import Any

from hopscope.version import VERSION

sys.path.insert(0, str(Path(__file__).parents[1]))  # `studies`, which is no part of the package

project = "hopscope"
copyright = "the authors of hopscope"
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "paper/template.md"]
default_role = "code"  # docstrings write code in single backticks
nitpicky = False

myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # links into the repository, which are right where the page is read there

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"hopscope {VERSION}"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#0072B2"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#56B4E9"},
}


def explorers(app: Any, failed: Exception | None) -> None:
    """An explorer of each run in results/explorers, made again from its small copy, for the pages that show it."""
    from hopscope.explorer.page import explore
    from hopscope.training.run import RunFolder

    if failed is not None or app.builder.format != "html":
        return
    for run in sorted((Path(app.confdir).parent / "results" / "explorers").glob("*/run.json")):
        explore([RunFolder(run.parent)], Path(app.outdir) / "explorers" / f"{run.parent.name}.html")


def setup(app: Any) -> None:
    """Sphinx calls it."""
    app.connect("build-finished", explorers)
