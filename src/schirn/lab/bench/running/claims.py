"""Claims on runs: no two processes can hold the same one.

The claim of a process on a run is a file called `<key>.0` with its identity. Creating it fails if
it exists, so exactly one process succeeds. The claim of a dead process is not removed (two
processes might do so, and the second would remove the new claim); it is outbid by `<key>.1`, and so
on. The modification time of a claim is the heartbeat of its process.
"""

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from schirn._files import disk_errors_named

_BEAT_SECONDS = 5.0


class Claims:
    """The claims of this process in one folder."""

    def __init__(self, folder: Path, stale_after: float = 60.0):
        self.folder = folder
        self.token = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(3)}"
        self._stale_after = stale_after
        self._held: dict[str, int] = {}
        self._stop = threading.Event()
        self._me = folder / f"process-{self.token}.json"
        self._enter()
        threading.Thread(target=self._beat, daemon=True).start()

    def _enter(self) -> None:
        """Write the file of this process, even if another one is just removing the folder."""
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError), disk_errors_named(self._me):
                self._me.write_text(json.dumps(_identity(self.token)))
                return

    def take(self, key: str) -> bool:
        """Claim a run; return False if another process holds it."""
        generation = 0
        while True:
            path = self._path(key, generation)
            if self._create(path):
                self._held[key] = generation
                return True
            if not self._is_stale(path):
                return False
            generation += 1

    def holds(self, key: str) -> bool:
        """Whether the claim is still ours: no process has declared this one dead and outbid it."""
        generation = self._held.get(key)
        if generation is None or self._path(key, generation + 1).exists():
            return False
        return _read(self._path(key, generation)).get("token") == self.token

    def release(self, key: str) -> None:
        """Release a claim, together with the stale ones it outbid."""
        held = self.holds(key)
        generation = self._held.pop(key, -1)
        for k in range(generation + 1) if held else ():
            with suppress(OSError):
                self._path(key, k).unlink()

    def sweep(self, finished: Iterable[str]) -> None:
        """Remove the files of dead processes and their claims on finished runs."""
        finished = set(finished)
        for path in self.folder.glob("*"):
            of_process = path.name.startswith("process-")
            if (of_process or path.stem in finished) and self._is_stale(path):
                with suppress(OSError):
                    path.unlink()

    def close(self) -> None:
        """Release everything."""
        self._stop.set()
        for key in list(self._held):
            self.release(key)
        with suppress(OSError):
            self._me.unlink()
        with suppress(OSError):
            self.folder.rmdir()

    def _path(self, key: str, generation: int) -> Path:
        return self.folder / f"{key}.{generation}"

    def _create(self, path: Path) -> bool:
        try:
            stream = path.open("x")
        except FileExistsError:
            return False
        try:
            with disk_errors_named(path), stream:
                stream.write(json.dumps(_identity(self.token)))
        except OSError:
            # An empty claim would block the run until it is stale.
            with suppress(OSError):
                path.unlink()
            raise
        return True

    def _is_stale(self, path: Path) -> bool:
        try:
            beat = path.stat().st_mtime
            # Both times come from the clock of the shared file system.
            age = self._me.stat().st_mtime - beat
        except OSError:
            return False
        alive = _is_alive(_read(path))
        return age > self._stale_after if alive is None else not alive

    def _beat(self) -> None:
        while not self._stop.wait(_BEAT_SECONDS):
            claims = [self._path(key, k) for key, k in list(self._held.items())]
            for path in (self._me, *claims):
                with suppress(OSError):
                    os.utime(path)


def _identity(token: str) -> dict[str, Any]:
    pid = os.getpid()
    return {
        "token": token,
        "place": _namespace(),
        "pid": pid,
        "born": _born(pid),
        "time": time.time(),
    }


def _namespace() -> str:
    """Machine and process namespace, within which a process number is unique."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()} {namespace}"


def _born(pid: int) -> str | None:
    """Start time of a process, which distinguishes it from a later one with the same number."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return "ended" if fields[0] in "ZX" else fields[19]


def _is_alive(owner: dict[str, Any]) -> bool | None:
    """Whether the process is alive; None if that cannot be determined from here."""
    if owner.get("place") != _namespace() or not isinstance(owner.get("pid"), int):
        return None
    if os.name == "posix":
        try:
            os.kill(owner["pid"], 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
    born = _born(owner["pid"])
    if born is None or owner.get("born") is None:
        return None
    return bool(born == owner["born"])


def _read(path: Path) -> dict[str, Any]:
    """Content of a claim; empty if it is gone or not yet written."""
    try:
        identity = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return identity if isinstance(identity, dict) else {}
