"""Profiles of Hypothesis: how many examples the properties draw, and whether at random.

`make test` uses `fast`, which draws the same examples in each run. `make test-all` and CI use `full`, which draws new ones
and prints the seed. To search longer, run the properties of a change with `PROFILE=thorough`.
"""

import random
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

FULL: Final = 100
PROFILES: Final = {"fast": FULL // 5, "full": FULL, "thorough": 15 * FULL}


def register_profiles() -> None:
    """Register the profiles and load `fast`. No example has a deadline, and slow machines may draw them slowly."""
    for name, count in PROFILES.items():
        # Hypothesis's own profile for CI would be derandomized, so each profile says whether it is.
        settings.register_profile(
            name,
            deadline=None,
            max_examples=count,
            derandomize=name == "fast",
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.load_profile("fast")


def draw_seed(config: pytest.Config) -> None:
    """Draw the seed of a random profile, unless the command line has one. pytest-xdist hands it to the workers."""
    option = config.option
    if option.hypothesis_seed is None and option.hypothesis_profile not in (None, "fast"):
        option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def describe_seed(config: pytest.Config) -> list[str]:
    """Return a line with the seed of a random profile, and how to draw the same examples again."""
    seed, profile = config.option.hypothesis_seed, config.option.hypothesis_profile
    return [] if seed is None else [f"hypothesis seed: make test PROFILE={profile} ARGS=--hypothesis-seed={seed}"]


def cases(count: int) -> int:
    """Return how many of its examples a property must meet: ``count`` in `full`, 0 if chance may leave out all."""
    return count if settings.default.max_examples >= FULL else 0


def examples(count: int) -> int:
    """Return the number of examples, in the loaded profile, for a property that needs ``count`` in `full`."""
    return max(1, count * settings.default.max_examples // FULL)
