"""The status that copied files give, against files written here bit by bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from walshadow_core.api import XID_ABORTED, XID_COMMITTED, XID_IN_PROGRESS, FormatError, WalshadowError
from walshadow_core.pgformat.control import ControlFile
from walshadow_core.visibility.status import CopiedStatus, WindowStatus

PAGE = 8192
SEGMENT = 32 * PAGE
XIDS_PER_PAGE = 32768
XIDS_PER_SEGMENT = 1 << 20


def control(**given_: int) -> ControlFile:
    values: dict[str, Any] = {f.name: 0 for f in fields(ControlFile)}
    return ControlFile(**(values | {"next_xid": 1000, "next_multi": 1, "oldest_multi": 1} | given_))


def xids(*numbers: int) -> NDArray[np.uint32]:
    return np.array(numbers, np.uint32)


def xact_files(states: Mapping[int, int], pages: Iterable[int]) -> dict[str, bytes]:
    """pg_xact segments that reach to the last of ``pages`` in each."""
    files: dict[int, bytearray] = {}
    for page in pages:
        data = files.setdefault(page // 32, bytearray())
        data.extend(bytes(max(0, (page % 32 + 1) * PAGE - len(data))))
    for xid, state in states.items():
        files[xid >> 20][(xid & 0xFFFFF) // 4] |= state << 2 * (xid % 4)
    return {f"pg_xact/{number:04X}": bytes(data) for number, data in files.items()}


class MultiFiles:
    """pg_multixact, filled as Postgres fills it from some multixact and some member offset on."""

    def __init__(self, next_multi: int = 1, next_offset: int = 1) -> None:
        self.next_multi = self.oldest = next_multi
        self.next_offset = next_offset
        self.files: dict[str, bytearray] = {}

    def _write(self, path: str, at: int, data: bytes) -> None:
        content = self.files.setdefault(path, bytearray())
        content.extend(bytes(max(0, (at // PAGE + 1) * PAGE - len(content))))
        content[at : at + len(data)] = data

    def add(self, members: list[tuple[int, int]], *, with_members: bool = True) -> int:
        """A multixact of (xid, status) members; its number."""
        multi, offset = self.next_multi, self.next_offset
        offset = offset or 1  # offset 0 means "not set", and is left out
        self.next_multi = multi + 1 if multi < 2**32 - 1 else 1
        self._write(f"pg_multixact/offsets/{multi // 65536:04X}", multi % 65536 * 4, offset.to_bytes(4, "little"))
        for xid, status in members:
            if offset == 0:
                offset = 1
            page, slot = divmod(offset, 1636)
            path = f"pg_multixact/members/{page // 32:04X}"
            group = page % 32 * PAGE + slot // 4 * 20
            self._write(path, group, b"")
            if with_members:
                self._write(path, group + slot % 4, bytes([status]))
                self._write(path, group + 4 + slot % 4 * 4, xid.to_bytes(4, "little"))
            offset = (offset + 1) % 2**32
        self.next_offset = offset
        return multi

    def status(self, memory_bytes: int = 1 << 30, **given_: int) -> CopiedStatus:
        facts = {
            "next_multi": self.next_multi,
            "next_multi_offset": self.next_offset,
            "oldest_multi": self.oldest,
        }
        files: dict[str, bytes | bytearray] = {**xact_files({}, [0]), **self.files}
        return complete(files, control(**(facts | given_)), memory_bytes)


def complete(files: Mapping[str, bytes | bytearray], facts: ControlFile, memory_bytes: int = 1 << 30) -> CopiedStatus:
    status = CopiedStatus(memory_bytes)
    for path, data in files.items():
        assert status.wants(path)
        status.add(path, data)
    assert not status.complete
    status.complete_with(facts)
    assert status.complete
    return status


def test_wants_the_files_of_transaction_status_alone() -> None:
    assert CopiedStatus.wants("pg_xact/0000") and CopiedStatus.wants("pg_xact/0FFF")
    assert CopiedStatus.wants("pg_multixact/offsets/FFFF") and CopiedStatus.wants("pg_multixact/members/14078")
    for other in ("pg_xact", "pg_xact/0000.tmp", "base/5/1249", "pg_subtrans/0000", "pg_commit_ts/0000", "pg_xact/x"):
        assert not CopiedStatus.wants(other)


@settings(deadline=None, max_examples=50)
@given(data=st.data(), memory=st.sampled_from([0, SEGMENT, 1 << 30]))
def test_states_of_every_xid_around_the_next_one(data: st.DataObject, memory: int) -> None:
    next_xid = data.draw(
        st.one_of(st.integers(3, 2**32 - 1), st.integers(3, 40_000), st.integers(2**32 - 40_000, 2**32 - 1))
    )
    epoch = data.draw(st.integers(1, 5))
    page = next_xid // XIDS_PER_PAGE
    older, newer = data.draw(st.integers(0, 80)), data.draw(st.integers(0, 40))
    pages = [(page + d) % 2**17 for d in range(-older, newer + 1)]
    # a segment file starts with its first page
    first = (page - older) // 32 * 32
    pages = [(first + d) % 2**17 for d in range((page - older) % 32)] + pages
    low, high = first * XIDS_PER_PAGE, (page + newer + 1) * XIDS_PER_PAGE
    numbers = data.draw(st.lists(st.integers(low, high - 1), max_size=60))
    states = {n % 2**32: data.draw(st.integers(0, 3)) for n in numbers if n % 2**32 > 2}
    status = complete(xact_files(states, pages), control(next_xid=epoch << 32 | next_xid), memory)
    asked = np.array(list(states), np.uint32)
    assert status.state(asked).tolist() == list(states.values())
    ahead = np.array([high % 2**32, (high + 10**6) % 2**32, (next_xid + 2**31 - 1) % 2**32], np.uint32)
    ahead = ahead[ahead > 2]
    assert set(status.state(ahead).tolist()) <= {XID_IN_PROGRESS}
    gone = np.array([(low - 1) % 2**32], np.uint32)
    if gone[0] > 2 and high - low < 2**31:
        with pytest.raises(FormatError, match=rf"transaction {gone[0]} was truncated away .*VACUUM \(FREEZE\)"):
            status.state(np.concatenate((asked, gone)))
    status.close()


def test_the_special_xids_need_no_file() -> None:
    status = complete(xact_files({}, [5 * 32]), control(next_xid=5 * XIDS_PER_SEGMENT + 10))
    assert status.state(xids(0, 1, 2)).tolist() == [XID_ABORTED, XID_COMMITTED, XID_COMMITTED]


@pytest.mark.parametrize("next_xid", [900, 2**32 - 20])
def test_what_a_late_snapshot_would_see(next_xid: int) -> None:
    """Of those that a snapshot holds for running, and of those that are not there yet for it; around the end of all
    numbers, too."""
    at = {n: (next_xid + n) % 2**32 for n in range(-5, 200_100)}
    status = CopiedStatus()
    copied = {at[-3]: XID_COMMITTED, at[-2]: XID_ABORTED, at[50]: XID_COMMITTED, at[60]: XID_ABORTED}
    for path, content in xact_files(copied, sorted({at[-3] // XIDS_PER_PAGE, at[50] // XIDS_PER_PAGE})).items():
        status.add(path, content)
    ended = sorted(
        [(at[-5], XID_COMMITTED), (at[-4], XID_ABORTED), (at[70], XID_COMMITTED), (at[200_000], XID_COMMITTED)]
    )
    window = WindowStatus(
        xids(*(xid for xid, _ in ended)), np.array([state for _, state in ended], np.uint8), xids(), xids(), None
    )
    status.complete_with(control(next_xid=at[40]), window)
    running = xids(*(at[n] for n in range(-5, 0)))
    assert set(status.committed(running, next_xid).tolist()) == {at[-3], at[-5], at[50], at[70], at[200_000]}
    assert set(status.committed(running[:1], at[71]).tolist()) == {at[-5], at[200_000]}
    assert status.committed(running[-1:], at[200_001]).tolist() == []


def test_a_hole_between_copied_files_is_an_error() -> None:
    files = xact_files({}, [31, 63, 95])
    del files["pg_xact/0001"]
    facts = control(next_xid=2 * XIDS_PER_SEGMENT + 10)
    status = complete(files, facts)
    assert status.state(xids(10)).tolist() == [XID_IN_PROGRESS]
    with pytest.raises(FormatError, match=r"pg_xact/0001.* transaction 1048586,.*take another"):
        status.state(xids(10, XIDS_PER_SEGMENT + 10))
    # so is one that ends early, though others follow
    files["pg_xact/0001"] = bytes(PAGE)
    with pytest.raises(FormatError, match="pg_xact/0001"):
        complete(files, facts).state(xids(2 * XIDS_PER_SEGMENT - 1))


def test_nothing_is_told_before_it_is_complete() -> None:
    status = CopiedStatus()
    status.add("pg_xact/0000", bytes(PAGE))
    for look_up in (status.state, status.updaters):
        with pytest.raises(RuntimeError, match="before it was complete"):
            look_up(xids(10))
    status.complete_with(control())
    with pytest.raises(RuntimeError, match="already"):
        status.add("pg_xact/0001", bytes(PAGE))
    with pytest.raises(RuntimeError, match="already"):
        status.complete_with(control())


@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE + 1, SEGMENT + PAGE])
def test_a_size_that_no_segment_has_is_an_error(size: int) -> None:
    with pytest.raises(FormatError, match=r"pg_xact/0000 has \d+ bytes"):
        CopiedStatus().add("pg_xact/0000", bytes(size))


def test_a_file_that_comes_twice_is_an_error() -> None:
    status = CopiedStatus()
    status.add("pg_xact/0000", memoryview(bytes(PAGE)))
    with pytest.raises(FormatError, match="twice"):
        status.add("pg_xact/0000", bytearray(PAGE))


def test_a_backup_without_pg_xact_is_an_error() -> None:
    status = CopiedStatus()
    status.add("pg_multixact/offsets/0000", bytes(PAGE))
    status.add("pg_xact/0000", b"")
    with pytest.raises(FormatError, match="no pg_xact"):
        status.complete_with(control())


def test_the_content_is_copied() -> None:
    data = bytearray(next(iter(xact_files({10: XID_COMMITTED}, [0]).values())))
    status = CopiedStatus()
    status.add("pg_xact/0000", data)
    data[:] = bytes(len(data))
    status.complete_with(control())
    assert status.state(xids(10)).tolist() == [XID_COMMITTED]


def test_past_its_memory_it_goes_to_a_file_that_has_no_name(tmp_path: Path) -> None:
    states = {segment * XIDS_PER_SEGMENT + 7: 1 + segment % 2 for segment in range(20)}
    files = xact_files(states, range(20 * 32))
    status = CopiedStatus(3 * SEGMENT, tmp_path)
    for path, data in files.items():
        status.add(path, data)
    assert list(tmp_path.iterdir()) == []
    status.complete_with(control(next_xid=20 * XIDS_PER_SEGMENT - 1))
    assert status.state(np.array(list(states), np.uint32)).tolist() == list(states.values())
    status.close()
    status.close()
    with pytest.raises(WalshadowError, match=r"gone: No such file"):
        CopiedStatus(0, tmp_path / "gone").add("pg_xact/0000", bytes(PAGE))


MEMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=30)


@settings(deadline=None, max_examples=50)
@given(
    first=st.one_of(st.just(1), st.integers(1, 2**32 - 1), st.integers(2**32 - 20, 2**32 - 1)),
    offset=st.one_of(st.just(1), st.integers(1, 2**32 - 1), st.integers(2**32 - 200, 2**32 - 1)),
    made=st.lists(st.tuples(MEMBERS, st.sampled_from([0, 4, 5])), min_size=1, max_size=40),
    memory=st.sampled_from([0, 1 << 30]),
)
def test_updaters_of_multixacts(first: int, offset: int, made: list[tuple[list[int], int]], memory: int) -> None:
    """Multixacts and member offsets may wrap around; the updater may be any of the members."""
    files = MultiFiles(first, offset)
    expected = {}
    for number, (lockers, kind) in enumerate(made):
        members = [(1000 * number + 3 + i, lock) for i, lock in enumerate(lockers)]
        if kind:
            members.insert(number % len(members), (number + 500_000, kind))
        expected[files.add(members)] = number + 500_000 if kind else 0
    status = files.status(memory)
    asked = np.array([0, *expected, *reversed(expected)], np.uint32)
    found = [0, *expected.values(), *reversed(expected.values())]
    assert status.updaters(asked).tolist() == found
    status.close()


LOCKED_TWICE = [(10, 0), (11, 1)]


def test_multixacts_made_after_the_checkpoint_are_an_error_that_names_the_remedies() -> None:
    files = MultiFiles()
    known = files.add(LOCKED_TWICE)
    facts = {"next_multi": files.next_multi, "next_multi_offset": files.next_offset}
    newer = files.add([(12, 0), (13, 5)])  # in the copied files too: that proves nothing
    status = files.status(**facts)
    assert status.updaters(xids(known, 0)).tolist() == [0, 0]
    with pytest.raises(FormatError, match=r"multixact 2 .*load again.* VACUUM \(FREEZE\)"):
        status.updaters(xids(known, newer))


def test_the_newest_multixact_ends_where_the_control_file_says() -> None:
    files = MultiFiles()
    newest = files.add([(10, 0), (11, 4)])
    facts = {"next_multi": files.next_multi, "next_multi_offset": files.next_offset}
    # its successor came and has its offset in the copy, as it will be after a crash of the server
    files.next_offset += 5
    files.add(LOCKED_TWICE)
    assert files.status(**facts).updaters(xids(newest)).tolist() == [11]


@pytest.mark.parametrize("behind", [0, 3], ids=["control file of the beginning", "of the end"])
def test_the_multixact_before_those_of_the_window_ends_where_the_first_of_them_begins(behind: int) -> None:
    """The copied page of offsets was taken before that one came."""
    files = MultiFiles()
    newest = files.add([(10, 0), (11, 4)])
    first = newest + 1
    window = WindowStatus(xids(), np.empty(0, np.uint8), xids(first), xids(12), (first, files.next_offset))
    facts = {"next_multi": first + behind, "next_multi_offset": files.next_offset + 2 * behind, "oldest_multi": 1}
    status = CopiedStatus()
    for path, data in {**xact_files({}, [0]), **files.files}.items():
        status.add(path, data)
    status.complete_with(control(**facts), window)
    assert status.updaters(xids(newest, first, 0)).tolist() == [11, 12, 0]
    with pytest.raises(FormatError, match="multixact 3 was made after the backup began"):
        status.updaters(xids(first + 1))


def test_multixacts_older_than_the_oldest_are_an_error() -> None:
    files = MultiFiles()
    old, new = files.add(LOCKED_TWICE), files.add(LOCKED_TWICE)
    status = files.status(oldest_multi=new)
    assert status.updaters(xids(new)).tolist() == [0]
    with pytest.raises(FormatError, match=r"multixact 1 is older .*VACUUM \(FREEZE\)"):
        status.updaters(xids(old))


@pytest.mark.parametrize(
    "lost",
    ["offsets file", "members file", "offset", "next offset", "members", "one member"],
)
def test_a_multixact_that_was_not_copied_is_an_error_that_names_the_remedies(lost: str) -> None:
    files = MultiFiles()
    files.add(LOCKED_TWICE)
    multi = files.add([(10, 0), (11, 5)], with_members=lost != "members")
    files.add(LOCKED_TWICE)
    if lost == "offsets file":
        del files.files["pg_multixact/offsets/0000"]
    elif lost == "members file":
        del files.files["pg_multixact/members/0000"]
    elif lost in ("offset", "next offset"):
        at = 4 * (multi if lost == "offset" else multi + 1)
        files.files["pg_multixact/offsets/0000"][at : at + 4] = bytes(4)
    elif lost == "one member":  # the updater, at offset 4: the first of its group
        files.files["pg_multixact/members/0000"][20:28] = bytes(8)
    with pytest.raises(FormatError, match=rf"members of multixact {multi} .*load again.* VACUUM \(FREEZE\)"):
        files.status().updaters(xids(multi))
