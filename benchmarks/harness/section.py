"""A part of the results, and the inputs of its measurement."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Context(NamedTuple):
    """The inputs of every part."""

    binaries: Path
    """Go peers, built from ``benchmarks/peers``."""
    python: Path
    """An interpreter with the packages of `benchmarks/requirements.txt`, for peers that we do not depend on."""
    inputs: Path
    """The directory that ``benchmarks/peers/inputs.py`` wrote."""
    scratch: Path
    """An empty directory."""
    rounds: int
    seconds: float
    """Length of one measurement of one server."""
    server_core: int
    load_core: int
    small: bool = False
    """Whether to measure small sizes, to check that the part works."""

    def reviews(self, operation: str, *, edited: bool = False) -> Path:
        """Return a thousand different reviews of an operation, one in each line; edited as `benchmarks.varied` has it."""
        return self.inputs / (f"{operation}-edited.jsonl" if edited else f"{operation}.jsonl")


class Section(NamedTuple):
    """A part of the results."""

    title: str
    text: str
    """Markdown below the title: tables and their explanation."""
    figures: dict[str, Any]
    """The measured values, for `benchmarks/results.json`."""
    plots: tuple[Path, ...] = ()
    """SVG files in ``benchmarks/plots``."""


class Part(Protocol):
    """A module of ``benchmarks/cases``."""

    def run(self, context: Context) -> Section:
        """Measure, some minutes at most."""
        ...
