"""Limits of the patches of one subject on one workload."""

from typing import Final

from app.patch import PatchLimits

LIMITS: Final = PatchLimits(operations=1_000, moved=1_000_000)
"""A review renders while its apiserver waits and others wait behind it. A thousand patches take some 20 ms; OpenYurt
has no limit."""
