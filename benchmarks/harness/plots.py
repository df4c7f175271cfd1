"""Bar charts with ranges, as SVG for light and dark pages."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import BENCHMARKS
from benchmarks.harness.rounds import Spread

PLOTS = BENCHMARKS / "plots"
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 800, 290, 110, 26, 44
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600}.number{font-variant-numeric:tabular-nums}"
    ".bar{fill:#8b98a5}.ours{fill:#0969da}.range{stroke:#1f2328;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6e7681}.ours{fill:#4493f8}.range{stroke:#e6edf3}}"
)


class Bar(NamedTuple):
    """One row: the bar shows the median, the line across its end shows the range."""

    label: str
    value: Spread
    ours: bool = False


def bars(name: str, title: str, rows: Sequence[Bar], *, places: int = 0) -> Path:
    """Write ``benchmarks/plots/NAME.svg`` and return it."""
    height = _TOP + _ROW * len(rows) + 8
    scale = (_WIDTH - _LEFT - _RIGHT) / (max(row.value.high for row in rows) or 1)
    drawn = [_row(row, _TOP + _ROW * number, scale, places) for number, row in enumerate(rows)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>", f'<text class="title" x="8" y="22">{escape(title)}</text>', *drawn, "</svg>",
    ]  # fmt: skip
    PLOTS.mkdir(exist_ok=True)
    path = PLOTS / f"{name}.svg"
    path.write_text("\n".join(lines) + "\n")
    return path


def _row(row: Bar, top: int, scale: float, places: int) -> str:
    middle = top + _ROW // 2
    low, end, high = (_LEFT + value * scale for value in (row.value.low, row.value.median, row.value.high))
    return (
        f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end">{escape(row.label)}</text>'
        f'<rect class="{"ours" if row.ours else "bar"}" x="{_LEFT}" y="{top + 4}" width="{end - _LEFT:.1f}" height="{_ROW - 8}"/>'
        f'<line class="range" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>'
        f'<text class="number" x="{max(end, high) + 8:.1f}" y="{middle + 4}">{row.value.median:,.{places}f}</text>'
    )
