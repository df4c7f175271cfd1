"""Shared parts of the benchmarks: processes pinned to cores, rounds, tables, plots, results."""

from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
