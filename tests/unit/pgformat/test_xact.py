"""Transaction and multixact look-ups, against what servers say of them, and across the wraparound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from walshadow_core.api import XID_ABORTED, XID_COMMITTED, XID_IN_PROGRESS
from walshadow_core.pgformat import xact
from walshadow_core.pgformat.control import CONTROL_PATH, ControlFile, parse_control
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.xact import (
    MULTI_DAMAGED,
    MULTI_FOUND,
    MULTI_MEMBERS,
    MULTI_NO_END,
    MULTI_NO_MEMBERS,
    MULTI_NO_OFFSET,
    MULTI_OFFSETS,
    MULTI_UPDATE,
    XACT,
    XID_NOT_COVERED,
    SlruFile,
    multixact_members,
    multixact_updaters,
    parse_slru_path,
    precedes,
    slru_path,
    xid_states,
)
from walshadow_core.testing.postgres import PostgresServer, available_majors

MODES = ("keysh", "sh", "fornokeyupd", "forupd", "nokeyupd", "upd")
"""pg_get_multixact_members' words for MultiXactStatus, in its order."""

LOCK_EACH_IN_A_SUBTRANSACTION = """
do $$ begin for i in 1..{rows} loop
    begin
        if i % 4 = 0 then update t set v = v + 1 where id = i;
        elsif i % 4 = 1 then perform 1 from t where id = i for share;
        elsif i % 4 = 2 then perform 1 from t where id = i for no key update;
        else perform 1 from t where id = i for key share; end if;
        if i % 5 = 0 then raise exception 'no'; end if;
    exception when raise_exception then null; end;
end loop; end $$"""


def segments(server: PostgresServer, kind: str) -> dict[int, NDArray[np.uint8]]:
    found = {}
    for file in (server.data / kind).iterdir():
        parsed = parse_slru_path(f"{kind}/{file.name}")
        assert parsed is not None
        found[parsed.segment] = np.frombuffer(bytearray(file.read_bytes()), np.uint8)
    return found


@dataclass
class Multis:
    """What a server's files and the server itself say of its multixacts."""

    offsets: dict[int, NDArray[np.uint8]]
    members: dict[int, NDArray[np.uint8]]
    control: ControlFile
    numbers: NDArray[np.uint32]
    shown: dict[int, list[tuple[int, int]]]

    @classmethod
    def of(cls, server: PostgresServer, oldest: int) -> Multis:
        server.execute("checkpoint")
        control = parse_control((server.data / CONTROL_PATH).read_bytes())
        count = (control.next_multi - oldest) % 2**32
        numbers = (np.arange(oldest, oldest + count) % 2**32).astype(np.uint32)
        numbers = numbers[numbers != 0]
        rows = server.execute(
            "select m, x.xid::text::bigint, x.mode from unnest(%s::bigint[]) m,"
            " pg_get_multixact_members(m::text::xid) x",
            (numbers.tolist(),),
        )
        shown: dict[int, list[tuple[int, int]]] = {int(n): [] for n in numbers}
        for multi, xid, mode in rows:
            shown[multi].append((xid, MODES.index(mode)))
        return cls(segments(server, MULTI_OFFSETS), segments(server, MULTI_MEMBERS), control, numbers, shown)

    def check(self) -> None:
        """Every member and every updater is what the server says."""
        next_multi, next_offset = self.control.next_multi, self.control.next_multi_offset
        found = multixact_members(self.offsets, self.members, self.numbers, next_multi, next_offset)
        assert (found.outcome == MULTI_FOUND).all()
        read: dict[int, list[tuple[int, int]]] = {int(n): [] for n in self.numbers}
        for multi, xid, status in zip(found.multi, found.xid, found.status, strict=True):
            read[int(self.numbers[multi])].append((int(xid), int(status)))
        assert read == self.shown
        updaters, outcomes = multixact_updaters(self.offsets, self.members, self.numbers, next_multi, next_offset)
        assert (outcomes == MULTI_FOUND).all()
        expected = [next((x for x, s in self.shown[int(n)] if s > xact.MULTI_FOR_UPDATE), 0) for n in self.numbers]
        assert updaters.tolist() == expected
        assert len(set(expected)) > 5


def make_multixacts(server: PostgresServer, rows: int) -> None:
    server.execute("create table t (id int primary key, v int)")
    server.execute(f"insert into t select i, 0 from generate_series(1, {rows}) i")
    with (
        server.connect(autocommit=False) as one,
        server.connect(autocommit=False) as two,
        server.connect(autocommit=False) as three,
    ):
        one.execute("select * from t for key share")
        two.execute("select * from t where id % 3 = 0 for key share")
        three.execute(LOCK_EACH_IN_A_SUBTRANSACTION.format(rows=rows).encode())
        two.execute("select * from t where id % 7 = 0 for key share")
        three.commit()
        two.rollback()
        one.commit()


@pytest.fixture(scope="module", params=available_majors(), ids=lambda m: f"pg{m}")
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with PostgresServer(request.param) as running:
        yield running


