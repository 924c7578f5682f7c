"""The contract of a backup source, as tests. A plugin's author subclasses it and says what is in the backup::

    class TestMySource(BackupSourceContract):
        @pytest.fixture
        def make_source(self):
            return lambda: MySource(...)

        @pytest.fixture
        def known(self):
            return KnownBackup(system_identifier=..., major=17, files={"base/5/16384": content, ...})

Every test opens the backup anew, so it should be a small one (some MiB), with something in it for every kind of
path that the source can yield (a tablespace, a file of more than one chunk, an empty file).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from walshadow_core.api import (
    Backup,
    BackupFile,
    BackupPart,
    BackupRequest,
    BackupSource,
    Lsn,
    RelFileLocator,
    SourceError,
    WalshadowError,
)

NEEDED = ("global/pg_control", "pg_xact/0000", "pg_multixact/offsets/0000", "pg_multixact/members/0000")
"""Paths that no pass can do without, whatever the filter set."""

_THREAD_SECONDS = 60.0


@dataclass(frozen=True)
class KnownBackup:
    """What the author knows of the backup. ``files`` maps paths to their whole content; they must not change
    while the tests run. ``locators`` is the filter set to ask for (``files`` must be part of it, or be
    files that come always); ``tablespaces`` are the oids that the backup has."""

    system_identifier: int
    major: int
    files: Mapping[str, bytes]
    locators: frozenset[RelFileLocator] = frozenset()
    tablespaces: frozenset[int] = field(default_factory=frozenset)

    @property
    def request(self) -> BackupRequest:
        """The request that the tests open the backup with."""
        return BackupRequest(self.locators, label="walshadow contract")


def content(file: BackupFile) -> bytes:
    """The whole content of a file. Each piece is copied before the next one is taken."""
    pieces = []
    for piece in file.chunks():
        assert isinstance(piece, memoryview), "chunks() gives memoryviews"
        assert piece.contiguous and piece.itemsize == 1 and piece.ndim == 1, "a chunk is plain bytes in a row"
        pieces.append(bytes(piece))
    return b"".join(pieces)


def files_of(backup: Backup) -> Iterator[tuple[BackupPart, BackupFile]]:
    """Every file of every part, in order."""
    for part in backup.parts():
        for file in part.files():
            yield part, file


def is_normalised(path: str) -> bool:
    """Relative to the data directory, with ``/``, without empty, ``.`` or ``..`` steps."""
    return not path.startswith("/") and all(step not in ("", ".", "..") for step in path.split("/"))


class BackupSourceContract:
    """Subclass it with fixtures ``make_source`` and ``known`` (and ``nothing_left`` where the source keeps
    something at its other end while a backup is open)."""

    @pytest.fixture
    def make_source(self) -> Callable[[], BackupSource]:
        """A function that gives a new source."""
        raise NotImplementedError("the contract needs a fixture make_source")

    @pytest.fixture
    def known(self) -> KnownBackup:
        """What is in the backup."""
        raise NotImplementedError("the contract needs a fixture known")

    @pytest.fixture
    def nothing_left(self) -> Callable[[], None]:
        """A function that fails if an ended backup left anything running at the source."""
        return lambda: None

    # -- facts

    def test_preflight_passes_and_starts_nothing(
        self, make_source: Callable[[], BackupSource], nothing_left: Callable[[], None]
    ) -> None:
        source = make_source()
        source.preflight()
        nothing_left()
        source.preflight()

    def test_start_facts_are_known_before_anything_is_read(
        self, make_source: Callable[[], BackupSource], known: KnownBackup
    ) -> None:
        with make_source().open(known.request) as backup:
            start = backup.start
            assert isinstance(start.b_redo, Lsn) and start.b_redo > 0
            assert start.timeline >= 1
            assert start.system_identifier == known.system_identifier
            assert start.server_version // 10000 == known.major
            assert known.tablespaces <= set(start.tablespaces)
            assert start.size_estimate is None or start.size_estimate > 0
            assert all(part.bytes_read == 0 for part in backup.parts())

    def test_end_facts_come_after_every_part(self, make_source: Callable[[], BackupSource], known: KnownBackup) -> None:
        with make_source().open(known.request) as backup:
            with pytest.raises(SourceError):
                backup.end()
            for _ in files_of(backup):
                pass
            end = backup.end()
            assert end.b_end >= backup.start.b_redo
            assert end.timeline >= backup.start.timeline
            assert backup.end() == end, "end() says the same when asked again"

    # -- parts

    def test_parts_are_named_apart_and_stay_the_same(
        self, make_source: Callable[[], BackupSource], known: KnownBackup
    ) -> None:
        with make_source().open(known.request) as backup:
            names = [part.name for part in backup.parts()]
            assert names and all(names)
            assert len(set(names)) == len(names)
            assert [part.name for part in backup.parts()] == names

    def test_parts_may_be_read_in_any_order(self, make_source: Callable[[], BackupSource], known: KnownBackup) -> None:
        with make_source().open(known.request) as backup:
            paths = [file.path for part in reversed(backup.parts()) for file in part.files()]
            assert set(known.files) <= set(paths)
            backup.end()

    def test_a_part_yields_only_paths_that_it_said(
        self, make_source: Callable[[], BackupSource], known: KnownBackup
    ) -> None:
        with make_source().open(known.request) as backup:
            for part, file in files_of(backup):
                assert part.paths is None or file.path in part.paths

    def test_bytes_read_only_grows(self, make_source: Callable[[], BackupSource], known: KnownBackup) -> None:
        with make_source().open(known.request) as backup:
            for part in backup.parts():
                last, sizes = 0, 0
                for file in part.files():
                    assert part.bytes_read >= last
                    last, sizes = part.bytes_read, sizes + file.size
                assert part.bytes_read >= last
                assert part.bytes_read > 0 or not sizes

    # -- files

    def test_every_file_gives_exactly_its_size(
        self, make_source: Callable[[], BackupSource], known: KnownBackup
    ) -> None:
        with make_source().open(known.request) as backup:
            for _, file in files_of(backup):
                assert sum(len(piece) for piece in file.chunks()) == file.size, file.path

    def test_known_files_come_whole_and_once(self, make_source: Callable[[], BackupSource], known: KnownBackup) -> None:
        with make_source().open(known.request) as backup:
            found: dict[str, bytes] = {}
            seen: list[str] = []
            for _, file in files_of(backup):
                seen.append(file.path)
                if file.path in known.files:
                    found[file.path] = content(file)
            assert found.keys() == known.files.keys()
            for path, expected in known.files.items():
                assert found[path] == expected, path
            assert len(seen) == len(set(seen)), "a path comes once in a backup"
            assert set(NEEDED) <= set(seen)

    def test_paths_are_normalised(self, make_source: Callable[[], BackupSource], known: KnownBackup) -> None:
        with make_source().open(known.request) as backup:
            for _, file in files_of(backup):
                assert is_normalised(file.path), file.path

    def test_a_file_may_be_left_in_its_middle(
        self, make_source: Callable[[], BackupSource], known: KnownBackup
    ) -> None:
        """One piece of every other file is taken and the rest left: what comes after is unharmed."""
        with make_source().open(known.request) as backup:
            found = {}
            for _, file in files_of(backup):
                if file.path in known.files:
                    found[file.path] = content(file)
                else:
                    next(iter(file.chunks()), None)
            assert found == dict(known.files)
            backup.end()

    def test_a_file_that_went_by_gives_no_foreign_bytes(
        self, make_source: Callable[[], BackupSource], known: KnownBackup
    ) -> None:
        with make_source().open(known.request) as backup:
            earlier: BackupFile | None = None
            for _, file in files_of(backup):
                if earlier is not None and earlier.size:
                    with pytest.raises(Exception):  # noqa: B017 - which error is the source's own choice
                        content(earlier)
                earlier = file

    # -- leaving, and coming again

    def test_leaving_at_once(
        self,
        make_source: Callable[[], BackupSource],
        known: KnownBackup,
        nothing_left: Callable[[], None],
    ) -> None:
        source = make_source()
        with source.open(known.request):
            pass
        nothing_left()
        with source.open(known.request) as backup:
            assert {file.path for _, file in files_of(backup)} >= set(known.files)
            backup.end()

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_leaving_by_an_error_in_the_middle_of_a_file(
        self,
        make_source: Callable[[], BackupSource],
        known: KnownBackup,
        nothing_left: Callable[[], None],
        error: type[BaseException],
    ) -> None:
        with pytest.raises(error), make_source().open(known.request) as backup:
            for _, file in files_of(backup):
                for _ in file.chunks():
                    raise error
        nothing_left()

    def test_two_backups_at_once(
        self,
        make_source: Callable[[], BackupSource],
        known: KnownBackup,
        nothing_left: Callable[[], None],
    ) -> None:
        source = make_source()
        with source.open(known.request) as first, source.open(known.request) as second:
            for backup in (second, first):
                found = {file.path: content(file) for _, file in files_of(backup) if file.path in known.files}
                assert found == dict(known.files)
                backup.end()
        nothing_left()

    def test_a_part_may_be_read_by_another_thread(
        self, make_source: Callable[[], BackupSource], known: KnownBackup
    ) -> None:
        found: dict[str, bytes] = {}

        def read(part: BackupPart) -> None:
            for file in part.files():
                if file.path in known.files:
                    found[file.path] = content(file)

        with make_source().open(known.request) as backup:
            threads = [threading.Thread(target=read, args=(part,), daemon=True) for part in backup.parts()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(_THREAD_SECONDS)
            assert found == dict(known.files)
            backup.end()

    def test_leaving_ends_a_thread_that_reads(
        self,
        make_source: Callable[[], BackupSource],
        known: KnownBackup,
        nothing_left: Callable[[], None],
    ) -> None:
        """The reader stops with an error of ours, or had all of it already; it never hangs."""
        outcome: list[object] = []
        begun = threading.Event()

        def read(part: BackupPart) -> None:
            try:
                for file in part.files():
                    begun.set()
                    content(file)
                outcome.append(None)
            except WalshadowError as error:
                outcome.append(error)
            finally:
                begun.set()

        with make_source().open(known.request) as backup:
            thread = threading.Thread(target=read, args=(backup.parts()[0],), daemon=True)
            thread.start()
            assert begun.wait(_THREAD_SECONDS)
        thread.join(_THREAD_SECONDS)
        assert not thread.is_alive()
        assert len(outcome) == 1
        nothing_left()
