"""Why a base backup can't be had, and what to do about it.

The replication connection itself shows whether it is possible. Why not is found out over an ordinary connection
with the same connection string, where there is one, and otherwise from libpq's message: of a connection that
failed libpq gives no SQLSTATE, and the server words its message in a language of its own choice, so only words
that no language translates are looked for (names of files and settings), facts are preferred to text.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from walshadow_core.api import SourceError
from walshadow_source_basebackup import protocol
from walshadow_source_basebackup.errors import connect_text
from walshadow_source_basebackup.replication import ReplicationConnection, connection_string
from walshadow_source_basebackup.settings import Settings

OLDEST_MAJOR = 15

_OTHER_WAYS = (
    "load from a Postgres that you run: a server of your own restored from the service's dump or fed by its logical "
    "replication can be the source"
)

_MANAGED = (
    ("Amazon RDS or Aurora", "rds_superuser", "rds.extensions"),
    ("Google Cloud SQL", "cloudsqlsuperuser", "cloudsql.iam_authentication"),
    ("Azure Database for PostgreSQL", "azure_pg_admin", "azure.extensions"),
)
"""Services that let no customer take a base backup, with a role and a setting that only they have."""


@dataclass(frozen=True)
class ServerFacts:
    """What an ordinary connection tells. None where the server would not say."""

    role: str
    may_replicate: bool
    client_address: str | None
    hba_file: str | None
    wal_level: str
    max_wal_senders: int
    wal_senders: int
    in_recovery: bool
    full_page_writes: bool | None
    managed: str | None


@dataclass(frozen=True)
class Problem:
    """One thing in the way of a backup."""

    message: str
    remedy: str


# ------------------------------------------------------------------------------------------ the look itself


def check(settings: Settings) -> None:
    """Connect as for a backup, without starting one, and look. Raises SourceError, a line for each problem."""
    try:
        connection = ReplicationConnection.connect(settings)
    except psycopg.OperationalError as error:
        raise explain(settings, error) from None
    try:
        check_version(connection.server_version)
        connection.send(protocol.IDENTIFY_SYSTEM)
        connection.rows()
        connection.finish_command()
    finally:
        connection.close()
    facts = read_facts(settings)
    if facts and (problems := problems_of(facts)):
        raise _as_error(problems)


def check_version(server_version: int) -> None:
    """Raises SourceError if this server (180006: 18.6) is too old."""
    major = server_version // 10000
    if major < OLDEST_MAJOR:
        raise SourceError(
            f"the source is Postgres {major}, and BASE_BACKUP is read from version {OLDEST_MAJOR} on",
            f"upgrade the source, or {_OTHER_WAYS}",
        )


def explain(settings: Settings, error: psycopg.OperationalError) -> SourceError:
    """Why the replication connection failed, as an error to raise."""
    attempt = Attempt.of(settings, error)
    facts = None if attempt.timed_out else read_facts(settings)
    if facts and facts.managed:
        return _as_error([Problem(f"{attempt.where} is {facts.managed}, which offers no base backup", _OTHER_WAYS)])
    problems = problems_of(facts) if facts else []
    problems += _problems_of_attempt(attempt, facts, known=bool(problems))
    return _as_error(problems)


def _as_error(problems: list[Problem]) -> SourceError:
    if len(problems) == 1:
        return SourceError(problems[0].message, problems[0].remedy)
    return SourceError("\n".join(f"{p.message}; {p.remedy}" for p in problems))


# ------------------------------------------------------------------------------------------- from the facts


def problems_of(facts: ServerFacts) -> list[Problem]:
    """What stands in the way, as far as the server itself tells it."""
    problems = []
    if not facts.may_replicate:
        problems.append(
            Problem(
                f"the role {facts.role} may not replicate",
                f"as a superuser: ALTER ROLE {quoted(facts.role)} REPLICATION;",
            )
        )
    if facts.wal_level == "minimal":
        problems.append(
            Problem(
                "the source runs with wal_level = minimal, which allows no base backup",
                "set wal_level = replica and max_wal_senders = 10 in postgresql.conf, and restart it",
            )
        )
    elif facts.max_wal_senders == 0:
        problems.append(
            Problem(
                "the source has max_wal_senders = 0",
                "set max_wal_senders = 10 in postgresql.conf, and restart it",
            )
        )
    if facts.in_recovery and facts.full_page_writes is False:
        problems.append(
            Problem(
                "the source is a standby whose primary has full_page_writes = off: pages could come torn",
                "set full_page_writes = on at the primary, run CHECKPOINT there and then here, or take the primary "
                "as the source",
            )
        )
    return problems


def read_facts(settings: Settings) -> ServerFacts | None:
    """The facts over an ordinary connection; None if there is none to be had (allowed: a role for replication
    alone is common)."""
    try:
        with psycopg.connect(connection_string(settings), autocommit=True) as conn:
            return _read_facts(conn)
    except psycopg.Error:
        return None


def _read_facts(conn: psycopg.Connection[tuple[Any, ...]]) -> ServerFacts:
    role, may_replicate, address, wal_level, max_senders, senders, in_recovery = _one(
        conn,
        """select rolname, rolreplication or rolsuper, host(inet_client_addr()), current_setting('wal_level'),
                  current_setting('max_wal_senders')::int, (select count(*) from pg_stat_replication),
                  pg_is_in_recovery()
           from pg_roles where rolname = session_user""",
    ) or (conn.info.user, True, None, "replica", 1, 0, False)
    hba_file = _one(conn, "select current_setting('hba_file')")
    full_page_writes = _one(conn, "select full_page_writes from pg_control_checkpoint()")
    return ServerFacts(
        role=role,
        may_replicate=may_replicate,
        client_address=address,
        hba_file=hba_file[0] if hba_file else None,
        wal_level=wal_level,
        max_wal_senders=max_senders,
        wal_senders=senders,
        in_recovery=in_recovery,
        full_page_writes=full_page_writes[0] if full_page_writes else None,
        managed=_managed_service(conn),
    )


def _one(conn: psycopg.Connection[tuple[Any, ...]], sql: str, *values: object) -> tuple[Any, ...] | None:
    """The first row, None if there is none or the role may not see it."""
    try:
        return conn.execute(sql.encode(), values or None).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return None


def _managed_service(conn: psycopg.Connection[tuple[Any, ...]]) -> str | None:
    for service, role, setting in _MANAGED:
        if _one(conn, "select 1 from pg_roles where rolname = %s", role):
            return service
        if _one(conn, "select 1 where current_setting(%s, true) is not null", setting):
            return service
    return None


def quoted(name: str) -> str:
    """A name for SQL or pg_hba.conf. Quoted always: a plain one may be a keyword there (``user``, ``all``)."""
    return '"' + name.replace('"', '""') + '"'


# ------------------------------------------------------------------------------- from the failed connection


@dataclass(frozen=True)
class Attempt:
    """A replication connection that failed. ``host`` is empty for a Unix socket."""

    host: str
    port: str
    user: str
    text: str
    needs_password: bool
    timed_out: bool

    @classmethod
    def of(cls, settings: Settings, error: psycopg.OperationalError) -> Attempt:
        """From the error that psycopg raised; the connection string helps where it knows no connection."""
        words = conninfo_to_dict(settings.dsn.get_secret_value())
        conn = error.pgconn

        def known(attribute: str, word: str, otherwise: str) -> str:
            raw = getattr(conn, attribute, None)
            return str(raw.decode("utf-8", "replace") if raw else words.get(word) or otherwise)

        return cls(
            host=known("host", "host", ""),
            port=known("port", "port", "5432"),
            user=known("user", "user", ""),
            text=connect_text(error),
            needs_password=bool(getattr(conn, "needs_password", False)),
            timed_out=isinstance(error, psycopg.errors.ConnectionTimeout),
        )

    @property
    def is_local(self) -> bool:
        """Over a Unix socket."""
        return not self.host or self.host.startswith(("/", "@"))

    @property
    def where(self) -> str:
        """The server, for messages."""
        return f"{self.host}:{self.port}" if self.host else f"the local server, port {self.port}"


def _problems_of_attempt(attempt: Attempt, facts: ServerFacts | None, *, known: bool) -> list[Problem]:
    """What the failed attempt adds to what the facts told already (``known``)."""
    text = attempt.text
    if "pg_hba.conf" in text:
        return [_hba_problem(attempt, facts)]
    if known:
        return []
    if "max_wal_senders" in text or (facts and facts.wal_senders >= facts.max_wal_senders):
        return [
            Problem(
                f"{attempt.where} has no replication connection left (max_wal_senders)",
                "raise max_wal_senders in postgresql.conf and restart it, or end one that is not needed "
                "(pg_stat_replication shows them); a load takes two, with --no-wal one",
            )
        ]
    if re.search(r"start (walsender|WAL sender)", text):
        return [
            Problem(
                f"the role {attempt.user} may not replicate",
                f"as a superuser: ALTER ROLE {quoted(attempt.user)} REPLICATION;",
            )
        ]
    if attempt.needs_password:
        return [
            Problem(
                f"{attempt.where} asks for the password of {attempt.user}, and there is none",
                "put it into the connection string, into PGPASSWORD or into ~/.pgpass",
            )
        ]
    if "password authentication failed" in text:
        return [
            Problem(
                f"{attempt.where} did not take the password of {attempt.user}",
                "correct it in the connection string, in PGPASSWORD or in ~/.pgpass",
            )
        ]
    if attempt.timed_out:
        text = "no answer in time (connect_timeout)"
    return [
        Problem(
            f"can't connect to {attempt.where} for a base backup: {text}",
            "check host, port and user, that the server runs and listens there (listen_addresses), and the "
            "firewall between",
        )
    ]


def _hba_problem(attempt: Attempt, facts: ServerFacts | None) -> Problem:
    name = facts.hba_file if facts and facts.hba_file else "pg_hba.conf"
    user = quoted(attempt.user)
    if attempt.is_local:
        line = f"local replication {user} scram-sha-256"
    else:
        line = f"host replication {user} {_client_address(attempt.text, facts)} scram-sha-256"
    return Problem(
        f"no line of pg_hba.conf at {attempt.where} lets {attempt.user} replicate from here",
        f"add this line to {name}, above any that rejects it: {line} — then, as a superuser: SELECT pg_reload_conf();",
    )


def _client_address(text: str, facts: ServerFacts | None) -> str:
    """Our address as the server sees it, with a mask for one host."""
    for found in (*re.findall(r"[0-9A-Fa-f.:]{3,}", text.partition("pg_hba.conf")[2]), facts and facts.client_address):
        try:
            address = ipaddress.ip_address(found or "")
        except ValueError:
            continue
        return f"{address}/{address.max_prefixlen}"
    return "ADDRESS_OF_THIS_MACHINE/32"
