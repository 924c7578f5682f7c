"""``walshadow inspect wal``: records of WAL segments, and statistics of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walshadow_core.cli.console import table_console

if TYPE_CHECKING:
    from walshadow_core.api import Lsn
    from walshadow_core.pgformat.walrecord import WalRecords
    from walshadow_core.stream.files import Stretch, StretchReader

_FORKS = ("main", "fsm", "vm", "init")


def wal(
    files: Annotated[list[Path], typer.Argument(help="WAL segments, in any order.")],
    stats: Annotated[bool, typer.Option("--stats", help="Counts and bytes per record type, no records.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object per record on a line of its own; with --stats, one in all.")
    ] = False,
    rmgr: Annotated[
        list[str] | None, typer.Option(help="Only this resource manager's records (Heap, Transaction…). Repeatable.")
    ] = None,
    xid: Annotated[int | None, typer.Option(help="Only this transaction's records.")] = None,
    start: Annotated[str | None, typer.Option(help="Only records from this LSN on.")] = None,
    end: Annotated[str | None, typer.Option(help="Only records that begin before this LSN.")] = None,
) -> None:
    """Print the records of WAL segments.

    Exit code 1 where the WAL can't be read on before the last file, a segment is missing between two files, or the
    last file is cut. That the WAL ends inside the last file is no error: a server's last segment is such a file.

    \b
    walshadow inspect wal pg_wal/0000000100000000000000*
    walshadow inspect wal --rmgr Heap --start 0/3000028 --json pg_wal/000000010000000000000003
    walshadow inspect wal --stats pg_wal/0000000100000000000000*
    """
    from walshadow_core.pgformat.walnames import RMGRS
    from walshadow_core.stream.files import StretchReader, stretches

    names = {name.lower(): name for name in RMGRS}
    chosen = {_known(names, word) for word in rmgr or ()}
    first, last = _lsn(start, "--start"), _lsn(end, "--end")
    totals: Counter[tuple[str, str]] = Counter()
    rec_bytes: Counter[tuple[str, str]] = Counter()
    image_bytes: Counter[tuple[str, str]] = Counter()
    before: Stretch | None = None
    found = stretches(files, _complain)
    broken = not found
    for stretch in found:
        missing = before.missing_before(stretch) if before is not None else None
        if missing:
            _complain(missing)
            broken = True
        before = stretch
        reader = StretchReader(stretch)
        for batch in reader.records():
            for record in _described(batch, stretch.major):
                if (
                    (chosen and record["rmgr"] not in chosen)
                    or (xid is not None and record["xid"] != xid)
                    or (first is not None and record["start"] < first)
                    or (last is not None and record["start"] >= last)
                ):
                    continue
                if stats:
                    kind = record["rmgr"], record["type"]
                    totals[kind] += 1
                    rec_bytes[kind] += record["length"] - record["image_bytes"]
                    image_bytes[kind] += record["image_bytes"]
                else:
                    typer.echo(_as_json(record) if as_json else _as_line(record))
        broken |= _say_end(reader)
    if stats:
        rows = [
            {"rmgr": k[0], "type": k[1], "count": n, "bytes": rec_bytes[k], "image_bytes": image_bytes[k]}
            for k, n in sorted(totals.items())
        ]
        _print_stats(rows, as_json)
    if broken:
        raise typer.Exit(1)


def _complain(text: str) -> None:
    typer.echo(text, err=True)


def _say_end(reader: StretchReader) -> bool:
    """Say where and why the WAL ended before the files did; gives whether that is more than a live WAL's end."""
    from walshadow_core.api import FormatError
    from walshadow_core.pgformat.walpage import BAD_CHECKSUM, BAD_FLAGS, BAD_SEGMENT, REASONS

    segment, end = reader.segment, reader.end
    cut = segment.cut if segment.path.suffix != ".partial" else None
    if end is None:
        if cut:
            _complain(f"the WAL ends at {reader.position}: {cut}")
        return cut is not None
    message = f"the WAL ends at {end.lsn} in {segment.path}: {end.reason}"
    if not reader.in_last_file:
        raise FormatError(message, "the segment is damaged or incomplete: fetch it again")
    if end.reason == REASONS[BAD_CHECKSUM]:
        message += ": it is damaged, or was not written to its end yet; nothing after it was read"
    _complain(message)
    if cut:
        _complain(cut)
    # What is left of a recycled segment has neither.
    return cut is not None or end.reason in (REASONS[BAD_FLAGS], REASONS[BAD_SEGMENT])


