"""Download public data sets into a cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schirn._files import VARIABLE, atomic_write, byte_limit, file_hash, reason_of, too_large
from schirn.datasets import Dataset
from schirn.datasets.cache import cache_folder
from schirn.exceptions import DataError
from schirn.lab.data._brighter import BRIGHTER_SETS, WORKERS, brighter_archive
from schirn.lab.data._emoji import emoji_archive, emoji_packages
from schirn.lab.data._palm import PALM_SETS, palm_matrices
from schirn.lab.data._registry import DOWNLOADABLE, NAMED_SUFFIXES, load, record_path

MAX_BYTES = 1024**3
CHUNK = 1 << 20


def fetch(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    force: bool = False,
    url: str | None = None,
    sha256: str | None = None,
    max_bytes: int | None = None,
    timeout: float = 30.0,
    **options: Any,
) -> Dataset:
    """Download a data set once, and load it.

    Without `url`, the name must be one of these: emoji_editions or emoji_keywords, made from
    packages that npm, which must be installed, downloads into the folder `packages` of the cache;
    brighter_ron or brighter_ukr, made from files of a public repository; or one of the six sets
    with real candidates, music_emotion, music_style, mirflickr, yeastbp, yeastcc or yeastmf, from
    the address of their authors. The SHA-256 checksums of all but the six are fixed. The page about
    data explains the content of these sets and its limits.

    The SHA-256 checksum of a file is recorded next to it at the first download, and verified
    whenever the file is read. Pass it as `sha256` to get the same file elsewhere. If the server
    sends a web page instead of a data set, as networks that require a login do, it is not stored.

    Parameters
    ----------
    name : str
        Name under which `load` finds the set afterwards.
    data_home : path, optional
        Cache folder; by default ``SCHIRN_CACHE``, else the user's cache folder.
    force : bool
        Download again even if the file exists.
    url : str, optional
        Address of a file that `load` can read by its suffix: https, or http on this machine. Needed
        for every other name.
    sha256 : str, optional
        Expected checksum; a file with another one is discarded.
    max_bytes : int, optional
        Larger downloads are aborted; by default ``SCHIRN_MAX_BYTES``, else 1 GiB.
    timeout : float
        Seconds to wait for the server.
    **options
        Passed to the reader, such as ``labels=6``.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> from schirn.lab.data import fetch
    >>> emoji = fetch("emoji_keywords")  # doctest: +SKIP
    >>> mine = fetch("mine", url="https://example.org/mine.npz")  # doctest: +SKIP
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise DataError(f"{name!r} cannot be the name of a file; use letters, digits, - and _.")
    if url is None and name not in DOWNLOADABLE:
        choices = ", ".join(DOWNLOADABLE)
        raise DataError(f"{name!r} has no known address; pass url= or use {choices}.")
    suffix = ".mat" if url is None and name in PALM_SETS else _suffix(url)
    target = cache_folder(data_home) / f"{name}{suffix}"
    is_new = force or not target.is_file()
    if max_bytes is None:
        max_bytes = byte_limit() if os.environ.get(VARIABLE) else MAX_BYTES
    if is_new:
        _download(name, url, target, sha256, max_bytes, timeout)
    elif sha256 is not None and file_hash(target) != sha256.lower():
        raise DataError(f"{target}: the checksum is not {sha256}; download it with force=True.")
    try:
        return load(target, **options)
    except DataError:
        # With other options, the file may be fine; without options, it would always fail.
        if is_new and not options:
            target.unlink(missing_ok=True)
            record_path(target).unlink(missing_ok=True)
        raise


def _download(
    name: str, url: str | None, target: Path, sha256: str | None, max_bytes: int, timeout: float
) -> None:
    """Put a set into the cache: from an address, or made from known files."""
    if url is not None:
        _keep(url, _chunks(url, max_bytes, timeout), target, sha256)
    elif name in BRIGHTER_SETS:
        address = BRIGHTER_SETS[name].url
        content = b"".join(_chunks(address, max_bytes, timeout))
        _keep(address, [brighter_archive(name, content)], target, sha256, workers=WORKERS)
    elif name in PALM_SETS:
        address = PALM_SETS[name]
        content = b"".join(_chunks(address, max_bytes, timeout))
        _refuse_page(address, content)
        _keep(address, [palm_matrices(name, content, max_bytes)], target, sha256)
    else:
        archive = emoji_archive(name, target.parent / "packages", timeout)
        _keep(emoji_packages(name), [archive], target, sha256)


