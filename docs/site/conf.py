"""How the documentation site is built: Sphinx reads the repository's own Markdown pages, where they lie.

The source folder is the repository, so that every relative link between pages holds as it stands. `make site` builds
all of it; `make check` leaves out running the notebooks and colouring the source files (`-t quick`). Both take every
warning for an error.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE)]

from repository_pages import source_of

from understudy.version import __version__

project = "Understudy"
author = "The Understudy developers"
copyright = "The Understudy developers. Apache License 2.0"
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "repository_pages",
]
root_doc = "docs/index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
include_patterns = ["docs/**", "*.md", "page/README.md", "benchmarks/**/README.md", "benchmarks/README.md"]
exclude_patterns = [".*", "**/.*", "**/node_modules", "build", "dist", "site", "src", "tests", "docs/site", "README.md"]

# Markdown as repository hosts read it
myst_enable_extensions = ["dollarmath", "strikethrough"]
myst_fence_as_directive = {"math"}
myst_heading_anchors = 6

# The reference. Signatures as they are written, an argument a line where they are long
autodoc_member_order = "bysource"
autodoc_typehints_format = "fully-qualified"  # to be shortened by repository_pages.name_types
autodoc_default_options = {"members": True}
autoclass_content = "both"
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 70
linkcode_resolve = source_of

# The notebooks: scripts that are run and become pages, with what they print and draw
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples" / "notebooks"),
    "gallery_dirs": str(ROOT / "docs" / "notebooks"),
    "filename_pattern": r"\.py$",
    "plot_gallery": not tags.has("quick"),
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": float("inf"),
    "remove_config_comments": True,
}

# Mathematics from files of the site's own
mathjax_path = "mathjax/tex-chtml.js"

# What it looks like: the colours of the labelling page, and the fonts that the reader has
html_theme = "furo"
html_title = "Understudy"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_logo = "static/logo.svg"
html_favicon = "static/logo.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#0b746a",
        "color-brand-content": "#0b746a",
        "color-background-primary": "#ffffff",
        "color-background-secondary": "#f7f6f3",
        "color-background-border": "#dedbd3",
        "color-foreground-primary": "#1f1e1b",
        "color-foreground-secondary": "#5c5a54",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5ccbbb",
        "color-brand-content": "#5ccbbb",
        "color-background-primary": "#161615",
        "color-background-secondary": "#1f1f1d",
        "color-background-border": "#363530",
        "color-foreground-primary": "#ecebe7",
        "color-foreground-secondary": "#a9a69e",
    },
}
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"
