"""The HTTP door: what clickhouse-connect and curl ask of it."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import clickhouse_connect
import lz4.frame
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from walshadow_sink_clickhouse.engine import EngineProcess, EngineServer
from walshadow_sink_clickhouse.engine.sql import first_word, gives_rows, insert_with_data, trailing_format

from walshadow_core.api import DestinationError

Ask = Callable[..., tuple[int, dict[str, str], bytes]]


@pytest.fixture(scope="module")
def server(embedded_path: Path) -> Iterator[EngineServer]:
    """A server in this process."""
    with EngineServer(embedded_path) as started:
        yield started


@pytest.fixture
def ask(server: EngineServer) -> Iterator[Ask]:
    """Sends one request after the other over one connection."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)

    def one(body: Any = b"", method: str = "POST", headers: Any = None, path: str = "/", **params: Any) -> Any:
        connection.request(method, f"{path}?{urlencode(params)}", body or None, headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    yield one
    connection.close()


@pytest.fixture
def table(ask: Ask, database: str) -> str:
    """A table (a Int64, s String) of a database of its own."""
    ask(f"CREATE DATABASE {database} ENGINE = Atomic")
    ask(f"CREATE TABLE {database}.t (a Int64, s String) ENGINE = MergeTree ORDER BY a")
    return f"{database}.t"


def test_ping(ask: Ask) -> None:
    """As load balancers ask."""
    assert ask(method="GET", path="/ping")[::2] == (200, b"Ok.\n")
    assert ask(method="GET")[::2] == (200, b"Ok.\n")


def test_query_in_the_url_the_body_or_both(ask: Ask) -> None:
    """GET and POST; the body goes on where the parameter ends."""
    assert ask(method="GET", query="SELECT 1")[2] == b"1\n"
    assert ask("SELECT 2")[2] == b"2\n"
    assert ask("FORMAT JSONCompactEachRow", query="SELECT 3")[2] == b"[3]\n"


def test_headers(ask: Ask) -> None:
    """Query id, format, zone, summary."""
    status, headers, _ = ask("SELECT number FROM numbers(10)", query_id="mine", wait_end_of_query="1")
    assert status == 200
    assert headers["X-ClickHouse-Query-Id"] == "mine" and headers["X-ClickHouse-Format"] == "TabSeparated"
    assert headers["X-ClickHouse-Timezone"]
    assert json.loads(headers["X-ClickHouse-Summary"])["read_rows"] == "10"
    assert ask("SELECT 1 FORMAT JSON")[1]["X-ClickHouse-Format"] == "JSON"
    assert ask("SELECT 1", default_format="CSV")[1]["X-ClickHouse-Format"] == "CSV"
    assert "X-ClickHouse-Format" not in ask("SET max_threads = 1")[1]


def test_settings_parameters_and_database(ask: Ask, table: str) -> None:
    """They hold for one request."""
    what = "SELECT value FROM system.settings WHERE name = 'max_block_size'"
    assert ask(what, max_block_size="77")[2] == b"77\n"
    assert ask(what)[2] != b"77\n"
    assert ask("SELECT {x:String}", param_x="it's \\\\ {x}")[2] == b"it\\'s \\\\ {x}\n"
    database = table.partition(".")[0]
    assert ask("SELECT count() FROM t", database=database)[2] == b"0\n"
    assert ask("SELECT currentDatabase()")[2] == b"default\n"
    status, headers, body = ask("SELECT 1", nosuch_setting="1")
    assert status == 404 and headers["X-ClickHouse-Exception-Code"] == "115" and b"nosuch_setting" in body


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("SELEC 1", 400, "62"),
        ("SELECT 1 FROM no.such", 404, "81"),
        ("SELECT 1 FROM system.nosuch", 404, "60"),
        ("SELECT throwIf(1)", 500, "395"),
        ("INSERT INTO system.nosuch FORMAT TSV\n1\n", 404, "60"),
        ("CREATE TABLE nosuch.x (a Int8) ENGINE = Log", 404, "81"),
    ],
)
def test_errors(ask: Ask, sql: str, status: int, code: str) -> None:
    """Status, code header, text with the code's name and the version; the connection lives on."""
    found, headers, body = ask(sql)
    assert (found, headers["X-ClickHouse-Exception-Code"]) == (status, code)
    assert body.startswith(f"Code: {code}. DB::Exception: ".encode()) and b"(version " in body
    assert ask("SELECT 1")[2] == b"1\n"


