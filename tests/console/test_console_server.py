"""The process of the console: its pages, its source, its token and its end."""

import contextlib
import http.client
import signal
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import RESOURCES
from fleethook.cluster.store import Store
from fleethook.console.console_server import console_indexes, create_console
from fleethook.console.context import ConsoleContext
from fleethook.console.page_frame import list_sections
from tests.builders import yurt_app_set
from tests.cli.interpreting import DATABASE
from tests.cluster.kubernetes.scripted import GADGETS, Script, bookmark, page
from tests.console.printed_addresses import console_with_token
from tests.console.visits import console_of, visit
from tests.serving import started
from tests.waiting import NET, until, wait_for

if TYPE_CHECKING:
    from fleethook.cluster.followed_objects import Cluster


class ForbiddenReader:
    """An apiserver that refuses each list."""

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        raise APIError(403, "Forbidden", f"User cannot {method} {path}")

    def lines(self, path: str, **_: Any) -> Any:
        pytest.fail(f"{path} is watched before it was listed")


async def test_a_console_that_may_not_read_a_kind_says_so() -> None:
    store = Store(console_indexes())
    source = KubernetesSource(RESOURCES, ForbiddenReader(), store, absent_seconds=10.0)
    cluster = cast("Cluster", SimpleNamespace(source=source))
    app = create_console(ConsoleContext(store, cluster=cluster))
    async with run_in_background(source.run(), name="source", ended=pytest.fail):
        await until(lambda: all(part.failing for part in source.parts()))
        assert b"User cannot GET /apis/apps.openyurt.io/v1beta2/nodepools" in (await visit(app, "/")).body


async def test_each_page_of_a_cluster_that_cannot_be_read_any_more_says_so_until_it_is_back() -> None:
    script, store = Script(), Store(console_indexes())
    source = KubernetesSource([GADGETS], script, store, absent_seconds=10.0, sleep=script.sleep)
    app = create_console(ConsoleContext(store, cluster=cast("Cluster", SimpleNamespace(source=source))))

    async def find_outdated() -> list[str]:
        pages = [one.path for one in list_sections()]
        return [path for path in pages if b"This page shows old data" in (await visit(app, path)).body]

    script.lists.put_nowait(page(10))
    async with run_in_background(source.run(), name="source", ended=pytest.fail):
        await source.wait_synced()
        assert await find_outdated() == []
        script.put(UnreachableError("connection refused"), UnreachableError("connection refused"))
        await until(lambda: any(part.failing for part in source.parts()))
        assert await find_outdated() == [one.path for one in list_sections()]
        assert b"connection refused" in (await visit(app, "/overriders")).body
        script.put(bookmark(11))
        await until(lambda: not any(part.failing for part in source.parts()))
        assert await find_outdated() == []


@pytest.mark.parametrize("path", [one.path for one in list_sections()])
async def test_every_section_has_a_page(path: Any) -> None:
    answer = await visit(console_of(yurt_app_set()), path)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert b"<h1" in answer.body


async def test_an_unknown_path_is_a_page_with_the_navigation() -> None:
    answer = await visit(console_of(), "/nothing")
    assert answer.status == 404
    assert b'<a href="/overriders">' in answer.body
    assert b"The console has no page /nothing." in answer.body
    assert b'aria-label="Search for the object"' in answer.body
    assert b'<a href="/">Back to the overview</a>' in answer.body


@pytest.mark.parametrize("path", ["/static/../application.py", "/static/%2e%2e/application.py", "/static//etc/passwd"])
async def test_only_files_of_the_bundle_are_served(path: Any) -> None:
    assert (await visit(console_of(), path)).status == 404


SET = """apiVersion: apps.openyurt.io/v1alpha1
kind: YurtAppSet
metadata: {{name: {name}, namespace: default}}
spec: {{}}
"""


@pytest.fixture
def running(tmp_path: Path) -> Any:
    """A console on manifests: the process, its port, and the directory of the manifests."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "a.yaml").write_text(SET.format(name="first"))
    command = [sys.executable, "-m", "fleethook", "console", "--no-token", "-f", str(manifests), "--port", "0"]
    with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/") as (process, port):
        yield process, port, manifests


def get(port: int, path: str) -> tuple[int, str]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=NET)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_the_printed_address_opens_a_browser(tmp_path: Path) -> None:
    with console_with_token(tmp_path, tmp_path) as find_addresses:
        ((origin, path),) = find_addresses()
        port = int(origin.rpartition(":")[2])
        assert get(port, "/")[0] == 401
        assert get(port, path)[0] == 303
    assert path.partition("=")[2] not in (tmp_path / "log").read_text()


def test_the_console_follows_its_manifests(running: Any) -> None:
    _, port, manifests = running
    status, body = get(port, "/overriders")
    assert status == 200
    assert "first" in body
    (manifests / "b.yaml").write_text(SET.format(name="second"))
    wait_for(lambda: "second" in get(port, "/overriders")[1], what="the new object is shown")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_console_with_success(running: Any, number: Any) -> None:
    process, _, _ = running
    process.send_signal(number)
    assert process.wait(timeout=NET) == 0


def test_a_second_ctrl_c_ends_requests_without_a_traceback(running: Any, tmp_path: Path) -> None:
    process, port, _ = running
    with socket.create_connection(("127.0.0.1", port), NET) as client:
        form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\nExpect: 100-continue\r\n"
        client.sendall(f"POST /interpreters/playground HTTP/1.1\r\nHost: 127.0.0.1\r\n{form}\r\na".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        process.send_signal(signal.SIGINT)
        wait_for(lambda: "Waiting for connections to close" in (tmp_path / "log").read_text(), what="it shuts down")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=NET) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_the_matrix_has_the_interpreters_of_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fleethook", "console", "--no-token", "-f", str(tmp_path), "--port", "0"]
    command += ["--interpreters", DATABASE]
    with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/") as (_, port):
        status, body = get(port, "/interpreters?layer=python")
    assert status == 200
    assert "1 of" in body
    assert f"--desired-file object.yaml --interpreters {DATABASE} -f {tmp_path}" in body
