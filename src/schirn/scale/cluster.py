"""A row store on Dask workers.

X stays where it is: a step travels to the blocks as a task, and only messages (weights of the
features) and sums (of the size of the weights) come and go. What is made of sums may stay with the
workers, too: messages refer to it. Every task is a pure function of its blocks, their previous
states and the message, so Dask recomputes what a dead worker held from X and the messages so far.

A task costs client and scheduler some milliseconds, however little it does. Blocks are balanced
across workers by their number of threads, and the blocks of a thread are one group, with one task
per step. A step whose sums are not needed at once (`later`) travels with the next one. Groups add
up what they can of a binary tree over all blocks, so the sums do not depend on the workers.

The scheduler keeps messages for recomputation, up to `LINEAGE_BYTES` in all; later ones lie on a
worker only. If a state cannot be recomputed, or X has to be read again, the fit starts over, at
most `ATTEMPTS` times.
"""

import io
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from schirn._input import check_same_length
from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.scale.blocks import (
    Block,
    Cells,
    FeatureRows,
    RowStore,
    Step,
    add_sums,
    candidate_cells,
)

_T = TypeVar("_T")

# How long to wait for a scheduler.
_PATIENCE = "20s"
LINEAGE_BYTES = 256 * 2**20
ATTEMPTS = 4
# The rows of a group lie in memory at the same time and take at most this much, or are one block.
_GROUP_BYTES = 2**30
# Memory of former states that a group keeps for new ones, at most, for each size of blocks.
_KEPT_BYTES = 2**30
# Sums that one task adds up on the workers before they travel.
_SUMS = 16
# Messages up to this size, over all blocks, travel inside the tasks.
_INLINE_BYTES = 4 * 2**20


def is_lazy(X: Any) -> bool:
    """Return True for a Dask array, or a list of delayed blocks or futures.

    >>> is_lazy(np.zeros(2)), is_lazy([[1, 2]])
    (False, False)
    """
    if isinstance(X, list | tuple):
        return bool(X) and all(is_lazy(block) for block in X)
    module = type(X).__module__
    return module.startswith(("dask.array", "dask.delayed", "distributed."))


def current_client() -> Any:
    """The Dask client of this thread or program."""
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
    """Connect to the Dask scheduler at this address, which must have at least one worker."""
    distributed = optional("distributed", "distributed", purpose)
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r} ({error}); give its address, such as "
            f"tcp://127.0.0.1:8786"
        ) from error
    with client, client.as_current():
        if not client.nthreads():
            raise InputError(f"the Dask scheduler at {address!r} has no workers")
        yield client


