"""Sphinx configuration. Build: python -m sphinx -W -b html docs docs/_build/html."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import sksurvgpu

project = "sksurvgpu"
author = "The sksurvgpu developers"
project_copyright = author
version = release = sksurvgpu.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
# The pages of the gallery are made from its scripts, into auto_gallery.
exclude_patterns = ["_build", "gallery"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"  # beside a page there is room for names alone
# autosummary lists the members itself; numpydoc's own table would repeat them.
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Pages are built without a network. The job that publishes them sets DOCS_INTERSPHINX=1, and names
# of other packages then lead to their pages; without it they stay text.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "pandas": ("https://pandas.pydata.org/docs", None),
    "matplotlib": ("https://matplotlib.org/stable", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
    "sksurv": ("https://scikit-survival.readthedocs.io/en/stable", None),
}
if os.environ.get("DOCS_INTERSPHINX", "0") == "0":
    intersphinx_mapping = {}
intersphinx_timeout = 10

# Figures of the pages are drawn when these are built, from the examples that the tests run.
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 150)]

# Names that pickle, as Sphinx wants to know whether the configuration has changed.
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/plot_",
    "subsection_order": [
        "gallery/prediction",
        "gallery/inference",
        "gallery/studies",
        "gallery/large",
        "*",
    ],
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("sksurvgpu",),
    "image_srcset": ["2x"],
    "abort_on_example_error": True,  # a page with a traceback is no page
    "min_reported_time": 10,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "download_all_examples": False,
}

# Prompts and results are not copied with the code.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"sksurvgpu {version}"
html_logo = html_favicon = "_static/logo.svg"
html_css_files = ["pages.css"]
html_static_path = ["_static"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "search": []}
html_theme_options = {
    "logo": {"text": "sksurvgpu"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["version-switcher", "theme-switcher"],
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "show_version_warning_banner": True,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    # Each version lies in a folder of its name, /0.3.0/; all read the list at the root of the site,
    # where the newest pages are. The theme would look for it on this machine.
    "switcher": {"json_url": "/_static/switcher.json", "version_match": version},
    "check_switcher": False,
    "use_edit_page_button": False,
}

# Formulas are drawn by a file that lies with the pages: outlines of letters, no fonts to load.
if bundled := find_spec("sphinx-mathjax-offline"):
    mathjax_path = "tex-svg-full.js"
    html_static_path.append(str(Path(bundled.origin).parent / "static/mathjax" / mathjax_path))


def setup(app):
    app.connect("autodoc-process-docstring", drop_foreign_references)


def drop_foreign_references(app, what, name, obj, options, lines):
    """Turn references within docstrings inherited from scikit-learn, to its pages, into text."""
    if getattr(obj, "__module__", "").startswith("sklearn."):
        lines[:] = [re.sub(r":ref:`([^`<]*?)(?: *<[^`]*>)?`", r"\1", line) for line in lines]
