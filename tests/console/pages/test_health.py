"""The probes of the console: they need no credentials and tell nothing about objects."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.resources import RESOURCES
from fleethook.cluster.kubernetes.source import KubernetesSource
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import Store
from fleethook.console.application import create_console
from fleethook.console.context import INDEXES, ConsoleContext
from fleethook.console.pages.health import PATHS
from fleethook.lifetime import run_in_background
from tests.builders import yurt_app_set
from tests.console.users.test_permissions import Restricted
from tests.console.visits import HOSTS, console_of, visit
from tests.waiting import until

if TYPE_CHECKING:
    from fleethook.lifetime import Cluster


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_a_kubelet_needs_neither_credentials_nor_a_host_name(path: str) -> None:
    app = console_of(yurt_app_set(), authorizer=Restricted())
    answer = await visit(app, path, host="10.0.0.7:9444")
    assert answer.status == 200
    assert answer.body in (b"ok\n", b"ready\n")
    assert (await visit(app, "/", host="10.0.0.7:9444")).status == 421
    assert (await visit(app, "/")).status == 401


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_a_probe_is_only_read(path: str) -> None:
    answer = await visit(console_of(), path, method="POST")
    assert answer.status == 405


async def test_a_console_is_ready_once_its_objects_were_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(yurt_app_set()))
    store = Store(INDEXES)
    source = ManifestSource([tmp_path], store)
    app = create_console(ConsoleContext(store, source), hosts=HOSTS)
    assert (await visit(app, "/healthz")).status == 200
    assert (await visit(app, "/readyz")).status == 503
    source.load()
    assert (await visit(app, "/readyz")).status == 200


class ForbiddenReader:
    """An apiserver that refuses each list."""

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        raise APIError(403, "Forbidden", f"User cannot {method} {path}")

    def lines(self, path: str, **_: Any) -> Any:
        pytest.fail(f"{path} is watched before it was listed")


async def test_a_console_that_may_not_read_a_kind_is_ready_and_says_so() -> None:
    store = Store(INDEXES)
    source = KubernetesSource(RESOURCES, ForbiddenReader(), store, absent_seconds=10.0)
    cluster = cast("Cluster", SimpleNamespace(source=source))
    app = create_console(ConsoleContext(store, cluster=cluster), hosts=HOSTS)
    assert (await visit(app, "/readyz")).status == 503
    async with run_in_background(source.run(), name="source", ended=pytest.fail):
        await until(lambda: all(part.failing for part in source.parts()))
        assert (await visit(app, "/readyz")).status == 200
        assert b"User cannot GET /apis/apps.openyurt.io/v1beta2/nodepools" in (await visit(app, "/")).body


async def test_a_file_that_cannot_be_read_does_not_keep_a_console_unready(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: [")
    store = Store(INDEXES)
    source = ManifestSource([tmp_path], store)
    app = create_console(ConsoleContext(store, source), hosts=HOSTS)
    source.load()
    assert not source.synced
    assert (await visit(app, "/readyz")).status == 200
    assert b"a.yaml" in (await visit(app, "/")).body