def lazy_blocks(readers: Sequence[Callable[[], Any]], files: Sequence[str]) -> list[Any]:
    """Delayed blocks that the workers of the current client read, each from one of these files.

    Raises InputError unless all workers see the files.
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


def in_memory(X: Any) -> Any:
    """Rows of a lazy X in the memory of this process, for few rows."""
    client = current_client()
    blocks = [as_rows(block) for block in client.gather(_futures(client, X, "X", again=False))]
    return sp.csr_array(sp.vstack(blocks)) if sp.issparse(blocks[0]) else np.concatenate(blocks)


class DaskRows(RowStore):
    """A row store whose blocks are futures on the workers of a Dask cluster.

    Parameters
    ----------
    X : (n, d) Dask array, or list of delayed blocks or futures
        Blocks are dense or sparse.
    Y : Dask array or list with the same blocks, or (n, l) CSR array
        The candidates.
    read_candidates : callable
        f(block, first row) -> 0/1 CSR matrix, run on the workers.
    client : dask.distributed.Client or None
        None takes the current one.
    """

    def __init__(
        self, X: Any, Y: Any, read_candidates: Callable[[Any, int], Any], client: Any = None
    ):
        self._client = current_client() if client is None else client
        self._source = X, Y, read_candidates
        self._open(again=False)

    def _open(self, again: bool) -> None:
        client, (X, Y, read) = self._client, self._source
        blocks = _futures(client, X, "X", again)
        looks = client.gather(client.map(_look, blocks, pure=False))
        full = [k for k, look in enumerate(looks) if look.n]
        if not full:
            raise InputError("X has no rows: all its blocks are empty")
        labels = self._candidates(Y, [look.n for look in looks], again)
        blocks, labels, looks = ([items[k] for k in full] for items in (blocks, labels, looks))
        first = np.concatenate([[0], np.cumsum([look.n for look in looks])])[:-1].tolist()
        blocks, owners = _balanced(client, blocks)
        rows = blocks
        if any(look.dtype not in ("float32", "float64") for look in looks):
            rows = client.map(as_rows, blocks, pure=False)
        with _large_graphs():
            cells = client.map(_cells, labels, blocks, first, [read] * len(blocks), pure=False)
        self._groups = _groups(owners, [look.n_bytes for look in looks], client.nthreads())
        self._owners = [owners[group[0]] for group in self._groups]
        self._rows: list[Any] = [[rows[k] for k in group] for group in self._groups]
        self._cells = [[cells[k] for k in group] for group in self._groups]
        self._first = [[first[k] for k in group] for group in self._groups]
        self._memory = [self._near(_Memory, owner) for owner in self._owners]
        self._pairs: list[Any] = [None] * len(self._groups)
        self._waiting: _Later | None = None
        self._kept_bytes = 0

    def _candidates(self, Y: Any, sizes: list[int], again: bool) -> list[Any]:
        """The candidates of each block."""
        n = sum(sizes)
        if not is_lazy(Y):
            check_same_length(n, Y.shape[0])
            ends = np.cumsum(sizes).tolist()
            return [Y[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        if hasattr(Y, "rechunk") and not np.isnan(Y.shape[0]):
            check_same_length(n, Y.shape[0])
            Y = Y.rechunk({0: tuple(sizes)})
        blocks = _futures(self._client, Y, "the candidates", again)
        if len(blocks) != len(sizes):
            raise InputError(
                f"X has {len(sizes)} blocks but the candidates have {len(blocks)}; split both into "
                f"the same blocks of rows"
            )
        return blocks

    def run(self, function: Callable[[], _T]) -> _T:
        """Run a whole fit; restart it if data were lost that Dask cannot recompute."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if attempt > 1:
                    self._open(again=True)
                return function()
            except _lost() as error:
                reason = error
        raise RuntimeError(
            f"the cluster lost data in {ATTEMPTS} attempts in a row ({reason}); check the memory "
            f"of the workers, or use smaller blocks"
        ) from reason

    def step(self, function: Step, *message: Any) -> tuple[Any, ...]:
        """Run one step on all blocks and return the sums."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return self._exchange((function, message))[0]
        waiting.sums, sums = self._exchange(waiting.step, (function, message))
        return sums

    def later(self, function: Step, *message: Any) -> Callable[[], tuple[Any, ...]]:
        """Run one step together with the next one; return a function that gives the sums."""
        self.catch_up()
        self._waiting = _Later(self, (function, message))
        return self._waiting

    def catch_up(self) -> None:
        """Run the step that waits for the next one."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            (waiting.sums,) = self._exchange(waiting.step)

    def start(self, function: Step, *message: Any) -> list[Any]:
        """Run one step on all blocks and return a future of the sums, for `near`."""
        self.catch_up()
        nodes = self._submit((function, message))
        return [self._client.submit(_last_total, nodes, self._n_blocks, pure=False)]

    def near(self, function: Callable[..., Any], *args: Any, place: int = 0) -> Any:
        """A future of f(*args), computed on the worker with this number."""
        workers = list(dict.fromkeys(self._owners))
        sent = self._send(args, tasks=1)
        return self._near(_call, workers[place % len(workers)], function, *sent)

    def here(self, value: Any) -> Any:
        """Bring a result of `near` to the client."""
        return self._client.gather(value)

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """Return f(block, state, *message) of every block, in order."""
        self.catch_up()
        results: list[Any] = [None] * self._n_blocks
        found = self._client.gather(self._map(_call_each, function, message))
        for group, own in zip(self._groups, found, strict=True):
            for k, result in zip(group, own, strict=True):
                results[k] = result
        return results

    def prepare(self, function: Callable[..., Block], *message: Any) -> None:
        """Replace every block by f(block, *message)."""
        self.catch_up()
        self._rows = self._map(_call_each, partial(_prepared, function), message)

    def close(self) -> None:
        """Release all futures."""
        self._rows, self._cells, self._pairs, self._memory = [], [], [], []
        self._waiting = None

    @property
    def _n_blocks(self) -> int:
        return sum(map(len, self._groups))

    def _exchange(self, *steps: tuple[Step, tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
        """Run some steps one after the other and return the sums of each."""
        return _total(self._client.gather(self._submit(*steps)), self._n_blocks)

    def _submit(self, *steps: tuple[Step, tuple[Any, ...]]) -> list[Any]:
        """Futures of sums over some blocks each, by their place in the tree (see `_joined`)."""
        functions, messages = zip(*steps, strict=True)
        self._pairs = self._map(partial(_run_steps, self._n_blocks), functions, messages)
        nodes = self._client.map(_second, self._pairs, pure=False)
        while len(nodes) > _SUMS:
            parts = [nodes[i : i + _SUMS] for i in range(0, len(nodes), _SUMS)]
            nodes = self._client.map(_joined, parts, n_blocks=self._n_blocks, pure=False)
        return list(nodes)

    def _map(self, task: Any, function: Any, message: tuple[Any, ...]) -> list[Any]:
        """Futures of one task per group."""
        sent = self._send(message, tasks=len(self._groups))
        parts = zip(self._groups, self._rows, self._cells, self._first, self._memory, strict=True)
        # Dask would bring all blocks to the worker that holds a message larger than they are.
        return [
            self._near(task, owner, list(group), pair, function, *sent)
            for owner, group, pair in zip(self._owners, parts, self._pairs, strict=True)
        ]

    def _near(self, function: Any, worker: str, *args: Any) -> Any:
        """A future of f(*args), computed on this worker if it is there."""
        options = {"workers": [worker], "allow_other_workers": True, "pure": False}
        with _large_graphs():
            return self._client.submit(function, *args, **options)

    def _send(self, message: tuple[Any, ...], tasks: int) -> tuple[Any, list[Any]]:
        """The message for some tasks, kept for recomputation while there is room; its futures."""
        # Bytes are packed once, and Dask does not search them for tasks.
        packed, futures = _pack(message)
        everywhere = len(packed) * tasks
        inline = everywhere <= _INLINE_BYTES
        self._kept_bytes += everywhere if inline else len(packed)
        if self._kept_bytes > LINEAGE_BYTES:
            return self._client.scatter([packed], hash=False)[0], futures
        if inline:
            return packed, futures
        with _large_graphs():
            return self._client.submit(_same, packed, pure=False), futures


def map_lazy(call: Callable[..., Any], X: Any, args: tuple[Any, ...], n_columns: int) -> Any:
    """call(block, *args) for every block of X, lazily if X is lazy."""
    if isinstance(X, list | tuple):
        dask = optional("dask", "distributed", "Dask blocks")
        lazy = dask.delayed(call, pure=False)
        return [
            block.client.submit(call, block, *args, pure=False)
            if _is_future(block)
            else lazy(block, *args)
            for block in X
        ]
    # One row of zeros shows the type of the result.
    dtype = call(np.zeros((1, int(X.shape[1])), dtype=X.dtype), *args).dtype
    return X.rechunk({1: -1}).map_blocks(
        call,
        *args,
        dtype=dtype,
        chunks=(X.chunks[0], (n_columns,)),
        meta=np.empty((0, 0), dtype=dtype),
    )


def as_rows(X: Any) -> Any:
    """A block as a dense array or CSR array of float32 or float64."""
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _futures(client: Any, X: Any, what: str, again: bool) -> list[Any]:
    """One future per block of rows; `again` renames tasks whose data were lost."""
    if hasattr(X, "to_delayed"):
        if X.ndim != 2:
            raise InputError(f"{what} must have rows and columns, got shape {X.shape}")
        X = X.rechunk({1: -1}).to_delayed().ravel().tolist()
    lazy = [block for block in X if not _is_future(block)]
    if again and lazy:
        same = optional("dask", "distributed", "Dask blocks").delayed(_same, pure=False)
        lazy = [same(block) for block in lazy]
    computed = iter(client.compute(lazy, sync=False) if lazy else [])
    found = [block if _is_future(block) else next(computed) for block in X]
    for k, block in enumerate(X):
        if _is_future(block) and block.status in ("cancelled", "lost"):
            raise InputError(
                f"block {k} of {what} is a future whose data were lost with a worker; pass a Dask "
                f"array or delayed blocks, which can be recomputed"
            )
    return found


def _balanced(client: Any, blocks: list[Any]) -> tuple[list[Any], list[str]]:
    """The blocks, some copied to workers that hold fewer than their share; the worker of each."""
    threads = client.nthreads()
    share = {worker: -(-len(blocks) * n // sum(threads.values())) for worker, n in threads.items()}
    holders = client.who_has(blocks)
    left, found = dict(share), list(blocks)
    owners, surplus = [""] * len(blocks), []
    for k, block in enumerate(blocks):
        held = [worker for worker in holders.get(block.key, ()) if left.get(worker)]
        if held:
            left[held[0]] -= 1
            owners[k] = held[0]
        else:
            surplus.append(k)
    for k in surplus:
        target = max(left, key=lambda worker: left[worker])
        left[target] -= 1
        owners[k] = target
        options = {"workers": [target], "allow_other_workers": True, "pure": False}
        found[k] = client.submit(_same, blocks[k], **options)
    return found, owners


def _is_future(block: Any) -> bool:
    return type(block).__module__.startswith("distributed")


def _groups(owners: list[str], sizes: list[int], threads: dict[str, int]) -> list[list[int]]:
    """Numbers of the blocks that share a task: those of one thread, unless they are too large."""
    groups: list[list[int]] = []
    for worker, n_threads in threads.items():
        own = [k for k, owner in enumerate(owners) if owner == worker]
        n_groups = max(n_threads, -(-sum(sizes[k] for k in own) // _GROUP_BYTES))
        groups += [group.tolist() for group in np.array_split(own, n_groups) if len(group)]
    return groups


class _Look(NamedTuple):
    """Number of rows, type and size of a block of X."""

    n: int
    dtype: str
    n_bytes: int


def _look(X: Any) -> _Look:
    if getattr(X, "ndim", 0) != 2:
        raise InputError(
            f"a block of X must have rows and columns, got {type(X).__name__} of shape "
            f"{getattr(X, 'shape', None)}"
        )
    arrays = (X.data, X.indices) if sp.issparse(X) and hasattr(X, "indices") else (X,)
    return _Look(X.shape[0], str(X.dtype), sum(getattr(array, "nbytes", 0) for array in arrays))


def _cells(Y: Any, X: Any, first: int, read: Callable[[Any, int], Any]) -> tuple[Any, ...]:
    """The candidates of a block, built next to its X, as a plain tuple whose size Dask can see."""
    Y = read(Y, first)
    if Y.shape[0] != X.shape[0]:
        raise InputError(
            f"the block of X that begins at row {first} has {X.shape[0]} rows, but its candidates "
            f"have {Y.shape[0]}"
        )
    return tuple(candidate_cells(Y))


class _Memory:
    """Memory for the states of a group: what one array no longer uses, a later one gets.

    Dask lets its workers return free memory to the system at once, which has to clear every page
    of the next array.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[Any]] = {}

    def __reduce__(self) -> Any:
        return _Memory, ()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An uninitialised array."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        free = self._free.setdefault(size, [])
        memory = free.pop() if free else np.empty(size, dtype=np.uint8)
        return np.asarray(_Lent(free, memory, shape, np.dtype(dtype)))


class _Lent:
    """Memory of an array, which goes back when the array and all its views are gone."""

    def __init__(self, free: list[Any], memory: Any, shape: tuple[int, ...], dtype: np.dtype):
        self._free, self._memory = free, memory
        data = memory.__array_interface__["data"]
        self.__array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "data": data,
            "version": 3,
        }

    def __del__(self) -> None:
        # What Dask moves to disk because memory is short must not be kept without limit.
        if (len(self._free) + 1) * self._memory.nbytes <= _KEPT_BYTES:
            self._free.append(self._memory)


class _Later:
    """A step that travels with the next one; a call returns its sums."""

    def __init__(self, store: DaskRows, step: tuple[Step, tuple[Any, ...]]):
        self.step = step
        self.sums: tuple[Any, ...] | None = None
        self._store = store

    def __call__(self) -> tuple[Any, ...]:
        if self.sums is None:
            self._store.catch_up()
        assert self.sums is not None
        return self.sums


class _Packer(pickle.Pickler):
    """Leaves futures out, and lists them."""

    def __init__(self, stream: Any):
        super().__init__(stream, protocol=5)
        self.futures: list[Any] = []

    def persistent_id(self, value: Any) -> int | None:
        """The place of a future in the list."""
        if not _is_future(value):
            return None
        self.futures.append(value)
        return len(self.futures) - 1


class _Unpacker(pickle.Unpickler):
    """Puts results in the place of futures."""

    def __init__(self, packed: bytes, results: list[Any]):
        super().__init__(io.BytesIO(packed))
        self._results = results

    def persistent_load(self, place: int) -> Any:
        """The result of a future."""
        return self._results[place]


def _pack(message: tuple[Any, ...]) -> tuple[bytes, list[Any]]:
    stream = io.BytesIO()
    packer = _Packer(stream)
    packer.dump(message)
    return stream.getvalue(), packer.futures


def _call(function: Any, message: bytes, results: list[Any]) -> Any:
    return function(*_Unpacker(message, results).load())


def _blocks(group: list[Any]) -> list[Block]:
    """The blocks of a group, from lists of numbers, rows, candidates, first rows; its memory."""
    _, rows, cells, first, memory = group
    return [
        Block(FeatureRows(as_rows(X), i), Cells(*own), in_place=False, empty=memory.empty)
        for X, own, i in zip(rows, cells, first, strict=True)
    ]


def _call_each(
    group: list[Any], pair: Any, function: Any, message: bytes, results: list[Any]
) -> list[Any]:
    """f(block, state, *message) of each block of a group."""
    blocks = _blocks(group)
    states = [None] * len(blocks) if pair is None else pair[0]
    args = _Unpacker(message, results).load()
    return [function(block, state, *args) for block, state in zip(blocks, states, strict=True)]


def _run_steps(
    n_blocks: int,
    group: list[Any],
    pair: Any,
    functions: tuple[Step, ...],
    message: bytes,
    results: list[Any],
) -> tuple[list[Any], dict[tuple[int, int], Any]]:
    """The states of a group after some steps, and sums for the tree (see `_joined`)."""
    blocks = _blocks(group)
    states = [None] * len(blocks) if pair is None else list(pair[0])
    messages = _Unpacker(message, results).load()
    nodes: dict[tuple[int, int], Any] = {}
    for i, (number, block) in enumerate(zip(group[0], blocks, strict=True)):
        sums = []
        for step, args in zip(functions, messages, strict=True):
            states[i], own = step(block, states[i], *args)
            sums.append(own)
        nodes = _joined([nodes, {(0, number): tuple(sums)}], n_blocks)
    return states, nodes


def _joined(parts: list[dict[tuple[int, int], Any]], n_blocks: int) -> dict[tuple[int, int], Any]:
    """Sums over some blocks each, added up as far as they are neighbours in a binary tree.

    Node (0, k) belongs to block k, and node (level, k) to the nodes 2k and 2k + 1 one level below.
    """
    nodes = {place: sums for part in parts for place, sums in part.items()}
    level = 0
    while n_blocks > 1:
        for k in sorted(k for at, k in nodes if at == level):
            left, right = (level, k), (level, k + 1)
            if k % 2 == 0 and (right in nodes or k + 1 == n_blocks):
                nodes[level + 1, k // 2] = add_sums(nodes.pop(left), nodes.pop(right, None))
        n_blocks, level = (n_blocks + 1) // 2, level + 1
    return nodes


def _total(parts: list[dict[tuple[int, int], Any]], n_blocks: int) -> Any:
    (sums,) = _joined(parts, n_blocks).values()
    return sums


def _last_total(parts: list[dict[tuple[int, int], Any]], n_blocks: int) -> Any:
    return _total(parts, n_blocks)[-1]


def _prepared(function: Any, block: Block, state: Any, *message: Any) -> Any:
    return function(block, *message).rows.X


def _second(pair: tuple[Any, _T]) -> _T:
    return pair[1]


def _same(value: _T) -> _T:
    return value


def _lost() -> tuple[type[BaseException], ...]:
    """Exceptions that Dask raises when data or workers are lost."""
    from concurrent.futures import CancelledError

    distributed = optional("distributed", "distributed", "training on a Dask cluster")
    closed = optional("distributed.comm", "distributed", "training on a Dask cluster")
    return CancelledError, TimeoutError, closed.CommClosedError, distributed.KilledWorker


def _large_graphs() -> Any:
    """Silence the warning about large graphs: messages are meant to travel with their tasks."""
    dask = optional("dask", "distributed", "training on a Dask cluster")
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})
