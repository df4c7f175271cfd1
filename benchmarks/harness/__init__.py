"""What benchmarks have in common: processes on cores of their own, rounds, tables, plots, results."""

from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
