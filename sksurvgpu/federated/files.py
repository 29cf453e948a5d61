"""Messages and answers as files in a shared folder, for sites that no network reaches.

A site has a folder of its name: ``000007.message`` is answered by ``000007.answer``.  Files appear
whole, as they are renamed when they are written.
"""

import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

PAUSE = 0.5  # seconds between looks into a folder


def pause() -> None:
    """Wait between looks into a folder."""
    time.sleep(PAUSE)


class Mailbox:
    """One site's folder, on either side.

    Parameters
    ----------
    folder : path-like
        Shared by all sites and the coordinator; the site's own is made in it.
    name : str
        Of the site.
    timeout : float, default=86400
        Seconds after which an answer or a message is waited for no more.
    wait : callable, optional
        Called between looks into the folder.
    """

    def __init__(self, folder, name: str, timeout: float = 86_400.0, wait=pause):
        if name in ("", ".", "..") or Path(name).name != name:
            raise ValueError(f"the site is called {name!r}; take a name that a folder can have.")
        self.folder, self.name = Path(folder) / name, name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._timeout, self._wait = timeout, wait

    def send(self, message: bytes) -> bytes:
        """Leave a message for the site, and wait for its answer."""
        found = [*self._numbered("message"), *self._numbered("answer")]
        number = 1 + max((int(path.stem) for path in found), default=0)
        answer = self.folder / f"{number:06d}.answer"
        _write(self.folder / f"{number:06d}.message", message)
        self.wait_for(answer.exists, f"an answer of site {self.name!r} in {answer}")
        return answer.read_bytes()

    def answer(self, site_answer: Callable[[bytes], bytes]) -> int:
        """Answer the messages that have none; how many there were."""
        waiting = [
            path
            for path in sorted(self._numbered("message"))
            if not path.with_suffix(".answer").exists()
        ]
        for path in waiting:
            _write(path.with_suffix(".answer"), site_answer(path.read_bytes()))
        return len(waiting)

    def _numbered(self, kind):
        """Files of messages, or of answers; whatever else lies in the folder is nobody's."""
        return [path for path in self.folder.glob(f"*.{kind}") if path.stem.isdecimal()]

    def wait_for(self, is_there: Callable[[], bool], what: str) -> None:
        """Look into the folder until something is there."""
        until = time.monotonic() + self._timeout
        while not is_there():
            if not time.monotonic() <= until:  # or that is nan
                raise TimeoutError(f"waited {self._timeout:g} s for {what}.")
            self._wait()


@contextmanager
def only_one(folder):
    """Keep the folder for one coordinator: messages of two would be answered as if of one."""
    mark = Path(folder) / ".coordinator"
    mark.parent.mkdir(parents=True, exist_ok=True)
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        raise RuntimeError(
            f"a coordinator is at work in {str(folder)!r}, or was ended there; take another "
            f"folder, or remove {str(mark)!r} if none is."
        ) from None
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def serve(mailbox: Mailbox, site_answer: Callable[[bytes], bytes]) -> None:
    """Answer messages as they come, until none has come for as long as the mailbox waits."""
    try:
        while True:
            mailbox.wait_for(lambda: mailbox.answer(site_answer) > 0, "a message")
    except TimeoutError:
        return


def _write(path, data):
    unfinished = path.with_suffix(path.suffix + ".unfinished")
    unfinished.unlink(missing_ok=True)
    with open(unfinished, "xb") as file:  # never through a link that somebody has laid there
        file.write(data)
    os.replace(unfinished, path)