def test_every_transaction_is_what_the_server_says(server: PostgresServer) -> None:
    """Over more than a page of pg_xact: committed, aborted, subtransactions of both, prepared, running."""
    server.execute("create table x (i int)")
    loop = """do $$ begin for i in 1..20000 loop
        begin insert into x values (i); if i % 3 = 0 then raise exception 'no'; end if;
        exception when raise_exception then null; end; end loop; end $$"""
    server.execute(loop)
    server.execute(f"begin; {loop}; rollback")
    with server.connect(autocommit=False) as prepared:
        prepared.execute("insert into x values (0)")
        prepared.execute("prepare transaction 'p'")
    with server.connect(autocommit=False) as running:
        running.execute("savepoint s; insert into x values (0); rollback to s; savepoint s; insert into x values (0)")
        for i in range(30):
            server.execute(f"insert into x values ({i})")
        server.execute("checkpoint")
        last = int(server.execute("select pg_current_xact_id()::text::bigint")[0][0])
        rows = server.execute("select i, pg_xact_status(i::text::xid8) from generate_series(3, %s) i", (last - 1,))
        states = {"committed": XID_COMMITTED, "aborted": XID_ABORTED, "in progress": XID_IN_PROGRESS}
        expected = {i: states[s] for i, s in rows if s is not None}
        assert set(expected.values()) == set(states.values())
        assert max(expected) > 4 * PAGE_SIZE
        xids = np.array(sorted(expected), np.uint32)
        found = xid_states(segments(server, XACT), xids)
        assert found.tolist() == [expected[int(x)] for x in xids]
        running.rollback()
    server.execute("rollback prepared 'p'")


def test_every_multixact_is_what_the_server_says(server: PostgresServer) -> None:
    """Over more than a page of offsets and of members."""
    make_multixacts(server, 3000)
    multis = Multis.of(server, 1)
    assert len(multis.numbers) > PAGE_SIZE // 4
    multis.check()


