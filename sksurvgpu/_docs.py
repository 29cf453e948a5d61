"""Text that several docstrings share, written once."""

import re
from collections.abc import Callable
from inspect import cleandoc
from textwrap import dedent
from typing import TypeVar

Documented = TypeVar("Documented", bound=Callable)
_PLACE = re.compile(r"^( *)<<((?:[*\w]+, )*[*\w]+)>>$", re.MULTILINE)


def entries(text: str) -> dict[str, str]:
    """Entries of a section of a numpydoc docstring, by the names before their colons."""
    found = re.split(r"^(?=\S)", dedent(text).strip(), flags=re.MULTILINE)
    return {entry.partition(" : ")[0]: entry.strip() for entry in found if entry}


def section(doc: str | None, title: str) -> dict[str, str]:
    """Entries of the section `title` of a docstring, of which Python may have left out all."""
    pattern = rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)"
    found = re.search(pattern, cleandoc(doc or ""), re.MULTILINE | re.DOTALL)
    return entries(found[1]) if found else {}


def sharing(texts: dict[str, str]) -> Callable[[Documented], Documented]:
    """Decorator that puts texts where docstrings have a line ``<<name>>`` or ``<<one, other>>``.

    Of a function, or of a class and its methods. Texts may have such lines themselves.
    """

    def written_out(place):
        margin, names = place.groups()
        text = "\n".join(dedent(texts[name]).strip() for name in names.split(", "))
        lines = _PLACE.sub(written_out, text).splitlines()
        return "\n".join(margin + line if line else line for line in lines)

    def documented(item):
        for part in (item, *vars(item).values()):
            part = getattr(part, "__func__", part)  # of a class method
            if callable(part) and part.__doc__:
                part.__doc__ = _PLACE.sub(written_out, part.__doc__)
        return item

    return documented