def _known(names: dict[str, str], word: str) -> str:
    from walshadow_core.api import UsageError

    if word.lower() not in names:
        raise UsageError(f"--rmgr {word}: there is no such resource manager", f"one of {', '.join(names.values())}")
    return names[word.lower()]


def _lsn(text: str | None, option: str) -> Lsn | None:
    from walshadow_core.api import Lsn, UsageError

    try:
        return None if text is None else Lsn.parse(text)
    except ValueError:
        raise UsageError(f"{option} {text}: not an LSN", "write it as Postgres does: 0/16B3748") from None


def _described(batch: WalRecords, major: int) -> Iterator[dict[str, Any]]:
    from walshadow_core.api import Lsn
    from walshadow_core.pgformat.walnames import record_name, rmgr_name

    b = batch.blocks
    blocks = list(
        zip(
            b.block_id.tolist(), b.tablespace.tolist(), b.database.tolist(), b.relation.tolist(), b.fork.tolist(),
            b.block.tolist(), b.image_length.tolist(), b.image_info.tolist(), b.data_length.tolist(), strict=True,
        )
    )  # fmt: skip
    rows = zip(
        batch.start.tolist(), batch.previous.tolist(), batch.length.tolist(), batch.image_bytes.tolist(),
        batch.xid.tolist(), batch.rmgr.tolist(), batch.info.tolist(), batch.first_block[:-1].tolist(),
        batch.first_block[1:].tolist(), strict=True,
    )  # fmt: skip
    for at, previous, length, images, xid, rmgr, info, first, last in rows:
        yield {
            "start": Lsn(at), "previous": Lsn(previous), "length": length, "image_bytes": images, "xid": xid,
            "rmgr": rmgr_name(rmgr), "type": record_name(rmgr, info, major), "blocks": blocks[first:last],
        }  # fmt: skip


def _as_json(record: dict[str, Any]) -> str:
    from walshadow_core.pgformat.walrecord import IMAGE_APPLY

    blocks = [
        {
            "id": block_id, "tablespace": tablespace, "database": database, "relation": relation, "fork": _FORKS[fork],
            "block": block, "image_bytes": image, "image_applies": bool(info & IMAGE_APPLY), "data_bytes": data,
        }
        for block_id, tablespace, database, relation, fork, block, image, info, data in record["blocks"]
    ]  # fmt: skip
    lsns = {"lsn": str(record["start"]), "previous": str(record["previous"])}
    return json.dumps({**lsns, **{k: v for k, v in record.items() if k not in ("start", "previous")}, "blocks": blocks})


def _as_line(record: dict[str, Any]) -> str:
    blocks = "".join(
        f", block {block_id}: {tablespace}/{database}/{relation}{'' if fork == 0 else ' ' + _FORKS[fork]} {block}"
        + (f" (image of {image})" if image else "")
        for block_id, tablespace, database, relation, fork, block, image, _, _ in record["blocks"]
    )
    size = f"{record['length'] - record['image_bytes']}/{record['length']}"
    return (
        f"{record['start']!s:>12} {record['rmgr']:<14} {record['type']:<22} xid {record['xid']:<10} "
        f"bytes {size}, after {record['previous']}{blocks}"
    )


def _print_stats(rows: list[dict[str, Any]], as_json: bool) -> None:
    total = {key: sum(row[key] for row in rows) for key in ("count", "bytes", "image_bytes")}
    if as_json:
        typer.echo(json.dumps({"types": rows, "total": total}))
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in ("rmgr", "type"):
        table.add_column(title)
    for title in ("records", "bytes", "image bytes", "% of all"):
        table.add_column(title, justify="right")
    whole = max(1, total["bytes"] + total["image_bytes"])
    for row in [*rows, {"rmgr": "all", "type": "", **total}]:
        share = 100 * (row["bytes"] + row["image_bytes"]) / whole
        table.add_row(
            row["rmgr"], row["type"], f"{row['count']:,}", f"{row['bytes']:,}", f"{row['image_bytes']:,}",
            f"{share:.1f}",
        )  # fmt: skip
    table_console().print(table)
