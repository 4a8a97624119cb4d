"""A row store on Dask workers.

X stays on the workers: steps are sent to the blocks as tasks, and only messages (weights of the
features) and sums (of the size of the weights) are transferred. Results computed from sums may stay
on the workers too, because messages may contain futures.

A task costs client and scheduler some milliseconds, however small it is. Blocks are balanced across
workers by their number of threads, and the blocks of a thread form one group, with one task per
step. Sums are added along a tree on the workers.

Each task is a pure function of its blocks, their previous states and the message, so Dask can
recompute the data of a dead worker from X and the messages so far. Messages of more than
`MESSAGE_BYTES` would fill the scheduler, so they are scattered and not kept. If a state cannot be
recomputed, or X has to be read again, the fit starts over, at most `ATTEMPTS` times.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import chain
from operator import call, itemgetter
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from schirn._input import check_same_length, location
from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.scale.blocks import (
    Block,
    Cells,
    FeatureRows,
    PerBlock,
    RowStore,
    Step,
    add_sums,
    candidate_cells,
    message_for,
    same,
    stacked_rows,
)

_T = TypeVar("_T")

# Time to wait for a scheduler.
_PATIENCE = "20s"
ATTEMPTS = 4
# Maximum size of messages that are kept for recomputation.
MESSAGE_BYTES = 2**20
# Maximum size of a group of several blocks, whose rows are in memory at the same time.
_GROUP_BYTES = 2**30
# Number of sums that one task adds up on the workers.
_SUMS = 16


def current_client() -> Any:
    """Return the Dask client of this thread or program.

    Returns
    -------
    distributed.Client

    Raises
    ------
    InputError
        If there is no client.
    """
    distributed = optional("distributed", "distributed", "training on a Dask cluster")
    try:
        return distributed.get_client()
    except ValueError:
        raise InputError(
            "X is a Dask collection, but there is no client; create one before fit, such as "
            "client = dask.distributed.Client('tcp://address:8786'), or Client() for this machine"
        ) from None


@contextmanager
def connected(address: str, purpose: str) -> Iterator[Any]:
    """Connect to the Dask scheduler at this address, which must have at least one worker.

    Parameters
    ----------
    address : str
        Address of the scheduler.
    purpose : str
        Purpose of the package `distributed`, for the error if it is missing.

    Yields
    ------
    distributed.Client
    """
    distributed = optional("distributed", "distributed", purpose)
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r} ({error}); give its address, such as "
            f"tcp://127.0.0.1:8786"
        ) from error
    with client, client.as_current():
        _threads(client)
        yield client


def _threads(client: Any) -> dict[str, int]:
    """Return the number of threads of each worker; raise InputError if there are no workers."""
    threads: dict[str, int] = client.nthreads()
    if not threads:
        address = client.scheduler.address
        raise InputError(f"the Dask scheduler at {address!r} has no workers, or no longer any")
    return threads


def lazy_blocks(readers: Sequence[Callable[[], Any]], files: Sequence[str]) -> list[Any]:
    """Return delayed blocks that the workers of the current client read from files.

    Raises InputError unless all workers can access the files.

    Parameters
    ----------
    readers : list of callables
        Functions that return a block each.
    files : list of str
        File of each block.

    Returns
    -------
    list of delayed blocks
    """
    client = current_client()
    try:
        missing = client.run(_first_missing, sorted(set(files)))
    except ImportError as error:
        raise InputError(
            f"a Dask worker cannot run this program ({error}); install the same version of schirn "
            f"on all workers"
        ) from error
    for worker, path in missing.items():
        if path is not None:
            raise InputError(
                f"the Dask worker {worker} does not see {path}; put the folder where all workers "
                f"and this program see it under the same path"
            )
    delayed = optional("dask", "distributed", "Dask blocks").delayed
    return [delayed(read, pure=False)() for read in readers]


def _first_missing(files: list[str]) -> str | None:
    return next((path for path in files if not os.access(path, os.R_OK)), None)


def kind_of_blocks(X: Any) -> str:
    """Return the kind of rows of a lazy X, determined from its first block.

    Parameters
    ----------
    X : Dask array or list of lazy blocks
        Rows on workers.

    Returns
    -------
    {"texts", "sparse", "dense"}
    """
    if hasattr(X, "to_delayed"):
        return "dense"
    client = current_client()
    return str(client.submit(_kind, client.compute(X[0]), pure=False).result())


def _kind(block: Any) -> str:
    if sp.issparse(block):
        return "sparse"
    kind = getattr(getattr(block, "dtype", None), "kind", "")
    is_list = isinstance(block, list | tuple) or kind == "O"
    return "texts" if is_list else "dense"


def gather_blocks(X: Any) -> list[Any]:
    """Fetch the blocks of a lazy X to the memory of this process.

    Parameters
    ----------
    X : Dask array or list of lazy blocks
        Rows on workers.

    Returns
    -------
    list
    """
    client = current_client()
    return list(client.gather(_futures(client, X, "X")))


def lazy_texts(blocks: Sequence[Any], transform: Callable[[Any], Any]) -> list[Any]:
    """Return delayed features of blocks of texts, computed by the workers.

    Parameters
    ----------
    blocks : list
        Blocks of texts: lists of strings, or lazy.
    transform : callable
        Fitted function f(texts) -> features.

    Returns
    -------
    list of delayed features
    """
    delayed = optional("dask", "distributed", "Dask blocks").delayed
    lazy = [
        block if location(block) == "dask" else delayed(block, traverse=False) for block in blocks
    ]
    # The vocabulary is sent once, not with each block.
    sent = delayed(transform)
    calls = delayed(call, pure=False)
    return [calls(sent, block) for block in lazy]


def rows_per_block(n: int, most: int) -> int:
    """Return the number of rows per block so that each thread of the current client has one.

    Parameters
    ----------
    n : int
        Number of rows.
    most : int
        Maximum number of rows of a block.

    Returns
    -------
    int
    """
    return max(1, min(most, -(-n // sum(_threads(current_client()).values()))))


def in_memory(X: Any) -> Any:
    """Fetch the rows of a small lazy X to the memory of this process.

    Parameters
    ----------
    X : Dask array or list of lazy blocks
        Rows on workers.

    Returns
    -------
    (n, d) array or CSR array
    """
    return stacked_rows(list(map(as_rows, gather_blocks(X))))


class DaskRows(RowStore):
    """A row store whose blocks are futures on the workers of a Dask cluster.

    Parameters
    ----------
    X : (n, d) Dask array, or list of delayed blocks or futures
        Features in dense or sparse blocks.
    Y : Dask array or list with the same blocks, or (n, l) CSR array
        The candidates.
    read_candidates : callable
        Function f(block, first row) -> 0/1 CSR matrix, run on the workers.
    """

    def __init__(self, X: Any, Y: Any, read_candidates: Callable[[Any, int], Any]):
        self._client = current_client()
        self._source = X, Y, read_candidates
        self._open()

    def _open(self, reread: bool = False) -> None:
        client = self._client
        X, Y, read = self._source
        rows = _futures(client, X, "X", reread)
        sizes = client.gather(client.map(_measure, rows, pure=False))
        labels = self._candidates(Y, [n for n, _, _ in sizes], reread)
        filled = [k for k, (n, _, _) in enumerate(sizes) if n]
        if not filled:
            raise InputError("X has no rows: all its blocks are empty")
        rows, labels, sizes = ([items[k] for k in filled] for items in (rows, labels, sizes))
        ends = np.cumsum([n for n, _, _ in sizes]).tolist()
        first = [0, *ends[:-1]]
        rows, owners = self._balance(rows)
        with _large_graphs():
            cells = client.map(_cells, labels, rows, first, read=read, pure=False)
        if not all(is_float for _, _, is_float in sizes):
            rows = client.map(as_rows, rows, pure=False)
        groups = _groups(owners, [n_bytes for _, n_bytes, _ in sizes], client.nthreads())
        self._owners = [owners[group[0]] for group in groups]
        self._numbers = groups
        self._blocks: list[Any] = [
            [(rows[k], cells[k], first[k]) for k in group] for group in groups
        ]
        # States and sums of each group.
        self._pairs: list[Any] = [None] * len(groups)

    def _candidates(self, Y: Any, sizes: list[int], reread: bool) -> list[Any]:
        """Return the candidates of each block."""
        n = sum(sizes)
        if location(Y) != "dask":
            check_same_length(n, Y.shape[0])
            ends = np.cumsum(sizes).tolist()
            return [Y[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        if hasattr(Y, "rechunk") and not np.isnan(Y.shape[0]):
            check_same_length(n, Y.shape[0])
            Y = Y.rechunk({0: tuple(sizes)})
        blocks = _futures(self._client, Y, "the candidates", reread)
        if len(blocks) != len(sizes):
            raise InputError(
                f"X has {len(sizes)} blocks but the candidates have {len(blocks)}; split both into "
                f"the same blocks of rows"
            )
        return blocks

    def _balance(self, blocks: list[Any]) -> tuple[list[Any], list[str]]:
        """Copy blocks to workers with less than their share; return blocks and workers."""
        threads = _threads(self._client)
        holders = self._client.who_has(blocks)
        total = sum(threads.values())
        room = {worker: -(-len(blocks) * n // total) for worker, n in threads.items()}
        owners: list[str | None] = []
        for block in blocks:
            workers = (worker for worker in holders.get(block.key, ()) if room.get(worker))
            owners.append(next(workers, None))
            if owners[-1] is not None:
                room[owners[-1]] -= 1
        balanced = list(blocks)
        for k, owner in enumerate(owners):
            if owner is None:
                owners[k] = worker = max(room, key=room.__getitem__)
                room[worker] -= 1
                balanced[k] = self._submit(worker, same, blocks[k])
        return balanced, [owner for owner in owners if owner is not None]

    def run(self, function: Callable[[], _T]) -> _T:
        """Run a whole fit; restart it if Dask cannot recompute lost data.

        Parameters
        ----------
        function : callable
            Function without arguments that runs the fit.

        Returns
        -------
        result of the function
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if attempt > 1:
                    self._open(reread=True)
                return function()
            except _lost() as error:
                reason = error
        raise RuntimeError(
            f"the cluster lost data in {ATTEMPTS} attempts in a row ({reason}); check the memory "
            f"of the workers, or use smaller blocks"
        ) from reason

    def step(self, function: Step, *message: Any) -> tuple[Any, ...]:
        """Run one step on all blocks and return the sums."""
        return _add_up(self._client.gather(self._run(function, message)))

    def start(self, function: Step, *message: Any) -> list[Any]:
        """Run one step on all blocks and return a future of the sums."""
        return [self.near(_add_up, self._run(function, message))]

    def near(self, function: Callable[..., Any], *args: Any, place: int = 0) -> Any:
        """Return a future of f(*args), computed on the worker with this number.

        Parameters
        ----------
        function : callable
            Function to call.
        *args : objects
            Arguments, which may contain futures.
        place : int, default=0
            Number of the worker, modulo their count.

        Returns
        -------
        future
        """
        workers = list(dict.fromkeys(self._owners))
        return self._submit(workers[place % len(workers)], function, *args)

    def here(self, value: Any) -> Any:
        """Fetch a result of `start` or `near` to the client.

        Parameters
        ----------
        value : object
            The result, which may contain futures.

        Returns
        -------
        object
        """
        return self._client.gather(value)

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """Return f(block, state, *message) of each block, in order."""
        results = chain(*self._client.gather(self._map(_call_each, function, message)))
        return [result for _, result in sorted(results, key=itemgetter(0))]

    def prepare(self, function: Callable[..., Block], *message: Any) -> None:
        """Replace every block by f(block, *message)."""
        self._blocks = self._map(_prepare_each, function, message)

    def close(self) -> None:
        """Release all futures."""
        self._blocks = []
        self._pairs = []

    def _run(self, function: Step, message: tuple[Any, ...]) -> list[Any]:
        """Run one step; return at most `_SUMS` futures of sums over some blocks each."""
        self._pairs = self._map(_step_each, function, message)
        sums = self._client.map(itemgetter(1), self._pairs, pure=False)
        while len(sums) > _SUMS:
            parts = [sums[i : i + _SUMS] for i in range(0, len(sums), _SUMS)]
            sums = self._client.map(_add_up, parts, pure=False)
        return sums

    def _map(self, task: Any, function: Any, message: tuple[Any, ...]) -> list[Any]:
        """Return the futures of one task per group."""
        sent = self._send(tuple(None if isinstance(m, PerBlock) else m for m in message))
        differing = [m if isinstance(m, PerBlock) else None for m in message]
        per_group = [
            [None if m is None else PerBlock(m[k] for k in numbers) for m in differing]
            for numbers in self._numbers
        ]
        groups = zip(self._owners, self._blocks, self._pairs, per_group, strict=True)
        # Dask would move all blocks to the worker of a message that is larger than they are.
        return [
            self._submit(owner, task, blocks, pair, function, sent, pieces)
            for owner, blocks, pair, pieces in groups
        ]

    def _submit(self, worker: str, function: Any, *args: Any) -> Any:
        """Return a future of f(*args), computed on this worker if it is available."""
        options = {"workers": [worker], "allow_other_workers": True, "pure": False}
        with _large_graphs():
            return self._client.submit(function, *args, **options)

    def _send(self, message: tuple[Any, ...]) -> Any:
        """Return a future of the message, which is sent only once."""
        sizes = optional("dask.sizeof", "distributed", "training on a Dask cluster")
        if sizes.sizeof(message) > MESSAGE_BYTES and not _holds_future(message):
            return self._client.scatter([message], hash=False)[0]
        return self.near(same, message) if message else message