@pytest.mark.parametrize("major", available_majors()[-1:])
def test_multixacts_and_members_wrap_around(major: int) -> None:
    """A server that is about to run out of both numbers goes on at 1, and so do we."""
    first, offset = 2**32 - 40, 2**32 - 130
    with PostgresServer(major) as running:
        running.stop()
        for kind, number in (
            (MULTI_OFFSETS, first // xact.OFFSETS_PER_SEGMENT),
            (MULTI_MEMBERS, offset // xact.MEMBERS_PER_SEGMENT),
        ):
            running.run("pg_resetwal", "-f", "-D", str(running.data), "-m", f"{first},{first}", "-O", str(offset))
            path = running.data / slru_path(kind, number)
            path.write_bytes(bytes(xact.SEGMENT_SIZE))
            path.chmod(0o666)
        running.start()
        make_multixacts(running, 100)
        multis = Multis.of(running, first)
        assert multis.control.next_multi < first
        assert multis.control.next_multi_offset < offset
        multis.check()


# -------------------------------------------------------------------------------------- what is not there


def offsets_of(*values: int) -> dict[int, NDArray[np.uint8]]:
    """Offsets of the multixacts 0, 1, 2… and no more of the segment than that."""
    return {0: np.array(values, "<u4").view(np.uint8)}


def members_of(*pairs: tuple[int, int]) -> dict[int, NDArray[np.uint8]]:
    """Members 0, 1, 2… as (xid, status)."""
    page = np.zeros(PAGE_SIZE, np.uint8)
    for n, (xid, status) in enumerate(pairs):
        group = n // 4 * 20
        page[group + n % 4] = status
        page[group + 4 + n % 4 * 4 : group + 8 + n % 4 * 4] = np.frombuffer(xid.to_bytes(4, "little"), np.uint8)
    return {0: page}


def look_up(
    offsets: dict[int, NDArray[np.uint8]], members: dict[int, NDArray[np.uint8]], *multis: int, next_multi: int = 1000
) -> tuple[list[int], list[int]]:
    updaters, outcomes = multixact_updaters(offsets, members, np.array(multis, np.uint32), next_multi, 7)
    return updaters.tolist(), outcomes.tolist()


MEMBERS = members_of((0, 0), (11, 0), (12, 5), (13, 1), (14, 4), (15, 0), (16, 3))


def test_updaters_come_in_the_order_asked_for_repeated_or_not() -> None:
    offsets = offsets_of(0, 1, 3, 6, 7)
    assert look_up(offsets, MEMBERS, 3, 1, 2, 1) == ([0, 12, 14, 12], [MULTI_FOUND] * 4)


def test_the_newest_multixact_ends_at_the_next_offset() -> None:
    assert look_up(offsets_of(0, 1, 3), MEMBERS, 2, next_multi=3) == ([14], [MULTI_FOUND])
    assert look_up(offsets_of(0, 1, 3, 0), MEMBERS, 2, next_multi=3) == ([14], [MULTI_FOUND])
    assert look_up(offsets_of(0, 1, 3, 0), MEMBERS, 2, next_multi=4)[1] == [MULTI_NO_END]


def test_what_is_not_there_is_told_apart() -> None:
    offsets = offsets_of(0, 1, 3, 0, 5)
    assert look_up(offsets, MEMBERS, 0, 3, 4, 7)[1] == [MULTI_NO_OFFSET, MULTI_NO_OFFSET, MULTI_NO_END, MULTI_NO_OFFSET]
    assert look_up({}, {}, 1)[1] == [MULTI_NO_OFFSET]
    assert look_up(offsets, {}, 1)[1] == [MULTI_NO_MEMBERS]
    assert look_up(offsets, {0: MEMBERS[0][:8]}, 1)[1] == [MULTI_NO_MEMBERS]
    assert look_up(offsets, {0: MEMBERS[0][:16]}, 1) == ([12], [MULTI_FOUND])


def test_members_that_were_not_written_yet_are_not_there() -> None:
    assert look_up(offsets_of(0, 1, 3), members_of(), 1)[1] == [MULTI_NO_MEMBERS]
    assert look_up(offsets_of(0, 1, 3), members_of((0, 0), (11, 0)), 1)[1] == [MULTI_NO_MEMBERS]


def test_damage_is_told() -> None:
    assert look_up(offsets_of(0, 3, 3), MEMBERS, 1)[1] == [MULTI_DAMAGED]
    assert look_up(offsets_of(0, 5, 3), MEMBERS, 1)[1] == [MULTI_DAMAGED]
    assert look_up(offsets_of(0, 1, 6), MEMBERS, 1)[1] == [MULTI_DAMAGED], "two updaters"
    assert look_up(offsets_of(0, 1, 3), members_of((0, 0), (11, MULTI_UPDATE + 1), (12, 0)), 1)[1] == [MULTI_DAMAGED]


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2 * PAGE_SIZE), st.integers(0, 2 * PAGE_SIZE))
def test_random_segments_give_outcomes(seed: int, offsets_size: int, members_size: int) -> None:
    """Whatever the bytes are, and however few: each look-up ends, with an outcome that is known."""
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.integers(0, 6, offsets_size // 4 + 1)).astype("<u4")
    values[rng.integers(0, len(values), 3)] = rng.integers(0, 2**32, 3)
    offsets = {0: values.view(np.uint8)[:offsets_size].copy()}
    members = {s: rng.integers(0, 7, members_size, np.uint8) for s in (0, 5)}
    multis = np.append(rng.integers(0, 4096, 200), rng.integers(0, 2**32, 5)).astype(np.uint32)
    updaters, outcomes = multixact_updaters(offsets, members, multis, 3000, 9000)
    assert len(updaters) == len(outcomes) == len(multis)
    assert (outcomes <= MULTI_DAMAGED).all()
    states = xid_states(members, multis)
    assert ((states <= 3) | (states == XID_NOT_COVERED)).all()


def test_many_members_are_looked_up_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xact, "_BATCH_MEMBERS", 4)
    assert look_up(offsets_of(0, 1, 3, 6, 7), MEMBERS, 1, 2, 3) == ([12, 14, 0], [MULTI_FOUND] * 3)


def test_an_xid_that_was_not_copied_is_told_apart() -> None:
    bits = {0: np.array([0b11100100], np.uint8), 4095: np.full(8, 0x55, np.uint8)}
    xids = np.array([0, 1, 2, 3, 4, 1 << 20, 4095 << 20, (4095 << 20) + 31, (4095 << 20) + 32, 2**32 - 1], np.uint32)
    out = XID_NOT_COVERED
    assert xid_states(bits, xids).tolist() == [0, 1, 2, 3, out, out, 1, 1, out, out]
    assert xid_states({}, xids[:0]).tolist() == []


def test_xids_are_compared_modulo_their_space() -> None:
    xids = np.array([3, 100, 2**31 + 99, 2**31 + 101, 2**32 - 1], np.uint32)
    assert precedes(xids, 100).tolist() == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pg_xact/0000", SlruFile(XACT, 0)), ("pg_xact/0FFF", SlruFile(XACT, 0xFFF)),
        ("pg_multixact/offsets/FFFF", SlruFile(MULTI_OFFSETS, 0xFFFF)),
        ("pg_multixact/members/14078", SlruFile(MULTI_MEMBERS, 0x14078)),
        ("pg_xact/1000", None), ("pg_multixact/offsets/10000", None), ("pg_multixact/members/14079", None),
        ("pg_xact/000", None), ("pg_xact/00000", None), ("pg_xact/00ff", None), ("pg_xact/0000.tmp", None),
        ("pg_xact/../0000", None), ("pg_xact/0000\n", None), ("pg_multixact/0000", None), ("pg_subtrans/0000", None),
        ("", None),
    ],
)  # fmt: skip
def test_segment_names(path: str, expected: SlruFile | None) -> None:
    assert parse_slru_path(path) == expected
    if expected is not None:
        assert slru_path(expected.kind, expected.segment) == path
