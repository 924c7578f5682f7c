"""Makes WAL: pages and segments as a server would write them, for tests that need a certain shape of it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import google_crc32c

from walshadow_core.pgformat import walpage
from walshadow_core.pgformat.heap import PAGE_SIZE

SYSTEM = 0xFEDC_BA98_7654_3210


def record(body: bytes, previous: int, *, xid: int = 0, info: int = 0, rmgr: int = 1) -> bytes:
    """A record with that content after its header, checksum and all."""
    head = struct.pack("<IIQBBH", walpage.RECORD_HEADER + len(body), xid, previous, info, rmgr, 0)
    crc = google_crc32c.extend(google_crc32c.value(body), head)
    return head + struct.pack("<I", crc) + body


def main_data(data: bytes) -> bytes:
    """A record's content that is main data alone."""
    if not data:
        return b""
    return (struct.pack("<BB", 255, len(data)) if len(data) < 256 else struct.pack("<BI", 254, len(data))) + data


@dataclass
class WalMaker:
    """Writes records one after the other from ``start`` (a segment's start) on."""

    start: int = 1 << 24
    segment: int = 1 << 20
    major: int = 18
    timeline: int = 1
    out: bytearray = field(default_factory=bytearray)
    previous: int = 0
    starts: list[int] = field(default_factory=list)

    @property
    def lsn(self) -> int:
        """Where the next byte goes."""
        return self.start + len(self.out)

    def header(self, rest: int = 0, flags: int = 0) -> None:
        """A page's header, at a page's start."""
        long = self.lsn % self.segment == 0
        flags |= (walpage.FIRST_IS_CONTRECORD if rest else 0) | (walpage.HAS_LONG_HEADER if long else 0)
        magic = walpage.PAGE_MAGIC[self.major]
        self.out += struct.pack("<HHIQII", magic, flags, self.timeline, self.lsn, rest, 0)
        if long:
            self.out += struct.pack("<QII", SYSTEM, self.segment, PAGE_SIZE)

    def align(self) -> None:
        """On to the next multiple of 8, and past a page's header if it is at one."""
        self.out += bytes(-len(self.out) % 8)
        if self.lsn % PAGE_SIZE == 0:
            self.header()

    def add(self, body: bytes, *, xid: int = 0, info: int = 0, rmgr: int = 1) -> int:
        """Write a record; gives its LSN."""
        self.align()
        at = self.lsn
        self.put(record(body, self.previous, xid=xid, info=info, rmgr=rmgr))
        self.previous = at
        self.starts.append(at)
        return at

    def put(self, data: bytes) -> None:
        """Write a record's bytes over as many pages as they need."""
        while data:
            if self.lsn % PAGE_SIZE == 0:
                self.header(rest=len(data))
            room = PAGE_SIZE - self.lsn % PAGE_SIZE
            self.out += data[:room]
            data = data[room:]

    def to_page_end(self) -> None:
        """Zeros to the end of the page."""
        self.out += bytes(-len(self.out) % PAGE_SIZE)

    def switch(self) -> int:
        """A segment switch: the record, and nothing in the rest of the segment (but page headers)."""
        at = self.add(b"", info=walpage.XLOG_SWITCH, rmgr=walpage.XLOG_RMGR)
        self.to_page_end()
        while self.lsn % self.segment:
            self.header()
            self.to_page_end()
        return at
