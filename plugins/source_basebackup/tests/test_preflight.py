"""Why a backup can't be had: provoked on real servers, and each remedy is carried out as it is printed."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from walshadow_source_basebackup import preflight

from walshadow_core.api import BackupRequest, BackupSource, SourceError
from walshadow_core.testing.postgres import PostgresServer, available_majors

ANY = BackupRequest(frozenset())
SECRET = "s3cr3t-w0rd"

oldest_and_newest = pytest.mark.parametrize(
    "pg", sorted({available_majors()[0], available_majors()[-1]}), indirect=True, ids=lambda m: f"pg{m}"
)
"""For what takes long and hangs on no major."""

newest = pytest.mark.parametrize(
    "pg",
    [
        available_majors()[-1],
        *(pytest.param(m, marks=pytest.mark.slow) for m in available_majors()[:1] if m != available_majors()[-1]),
    ],
    indirect=True,
    ids=lambda m: f"pg{m}",
)
"""For what starts servers of its own: the oldest major is among the slow tests."""

MakeSource = Callable[..., BackupSource]


def refusal(source: BackupSource, says: str) -> SourceError:
    """The error of preflight, which open() gives as well; one line, without the password."""
    with pytest.raises(SourceError, match=says) as opened, source.open(ANY):
        pass
    with pytest.raises(SourceError, match=says) as looked:
        source.preflight()
    assert str(opened.value) == str(looked.value)
    assert "\n" not in str(looked.value)
    assert SECRET not in str(looked.value)
    assert looked.value.exit_code == 1
    return looked.value


def works(source: BackupSource) -> None:
    source.preflight()
    with source.open(ANY) as backup:
        for _ in backup.parts()[0].files():
            pass
        backup.end()


@contextmanager
def role(server: PostgresServer, name: str, words: str) -> Iterator[str]:
    quoted = '"' + name.replace('"', '""') + '"'
    server.execute(f"create role {quoted} login password '{SECRET}' {words}")
    try:
        yield name
    finally:
        server.execute(f"drop role {quoted}")


@contextmanager
def hba(server: PostgresServer, text: str) -> Iterator[Callable[[str], None]]:
    """Another pg_hba.conf for a while; gives a function that puts a line before it."""
    file = server.data / "pg_hba.conf"
    original = file.read_text()

    def write(new: str) -> None:
        file.write_text(new)
        server.execute("select pg_reload_conf()")
        with server.connect() as conn:  # a new connection is made under the new rules
            conn.execute("select 1")

    try:
        write(text)
        yield lambda line: write(line + "\n" + text)
    finally:
        write(original)


@pytest.mark.parametrize("name", ["user", 'we"ird Näme'])
def test_a_role_that_may_not_replicate(pg: PostgresServer, source: MakeSource, name: str) -> None:
    with role(pg, name, ""):
        chosen = source(pg, dsn=pg.dsn(user=name, password=SECRET))
        error = refusal(chosen, "may not replicate")
        remedy = re.fullmatch(r"as a superuser: (ALTER ROLE .* REPLICATION;)", error.remedy or "")
        assert remedy
        pg.execute(remedy[1])
        works(chosen)


def test_a_role_that_may_only_replicate_and_is_missing_the_right(pg: PostgresServer, source: MakeSource) -> None:
    """No ordinary connection tells the facts: the server's own words must do."""
    rules = "host all postgres 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n"
    with role(pg, "copier", ""), hba(pg, rules):
        chosen = source(pg, dsn=pg.dsn(user="copier"))
        error = refusal(chosen, "may not replicate")
        assert error.remedy == 'as a superuser: ALTER ROLE "copier" REPLICATION;'
        pg.execute("alter role copier replication")
        works(chosen)


@oldest_and_newest
@pytest.mark.parametrize("rest", ["", "host replication all all reject\n"], ids=["no line", "rejected"])
@pytest.mark.parametrize("name", ["all", 'Wal "Sh" adow'])
def test_no_line_in_pg_hba(pg: PostgresServer, source: MakeSource, name: str, rest: str) -> None:
    rules = f"host all all 127.0.0.1/32 trust\nlocal all all trust\n{rest}"
    with role(pg, name, "replication"), hba(pg, rules) as add_line:
        chosen = source(pg, dsn=pg.dsn(user=name, password=SECRET))
        error = refusal(chosen, "no line of pg_hba.conf")
        quoted = preflight.quoted(name)
        line = f"host replication {quoted} 127.0.0.1/32 scram-sha-256"
        assert f": {line} — then" in str(error)
        assert "SELECT pg_reload_conf();" in str(error)
        add_line(line)
        works(chosen)


def test_no_line_in_pg_hba_for_a_unix_socket(pg_newest: PostgresServer, source: MakeSource) -> None:
    rules = "host all all 127.0.0.1/32 trust\nlocal all all trust\n"
    with role(pg_newest, "walshadow", "replication"), hba(pg_newest, rules) as add_line:
        dsn = pg_newest.dsn(user="walshadow", host=str(pg_newest.root), password=SECRET)
        error = refusal(source(pg_newest, dsn=dsn), "no line of pg_hba.conf")
        line = 'local replication "walshadow" scram-sha-256'
        assert f": {line} — then" in str(error)
        add_line(line)
        works(source(pg_newest, dsn=dsn))


