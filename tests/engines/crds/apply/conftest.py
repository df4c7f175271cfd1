"""An API server in memory, and a connection to it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fleethook.cluster.connection import Connection
from tests.engines.crds.apply.apiserver import ApiServer, kubeconfig, serving


@pytest.fixture
def server() -> Iterator[tuple[ApiServer, str]]:
    with serving() as running:
        yield running


@pytest.fixture
def api(server: tuple[ApiServer, str]) -> ApiServer:
    return server[0]


@pytest.fixture
async def connection(server: tuple[ApiServer, str], tmp_path: Path) -> AsyncIterator[Connection]:
    async with Connection(kubeconfig(tmp_path, server[1])) as connection:
        yield connection
