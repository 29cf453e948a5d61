"""A page about the tour of ``python -m sksurvgpu``: one file, with its figures in it."""

import io
from collections.abc import Callable
from html import escape
from importlib.metadata import PackageNotFoundError, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ._tables import as_text

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
  background: #fff; color: #1b1f24; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #8885; }
th:first-child, .facts td { text-align: left; }
figure { margin: 1rem 0; } svg { min-width: 34rem; max-width: 100%; height: auto; }
@media (max-width: 30rem) { th, td { padding: .25rem .4rem; }
  .facts td { overflow-wrap: anywhere; } }
@media (prefers-color-scheme: dark) {
  body { background: #16191d; color: #e3e6ea; } a { color: #8ab8ff; }
  svg { filter: invert(1) hue-rotate(180deg); }
}
"""
DOCS = Path(__file__).resolve().parents[1] / "docs"  # of a checkout
# Pages of the documentation, and what they are about.
NEXT = {
    "quickstart": "Quickstart: from a table to a chosen model and its figures",
    "guide/index": "User guide: data, penalties, inference, propensity scores",
    "models/index": "Models: Cox, Fine-Gray, case series, logistic, Poisson, linear, Bayesian",
    "guide/pitfalls": "Pitfalls: convergence, separation, leakage, the choice of time",
    "guide/performance": "Performance: how it was measured, and against what",
}


def write_report(path, title, facts, sections) -> Path:
    """Write the page of a title to a file; return its path.

    `facts` are texts by name: what was run, on what. `sections` have a heading, a text, and a frame
    or figure each.
    """
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items()
    )
    parts = [f"<h1>{escape(title)}</h1>", f'<table class="facts">{rows}</table>']
    for heading, text, content in sections:
        shown = _figure(content) if isinstance(content, Figure) else _table(content)
        parts += [f"<h2>{escape(heading)}</h2><p>{escape(text)}</p>", shown]
    if links := _links():
        parts.append(f"<h2>Where to go from here</h2><ul>{links}</ul>")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )
    path = Path(path).expanduser()
    path.write_text(page, encoding="utf-8")
    return path


class Figure(NamedTuple):
    """A plot of a report, where matplotlib is there, and the sentence that says what it shows."""

    draw: Callable
    label: str


def _figure(figure):
    if find_spec("matplotlib") is None:
        return "<p>The figure needs matplotlib.</p>"
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    # Texts stay texts, and numbers of elements do not depend on the run.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "sksurvgpu"}):
        canvas = Canvas(figsize=(8.0, 4.2), layout="constrained")
        figure.draw(canvas.subplots())
        out = io.StringIO()
        canvas.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    label = escape(figure.label, quote=True)
    image = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    return f'<figure class="wide">{image}</figure>'


def _table(frame):
    return f'<div class="wide">{as_text(frame).to_html(border=0)}</div>'


def _links():
    """Pages, as links to where the documentation is: on the web, or in the checkout."""
    try:
        urls = metadata("sksurvgpu").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    base = dict(url.split(", ", 1) for url in urls).get("Documentation", "").rstrip("/")
    places = {
        page: f"{base}/{page}.html" if base else (DOCS / f"{page}.rst").as_uri()
        for page in NEXT
        if base or (DOCS / f"{page}.rst").is_file()
    }
    return "".join(
        f'<li><a href="{escape(place)}">{escape(NEXT[page])}</a></li>'
        for page, place in places.items()
    )