def map_lazy(call: Callable[..., Any], X: Any, args: tuple[Any, ...], n_columns: int) -> Any:
    """Return call(block, *args) for each block of X, lazily if X is lazy.

    Parameters
    ----------
    call : callable
        f(block, *args) -> array.
    X : Dask array or list of lazy blocks
        Rows on workers.
    args : tuple
        Further arguments of `call`.
    n_columns : int
        Number of columns of the result.

    Returns
    -------
    Dask array or list of lazy blocks
    """
    if isinstance(X, list | tuple):
        dask = optional("dask", "distributed", "Dask blocks")
        lazy = dask.delayed(call, pure=False)
        return [
            block.client.submit(call, block, *args, pure=False)
            if _is_future(block)
            else lazy(block, *args)
            for block in X
        ]
    # A row of zeros determines the type of the result.
    dtype = call(np.zeros((1, int(X.shape[1])), dtype=X.dtype), *args).dtype
    return X.rechunk({1: -1}).map_blocks(
        call,
        *args,
        dtype=dtype,
        chunks=(X.chunks[0], (n_columns,)),
        meta=np.empty((0, 0), dtype=dtype),
    )


def as_rows(X: Any) -> Any:
    """Return a block as a dense array or CSR array of float32 or float64.

    Parameters
    ----------
    X : array-like or sparse matrix
        Rows of the block.

    Returns
    -------
    (n, d) ndarray or CSR array
    """
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _futures(client: Any, X: Any, what: str, reread: bool = False) -> list[Any]:
    """Return one future per block of rows; `reread` renames tasks whose data were lost."""
    if hasattr(X, "to_delayed"):
        if X.ndim != 2:
            raise InputError(f"{what} must have rows and columns, got shape {X.shape}")
        X = X.rechunk({1: -1}).to_delayed().ravel().tolist()
    for k, block in enumerate(X):
        if _is_future(block) and block.status in ("cancelled", "lost"):
            raise InputError(
                f"block {k} of {what} is a future whose data were lost with a worker; pass a Dask "
                f"array or delayed blocks, which can be recomputed"
            )
    if reread:
        copy_block = optional("dask", "distributed", "Dask blocks").delayed(same, pure=False)
        X = [block if _is_future(block) else copy_block(block) for block in X]
    # Existing futures stay unchanged.
    return list(client.compute(list(X), sync=False))


