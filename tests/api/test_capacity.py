import pytest

from app.api.capacity import derive_capacity
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
    assert found == (connections, bodies)
