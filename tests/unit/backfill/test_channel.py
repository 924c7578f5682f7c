"""The hand-over between threads: order, bound, end, and breaking off."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from walshadow_core.backfill.channel import Channel, ChannelBroken
from walshadow_core.backfill.reader import CHUNK_PAGES, BufferPool
from walshadow_core.pgformat.heap import PAGE_SIZE

PATIENCE = 30.0


class Other:
    """Work in another thread, and what came of it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.result: object = None
        self.error: BaseException | None = None

        def body() -> None:
            try:
                self.result = work()
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=body, daemon=True)
        self._thread.start()

    def ended(self) -> Other:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it waits for ever"
        return self

    def waits(self) -> bool:
        self._thread.join(0.05)
        return self._thread.is_alive()


def test_items_come_in_order_and_then_the_end() -> None:
    channel: Channel[int] = Channel(3)
    taker = Other(lambda: list(channel))
    for number in range(1000):
        channel.put(number)
    channel.close()
    assert taker.ended().result == list(range(1000))
    assert channel.take() is None


def test_put_waits_while_it_is_full() -> None:
    channel: Channel[int] = Channel(2)
    channel.put(1)
    channel.put(2)
    third = Other(lambda: channel.put(3))
    assert third.waits()
    assert channel.take() == 1
    assert third.ended().error is None
    assert [channel.take(), channel.take()] == [2, 3]


def test_what_was_put_before_the_close_is_still_taken() -> None:
    channel: Channel[str] = Channel(2)
    channel.put("last")
    channel.close()
    assert list(channel) == ["last"]


def test_breaking_off_wakes_both_ends() -> None:
    full: Channel[int] = Channel(1)
    full.put(1)
    empty: Channel[int] = Channel(1)
    waiting = [Other(lambda: full.put(2)), Other(empty.take), Other(lambda: list(empty))]
    assert all(w.waits() for w in waiting)
    full.break_off()
    empty.break_off()
    assert [type(w.ended().error) for w in waiting] == [ChannelBroken] * 3
    with pytest.raises(ChannelBroken):
        full.take()
    with pytest.raises(ChannelBroken):
        full.put(3)


def test_a_pool_gives_each_buffer_once_until_it_comes_back() -> None:
    pool = BufferPool(2)
    first, second = pool.take(), pool.take()
    assert first is not second
    assert len(first) == CHUNK_PAGES * PAGE_SIZE
    third = Other(pool.take)
    assert third.waits()
    pool.give(second)
    assert third.ended().result is second
    fourth = Other(pool.take)
    pool.break_off()
    assert isinstance(fourth.ended().error, ChannelBroken)