def test_an_error_in_the_middle_is_no_end(server: EngineServer) -> None:
    """What was sent before stays, the client sees that the rest is missing."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    sql = "SELECT throwIf(number = 900000, 'late'), repeat('x', 100) FROM numbers(1000000) SETTINGS max_threads = 1"
    connection.request("POST", "/", sql)
    answer = connection.getresponse()
    assert answer.status == 200
    with pytest.raises(http.client.IncompleteRead) as cut:
        answer.read()
    assert b"late" in cut.value.partial[-2000:]
    connection.close()


def test_an_error_waited_for_has_a_status(ask: Ask) -> None:
    """wait_end_of_query."""
    sql = "SELECT throwIf(number = 900000), repeat('x', 100) FROM numbers(1000000)"
    assert ask(sql, wait_end_of_query="1")[0] == 500


def test_inserts(ask: Ask, table: str) -> None:
    """Rows in the body, in one piece with the statement or beside it, compressed or not, chunked or not."""
    insert = f"INSERT INTO {table} (a, s) FORMAT TSV"
    assert ask(f"{insert}\n1\tFORMAT x\n")[0] == 200
    status, headers, _ = ask("2\ty\n", query=insert)
    assert status == 200 and json.loads(headers["X-ClickHouse-Summary"])["written_rows"] == "1"
    ask(gzip.compress(b"3\tgz\n"), query=insert, headers={"Content-Encoding": "gzip"})
    ask(lz4.frame.compress(b"4\tlz4\n"), query=insert, headers={"Content-Encoding": "lz4"})
    ask(iter([b"5\t", b"chu", b"nked\n"]), query=f"INSERT INTO {table} SETTINGS max_threads = 1 FORMAT TSV")
    ask(f"INSERT INTO {table} VALUES (6, 'values')")
    ask(f"INSERT INTO {table} SELECT 7, 'select'")
    ask("(8, 'values beside')", query=f"INSERT INTO {table} VALUES")
    rows = ask(f"SELECT * FROM {table} ORDER BY a")[2].decode().splitlines()
    assert rows == [
        f"{i}\t{s}"
        for i, s in enumerate(["FORMAT x", "y", "gz", "lz4", "chunked", "values", "select", "values beside"], 1)
    ]
    assert ask("x\ty\n", query=insert)[0] == 500
    assert ask(f"SELECT count() FROM {table}")[2] == b"8\n"


def test_a_body_longer_than_memory_may_hold(ask: Ask, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to disk; the rows are the same."""
    from walshadow_sink_clickhouse.engine import body

    monkeypatch.setattr(body, "IN_MEMORY", 1000)
    rows = "".join(f"{i}\trow {i}\n" for i in range(1000))
    assert ask(rows, query=f"INSERT INTO {table} FORMAT TSV")[0] == 200
    assert ask(f"INSERT INTO {table} FORMAT TSV\n{rows}")[0] == 200
    assert ask(f"SELECT count(), uniqExact(a) FROM {table}")[2] == b"2000\t1000\n"


def test_bad_requests(ask: Ask, server: EngineServer) -> None:
    """What is not understood is said; a body that ends early is no insert."""
    status, headers, body = ask("SELECT 1", compress="1")
    assert status == 400 and headers["X-ClickHouse-Exception-Code"] == "36" and b"compress=1" in body
    assert ask("x", query="SELECT 1", headers={"Content-Encoding": "br"})[0] == 400
    with socket.create_connection((server.host, server.port)) as raw:
        raw.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nSELECT 1")
        raw.shutdown(socket.SHUT_WR)
        assert raw.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_body_that_is_not_read_is_no_request(ask: Ask, database: str) -> None:
    """A connection whose request failed before its body was read is closed."""
    hidden = f"POST /?query=CREATE+DATABASE+{database} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert ask(hidden, headers={"Content-Encoding": "br"})[1]["Connection"] == "close"
    assert ask(f"SELECT count() FROM system.databases WHERE name = '{database}'")[2] == b"0\n"


