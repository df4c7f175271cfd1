"""The charts and the table of the overview, from series of reviews. No I/O."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from app.console.views.review_rates import Rates
from app.model.json import JSONObject

MISSING: Final = "-"
"""The text of a figure that was not measured."""
MAX_ROWS: Final = 60
"""Rows of the table, the newest first: all points of a series."""


class Row(NamedTuple):
    """One time span of the table: texts, `MISSING` where nothing was measured."""

    time: str
    per_second: str
    median: str
    tail: str
    verdicts: tuple[str, ...]


def build_charts(rates: Rates) -> list[JSONObject]:
    """Return the charts: ``title``, ``unit``, ``times`` in seconds, and ``lines`` with ``name`` and ``values``."""
    median = [None if one is None else one * 1000 for one in rates.median]
    tail = [None if one is None else one * 1000 for one in rates.tail]
    return [
        _build_chart("Reviews per second", "/s", rates, {"all": list(rates.per_second)}),
        _build_chart("Duration", "ms", rates, {"median": median, "99 %": tail}),
        _build_chart("Verdicts per second", "/s", rates, rates.verdicts),
    ]


def _build_chart(title: str, unit: str, rates: Rates, lines: Mapping[str, Sequence[float | None]]) -> JSONObject:
    named = [{"name": name, "values": list(values)} for name, values in lines.items()]
    return {"title": title, "unit": unit, "times": list(rates.times), "lines": named}


def list_rows(rates: Rates) -> list[Row]:
    """Return the rows of the table, newest first."""
    rows = [
        Row(
            f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}",
            _format(rates.per_second[index]),
            _format(rates.median[index], factor=1000),
            _format(rates.tail[index], factor=1000),
            tuple(_format(values[index]) for values in rates.verdicts.values()),
        )
        for index, time in enumerate(rates.times)
    ]
    return rows[::-1][:MAX_ROWS]


def _format(value: float | None, *, factor: float = 1) -> str:
    """Return a figure with three significant digits."""
    if value is None:
        return MISSING
    return f"{value * factor:.3g}" if value * factor < 1000 else f"{value * factor:.0f}"
