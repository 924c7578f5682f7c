"""Missing values against the bytes that an INSERT of the same value stores."""

from __future__ import annotations

import struct
from collections.abc import Callable

import psycopg
import pytest

from tests.integration.catalog.support import Database
from walshadow_core.api import Attribute
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.types import CODECS
from walshadow_core.testing.postgres import PostgresServer

_DEFAULTS = {
    "bool": ["true", "false"],
    '"char"': ["'x'", r"'\200'"],
    "int2": ["-32768"],
    "int4": ["-2"],
    "int8": ["9223372036854775807"],
    "oid": ["4294967295"],
    "float4": ["'-0'", "'NaN'", "1.1"],
    "float8": ["0.1", "'-Infinity'", "5e-324", "0.30000000000000004"],
    "numeric": ["0", "'NaN'", "'Infinity'", "'-Infinity'", "-12345678901234567890.000120", "1e-20", "1e40", "0.00"],
    "numeric(10,2)": ["3.5", "-99999999.99", "0"],
    "numeric(3,-2)": ["12345"],
    "numeric(1000,950)": ["1e-900"],
    "text": ["''", "'héllo wörld'", "repeat('long ', 800)"],
    "varchar(20)": ["'v'"],
    "char(5)": ["'ab'"],
    "name": ["'some_name'"],
    "bytea": [r"'\x00ff'", "''"],
    "date": ["'2024-02-29'", "'infinity'", "'4713-01-01 BC'", "'5874897-12-31'"],
    "time": ["'24:00:00'", "'12:34:56.789012'"],
    "timetz": ["'12:34:56.789012+05:30'", "'00:00:00-15:59:59'"],
    "timestamp": ["'2024-01-01 00:00:00.000001'", "'-infinity'", "'294276-12-31 23:59:59.999999'"],
    "timestamptz": ["'2024-01-01 00:00:00+01'", "'infinity'", "'1800-01-01 00:00:00 Europe/Amsterdam'"],
    "interval": ["'-1 mon +2 days -00:00:01.5'", "'178000000 years'", "'0'"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    "json": ['\'{"a":  1, "ü": null}\''],
    "mood": ["'good'", "'sehr \"größer\"'"],
    "positive": ["42"],
    "moods": ["'{good,NULL}'"],
    "int[]": ["'{}'", "'{1,NULL,3}'", "'{{1,2},{3,4}}'", "'[2:3]={7,8}'"],
    "int2[]": ["'{1,2,3}'"],
    "float8[]": ["'{1,NULL}'", "'{NaN}'"],
    "text[]": ["array['a', null, '', repeat('x', 200)]", "'{}'"],
    "timetz[]": ["'{12:00+01,NULL,13:00:01+02}'"],
    "name[]": ["'{a,bc}'"],
    '"char"[]': ["'{a,b,NULL}'"],
    "int2vector": ["'1 2 3'", "''"],
    "oidvector": ["'1 4294967295'"],
    "box[]": ["'{(1,2),(3,4);(5,6),(7,8)}'"],
    "pair": ["row(1, 'x')", "row(null, null)", "row(-5, repeat('y', 130))"],
    "pair[]": ["array[row(1, 'x'), row(2, null)]::pair[]"],
    "nested": [
        "row(row(1, 'x'), '{1,2}', true, 'good', 1.50, '2024-01-01', 'c')",
        "row(null, null, null, null, null, null, null)",
    ],
    "int4range": ["'[1,5)'", "'empty'", "'(,)'", "'[3,)'"],
    "numrange": ["'(1.5,2.25]'"],
    "tstzrange": ["'[2024-01-01 00:00+00,2024-06-01 00:00+00)'"],
    "textrange": ["'[a,b]'", "textrange('a', repeat('z', 200), '()')", "textrange(repeat('a', 201), 'b')"],
    "int4multirange": ["'{}'", "'{[1,3),[5,9),[11,12),[20,21),[30,31),[40,)}'"],
    "nummultirange": ["'{[1,2),(3.5,4.25]}'"],
    "textmultirange": ["'{[a,b],[c,dd],[e,fff]}'"],
    "int8range[]": ["'{\"[1,2)\",NULL}'"],
    "inet": ["'192.168.0.1'", "'10.0.0.0/8'", "'2001:db8::1/64'"],
    "cidr": ["'192.168.0.0/24'", "'2001:db8::/32'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"],
    "bit(5)": ["B'10110'"],
    "varbit": ["B''", "B'101100111000'"],
    "money": ["'-12.34'", "'92233720368547758.07'"],
    "xid": ["'4294967295'"],
    "cid": ["'7'"],
    "xid8": ["'18446744073709551615'"],
    "tid": ["'(70000,5)'"],
    "pg_lsn": ["'16/B374D848'"],
    "regclass": ["'pg_class'::regclass"],
    "regtype": ["'int4'::regtype"],
    "regproc": ["'now'::regproc"],
    "regprocedure": ["'now()'::regprocedure"],
    "regoper": ["'||/'::regoper"],
    "regoperator": ["'*(integer,integer)'::regoperator"],
    "regconfig": ["'simple'::regconfig"],
    "regdictionary": ["'simple'::regdictionary"],
    "regcollation": ["'\"C\"'::regcollation"],
    "regnamespace": ["'pg_catalog'::regnamespace"],
    "refcursor": ["'cursor'"],
    "point": ["'(1.5,-2)'"],
    "lseg": ["'[(1,2),(3,4)]'"],
    "box": ["'(1,2),(3,4)'"],
    "line": ["'{1,2,3}'"],
    "circle": ["'<(1,2),3>'"],
    "path": ["'[(1,2),(3,4)]'", "'((1,2),(3,4),(5,6))'"],
    "polygon": ["'((1,2),(3,-4),(-5,6))'"],
}

_MADE = """create type mood as enum ('good', 'sehr "größer"'); alter type mood add value 'first' before 'good';
    create domain positive as int; create domain moods as mood[];
    create type pair as (a int, gone text, b text); alter type pair drop attribute gone;
    create type nested as (p pair, i int[], b bool, m mood, n numeric(10,2), d date, c "char");
    create type textrange as range (subtype = text)"""

_TEXTS = {
    "jsonb": '\'{"b": [1, 2.50, "ü"], "a": null}\'',
    "jsonb[]": "array['{\"a\": 1}', null]::jsonb[]",
    "jsonpath": "'$.a[*] ? (@ > 1)'",
    "tsvector": "'a:1,2B b'",
    "tsquery": "'a & !b'",
    "pg_snapshot": "'10:20:10,14'",
    "txid_snapshot": "'10:20:10,14'",
}
"""Types whose on-disk form is not made of what SQL sends: the text does."""


def _stored(server: PostgresServer, path: str, varlena: bool) -> bytes:
    """The bytes of the first tuple's first column in a heap file, without its varlena header."""
    page = (server.data / path).read_bytes()[:8192]
    (pointer,) = struct.unpack_from("<I", page, 24)
    start, length = pointer & 0x7FFF, pointer >> 17
    value = page[start + page[start + 22] : start + length]
    if not varlena:
        return value
    if value[0] & 1:
        return value[1 : value[0] >> 1]
    (header,) = struct.unpack_from("<I", value)
    assert header & 3 == 0, "the test's table keeps its values plain"
    return value[4 : header >> 2]


def test_missing_values_are_what_an_insert_stores(db: Database) -> None:
    """ADD COLUMN … DEFAULT of every type, against the bytes of a row that has the value."""
    db.execute(_MADE)
    columns = [(f"c{i}", type_, value) for i, (type_, value) in
               enumerate((t, v) for t, values in _DEFAULTS.items() for v in values)]  # fmt: skip
    db.execute("create table t (a int); insert into t values (1)")
    db.execute("alter table t " + ", ".join(f"add {n} {t} default {v}" for n, t, v in columns))
    fast = db.value("select count(*) from pg_attribute where attrelid = 't'::regclass and atthasmissing")
    assert fast == len(columns), "none of them rewrote the table"
    relation = db.one("t")
    assert {a.type_oid for a in relation.attributes} >= _STORED_AS_IS, "no type that can be decoded is left out"
    for (name, type_, value), attribute in zip(columns, relation.attributes[1:], strict=True):
        varlena = attribute.length == -1
        plain = f"alter table {name} alter x set storage plain;" if varlena else ""
        db.execute(f"create table {name} (x {type_}); {plain} insert into {name} values ({value})")
    db.execute("checkpoint")
    for (name, type_, value), attribute in zip(columns, relation.attributes[1:], strict=True):
        stored = _stored(db.server, db.value(f"select pg_relation_filepath('{name}')"), attribute.length == -1)
        assert attribute.missing == _comparable(attribute, stored), f"{type_} default {value}"
        db.execute(f"drop table {name}")


_REGROLE = 4096
_STORED_AS_IS = set(CODECS) - {
    oid.JSONB, oid.JSONPATH, oid.TSVECTOR, oid.TSQUERY, oid.PG_SNAPSHOT, oid.TXID_SNAPSHOT, oid.XML, _REGROLE
}  # fmt: skip
"""But for those that come as text, xml (which needs a server built with libxml), and regrole, which can't stand in a
default."""


def _comparable(attribute: Attribute, stored: bytes) -> bytes:
    """A record's first word is datum_typmod, -1; a record that was put into a table may have the tuple's own fields
    of there in what follows the oid: t_ctid says nothing."""
    if attribute.type is None or attribute.type.kind != "c":
        return stored
    return stored[:8] + struct.pack("<IH", 0xFFFFFFFF, 0) + stored[14:]


def test_missing_values_as_text(db: Database) -> None:
    db.execute("create table t (a int); insert into t values (1)")
    db.execute("alter table t " + ", ".join(f"add c{i} {t} default {v}" for i, (t, v) in enumerate(_TEXTS.items())))
    assert db.value("select count(*) from pg_attribute where attrelid = 't'::regclass and atthasmissing") == len(_TEXTS)
    expected = db.execute("select " + ", ".join(f"c{i}::text" for i in range(len(_TEXTS))) + " from t")[0]
    columns = db.one("t").attributes[1:]
    assert tuple(a.missing_text for a in columns) == expected
    assert all(a.missing is None for a in columns)


def test_settings_of_the_role_change_nothing(db: Database, role: str) -> None:
    db.execute("create table t (a int); insert into t values (1)")
    db.execute("""alter table t add b float8 default 0.1, add c timestamptz default '2024-01-02 03:04:05+01',
        add d interval default '-1 mon 2 days -00:00:01', add e bytea default '\\x00', add f date default '2024-02-01',
        add g text default 'ü'""")
    plain = db.one("t")
    db.execute(f"""alter role {role} set extra_float_digits = -15; alter role {role} set datestyle = 'German';
        alter role {role} set intervalstyle = 'sql_standard'; alter role {role} set timezone = 'Asia/Tokyo';
        alter role {role} set bytea_output = 'escape'; alter role {role} set client_encoding = 'LATIN1';
        alter role {role} set default_transaction_isolation = 'read committed';
        alter role {role} set quote_all_identifiers = on; alter role {role} set standard_conforming_strings = off""")
    assert db.one("t", user=role) == plain
    assert db.one("t", client_encoding="LATIN1", user=role) == plain
    missing = {a.name: a.missing for a in plain.attributes}
    assert missing["g"] == "ü".encode() and missing["b"] == struct.pack("<d", 0.1)


def test_xml_that_does_not_print_as_it_is_stored(db: Database) -> None:
    """xml_out leaves a declaration out, which a cast to text shows."""
    try:
        db.execute("select '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("the server was built without libxml")
    db.execute("""create table t (a int); insert into t values (1);
        alter table t add x xml default '<a>ü</a>', add y xml default ''""")
    assert [a.missing_text for a in db.one("t").attributes] == [None, "<a>ü</a>", ""]
    for type_, value in (("xml", '<?xml version="1.0"?><a/>'), ("xml[]", "{<a/>}")):
        db.execute(f"create table u (a int); insert into u values (1); alter table u add x {type_} default '{value}'")
        assert f'column "x" has type {type_}, of which' in db.reason("u")
        db.execute("vacuum full u")
        assert db.one("u").attributes[1].missing_text is None
        db.execute("drop table u")


def test_another_encoding(make_database: Callable[..., Database]) -> None:
    db = make_database("encoding 'LATIN1' locale 'C' template template0")
    db.execute('create table "Straße" (a int, "größe" text); insert into "Straße" values (1)')
    db.execute("""alter table "Straße" add t text default 'é', add j json default '"ü"', add c char(3) default 'à'""")
    relation = db.one('"Straße"')
    assert relation.encoding == "LATIN1" == db.catalog().cluster.encoding
    assert [a.name for a in relation.attributes] == ["a", "größe", "t", "j", "c"]
    assert [a.missing for a in relation.attributes] == [None, None, b"\xe9", b'"\xfc"', b"\xe0  "]
    assert "no such name" in db.reason('"表"')


def test_sql_ascii(make_database: Callable[..., Database]) -> None:
    db = make_database("encoding 'SQL_ASCII' locale 'C' template template0")
    db.execute("create table t (a int); insert into t values (1); "
               "alter table t add x text default convert_from('\\xe9', 'SQL_ASCII')")  # fmt: skip
    relation = db.one("t")
    assert relation.encoding == "SQL_ASCII" and relation.attributes[1].missing == b"\xe9"
