"""One HTTP request: what is asked, by whom, under which settings; and the answer as ClickHouse gives it."""

from __future__ import annotations

import base64
import contextlib
import email.parser
import email.policy
import hmac
import ipaddress
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from walshadow_sink_clickhouse.engine.body import (
    IN_MEMORY,
    BadRequest,
    Spool,
    decoded,
    encoded,
    read_body,
    response_coding,
)
from walshadow_sink_clickhouse.engine.handles import Engine, EngineError
from walshadow_sink_clickhouse.engine.sql import InsertHead, gives_rows, insert_with_data, trailing_format

_NOT_SETTINGS = frozenset(
    {
        "query", "database", "query_id", "default_format", "user", "password", "session_id", "session_timeout",
        "session_check", "quota_key", "role", "wait_end_of_query", "buffer_size", "client_protocol_version",
        "enable_http_compression", "http_zlib_compression_level", "send_progress_in_http_headers",
        "http_headers_progress_interval_ms", "cancel_http_readonly_queries_on_client_close",
    }
)  # fmt: skip
_STATUS = {62: 400, 47: 400, 60: 404, 81: 404, 36: 400, 115: 404, 194: 401, 516: 403, 497: 403, 48: 501}
_HEAD = 1 << 20
_CODE = re.compile(r"Code: (\d+)")


@dataclass
class Request:
    """What one request asks for. ``data`` holds an INSERT's rows."""

    sql: str
    database: str = ""
    query_id: str = ""
    format: str = "TabSeparated"
    settings: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    wait: bool = False
    insert: InsertHead | None = None
    data: Spool | None = None