@pytest.mark.parametrize("coding", ["lz4", "gzip", "zstd"])
def test_compressed_bodies_are_whole(ask: Ask, table: str, coding: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Rows that were cut off, or a body in no such coding, are an error and never fewer rows."""
    from walshadow_sink_clickhouse.engine.body import encoded

    insert, headers = f"INSERT INTO {table} FORMAT TSV", {"Content-Encoding": coding}
    body = b"".join(encoded(iter([b"%d\tx\n" % i for i in range(1000)]), coding))
    for wrong in (body[:-9], body[: len(body) // 2], b"5\tplain\n"):
        status, answer, _ = ask(wrong, query=insert, headers=headers)
        assert status == 400 and answer["X-ClickHouse-Exception-Code"] == "36"
    assert ask(f"SELECT count() FROM {table}")[2] == b"0\n"
    assert ask(body, query=insert, headers=headers)[0] == 200
    assert ask(f"SELECT count() FROM {table}")[2] == b"1000\n"
    assert "Traceback" not in capfd.readouterr().err


def test_get_changes_nothing(ask: Ask, table: str) -> None:
    """As ClickHouse has it; settings of a query may be given, readonly itself not."""
    for sql in (f"DROP TABLE {table}", f"INSERT INTO {table} VALUES (1, 'x')", "CREATE DATABASE by_get"):
        status, headers, _ = ask(method="GET", query=sql, readonly="0")
        assert status != 200 and headers["X-ClickHouse-Exception-Code"] == "164"
    assert ask(method="GET", query=f"SELECT count() FROM {table}", max_threads="2")[2] == b"0\n"


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://a.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "a.example:8123"}]
)
def test_web_pages_are_not_answered(ask: Ask, headers: dict[str, str]) -> None:
    """What a browser sends for a page, also for one whose name was made to lead to loopback."""
    status, answer, _ = ask("SELECT 1", headers=headers)
    assert status == 403 and answer["X-ClickHouse-Exception-Code"] == "497"
    for host in ("localhost", "127.0.0.1:8123", "[::1]:8123"):
        assert ask("SELECT 1", headers={"Host": host})[0] == 200


@pytest.mark.parametrize("compress", [False, True, "zstd", "gzip"])
def test_clickhouse_connect(server: EngineServer, table: str, compress: Any) -> None:
    """Queries, streams, inserts, parameters, LIMIT 0, errors with their codes."""
    client = clickhouse_connect.get_client(host=server.host, port=server.port, compress=compress)
    client.insert(table, [[1, "x"], [2, "it's"]], column_names=["a", "s"])
    assert client.query(f"SELECT * FROM {table} ORDER BY a").result_rows == [(1, "x"), (2, "it's")]
    assert client.query(f"SELECT * FROM {table} LIMIT 0").column_names == ("a", "s")
    assert client.command(f"SELECT count() FROM {table}") == 2
    asked = client.query("SELECT {x:String}, {y:Int32}", parameters={"x": "a'b\\\n", "y": 5})
    assert asked.result_rows == [("a'b\\\n", 5)]
    with client.query_row_block_stream("SELECT number FROM numbers(300000)") as stream:
        assert sum(len(block) for block in stream) == 300_000
    with pytest.raises(DatabaseError) as error:
        client.query("SELECT nosuch")
    assert error.value.code == 47
    client.close()


def test_form_encoded_parameters(server: EngineServer) -> None:
    """As clickhouse-connect sends long queries."""
    client = clickhouse_connect.get_client(host=server.host, port=server.port, form_encode_query_params=True)
    assert client.query("SELECT {x:String}", parameters={"x": "y" * 100_000}).result_rows == [("y" * 100_000,)]
    client.close()


def test_concurrent_requests(server: EngineServer) -> None:
    """A query that runs does not hold up another, and can be killed by it."""
    slow = http.client.HTTPConnection(server.host, server.port, timeout=60)
    params = urlencode({"query_id": "slow-one", "max_execution_time": "50"})
    answers: list[tuple[int, bytes]] = []

    def run() -> None:
        slow.request("POST", f"/?{params}", "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1")
        answer = slow.getresponse()
        answers.append((answer.status, answer.read()))

    thread = threading.Thread(target=run)
    thread.start()
    client = clickhouse_connect.get_client(host=server.host, port=server.port)
    named = "Settings['log_comment'] = 'slow-one'"
    while not client.query(f"SELECT 1 FROM system.processes WHERE {named}").result_rows:
        assert thread.is_alive()
    client.command(f"KILL QUERY WHERE {named} SYNC")
    thread.join(30)
    assert answers[0][0] == 500 and b"QUERY_WAS_CANCELLED" in answers[0][1]
    client.close()


def test_users(embedded_path: Path) -> None:
    """Basic, ClickHouse's own headers, URL parameters; a wrong one is 403 with code 516."""
    with EngineServer(embedded_path, user="u", password="pw") as guarded:
        for headers, query, expected in (
            ({"X-ClickHouse-User": "u", "X-ClickHouse-Key": "pw"}, "", 200),
            ({"Authorization": "Basic dTpwdw=="}, "", 200),
            ({}, "?user=u&password=pw", 200),
            ({}, "", 403),
            ({"X-ClickHouse-User": "u", "X-ClickHouse-Key": "no"}, "", 403),
        ):
            connection = http.client.HTTPConnection(guarded.host, guarded.port)
            connection.request("POST", f"/{query}", "SELECT 1", headers)
            answer = connection.getresponse()
            assert answer.status == expected
            assert expected == 200 or answer.headers["X-ClickHouse-Exception-Code"] == "516"
            connection.close()


def test_taken_port(embedded_path: Path, server: EngineServer) -> None:
    """One line."""
    with pytest.raises(DestinationError, match=f"can't listen on 127.0.0.1:{server.port}"):
        EngineServer(embedded_path, server.port)


def test_directory_of_another_process(tmp_path: Path) -> None:
    """EngineProcess says which directory."""
    with (
        EngineProcess(tmp_path / "data"),
        pytest.raises(DestinationError, match="did not start"),
    ):
        EngineProcess(tmp_path / "data")


def test_command_ends_with_ctrl_c(tmp_path: Path) -> None:
    """`walshadow engine serve` says how to query it, and ends cleanly."""
    code = (
        "import typer; from walshadow_sink_clickhouse.plugin import walshadow_register_commands\n"
        "app = typer.Typer(); walshadow_register_commands(app); app()\n"
    )
    command = [sys.executable, "-c", code, "engine", "serve", str(tmp_path / "data"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert "Ctrl-C ends it" in lines[0] and "curl http://127.0.0.1:" in lines[1] and "--to clickhouse://" in lines[2]
    url = lines[1].split()[-4]
    connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"))
    connection.request("POST", "/", "SELECT 1")
    assert connection.getresponse().read() == b"1\n"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "ended" in out and "Traceback" not in err


def test_routing() -> None:
    """First words, formats, and where an INSERT's data begins, past quotes and comments."""
    assert first_word("-- x\n /* SELECT */ (select 1)") == "SELECT"
    assert gives_rows("WITH 1 AS x SELECT x") and gives_rows("kill query where 1") and not gives_rows("drop table x")
    assert trailing_format("SELECT 'FORMAT JSON', `FORMAT` FROM t") is None
    assert trailing_format("SELECT format('{}', 1) FROM (SELECT 1 FORMAT CSV) FORMAT Native ;") == "Native"
    for sql in (
        "INSERT INTO t FORMAT Native\n",
        "INSERT INTO `a FORMAT b` (`SELECT`, \"x\") SETTINGS a = 'FORMAT' FORMAT Native\n",
        "insert into function null('format Int8') format Native \r\n",
        "/* FORMAT */ INSERT INTO t -- FORMAT x\n FORMAT Native\n",
    ):
        head = insert_with_data(f"{sql}data FORMAT x")
        assert head is not None and head.data == len(sql)
    head = insert_with_data("INSERT INTO t (a) SETTINGS x = 1 FORMAT TSV\n1")
    assert head is not None
    assert head.from_file("INSERT INTO t (a) SETTINGS x = 1 FORMAT TSV\n1", "'/f'") == (
        "INSERT INTO t (a)  FROM INFILE '/f' SETTINGS x = 1 FORMAT TSV\n"
    )
    for sql in ("SELECT 1 FORMAT Native", "INSERT INTO t VALUES (1)", "INSERT INTO t SELECT 1 FORMAT Native", ""):
        assert insert_with_data(sql) is None
