"""Claims on runs: no two processes can hold the same one.

The claim of a process on a run is a locked file with the key of the run. The system releases the
locks of a dead process. On a file system without locks, every claim succeeds: processes then
repeat the work of others, but a run has one result all the same.
"""

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from schirn._files import lock


class Claims:
    """The claims of this process in one folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.token = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(3)}"
        self._held: dict[str, int] = {}

    def take(self, key: str) -> bool:
        """Claim a run; return False if another process holds it."""
        path = self.folder / key
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Another process may be removing the folder.
            with suppress(FileNotFoundError):
                file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
                if lock(file) is False:
                    os.close(file)
                    return False
                self._held[key] = file
                # A process that released the claim just before removed this file.
                if os.path.samestat(os.stat(path), os.fstat(file)):
                    return True
            if key in self._held:
                os.close(self._held.pop(key))

    def release(self, key: str) -> None:
        """Release a claim."""
        with suppress(OSError):
            (self.folder / key).unlink()
        os.close(self._held.pop(key))

    def close(self) -> None:
        """Release everything, and remove what dead processes left behind."""
        for key in list(self._held):
            self.release(key)
        for path in self.folder.glob("*"):
            if self.take(path.name):
                self.release(path.name)
        with suppress(OSError):
            self.folder.rmdir()
