"""``python -m walshadow_sink_clickhouse.engine PATH PORT``: what EngineProcess starts. Ends with its parent."""

from __future__ import annotations

import os
import signal
import sys
import threading

from walshadow_sink_clickhouse.engine.server import READY, EngineServer


def main() -> None:
    """Serve until SIGTERM, Ctrl-C, or until the standard input ends."""
    server = EngineServer(sys.argv[1], int(sys.argv[2]))

    def end_with_parent() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=end_with_parent, daemon=True).start()
    print(f"{READY}{server.host}:{server.port}", flush=True)
    try:
        server.serve()
    except KeyboardInterrupt:
        pass
    finally:
        server.stop()


if __name__ == "__main__":
    main()
