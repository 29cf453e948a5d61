"""Names of a package that are loaded on first use (PEP 562), by what its stub imports."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from os.path import join
from typing import Any


def read_imports(package: str, path: str) -> dict[str, str]:
    """Names that a file of a package imports, with their modules; "" for modules themselves."""
    module: Any = sys.modules[package]
    source = module.__spec__.loader.get_data(join(module.__path__[0], path))
    return {
        alias.name: node.module or ""
        for node in ast.parse(source).body
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
        if alias.name != "*"
    }


def loader(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """Function ``__getattr__`` of a package, by the modules of its names."""

    def load(name):
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        value = import_module(f".{module or name}", package)
        if module:
            value = getattr(value, name)
            setattr(sys.modules[package], name, value)
        return value

    return load