def test_two_problems_are_two_lines(pg_newest: PostgresServer, source: MakeSource) -> None:
    rules = "host all all 127.0.0.1/32 trust\n"
    with role(pg_newest, "walshadow", ""), hba(pg_newest, rules), pytest.raises(SourceError) as caught:
        source(pg_newest, dsn=pg_newest.dsn(user="walshadow")).preflight()
    first, second = str(caught.value).splitlines()
    assert 'ALTER ROLE "walshadow" REPLICATION' in first
    assert 'host replication "walshadow" 127.0.0.1/32' in second


@oldest_and_newest
def test_passwords(pg: PostgresServer, source: MakeSource) -> None:
    rules = (
        "host all postgres 127.0.0.1/32 trust\n"
        "host all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 scram-sha-256\n"
    )
    with role(pg, "copier", "replication"), hba(pg, rules):
        error = refusal(source(pg, dsn=pg.dsn(user="copier", passfile="/nowhere")), "there is none")
        assert "PGPASSWORD" in str(error)
        wrong = pg.dsn(user="copier", password=SECRET + "x")
        error = refusal(source(pg, dsn=wrong), "did not take the password of copier")
        assert SECRET not in repr(error)
        works(source(pg, dsn=pg.dsn(user="copier", password=SECRET)))


@newest
def test_wal_level_minimal(pg: PostgresServer, source: MakeSource) -> None:
    settings = {"wal_level": "minimal", "max_wal_senders": "0"}
    with PostgresServer(pg.major, settings=settings) as server:
        chosen = source(server)
        error = refusal(chosen, "wal_level = minimal")
        words = re.findall(r"(\w+) = (\w+)", error.remedy or "")
        assert dict(words) == {"wal_level": "replica", "max_wal_senders": "10"}
        for name, value in words:
            server.execute(f"alter system set {name} = '{value}'")
        server.restart()
        works(chosen)


def test_no_walsenders_at_all(pg_newest: PostgresServer, source: MakeSource) -> None:
    with PostgresServer(pg_newest.major, settings={"max_wal_senders": "0"}) as server:
        error = refusal(source(server), "max_wal_senders = 0")
        assert error.remedy == "set max_wal_senders = 10 in postgresql.conf, and restart it"


@newest
def test_all_walsenders_taken(
    pg: PostgresServer, source: MakeSource, no_backup_on: Callable[[PostgresServer], None]
) -> None:
    with PostgresServer(pg.major, settings={"max_wal_senders": "1"}) as server:
        chosen = source(server)
        with chosen.open(ANY):
            error = refusal(chosen, "no replication connection left")
            assert "raise max_wal_senders" in str(error)
        no_backup_on(server)
        works(chosen)


@pytest.mark.parametrize("name", ["rds_superuser", "cloudsqlsuperuser", "azure_pg_admin"])
def test_managed_services_by_their_roles(pg_newest: PostgresServer, source: MakeSource, name: str) -> None:
    with role(pg_newest, name, ""), role(pg_newest, "copier", ""):
        error = refusal(source(pg_newest, dsn=pg_newest.dsn(user="copier")), "which offers no base backup")
        assert "load from a Postgres that you run" in str(error)
        works(source(pg_newest))  # a role's name alone takes nothing from one who may


@pytest.mark.parametrize(
    ("setting", "service"),
    [
        ("rds.extensions", "Amazon RDS or Aurora"),
        ("cloudsql.iam_authentication", "Google Cloud SQL"),
        ("azure.extensions", "Azure Database for PostgreSQL"),
    ],
)
def test_managed_services_by_their_settings(
    pg_newest: PostgresServer, source: MakeSource, setting: str, service: str
) -> None:
    with role(pg_newest, "copier", ""):
        pg_newest.execute(f"alter role copier set {setting} = 'on'")
        error = refusal(source(pg_newest, dsn=pg_newest.dsn(user="copier")), "which offers no base backup")
        assert service in error.message


def test_versions() -> None:
    preflight.check_version(150000)
    with pytest.raises(SourceError, match=r"the source is Postgres 14, .* from version 15 on; upgrade"):
        preflight.check_version(140012)


# ------------------------------------------------------------------------------------- nobody there to ask


def test_nothing_listens(pg_newest: PostgresServer, source: MakeSource) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        error = refusal(source(pg_newest, dsn=pg_newest.dsn(port=str(port), password=SECRET)), "can't connect")
    assert f"127.0.0.1:{port}" in error.message
    assert "listen_addresses" in (error.remedy or "")


def test_no_such_host(pg_newest: PostgresServer, source: MakeSource) -> None:
    chosen = source(pg_newest, dsn=pg_newest.dsn(host="no-such-host.invalid", password=SECRET))
    assert "no-such-host.invalid" in refusal(chosen, "can't connect").message


def test_no_such_socket(pg_newest: PostgresServer, source: MakeSource) -> None:
    refusal(source(pg_newest, dsn=f"host=/nowhere user=x password={SECRET}"), "can't connect to /nowhere")


def test_no_such_service(pg_newest: PostgresServer, source: MakeSource) -> None:
    refusal(source(pg_newest, dsn=f"service=nowhere password={SECRET}"), "nowhere")


@pytest.mark.parametrize(
    ("answer", "says"), [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "can't connect"), (None, "no answer in time")]
)
def test_something_else_listens(pg_newest: PostgresServer, source: MakeSource, answer: bytes | None, says: str) -> None:
    kept = []

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            kept.append(client)
            if answer:
                client.recv(100)
                client.sendall(answer)
                client.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        dsn = pg_newest.dsn(port=str(listener.getsockname()[1]), password=SECRET)
        refusal(source(pg_newest, dsn=dsn, connect_timeout="1"), says)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    assert not thread.is_alive()
