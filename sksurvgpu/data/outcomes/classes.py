"""Outcomes of two classes."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from ..vectors import check_comparable
from .fields import ValueOfRows, flat_vector, take_rows


@dataclass(frozen=True, eq=False)
class TwoClasses(ValueOfRows):
    """Checked labels, one entry per row, in the caller's order.

    Attributes
    ----------
    value : ndarray of shape (n_rows,), float64
        1 for the second label, 0 for the first.
    labels : ndarray of shape (2,)
        Sorted labels, as the caller wrote them.
    """

    value: np.ndarray
    labels: np.ndarray

    unit: ClassVar[None] = None  # rows are independent

    def take(self, rows) -> "TwoClasses":
        """Return the outcome of some rows."""
        return take_rows(self, rows, ("value",))

    def among(self, labels) -> "TwoClasses":
        """Return the outcome with the two labels of a fit, of which rows may have one."""
        refuse_unknown(self.labels, labels)
        code = np.searchsorted(labels, self.labels)[self.value.astype(int)]
        return replace(self, value=code.astype(np.float64), labels=labels)

    def check_both_present(self, weight) -> None:
        """Check that rows of both classes have a positive weight."""
        if weight is None:
            return
        for code, label in enumerate(self.labels.tolist()):
            if not weight[self.value == code].any():
                refuse_class(label)


def refuse_class(label):
    """Refuse weights that leave one class."""
    raise ValueError(
        f"the weights of all rows of class {label!r} are zero, so one class is left; "
        "give some of its rows a positive weight."
    )


def refuse_unknown(labels, known):
    """Refuse labels that a fit does not know."""
    for label in labels.tolist():
        if label not in known.tolist():
            raise ValueError(
                f"`y` has the label {label!r}, and the classes of the fit are {known.tolist()}."
            )


def refuse_classes(labels):
    """Refuse labels that are not of two classes."""
    if len(labels) < 2:
        raise ValueError(
            f"`y` has one class, {labels.tolist()[0]!r}; a classifier can't train when only one "
            "class is present."
        )
    raise ValueError(
        "Only binary classification is supported. The type of the target is "
        f"{type_of_target(labels)}: `y` has {len(labels):,} classes, must have two."
    )


def read_classes(y, *, n_rows=None, may_lack=False) -> TwoClasses:
    """Check the labels of a classifier of two classes: integers, flags or strings; see `fields`."""
    labels, code = encode_labels(y, n_rows, may_lack)
    if len(labels) > 2:
        refuse_classes(labels)
    return TwoClasses(code.astype(np.float64), labels)


def encode_labels(y, n_rows=None, may_lack=False) -> tuple[np.ndarray, np.ndarray]:
    """Check the labels of a classifier; the sorted labels, and the position of each row's."""
    vector = flat_vector(y, "labels", n_rows)
    if vector.dtype.kind == "O":
        check_comparable(vector, "y", "labels", "pass all integers or all strings")
    if vector.dtype.kind == "f" and not np.isfinite(vector).all():
        row = int(np.argmin(np.isfinite(vector)))
        raise ValueError(
            f"Input y contains NaN or infinity: `y` is {vector[row]:g} in row {row:,}; drop or "
            "fill those rows."
        )
    if vector.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: `y` has dtype {vector.dtype}; pass labels.")
    if vector.size:
        check_classification_targets(vector)
    labels, code = np.unique(vector, return_inverse=True)
    if len(labels) < 2 and not may_lack:
        refuse_classes(labels)
    return labels, code
