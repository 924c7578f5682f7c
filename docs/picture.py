"""Draws docs/progress.svg: the display of a load, as it looks on a terminal. Run: python docs/picture.py"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from walshadow_core.ops.progress import render

MIB = 1 << 20


@dataclass
class Line:
    """One table of the picture."""

    name: str
    phase: str
    bytes_walked: int
    size: int
    rows_walked: int
    rows_deferred: int
    rows_gated: int
    rows_written: int


@dataclass
class Moment:
    """The moment that is drawn."""

    phase: str = "reading"
    bytes_read: int = 2_890 * MIB
    bytes_total: int | None = 4_096 * MIB
    started: float = 0.0
    progress_tables: list[Line] = field(
        default_factory=lambda: [
            Line("shop.customers", "walking", 311 * MIB, 311 * MIB, 1_204_113, 0, 8_410, 1_000_000),
            Line("shop.orders", "walking", 1_204 * MIB, 1_890 * MIB, 14_310_882, 51_204, 120_113, 13_500_000),
            Line("shop.order_lines", "waiting", 0, 1_204 * MIB, 0, 0, 0, 0),
        ]
    )


def main() -> None:
    """Draw it."""
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=116, file=nowhere)
        words = "walshadow load --table shop.customers --table shop.orders --table shop.order_lines"
        console.print(Text(f"$ {words}", style="dim"))
        console.print(render(Moment(), 3.4))
        drawing = console.export_svg(title="walshadow load")
    # A picture in a README fetches nothing: the reader's own monospace font does.
    drawing = re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.S)
    (Path(__file__).parent / "progress.svg").write_text(drawing)


if __name__ == "__main__":
    main()
