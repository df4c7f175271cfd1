"""What benchmarks have in common: processes on cores of their own, rounds, tables."""
