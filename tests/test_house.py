"""Limits on the house as a whole: few nouns, names for what is passed, ways that do not turn back.

Each rule finds its own mistakes in a line or two of source below; then the package has none.
"""

import ast
import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

import pytest
from test_repository import (
    MODULES,
    PACKAGE,
    module_name,
    nodes_of,
    relative,
    run_imports,
    tree_of,
)

# Parts of a path that stand for the same thing on several backends.
MIRRORED = re.compile(r"^(cpu|cuda|sums|part)(?=_|$)")
# Openings that refer to a line which a tooltip does not show.
PRONOUNS = ("What ", "The same", "That of", "Those ", "It,", "It ", "Its ", "... ", "Same ")


@pytest.fixture(scope="module")
def trees():
    return {path: tree_of(path) for path in MODULES}


def tuples_built_in(function):
    """Names that a function gives to nameless tuples, but for those that it adds to."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and node.value.elts:
            used = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
            named = {target.id for target in node.targets if isinstance(target, ast.Name)}
            yield from named - used


def starred_names(tree):
    """Lines of calls with ``*name``, and the names."""
    for node in nodes_of(tree):
        for given in node.args if isinstance(node, ast.Call) else ():
            if isinstance(given, ast.Starred) and isinstance(given.value, ast.Name):
                yield node.lineno, given.value.id


def hidden_arguments(tree):
    """Lines of calls with ``*name``, where the function has built `name` as a nameless tuple."""
    starred = list(starred_names(tree))
    for function in nodes_of(tree) if starred else ():
        if isinstance(function, ast.FunctionDef):
            inside = range(function.lineno, function.end_lineno + 1)
            within = [(line, name) for line, name in starred if line in inside]
            built = set(tuples_built_in(function)) if within else set()
            yield from (line for line, name in within if name in built)


def test_hidden_arguments_are_found():
    hidden = "def f(a, b):\n    given = a, b\n    return g(*given)"
    plain = "def f(a, pairs):\n    size, *more = a\n    return g(*pairs, *more)"
    assert list(hidden_arguments(ast.parse(hidden))) == [3]
    assert list(hidden_arguments(ast.parse(plain))) == []


def test_no_arguments_are_hidden_in_tuples(trees):
    found = [
        f"{relative(p)}:{line}" for p, tree in trees.items() for line in hidden_arguments(tree)
    ]
    assert found == []


def place_of(path):
    """Place of a module, the same for its counterparts on other backends."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return tuple(MIRRORED.sub("*", part) for part in parts)


def nouns_used_twice(trees):
    """Names of classes -> places where they are defined, for names with several."""
    places = defaultdict(set)
    for path, tree in trees.items():
        for node in nodes_of(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(place_of(path))
    return {name: sorted("/".join(p) for p in at) for name, at in places.items() if len(at) > 1}


def test_nouns_used_twice_are_found():
    sources = {"a.py": "Rows", "backends/cpu/b.py": "Rows", "backends/cpu/c.py": "Cells"}
    sources |= {"backends/cuda/c.py": "Cells"}
    trees = {PACKAGE / path: ast.parse(f"class {name}: ...") for path, name in sources.items()}
    assert nouns_used_twice(trees) == {"Rows": ["a", "backends/*/b"]}


def test_a_noun_is_one_class(trees):
    assert nouns_used_twice(trees) == {}


def imported_by(path, tree, names):
    """Modules of ours that a module imports, at its top or within functions."""
    folder = list(path.relative_to(PACKAGE).parts[:-1])
    for level, module, members in run_imports(tree):
        if level == 0 and module.partition(".")[0] != "sksurvgpu":
            continue
        base = module.split(".") if module else []
        base = base[1:] if level == 0 else folder[: len(folder) - (level - 1)] + base
        for member in members or ("",):
            for target in (".".join([*base, member]), ".".join(base)):
                if target in names:
                    yield target
                    break


def circle_of(graph):
    """Modules that import one another, the first again at the end; empty without any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_circles_are_found():
    assert circle_of({"a": {"b"}, "b": {"c"}}) == []
    assert set(circle_of({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_no_modules_import_one_another():
    names = {module_name(path): path for path in MODULES}
    graph = {name: set(imported_by(path, tree_of(path), names)) for name, path in names.items()}
    # the lazy names of packages are for users
    graph = {name: targets - {name, "__init__"} for name, targets in graph.items()}
    assert circle_of(graph) == []


def unclear_docstrings(tree):
    """Names of functions, classes and the module whose docstring begins with a pronoun."""
    for node in nodes_of(tree):
        has_docstring = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
        if has_docstring and (ast.get_docstring(node) or "").startswith(PRONOUNS):
            yield getattr(node, "name", "the module")


def test_unclear_docstrings_are_found():
    source = 'def f():\n    """The same, for rows."""\ndef g():\n    """Sum of the rows."""'
    assert list(unclear_docstrings(ast.parse(source))) == ["f"]


def test_a_docstring_stands_alone(trees):
    found = [
        f"{relative(p)}: {name}" for p, tree in trees.items() for name in unclear_docstrings(tree)
    ]
    assert found == []
