from typing import Any

import pytest

from app.console.views.freshness import describe_age, summarize_parts
from app.store.sources.source import PartState


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "never"), (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172_800, "2 d")],
)
def test_ages_have_one_unit(seconds: Any, text: Any) -> None:
    assert describe_age(seconds) == text


def test_the_oldest_part_gives_the_age_and_all_problems_are_named() -> None:
    parts = [
        PartState("nodepools", True, "", 3.0, False),
        PartState("yurtappsets", True, "connection refused", 60.0, True),
        PartState("workspaces", False, "", None, False, needed=False),
        PartState("webhooks", False, "", None, False),
    ]
    assert summarize_parts(parts) == (60.0, ("webhooks",), ("yurtappsets: connection refused",))


def test_nothing_read_has_no_age() -> None:
    assert summarize_parts([]).age is None
