"""A load that is killed, interrupted, or loses its source or its destination: the destination is as it was, or
wholly new, and the next load works."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import clickhouse_connect
import pytest
from walshadow_sink_clickhouse.engine import EngineProcess

from tests.conftest import MAJORS
from walshadow_core.api import WalshadowError
from walshadow_core.cli.main import main
from walshadow_core.testing.postgres import PostgresServer

EVERYDAY, CAMPAIGN = 15, 200
ROWS = 20_000
PATIENCE = 60.0
"""Seconds after which something that must happen has not happened."""

_NURSERY = """
import json, os, signal, sys
from walshadow_core.cli.main import main
from walshadow_core.plugins import Plugins
from walshadow_core.decode.warmup import warmup
import walshadow_core.backfill.load, walshadow_core.catalog.sql, clickhouse_connect
Plugins.load()
warmup()
for line in sys.stdin:
    words, out, err = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for path, number in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass
class Child:
    """A running ``walshadow`` process."""

    pid: int
    _status: IO[str]
    out_path: Path
    err_path: Path
    started: float = field(default_factory=time.monotonic)

    def send(self, number: int) -> None:
        """Send a signal; one that has ended already is left alone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code, or the negative number of the signal that ended it."""
        return int(self._status.readline())

    @property
    def err(self) -> str:
        return self.err_path.read_text()


class Nursery:
    """Starts ``walshadow`` processes without waiting for imports: each is a fork of one that has them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", _NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, *words: str) -> Child:
        """Run the program with ``words``. One runs at a time."""
        assert self._process.stdin is not None and self._process.stdout is not None
        out, err = self._folder / "out", self._folder / "err"
        self._process.stdin.write(json.dumps([words, str(out), str(err)]) + "\n")
        self._process.stdin.flush()
        return Child(int(self._process.stdout.readline()), self._process.stdout, out, err)

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def until(condition: Callable[[], Any], what: str) -> Any:
    """What ``condition`` gives, as soon as it gives something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not after {PATIENCE} s: {what}"
        time.sleep(0.003)
    return found


@dataclass
class Scene:
    """Tables ``a`` and ``b`` of the same columns at the source, each of which can be loaded into ``t``. ``contents``
    says what ``t`` looks like with either in it."""

    pg: PostgresServer
    nursery: Nursery
    folder: Path
    engine: EngineProcess
    contents: dict[tuple[Any, ...], str] = field(default_factory=dict)
    whole_run: float = 0.0

    def __post_init__(self) -> None:
        self._client: Any = None

    def words(self, table: str, *more: str) -> tuple[str, ...]:
        """The command that loads ``table`` into ``t``."""
        return (
            "load", "--source", self.pg.dsn(), "--to", self.engine.url("shop"), "--table", table,
            "--into", f"public.{table}=t", "--no-progress", "--memory", "32", *more,
        )  # fmt: skip

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query at the destination."""
        if self._client is None:
            self._client = clickhouse_connect.get_client(
                host=self.engine.host, port=self.engine.port, autogenerate_session_id=False
            )
        found: list[tuple[Any, ...]] = self._client.query(sql).result_rows
        return found

    def tables(self) -> set[str]:
        """The destination's tables."""
        return {row[0] for row in self.rows("SELECT name FROM system.tables WHERE database = 'shop'")}

    def uuid(self) -> str:
        """What follows the storage of ``t``."""
        return str(self.rows("SELECT toString(uuid) FROM system.tables WHERE database = 'shop' AND name = 't'")[0][0])

    def digest(self) -> tuple[Any, ...]:
        """What a reader sees in ``t``."""
        return self.rows("SELECT count(), sum(cityHash64(id, v, w)), uniqExact(_lsn, _commit_ts) FROM shop.t FINAL")[0]

    def content(self) -> str:
        """Which of the source's tables is in ``t``, every row of it and no other."""
        return self.contents[self.digest()]

    def load(self, table: str) -> None:
        """Load ``table``, in this process, and see that all is well."""
        assert main(self.words(table)) == 0
        assert self.content() == table
        assert self.tables() == {"t"}

    def backups(self) -> int:
        """Base backups that the source is giving."""
        return int(self.pg.execute("select count(*) from pg_stat_progress_basebackup")[0][0])

    def no_backup_is_left(self) -> None:
        """The server has ended the backup, shortly."""
        until(lambda: self.backups() == 0, "the end of the server's backup")