class EngineHandler(BaseHTTPRequestHandler):
    """ClickHouse's HTTP interface. Each request has a handle of the engine to itself; there are no sessions."""

    protocol_version = "HTTP/1.1"
    server_version = "walshadow-engine"
    engine: Engine
    user: str | None = None
    password: str | None = None
    loopback = False
    """Whether only this machine can connect."""
    wbufsize = 1 << 16

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: URLs may hold passwords."""

    def do_GET(self) -> None:
        """Answer."""
        self._answer()

    def do_POST(self) -> None:
        """Answer."""
        self._answer()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        if parts.path in ("/ping", "/replicas_status"):
            self._plain(200, b"Ok.\n", {})
            return
        request: Request | None = None
        query_id = str(uuid.uuid4())
        try:
            self._refuse_web_pages()
            parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
            query_id = parameters.get("query_id") or query_id
            self._check_user(parameters)
            request = self._read(parameters)
            request.query_id = query_id
            if not request.sql.strip():
                self._plain(200, b"Ok.\n", {})
                return
            self._run(request)
        except EngineError as error:
            self._fail(str(error), query_id)
        except (BadRequest, ValueError) as error:
            self._fail(f"Code: 36. DB::Exception: {error}. (BAD_ARGUMENTS)", query_id)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            if request is not None and request.data is not None:
                request.data.close()

    def _refuse_web_pages(self) -> None:
        """A page in a browser of this machine can send requests to loopback, also under a name of its own that it
        makes lead here: none of them is answered."""
        host = (urlsplit(f"//{self.headers.get('Host', '')}").hostname or "").rstrip(".")
        asked_by_name = self.loopback and host not in ("", "localhost") and not _is_address(host)
        site = self.headers.get("Sec-Fetch-Site", "none")
        if "Origin" in self.headers or site != "none" or asked_by_name:
            self.close_connection = True
            raise EngineError("Code: 497. DB::Exception: Requests of web pages are not answered. (ACCESS_DENIED)")

    def _check_user(self, parameters: Mapping[str, str]) -> None:
        if self.user is None and self.password is None:
            return
        user = self.headers.get("X-ClickHouse-User") or parameters.get("user", "default")
        password = self.headers.get("X-ClickHouse-Key") or parameters.get("password", "")
        kind, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if kind.lower() == "basic":
            user, _, password = base64.b64decode(token).decode().partition(":")
        wanted = (self.user or "default").encode(), (self.password or "").encode()
        if not (hmac.compare_digest(user.encode(), wanted[0]) & hmac.compare_digest(password.encode(), wanted[1])):
            self.close_connection = True
            raise EngineError("Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)")

    def _read(self, parameters: dict[str, str]) -> Request:
        spool = Spool()
        try:
            coding = self.headers.get("Content-Encoding", "").lower()
            for piece in decoded(read_body(self.rfile, *_framing(self.headers)), coding):
                spool.write(piece)
            if "multipart/form-data" in self.headers.get("Content-Type", ""):
                parameters |= _form(self.headers["Content-Type"], spool.head(spool.length))
                spool.close()
                spool = Spool()
            return self._request(parameters, spool)
        except BaseException:
            # What is left of the body must not be taken for the next request.
            self.close_connection = True
            spool.close()
            raise

    def _request(self, parameters: Mapping[str, str], spool: Spool) -> Request:
        request = Request(
            sql=parameters.get("query", ""),
            database=parameters.get("database") or self.headers.get("X-ClickHouse-Database") or "",
            wait=parameters.get("wait_end_of_query") == "1",
            format=parameters.get("default_format") or self.headers.get("X-ClickHouse-Format") or "TabSeparated",
            settings={k: v for k, v in parameters.items() if k not in _NOT_SETTINGS and k[:6] != "param_"},
            parameters={k[6:]: v for k, v in parameters.items() if k[:6] == "param_"},
        )
        for name in ("compress", "decompress"):
            if request.settings.pop(name, "0") == "1":
                raise BadRequest(f"{name}=1 is not supported here, use Content-Encoding and Accept-Encoding")
        request.insert = insert_with_data(request.sql)
        if request.insert is None and spool.length:
            joint = f"{request.sql}\n" if request.sql else ""
            head = joint + spool.head(_HEAD).decode("utf-8", "surrogateescape")
            request.insert = insert_with_data(head)
            if request.insert is None:
                if spool.length > IN_MEMORY:
                    raise BadRequest("the statement is too long")
                request.sql = joint + spool.head(spool.length).decode("utf-8", "surrogateescape")
                spool.close()
                return request
            request.sql = head[: request.insert.data]
            text = request.sql.encode("utf-8", "surrogateescape")
            spool = spool.without_head(len(text) - len(joint))
        request.data = spool
        return request

    def _run(self, request: Request) -> None:
        # The engine gives query ids of its own: the asked one can be found as the log_comment.
        request.settings.setdefault("log_comment", request.query_id)
        if self.command == "GET":
            # As ClickHouse has it: settings may be set, nothing may be changed.
            request.settings["readonly"] = "2"
        with self.engine.handle(request.database, request.settings) as handle:
            if request.insert is not None and request.data is not None:
                summary = handle.insert(request.sql, request.insert, request.data)
                self._plain(200, b"", self._headers(request, summary))
                return
            if not gives_rows(request.sql):
                summary = handle.run(request.sql, request.parameters)
                self._plain(200, b"", self._headers(request, summary))
                return
            format = trailing_format(request.sql) or request.format
            rows = handle.rows(request.sql, format, request.parameters, whole=request.wait)
            headers = self._headers(request, rows.summary) | {"X-ClickHouse-Format": format}
            self._stream(rows.pieces, headers)

    def _headers(self, request: Request, summary: Mapping[str, str]) -> dict[str, str]:
        return {
            "X-ClickHouse-Query-Id": request.query_id,
            "X-ClickHouse-Timezone": self.engine.timezone,
            "X-ClickHouse-Server-Display-Name": "walshadow",
            "X-ClickHouse-Summary": json.dumps(dict(summary)),
        }

    def _plain(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=UTF-8")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _stream(self, pieces: Iterator[bytes], headers: Mapping[str, str]) -> None:
        # The first piece before the status, so that most errors have a status of their own.
        first = next(pieces, b"")
        coding = response_coding(self.headers.get("Accept-Encoding", "")) if self._wants_coding() else None
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        if coding:
            self.send_header("Content-Encoding", coding)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for piece in encoded(_with_first(first, pieces), coding):
                if piece:
                    self.wfile.write(b"%x\r\n" % len(piece))
                    self.wfile.write(piece)
                    self.wfile.write(b"\r\n")
        except EngineError as error:
            # Too late for a status: the text, and no end of the chunks, tell the client.
            text = f"{error}\n".encode()
            self.wfile.write(b"%x\r\n" % len(text) + text + b"\r\n")
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _wants_coding(self) -> bool:
        return "enable_http_compression=1" in urlsplit(self.path).query

    def _fail(self, message: str, query_id: str) -> None:
        found = _CODE.search(message)
        code = int(found[1]) if found else 1002
        text = f"{message.strip()} (version {self.engine.version})\n".encode()
        headers = {"X-ClickHouse-Exception-Code": str(code), "X-ClickHouse-Query-Id": query_id}
        if self.close_connection:
            headers["Connection"] = "close"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._plain(_STATUS.get(code, 500), text, headers)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _framing(headers: Message) -> tuple[bool, int]:
    """Whether the body comes in chunks, else its length."""
    return "chunked" in headers.get("Transfer-Encoding", "").lower(), int(headers.get("Content-Length") or 0)


def _with_first(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _form(content_type: str, body: bytes) -> dict[str, str]:
    """The text fields of a multipart form."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    fields: dict[str, str] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content.decode("utf-8", "surrogateescape")
    return fields
