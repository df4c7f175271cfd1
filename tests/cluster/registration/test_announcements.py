from typing import Any

import pytest

from fleethook.cluster.registration.announcements import (
    MAX_ANNOTATION_BYTES,
    Announcement,
    read_announcements,
    write_announcements,
)
from fleethook.cluster.registration.match_conditions import SubjectName
from tests.cluster.registration.apiserver import NEW


@pytest.mark.parametrize("text", [None, 7, "", "{", '["a"]', '[["a","b"]]', "[[[1,2,3],4]]"])
def test_an_annotation_in_another_format_has_no_announcements(text: Any) -> None:
    assert read_announcements(text) == ()


def test_the_oldest_announcements_are_dropped_at_the_size_limit() -> None:
    many = [Announcement(SubjectName("n" * 63, "YurtAppSet", f"app-{number}"), "u" * 36) for number in range(2_000)]
    text = write_announcements(many)
    kept = read_announcements(text)
    assert MAX_ANNOTATION_BYTES - 200 < len(text) <= MAX_ANNOTATION_BYTES
    assert list(kept) == many[-len(kept) :]
    assert read_announcements(write_announcements([NEW])) == (NEW,)
