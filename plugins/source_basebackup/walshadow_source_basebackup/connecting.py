"""How a replication connection comes about, or why it does not."""

from __future__ import annotations

import psycopg

from walshadow_core.api import SourceError
from walshadow_source_basebackup import preflight
from walshadow_source_basebackup.replication import ReplicationConnection
from walshadow_source_basebackup.settings import Settings


def connect(settings: Settings) -> ReplicationConnection:
    """A replication connection to a server that we can work with. Raises SourceError with the remedy."""
    try:
        connection = ReplicationConnection.connect(settings)
    except psycopg.OperationalError as error:
        raise preflight.explain(settings, error) from None
    try:
        preflight.check_version(connection.server_version)
    except SourceError:
        connection.close()
        raise
    return connection
