"""Groups of columns as users name them: labels, mappings, prefixes of names, transformers."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain

import numpy as np
from pandas import NA, Index, Series

from ..data.by_column import by_column, by_name, find_columns

COLUMNS = list | tuple | np.ndarray | set | frozenset | Index | Series
CODED = re.compile(r"(.+?)(?:\[.*\]|=.*)")  # C(x)[T.a], x[a], x=a
FORMS = (
    "a label for each column (None where it has no group), a dictionary {column: label} or "
    '{label: [columns]}, "prefix", or what groups_from returns'
)


def groups_from(source, prefix_sep="_"):
    """Labels of columns made from one variable, such as levels of a factor, for `GroupLasso`.

    Parameters
    ----------
    source : fitted transformer or array-like of str
        A transformer with ``get_feature_names_out``, such as `CategoryColumns`, a OneHotEncoder, a
        SplineTransformer or a ColumnTransformer of them, or a pipeline: columns that were made from
        the same column are a group.
        Or names of columns, those of a DataFrame say, from which the groups are guessed: names as
        ``C(sex)[T.f]`` or ``sex=f`` begin with their group's, and others have the longest prefix,
        up to a separator, that another name has too.
    prefix_sep : str, default="_"
        What separates prefixes of names.

    Returns
    -------
    groups : list
        A label for each column; None for columns by themselves.

    See Also
    --------
    GroupLasso : The penalty that takes them.

    Examples
    --------
    >>> from sksurvgpu import groups_from
    >>> groups_from(["age", "sex_f", "sex_m", "arm=a", "arm=b"])
    [None, 'sex', 'sex', 'arm', 'arm']
    """
    if not hasattr(source, "get_feature_names_out"):
        names = getattr(source, "columns", source)  # of a frame
        if isinstance(names, str) or not np.iterable(names) or any(map(np.ndim, names)):
            kind = type(source).__name__
            raise TypeError(f"`source` is of type {kind}; pass names of columns, as X.columns.")
        return _by_prefix([str(name) for name in names], prefix_sep)
    if hasattr(source, "groups_"):  # of CategoryColumns
        return source.groups_.tolist()
    names = [str(name) for name in source.get_feature_names_out()]
    steps = [step for _, step in getattr(source, "steps", [])]
    for step in steps:  # of a Pipeline, whose other steps may keep the columns
        labels = groups_from(step, prefix_sep) if hasattr(step, "get_feature_names_out") else []
        if len(labels) == len(names) and any(labels):
            return labels
    if not hasattr(source, "output_indices_"):  # of a ColumnTransformer
        return _only_shared(_origins(names, _names_in(source), prefix_sep))
    labels, inputs = [None] * len(names), np.array(_names_in(source), dtype=object)
    for step, transformer, columns in source.transformers_:
        part, own = source.output_indices_[step], [str(name) for name in _chosen(inputs, columns)]
        plain = [name.removeprefix(f"{step}__") for name in names[part]]
        known = getattr(transformer, "groups_", None)
        labels[part] = _origins(plain, own, prefix_sep) if known is None else known.tolist()
    return _only_shared(labels)


def _names_in(transformer):
    if hasattr(transformer, "feature_names_in_"):
        return [str(name) for name in transformer.feature_names_in_]
    return [f"x{j}" for j in range(transformer.n_features_in_)]


def _chosen(inputs, columns):
    if isinstance(columns, str):
        return [columns]
    columns = columns if isinstance(columns, slice) else np.asarray(columns)
    if isinstance(columns, np.ndarray) and columns.dtype.kind in "UO":
        return columns
    return np.atleast_1d(inputs[columns])


def _origins(names, inputs, prefix_sep):
    """The longest of the inputs with which every name begins, in the order of the inputs.

    A level "b" of "arm" and a column "arm_b" are told apart by where they are.
    """
    place = {own: k for k, own in reversed(list(enumerate(inputs)))}
    found, last = [], len(inputs)
    for name in reversed(names):
        ends = [at for at in range(len(name)) if name.startswith(prefix_sep, at)]
        fitting = [place[name[:at]] for at in [len(name), *reversed(ends)] if name[:at] in place]
        best = next((k for k in fitting if k <= last), next(iter(fitting), None))
        found.append(None if best is None else inputs[best])
        last = last if best is None else best
    return found[::-1]


def _only_shared(labels):
    count = Counter(labels)
    return [label if count[label] > 1 else None for label in labels]


def _by_prefix(names, prefix_sep):
    coded = [CODED.fullmatch(name) for name in names]
    prefixes = [
        [match.group(1)] if match else _prefixes(name, prefix_sep)
        for name, match in zip(names, coded, strict=True)
    ]
    count = Counter(prefix for own in prefixes for prefix in own)
    return [next((prefix for prefix in own if count[prefix] > 1), None) for own in prefixes]


def _prefixes(name, prefix_sep):
    """All prefixes up to a separator, the longest first; but the name of a step of transformers."""
    step, of_steps, own = name.rpartition("__")
    parts = own.split(prefix_sep)
    return [
        step + of_steps + prefix_sep.join(parts[:k])
        for k in range(len(parts) - 1, 0, -1)
        if parts[k - 1]
    ]


def read_groups(groups, n_columns, names, prefix_sep="_"):
    """Group of every column, int64 (n_columns,), -1 for none; and the groups' labels."""
    found = read_labels(groups, n_columns, names, prefix_sep)
    labels = list(dict.fromkeys(label for label in found if label is not None))
    if not labels:
        raise ValueError("`groups` has no group: all labels are None; leave `penalty` out.")
    position = {label: g for g, label in enumerate(labels)}
    return np.array([-1 if label is None else position[label] for label in found]), labels