def _suffix(url: str | None) -> str:
    """Return the suffix of the file in the cache; raise DataError if there is no reader for it."""
    if url is None:
        return ".npz"
    suffix = Path(_split(url).path).suffix.lower()
    if suffix not in NAMED_SUFFIXES:
        raise DataError(f"{url}: no reader for {suffix!r}; known are {', '.join(NAMED_SUFFIXES)}.")
    return suffix


def _keep(
    source: str, chunks: Iterable[bytes], target: Path, sha256: str | None, **options: Any
) -> None:
    """Put a file into the cache, complete and checked, or not at all; its reader gets `options`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    sha = hashlib.sha256()
    with atomic_write(target) as stream:
        size = 0
        for chunk in chunks:
            if not size:
                _refuse_page(source, chunk)
            size += stream.write(chunk)
            sha.update(chunk)
        digest = sha.hexdigest()
        if sha256 is not None and digest != sha256.lower():
            raise DataError(
                f"{source}: the SHA-256 checksum is {digest}, expected {sha256}; the file was "
                "discarded."
            )
        # The record is written first: a record without a file is harmless, a file without one is
        # not.
        _write_record(target, {"url": source, "bytes": size, "sha256": digest, "options": options})


def _refuse_page(source: str, content: bytes) -> None:
    """Raise DataError if the content begins like a web page, as none of the formats does."""
    if content.lstrip()[:1] == b"<":
        raise DataError(
            f"{source}: the answer is a web page, not a data set; does this network ask for a "
            f"login? Nothing was kept."
        )


def _chunks(url: str, max_bytes: int, timeout: float) -> Iterator[bytes]:
    """Yield the body of a response; raise DataError if it is too large or incomplete."""
    size = 0
    with _open(url, timeout) as response:
        promised = response.headers.get("Content-Length")
        while chunk := response.read(CHUNK):
            size += len(chunk)
            if size > max_bytes:
                raise DataError(
                    f"{url}: {too_large(f'has over {max_bytes:,} bytes', max_bytes)}",
                    parameter="max_bytes",
                )
            yield chunk
    if promised is not None and promised.isdigit() and size < int(promised):
        raise DataError(f"{url}: ended after {size:,} of {int(promised):,} bytes; try again.")


@contextmanager
def _open(url: str, timeout: float) -> Iterator[Any]:
    """Open an https address; raise DataError for every failure of the network."""
    import http.client
    import ssl
    import urllib.error
    import urllib.request

    class Redirect(urllib.request.HTTPRedirectHandler):
        """Follow redirects only to allowed addresses."""

        def redirect_request(self, *args: Any) -> Any:
            _check_address(args[-1])
            return super().redirect_request(*args)

    # Not every OSError: a full disk is no failure of the network.
    network = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)
    _check_address(url)
    opener = urllib.request.build_opener(Redirect)
    try:
        with opener.open(url, timeout=timeout) as response:
            yield response
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{url}: the server answered {error.code} ({error.reason}).") from None
    except (*network, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{url}: no connection, or it was lost ({reason}).") from error
    except UnicodeError as error:
        raise DataError(f"{url!r} is not a web address ({reason_of(error)}).") from None


def _split(url: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise DataError(f"{url!r} is not a web address ({reason_of(error)}).") from None
    return parts


def _check_address(url: str) -> None:
    """Raise DataError unless the connection is protected from reading and tampering."""
    parts = _split(url)
    is_local = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise DataError(f"{url!r} is not an https address.")


def _write_record(path: Path, record: dict[str, Any]) -> None:
    """Write the record of a file, completely or not at all."""
    with atomic_write(record_path(path)) as stream:
        stream.write(json.dumps(record, indent=1).encode())