def other(table: str) -> str:
    return "b" if table == "a" else "a"


SLOWLY = ("--from-option", "max_rate=48MB")
"""Stretches the reading, so that moments fall into it."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("killed")
    with PostgresServer(MAJORS[-1]) as pg, EngineProcess(folder / "engine") as engine:
        for table, rows in (("a", ROWS), ("b", ROWS + 1000)):
            pg.execute(
                f"create table {table} (id int primary key, v text, w text not null);"
                f"insert into {table} select i, '{table}' || i, repeat('{table}', 400) from generate_series(1, {rows}) i"
            )
        pg.execute("checkpoint")
        nursery = Nursery(folder)
        found = Scene(pg, nursery, folder, engine)
        for table in ("b", "a"):
            child = nursery.start(*found.words(table, *SLOWLY))
            assert child.wait() == 0, child.err
            found.whole_run = time.monotonic() - child.started
            words = ("--source", pg.dsn(), "--to", engine.url("shop"), "--table", table, "--into", "t")
            assert main(("verify", *words)) == 0
            found.contents[found.digest()] = table
        yield found
        nursery.close()


def kill_and_look(scene: Scene, number: int, strike: Callable[[Child], None]) -> str:
    """Load the other table, let ``strike`` send signal ``number`` at its moment, and see that ``t`` is wholly the old
    table or wholly the new one, and that the next load works. Gives how the load ended, for the test's own counts."""
    old = scene.content()
    new = other(old)
    child = scene.nursery.start(*scene.words(new, *SLOWLY))
    strike(child)
    status = child.wait()
    if status == 0:
        scene.whole_run = min(scene.whole_run, time.monotonic() - child.started)
    content = scene.content()
    assert content in (old, new)
    scene.no_backup_is_left()
    assert "Traceback" not in child.err
    if status == 0:
        assert content == new
    elif number == signal.SIGINT:
        assert status == 130, child.err
        # Typer ends a run whose words are not all read yet with the same code, and says nothing.
        assert child.err.splitlines()[-1:] in (["interrupted"], []), child.err
        assert scene.tables() == {"t"}, child.err
    else:
        assert status == -number
    ended = "done" if status == 0 else f"{'old' if content == old else 'new'}, {len(scene.tables()) - 1} staging"
    scene.load(new if content == old else old)
    return ended