def read_labels(groups, n_columns, names, prefix_sep="_"):
    """Label of the group of every column, None for none."""
    groups = by_name(groups, "groups", names)
    if isinstance(groups, str):
        found = _guess(groups, names, prefix_sep)
    elif isinstance(groups, Mapping):
        found = _by_mapping(groups, n_columns, names)
    elif _is_list_of_lists(groups):
        found = _by_mapping(dict(enumerate(groups)), n_columns, names)
    else:
        found = _by_label(groups, n_columns)
    return [None if _is_none(label) else label for label in found]


def _is_none(label):
    return label is None or label is NA or (isinstance(label, float) and np.isnan(label))


def _guess(groups, names, prefix_sep):
    if groups != "prefix":
        raise ValueError(f"`groups` is {groups!r}; pass {FORMS}.")
    if names is None:
        raise ValueError(
            "`groups` is 'prefix', but `X` has no column names; pass a DataFrame, or a label for "
            "each column."
        )
    found = groups_from(names, prefix_sep)
    if not any(found):
        raise ValueError(
            f"`groups` is 'prefix', but no two columns of `X` have a prefix up to {prefix_sep!r} "
            "in common; set `prefix_sep`, or pass a label for each column."
        )
    return found


def _is_list_of_lists(groups):
    is_list = isinstance(groups, list | tuple) and len(groups) > 0
    return is_list and all(isinstance(group, list | tuple) for group in groups)


def _by_label(groups, n_columns):
    labels = list(groups) if hasattr(groups, "__iter__") else None
    if labels is None or any(isinstance(label, list | np.ndarray | dict | set) for label in labels):
        raise ValueError(f"`groups` is {groups!r}; pass {FORMS}.")
    if len(labels) != n_columns:
        raise ValueError(
            f"`groups` has {len(labels):,} labels, `X` has {n_columns:,} columns; pass {FORMS}."
        )
    return [label.item() if isinstance(label, np.generic) else label for label in labels]


def _by_mapping(groups, n_columns, names):
    lists = [isinstance(value, COLUMNS) for value in groups.values()]
    found = [None] * n_columns
    if not all(lists):
        if any(lists):
            raise ValueError(
                "`groups` mixes {column: label} with {label: [columns]}; pass one of them."
            )
        for j, (_, label) in by_column(groups, "groups", n_columns, names).items():
            found[j] = label
        return found
    positions = find_columns(chain.from_iterable(groups.values()), "groups", n_columns, names)
    for label, columns in groups.items():
        if not len(columns):
            raise ValueError(f"`groups` has no column for {label!r}; leave the group out.")
        for column, j in zip(columns, positions, strict=False):
            if found[j] is not None:
                raise ValueError(
                    f"`groups` has column {column!r} in {found[j]!r} and in {label!r}; a column "
                    "belongs to one group: choose, or give X a copy of it under another name."
                )
            found[j] = label
    return found
