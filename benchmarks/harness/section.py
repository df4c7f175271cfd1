"""A part of the results, and what it is measured with."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Context(NamedTuple):
    """What every part is given."""

    binaries: Path
    """Go peers, built from ``benchmarks/peers``."""
    python: Path
    """An interpreter that has `benchmarks/requirements.txt`, for peers that are no dependency of ours."""
    inputs: Path
    """What ``benchmarks/peers/inputs.py`` wrote."""
    scratch: Path
    """An empty directory."""
    rounds: int
    seconds: float
    """Of one measurement of one server."""
    server_core: int
    load_core: int
    small: bool = False
    """Whether to measure small sizes, to see that the part works."""

    def reviews(self, operation: str, *, edited: bool = False) -> Path:
        """Return a thousand different reviews of an operation, one in each line; edited as `benchmarks.varied` has it."""
        return self.inputs / (f"{operation}-edited.jsonl" if edited else f"{operation}.jsonl")


class Section(NamedTuple):
    """A part of the results."""

    title: str
    text: str
    """Markdown below the title: tables, and what they do not say themselves."""
    figures: dict[str, Any]
    """What was measured, for `benchmarks/results.json`."""
    plots: tuple[Path, ...] = ()
    """SVG files in ``benchmarks/plots``."""


class Case(Protocol):
    """A module of ``benchmarks/cases``."""

    def run(self, context: Context) -> Section:
        """Measure, some minutes at most."""
        ...
