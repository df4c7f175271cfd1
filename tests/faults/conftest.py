from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.outbound.client import HookClient
from tests.hook_server import RawHook, raw_hooking


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[RawHook]:
    async with raw_hooking(tmp_path) as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[HookClient]:
    async with HookClient(allow_private=True) as made:
        yield made
