import pytest

from app.api.capacity import derive_capacity, find_contradictions
from app.settings import Settings

GI = 1 << 30
FILES = 1 << 20


@pytest.mark.parametrize(
    ("given", "memory", "open_files", "connections", "bodies"),
    [
        ({}, GI, FILES, 256, GI // 4),
        ({"workers": 2}, GI, FILES, 128, GI // 8),
        ({}, 64 << 20, FILES, 64, 16 << 20),
        ({"body_limit": 32 << 20}, 64 << 20, FILES, 64, 64 << 20),
        ({}, 1024 * GI, FILES, 16384, 256 * GI),
        ({}, GI, 400, 144, GI // 4),
        ({}, GI, 100, 1, GI // 4),
        ({"max_connections": 7, "body_memory": "2Mi"}, GI, FILES, 7, 2 << 20),
    ],
)
def test_capacity_is_a_quarter_of_the_memory_each(
    given: dict[str, object], memory: int, open_files: int, connections: int, bodies: int
) -> None:
    found = derive_capacity(Settings.model_validate(given), memory=memory, open_files=open_files)
    assert found == (connections, bodies, max(1, connections // 2))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, ""),
        ({"dispatch_workspace_requests": 512}, "one logical cluster gets 128, so"),
        ({"dispatch_workspace_requests": 512, "max_connections": 1024}, ""),
        ({"dispatch_workspace_calls": 600}, "dispatch_workspace_calls (600) is more than dispatch_calls (512)"),
        ({"dispatch_workspace_connections": 200}, "dispatch_workspace_connections (200) is more than"),
        ({"body_memory": "2Mi"}, "less than twice body_limit"),
    ],
)
def test_limits_that_others_make_useless_are_named(given: dict[str, object], text: str) -> None:
    settings = Settings.model_validate(given)
    found = find_contradictions(settings, derive_capacity(settings, memory=GI, open_files=FILES))
    assert len(found) == bool(text)
    assert text in "".join(found)
