"""Sphinx configuration. Build: python -m sphinx -W -b html docs docs/_build/html."""

import re
from importlib.util import find_spec

import sksurvgpu

project = "sksurvgpu"
author = "The sksurvgpu developers"
project_copyright = author
version = release = sksurvgpu.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"
# autosummary lists the members itself; numpydoc's own table would repeat them.
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Figures of the pages are drawn when these are built, from the examples that the tests run.
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 150)]

# The theme is in the docs extra; a plain Sphinx still builds the pages.
html_theme = "pydata_sphinx_theme" if find_spec("pydata_sphinx_theme") else "alabaster"
html_title = f"sksurvgpu {version}"


def setup(app):
    app.connect("autodoc-process-docstring", drop_foreign_references)


def drop_foreign_references(app, what, name, obj, options, lines):
    """Turn references within docstrings inherited from scikit-learn, to its pages, into text."""
    if getattr(obj, "__module__", "").startswith("sklearn."):
        lines[:] = [re.sub(r":ref:`([^`<]*?)(?: *<[^`]*>)?`", r"\1", line) for line in lines]
