"""``walshadow inspect page`` and ``walshadow inspect file``: heap pages, line pointers, tuples, decoded rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walshadow_core.cli.console import table_console
from walshadow_core.cli.options import OptionalSource

if TYPE_CHECKING:
    from walshadow_core.cli.heapfile import RowView
    from walshadow_core.pgformat.pageview import LineView, PageView

_File = Annotated[Path, typer.Argument(help="A file of a table's main fork, such as base/16384/16387 or 16387.1.")]
_Table = Annotated[
    str | None, typer.Option("--table", "-t", help="The table that the file is of: its rows are decoded.")
]
_Json = Annotated[bool, typer.Option("--json", help="A JSON object per page on a line of its own.")]


def page(
    file: _File,
    block: Annotated[int, typer.Option("--block", help="The page's number in this file, from 0 on.", min=0)],
    table: _Table = None,
    source: OptionalSource = None,
    as_json: _Json = False,
) -> None:
    """Print one heap page: its header, its line pointers, its tuples, and with --table their values.

    All stored tuples are shown, deleted and aborted ones too. Exit code 1 if the page is damaged.

    \b
    walshadow inspect page base/16384/16387 --block 7
    walshadow inspect page base/16384/16387 --block 7 --source postgresql://db/shop --table app.orders
    """
    _run(file, block, 1, table, source, as_json, whole=True)


def file(
    file: _File,
    first: Annotated[int, typer.Option("--first", help="The first page to show.", min=0)] = 0,
    pages: Annotated[int | None, typer.Option("--pages", help="How many pages to show; all.", min=1)] = None,
    table: _Table = None,
    source: OptionalSource = None,
    as_json: _Json = False,
) -> None:
    """Print a line per heap page of a file, or with --table the rows of its tuples.

    All stored tuples are shown, deleted and aborted ones too. Exit code 1 if a page is damaged.

    \b
    walshadow inspect file base/16384/16387
    walshadow inspect file base/16384/16387 --first 7 --pages 2 --source postgresql://db/shop --table app.orders
    """
    _run(file, first, pages, table, source, as_json, whole=False)


def _run(
    file: Path, first: int, count: int | None, table: str | None, source: str | None, as_json: bool, *, whole: bool
) -> None:
    from walshadow_core.cli.heapfile import RowReader, read_pages

    rows = None if table is None else RowReader.of(source, table)
    show = _Printer(as_json, whole)
    damaged = 0
    for content, view in read_pages(file, first, count):
        damaged += bool(view.problems)
        show.page(view, None if rows is None or view.problems else list(rows.rows(content, view.block)))
    show.end(str(file), damaged)
    if damaged:
        raise typer.Exit(1)


class _Printer:
    """Prints pages as JSON lines or as tables."""

    def __init__(self, as_json: bool, whole: bool) -> None:
        self._as_json = as_json
        self._whole = whole
        self._summary: list[tuple[str, ...]] = []

    def page(self, view: PageView, rows: list[RowView] | None) -> None:
        """Show a page, with its rows if they were decoded."""
        if self._as_json:
            typer.echo(json.dumps(_page_json(view, rows, self._whole)))
            return
        if self._whole:
            _print_grid(("field", "value"), _header_rows(view))
            _print_grid(_LINE_TITLES, (_line_row(line) for line in view.lines))
        elif rows is None:
            self._summary.append(_summary_row(view))
        if rows is not None:
            _print_rows(rows)
        for problem in view.problems:
            typer.echo(f"block {view.block}: {problem}", err=True)

    def end(self, name: str, damaged: int) -> None:
        """What can be said at the end alone."""
        if self._summary:
            _print_grid(("block", "lsn", "lines", "normal", "redirect", "dead", "free", "flags"), self._summary)
        if damaged and not self._as_json:
            typer.echo(f"{name}: {damaged} damaged page{'s' if damaged > 1 else ''}", err=True)


_LINE_TITLES = ("lp", "state", "offset", "length", "xmin", "xmax", "ctid", "natts", "hoff", "flags")


def _header_rows(view: PageView) -> Iterator[tuple[str, ...]]:
    h = view.header
    checksum = f"{h.checksum:#06x}" if h.checksum else "none"
    yield "block", str(view.block) + (" (never initialised)" if view.new else "")
    yield "lsn", str(h.lsn)
    yield "checksum", checksum
    yield "flags", " ".join(h.flag_names) or "none"
    yield "lower, upper, special", f"{h.lower}, {h.upper}, {h.special}"
    yield "size, layout version", f"{h.page_size}, {h.version}"
    yield "prune xid", str(h.prune_xid)


def _line_row(line: LineView) -> tuple[str, ...]:
    t = line.tuple
    start = (str(line.number), line.state, str(line.offset), str(line.length))
    if t is None:
        return (*start, *[""] * 6)
    flags = " ".join(name.removeprefix("HEAP_") for name in t.flag_names)
    ctid = f"({t.ctid[0]},{t.ctid[1]})"
    return (*start, str(t.xmin), str(t.xmax), ctid, str(t.attributes), str(t.hoff), flags)


def _summary_row(view: PageView) -> tuple[str, ...]:
    h = view.header
    count = {state: sum(line.state == state for line in view.lines) for state in ("normal", "redirect", "dead")}
    what = "damaged" if view.problems else "never initialised" if view.new else " ".join(h.flag_names)
    free = str(max(0, h.upper - h.lower))
    return (str(view.block), str(h.lsn), str(len(view.lines)), *(str(n) for n in count.values()), free, what)


def _page_json(view: PageView, rows: list[RowView] | None, whole: bool) -> dict[str, Any]:
    h = view.header
    shown: dict[str, Any] = {
        "block": view.block, "lsn": str(h.lsn), "checksum": h.checksum, "flags": list(h.flag_names), "lower": h.lower,
        "upper": h.upper, "special": h.special, "page_size": h.page_size, "version": h.version,
        "prune_xid": h.prune_xid, "new": view.new, "problems": list(view.problems),
    }  # fmt: skip
    if whole:
        shown["lines"] = [_line_json(line) for line in view.lines]
    if rows is not None:
        shown["rows"] = [
            {"lp": r.line, "xmin": r.xmin, "xmax": r.xmax, "values": r.values, "error": r.error} for r in rows
        ]
    return shown


def _line_json(line: LineView) -> dict[str, Any]:
    shown: dict[str, Any] = {"lp": line.number, "state": line.state, "offset": line.offset, "length": line.length}
    if (t := line.tuple) is not None:
        shown |= {
            "xmin": t.xmin, "xmax": t.xmax, "field3": t.field3, "ctid": list(t.ctid), "natts": t.attributes,
            "infomask": t.infomask, "infomask2": t.infomask2, "hoff": t.hoff, "bits": t.bits,
            "flags": list(t.flag_names),
        }  # fmt: skip
    return shown


def _print_rows(rows: list[RowView]) -> None:
    if not rows:
        return
    names = next((list(row.values) for row in rows if row.values is not None), [])
    _print_grid(
        ("block", "lp", "xmin", "xmax", *names),
        (
            (
                str(row.block), str(row.line), str(row.xmin), str(row.xmax),
                *([row.error or ""] if row.values is None else ["∅" if v is None else v for v in row.values.values()]),
            )
            for row in rows
        ),
    )  # fmt: skip


def _print_grid(titles: tuple[str, ...], rows: Any) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in titles:
        table.add_column(Text(title), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    table_console().print(table)
