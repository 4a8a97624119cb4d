"""One read under bounds: only schirn's own errors may leave, in bounded time and memory."""

import resource
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fuzz.targets import call

from schirn.exceptions import InputError, MissingExtraError

CPU_SECONDS = 5.0
MEMORY = 1 << 30
"""Address space that one read may take on top of what the process has."""

ALLOWED = (InputError, MissingExtraError)


class TooSlow(BaseException):
    """A read took more processor time than any file of this size should."""


def read_safely(target: str, data: bytes) -> bool:
    """Read; whether the file was taken. Anything but schirn's own one-sentence errors leaves."""
    folder = Path(tempfile.mkdtemp(prefix="schirn-fuzz-"))
    try:
        with _bounded_time(), _bounded_memory():
            call(target, folder, data)
        return True
    except ALLOWED as error:
        check_sentence(error, folder)
        return False
    finally:
        shutil.rmtree(folder)


def check_sentence(error: BaseException, folder: Path) -> None:
    """One line, not a page."""
    text = str(error)
    assert text.strip(), f"{type(error).__name__} without a message"
    assert "\n" not in text, f"more than one line: {text!r}"
    assert len(text) < 2000 + 4 * len(str(folder)), f"{len(text)} characters: {text[:300]!r}"


@contextmanager
def _bounded_time() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow(f"more than {CPU_SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _bounded_memory() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