def campaign(scene: Scene, number: int, times: int) -> None:
    """Signals at moments spread over the whole run, one at random in each stretch."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}, a whole run takes {scene.whole_run:.2f} s")
    dice = random.Random(seed)
    ends: dict[str, int] = {}
    for nth in range(times):
        moment = scene.whole_run * 1.05 * (nth + dice.random()) / times

        def strike(child: Child, at: float = moment) -> None:
            time.sleep(max(0.0, child.started + at - time.monotonic()))
            child.send(number)

        ended = kill_and_look(scene, number, strike)
        ends[ended] = ends.get(ended, 0) + 1
    print(ends)
    assert sum(n for how, n in ends.items() if how != "done") > times // 4, "the moments did not fall into the run"


def test_killed_at_any_moment(scene: Scene) -> None:
    campaign(scene, signal.SIGKILL, EVERYDAY)


def test_interrupted_at_any_moment(scene: Scene) -> None:
    campaign(scene, signal.SIGINT, 6)


def test_terminated_at_any_moment(scene: Scene) -> None:
    campaign(scene, signal.SIGTERM, 3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "SIGINT"])
def test_a_campaign_of_kills(scene: Scene, number: int) -> None:
    campaign(scene, number, CAMPAIGN)


PHASES: dict[str, Callable[[Scene], Callable[[], Any]]] = {
    "the backup runs": lambda scene: lambda: scene.backups(),
    "staging is there": lambda scene: lambda: "t__wsstg" in scene.tables(),
    "rows are in staging": lambda scene: (
        lambda: scene.rows(
            "SELECT 1 FROM system.tables WHERE database = 'shop' AND name = 't__wsstg' AND total_rows > 0"
        )
    ),
    "the exchange is done": lambda scene: (lambda before: lambda: scene.uuid() != before)(scene.uuid()),
}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "SIGINT"])
@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_each_phase(scene: Scene, phase: str, number: int) -> None:
    reached = PHASES[phase](scene)

    def strike(child: Child) -> None:
        until(reached, phase)
        child.send(number)

    ended = kill_and_look(scene, number, strike)
    print(ended)
    if phase == "the exchange is done":
        assert not ended.startswith("old")
    else:
        assert ended.startswith("old")


def test_the_first_load_of_a_table_is_killed(scene: Scene) -> None:
    """Where there was no table there is none, or a whole one."""
    for number in (signal.SIGKILL, signal.SIGINT):
        child = scene.nursery.start(*scene.words("a", "--into", "public.a=fresh", *SLOWLY))
        until(lambda: "fresh__wsstg" in scene.tables(), "staging")
        child.send(number)
        assert child.wait() == (130 if number == signal.SIGINT else -number)
        assert "fresh" not in scene.tables()
        scene.no_backup_is_left()
    assert main(scene.words("a", "--into", "public.a=fresh")) == 0
    assert scene.tables() == {"t", "fresh"}
    assert scene.rows("SELECT count() FROM shop.fresh") == [(ROWS,)]
    scene.rows("DROP TABLE shop.fresh SYNC")


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_the_program_itself_ends_cleanly(scene: Scene, by: signal.Signals) -> None:
    """The installed program, not a fork of the test's."""
    old = scene.content()
    program = Path(sys.executable).parent / "walshadow"
    process = subprocess.Popen(
        [program, *scene.words(other(old), "--from-option", "max_rate=4MB")], stderr=subprocess.PIPE, text=True
    )
    until(lambda: "t__wsstg" in scene.tables(), "staging")
    process.send_signal(by)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err
    assert scene.tables() == {"t"}
    scene.no_backup_is_left()
    assert scene.content() == old


def test_the_source_ends_the_connection(scene: Scene) -> None:
    old = scene.content()
    child = scene.nursery.start(*scene.words(other(old), "--from-option", "max_rate=4MB"))
    until(lambda: "t__wsstg" in scene.tables(), "staging")
    until(
        lambda: scene.pg.execute("select pg_terminate_backend(pid) from pg_stat_progress_basebackup"), "the walsender"
    )
    assert child.wait() == 1
    assert child.err.count("\n") == 1, child.err
    assert child.err.startswith("error: the backup of "), child.err
    assert scene.tables() == {"t"}
    assert scene.content() == old
    scene.load(other(old))


def test_the_destination_dies(scene: Scene) -> None:
    old = scene.content()
    child = scene.nursery.start(*scene.words(other(old), "--from-option", "max_rate=48MB"))
    until(PHASES["rows are in staging"](scene), "rows")
    path, port = scene.folder / "engine", scene.engine.port
    os.kill(scene.engine.pid, signal.SIGKILL)
    status = child.wait()
    scene.engine.stop()
    scene.no_backup_is_left()
    assert status == 1, child.err
    failures = [line for line in child.err.splitlines() if line.startswith(("error:", "failed:"))]
    assert len(failures) == 1, child.err
    assert f"127.0.0.1:{port}" in failures[0]

    def again() -> EngineProcess | None:
        try:
            return EngineProcess(path, port)
        except WalshadowError:
            return None

    scene.engine = until(again, "the engine")
    assert scene.content() == old
    scene.load(other(old))
    assert "Traceback" not in child.err
