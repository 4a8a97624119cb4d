"""Small requests that wait at the same time are answered together."""

import asyncio
import threading
import time

import pytest

pytest.importorskip("starlette")

from starlette.requests import ClientDisconnect

from schirn.app.serving._batches import MAX_CHARACTERS, MAX_ROWS, Batches
from schirn.exceptions import InputError


class Work:
    """Doubles rows; remembers how many it got at a time."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds
        self.sizes = []
        self.threads = set()

    def __call__(self, rows, option):
        self.sizes.append(len(rows))
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        if "wrong" in rows:
            raise InputError("a row is wrong")
        return [(2 * row, option) for row in rows]


def ask(work, requests, option=None):
    """Answers, or errors, to requests that begin at the same time."""

    async def run():
        batches = Batches(n_in_flight=lambda: len(requests))
        tasks = [batches.answer(work, rows, option) for rows in requests]
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(run())


def test_requests_that_begin_together_are_one_call():
    work = Work()
    answers = ask(work, [[1], [2, 3], [], [4]])
    assert answers == [[(2, None)], [(4, None), (6, None)], [], [(8, None)]]
    assert work.sizes == [4]


def test_rows_of_different_options_are_not_mixed():
    work = Work()

    async def run():
        batches = Batches(n_in_flight=lambda: 3)
        options = [0.5, "top-1", 0.5]
        tasks = [batches.answer(work, [k], option) for k, option in enumerate(options)]
        return await asyncio.gather(*tasks)

    assert asyncio.run(run()) == [[(0, 0.5)], [(2, "top-1")], [(4, 0.5)]]
    assert sorted(work.sizes) == [1, 2]


def test_a_wrong_row_is_the_fault_of_its_request_only():
    first, second, third = ask(Work(), [[1], ["wrong"], [3]])
    assert first == [(2, None)]
    assert isinstance(second, InputError)
    assert third == [(6, None)]


def test_a_request_alone_does_not_wait():
    work = Work()

    async def run():
        batches = Batches(n_in_flight=lambda: 1)
        start = time.perf_counter()
        for k in range(50):
            await batches.answer(work, [k], None)
        return time.perf_counter() - start

    assert asyncio.run(run()) < 50 * 0.002
    assert work.sizes == [1] * 50


def test_what_comes_meanwhile_is_the_next_call():
    work = Work(seconds=0.1)

    async def run():
        batches = Batches(n_in_flight=lambda: 1)
        first = asyncio.create_task(batches.answer(work, [1], None))
        await asyncio.sleep(0.03)
        others = [batches.answer(work, [k], None) for k in range(20)]
        await asyncio.gather(first, *others)

    asyncio.run(run())
    assert work.sizes == [1, 20]
    assert len(work.threads) == 1


def test_calls_have_an_upper_size():
    work = Work()
    ask(work, [[1] * 300, [2] * 300, [3] * (MAX_ROWS + 1), [4]])
    assert work.sizes == [300, 300, MAX_ROWS, 2]


def test_a_small_request_does_not_wait_for_all_of_a_large_one():
    work = Work()

    async def run():
        batches = Batches(n_in_flight=lambda: 1)
        large = asyncio.ensure_future(batches.answer(work, [1] * (5 * MAX_ROWS), None))
        await asyncio.sleep(0)
        small = asyncio.ensure_future(batches.answer(work, [2], None))
        assert await small == [(4, None)]
        assert not large.done()
        assert await large == [(2, None)] * (5 * MAX_ROWS)

    asyncio.run(run())


def test_long_texts_are_answered_in_pieces():
    rows = [{"title": "a" * (MAX_CHARACTERS // 2)}] * 5 + [{"title": "b" * (2 * MAX_CHARACTERS)}]
    sizes = []

    def count(rows, option):
        sizes.append(len(rows))
        return [len(row["title"]) for row in rows]

    (answers,) = ask(count, [rows])
    assert answers == [len(row["title"]) for row in rows]
    assert sizes == [2, 2, 1, 1]


def test_how_long_a_piece_takes():
    work = Work(seconds=0.2)

    async def run():
        batches = Batches(n_in_flight=lambda: 1)
        assert batches.seconds_busy == 0
        task = asyncio.ensure_future(batches.answer(work, [1], None))
        await asyncio.sleep(0.1)
        assert 0 < batches.seconds_busy < 10
        await task
        assert batches.seconds_busy == 0

    asyncio.run(run())


def test_a_request_given_up_is_not_computed():
    work = Work(seconds=0.1)

    async def run():
        batches = Batches(n_in_flight=lambda: 1)
        first = asyncio.create_task(batches.answer(work, [1], None))
        await asyncio.sleep(0.03)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(batches.answer(work, [2], None), 0.01)
        await first
        return await batches.answer(work, [3], None)

    assert asyncio.run(run()) == [(6, None)]
    assert work.sizes == [1, 1]


@pytest.mark.parametrize("how", ["time", "gone"])
def test_the_rest_of_a_request_given_up_is_not_computed(how):
    work = Work(seconds=0.05)

    async def run():
        batches = Batches(n_in_flight=lambda: 1)
        rows = [1] * (5 * MAX_ROWS)
        if how == "time":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(batches.answer(work, rows, None), 0.02)
        else:
            gone = iter([False, True])

            async def is_gone():
                return next(gone)

            with pytest.raises(ClientDisconnect):
                await batches.answer(work, rows, None, is_gone)
        return await batches.answer(work, [2], None)

    assert asyncio.run(run()) == [(4, None)]
    assert sum(work.sizes) == 1 + MAX_ROWS * (1 if how == "time" else 2)


def test_requests_that_are_answered_together_have_a_length_together():
    sizes = []

    def count(rows, option):
        sizes.append(len(rows))
        return [len(row["title"]) for row in rows]

    long = {"title": "a" * (MAX_CHARACTERS // 2)}
    ask(count, [[long] * 2, [long], [long], [long], [{"title": "a"}]])
    assert sizes == [2, 2, 2]