def _groups(owners: list[str], sizes: list[int], threads: dict[str, int]) -> list[list[int]]:
    """Group the blocks that share a task: all blocks of a thread, unless they are too large."""
    groups: list[list[int]] = []
    for worker, n_threads in threads.items():
        numbers = [k for k, owner in enumerate(owners) if owner == worker]
        n_groups = max(n_threads, -(-sum(sizes[k] for k in numbers) // _GROUP_BYTES))
        groups += [group.tolist() for group in np.array_split(numbers, n_groups) if len(group)]
    return groups


def _is_future(value: Any) -> bool:
    return type(value).__module__.startswith("distributed")


def _holds_future(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(map(_holds_future, value))
    return _is_future(value)


def _measure(X: Any) -> tuple[int, int, bool]:
    """Return rows and bytes of a block of X, and whether its type is float32 or float64."""
    if getattr(X, "ndim", 0) != 2:
        raise InputError(
            f"a block of X must have rows and columns, got {type(X).__name__} of shape "
            f"{getattr(X, 'shape', None)}"
        )
    n_bytes = X.nnz * 12 if sp.issparse(X) else X.nbytes
    return X.shape[0], n_bytes, X.dtype in (np.float32, np.float64)


def _cells(Y: Any, X: Any, first: int, read: Callable[[Any, int], Any]) -> Cells:
    """Return the candidates of a block, built where its X is."""
    Y = read(Y, first)
    if Y.shape[0] != X.shape[0]:
        raise InputError(
            f"the block of X that begins at row {first} has {X.shape[0]} rows, but its candidates "
            f"have {Y.shape[0]}"
        )
    return candidate_cells(Y)


def _blocks(
    group: list[Any], pair: Any, message: tuple[Any, ...], differing: list[Any]
) -> Iterator[tuple[Any, ...]]:
    """Yield the blocks of a group with their states and messages."""
    states = [None] * len(group) if pair is None else pair[0]
    # Each entry of the message is either the same for all blocks, or a `PerBlock`.
    entries = tuple(m if d is None else d for m, d in zip(message, differing, strict=True))
    for i, ((X, cells, first), state) in enumerate(zip(group, states, strict=True)):
        block = Block(FeatureRows(as_rows(X), first), cells, in_place=False)
        yield block, state, *message_for(entries, i)


def _call_each(
    group: list[Any], pair: Any, function: Any, message: tuple[Any, ...], differing: list[Any]
) -> list[tuple[int, Any]]:
    """Return the first row of each block, and f(block, state, *message)."""
    calls = _blocks(group, pair, message, differing)
    return [(block.rows.first, function(block, *rest)) for block, *rest in calls]


def _prepare_each(
    group: list[Any], pair: Any, function: Any, message: tuple[Any, ...], differing: list[Any]
) -> list[tuple[Any, Cells, int]]:
    """Return the group with each block replaced by f(block, *message)."""
    calls = _blocks(group, pair, message, differing)
    blocks = (function(block, *here) for block, _, *here in calls)
    return [(block.rows.X, block.cells, block.rows.first) for block in blocks]


def _step_each(
    group: list[Any], pair: Any, function: Step, message: tuple[Any, ...], differing: list[Any]
) -> tuple[list[Any], Any]:
    """Return the new states of a group, and its sums."""
    states = []
    total = None
    for block, *rest in _blocks(group, pair, message, differing):
        state, sums = function(block, *rest)
        states.append(state)
        # Sums may be larger than the blocks, so at most two are kept in memory.
        total = add_sums(total, sums)
    return states, total


def _add_up(sums: list[Any]) -> Any:
    return reduce(add_sums, sums)


def _lost() -> tuple[type[BaseException], ...]:
    """Return the exceptions that Dask raises if data or workers are lost."""
    from concurrent.futures import CancelledError

    distributed = optional("distributed", "distributed", "training on a Dask cluster")
    closed = optional("distributed.comm", "distributed", "training on a Dask cluster")
    return CancelledError, TimeoutError, closed.CommClosedError, distributed.KilledWorker


def _large_graphs() -> Any:
    """Silence the warning about large graphs: messages are sent with their tasks on purpose."""
    dask = optional("dask", "distributed", "training on a Dask cluster")
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})
