"""Progress of long work: callbacks of scikit-learn where it has them, and lines on request."""

import time
from contextlib import contextmanager
from threading import Lock

from .._progress import Line, is_wanted

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupport:  # type: ignore[no-redef]
        """An estimator without callbacks."""

    def with_callbacks(method):  # type: ignore[misc]
        """Return the method as it is."""
        return method


class Progress:
    """Reports batches of fits: a task for each batch, in it one for each fit that is done."""

    def __init__(self, estimator):
        self._estimator, self._context = estimator, None
        self._lock = Lock()  # fits end in several threads
        self._begin = time.monotonic()
        if hasattr(estimator, "set_callbacks"):
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=estimator)

    def end(self):
        """Report that all is done."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator)

    @contextmanager
    def batch(self, name, n_fits):
        """A batch of fits; yields what is to be called with each fit that is done."""
        estimator, n_done = self._estimator, 0
        context = self._context
        if context is not None:
            context = context.subcontext(task_name=name, max_subtasks=n_fits)
            context.call_on_fit_task_begin(estimator=estimator)

        def done(_):
            nonlocal n_done
            with self._lock:
                n_done += 1
                line.step()
                if estimator.verbose > 1:
                    print(f"{name}: fit {n_done:,} of {n_fits:,}")
                if context is not None:
                    part = context.subcontext(task_name="fit")
                    part.call_on_fit_task_begin(estimator=estimator)
                    part.call_on_fit_task_end(estimator=estimator)

        is_shown = is_wanted(estimator.verbose)
        with Line(name, n_fits, is_shown=is_shown, since=self._begin) as line:
            yield done
        if context is not None:
            context.call_on_fit_task_end(estimator=estimator)
