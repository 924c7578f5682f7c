"""A bounded hand-over between two threads that either end can break off."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class ChannelBroken(Exception):
    """The other end is gone; whoever broke the channel keeps the reason."""


class Channel(Generic[T]):
    """A queue of at most ``capacity`` items. ``put`` waits while it is full, iteration ends after ``close()``,
    and ``break_off()`` makes every waiting and later call raise ChannelBroken, so that no thread waits for one
    that has died."""

    def __init__(self, capacity: int) -> None:
        self._items: deque[T] = deque()
        self._capacity = capacity
        self._closed = False
        self._broken = False
        self._change = threading.Condition()

    def put(self, item: T) -> None:
        """Hand over one item. Raises ChannelBroken."""
        with self._change:
            while len(self._items) >= self._capacity and not self._broken:
                self._change.wait()
            if self._broken:
                raise ChannelBroken
            self._items.append(item)
            self._change.notify_all()

    def close(self) -> None:
        """No more items will come."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def break_off(self) -> None:
        """Give up: drop what is queued and wake everybody."""
        with self._change:
            self._broken = True
            self._items.clear()
            self._change.notify_all()

    def take(self) -> T | None:
        """The next item, None after close() and the last item. Raises ChannelBroken."""
        with self._change:
            while not self._items and not self._closed and not self._broken:
                self._change.wait()
            if self._broken:
                raise ChannelBroken
            if not self._items:
                return None
            item = self._items.popleft()
            self._change.notify_all()
            return item

    def __iter__(self) -> Iterator[T]:
        while (item := self.take()) is not None:
            yield item
