"""Profiles of Hypothesis: how many examples the properties draw.

`make test` uses `fast`, `make test-all` and CI use `full`. To search longer, run the properties of a change with
`--hypothesis-profile=thorough`.
"""

from typing import Final

from hypothesis import HealthCheck, settings

FULL: Final = 100
PROFILES: Final = {"fast": FULL // 5, "full": FULL, "thorough": 15 * FULL}


def register_profiles() -> None:
    """Register the profiles and load `fast`. No example has a deadline, and slow machines may draw them slowly."""
    for name, count in PROFILES.items():
        settings.register_profile(name, deadline=None, max_examples=count, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("fast")


def cases(count: int) -> int:
    """Return how many of its examples a property must meet: ``count`` in `full`, 0 if chance may leave out all."""
    return count if settings.default.max_examples >= FULL else 0


def examples(count: int) -> int:
    """Return the number of examples, in the loaded profile, for a property that needs ``count`` in `full`."""
    return max(1, count * settings.default.max_examples // FULL)
