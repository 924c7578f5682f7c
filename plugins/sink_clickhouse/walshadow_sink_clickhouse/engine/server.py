"""The server: in this process, or as a process of its own (one process owns an engine's directory)."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from walshadow_core.api import DestinationError
from walshadow_sink_clickhouse.engine.handler import EngineHandler
from walshadow_sink_clickhouse.engine.handles import Engine

READY = "walshadow engine: "
LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Addresses that only this machine can reach."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class EngineServer:
    """An embedded engine behind HTTP, served by threads of this process. A context manager.

    ``port`` 0 takes a free one. Without ``user`` and ``password`` everyone who can connect may do everything.
    Raises DestinationError if the directory is open elsewhere, or the port taken.
    """

    def __init__(
        self,
        path: str | Path,
        port: int = 0,
        host: str = "127.0.0.1",
        user: str | None = None,
        password: str | None = None,
    ) -> None:
        self._engine = Engine(Path(path))
        given = {"engine": self._engine, "user": user, "password": password, "loopback": host in LOOPBACK}
        handler = type("Handler", (EngineHandler,), given)
        try:
            self._server = _Server((host, port), handler)
        except OSError as error:
            self._engine.close()
            raise DestinationError(
                f"can't listen on {host}:{port}: {error.strerror}", "choose another --port"
            ) from None
        self.host = host
        self.port = self._server.server_address[1]
        self._thread: threading.Thread | None = None

    def url(self, database: str) -> str:
        """The destination URL of a database behind this server."""
        return f"clickhouse://{self.host}:{self.port}/{database}"

    def serve(self) -> None:
        """Serve in this thread until stop() or KeyboardInterrupt."""
        self._server.serve_forever(poll_interval=0.2)

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(target=self.serve, name="engine-http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and close the engine."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._engine.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class EngineProcess:
    """The same as a process of its own. A context manager."""

    def __init__(self, path: str | Path, port: int = 0) -> None:
        command = [sys.executable, "-m", "walshadow_sink_clickhouse.engine", str(path), str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(READY):
            self.stop()
            raise DestinationError(
                f"the engine of {path} did not start", "it has said why on stderr; one process owns a directory"
            )
        self.host, _, text = line.removeprefix(READY).strip().rpartition(":")
        self.port = int(text)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def url(self, database: str) -> str:
        """The destination URL of a database behind this server."""
        return f"clickhouse://{self.host}:{self.port}/{database}"

    def stop(self) -> None:
        """End the process and wait for it."""
        self._process.terminate()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stdin):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
