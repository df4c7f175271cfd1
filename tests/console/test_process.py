import contextlib
import http.client
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from fleethook.console.process import ConsoleOptions, describe_source, open_context
from fleethook.settings import Settings
from tests.cli.interpreting import DATABASE
from tests.serving import started
from tests.waiting import NET, wait_for

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
    command = [sys.executable, "-m", "fleethook", "console", "-f", str(manifests), "--port", "0"]
    with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/") as (process, port):
        yield process, port, manifests


def get(port: int, path: str) -> tuple[int, str]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=NET)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()


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
        client.sendall(f"POST /overriders/edit HTTP/1.1\r\nHost: 127.0.0.1\r\n{form}\r\na".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        process.send_signal(signal.SIGINT)
        wait_for(lambda: "Waiting for connections to close" in (tmp_path / "log").read_text(), what="it shuts down")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=NET) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


async def test_no_console_on_another_address_is_open_to_everybody(tmp_path: Path) -> None:
    settings = Settings(manifests=tmp_path, host="0.0.0.0")
    with pytest.raises(ValueError, match="needs a cluster"):
        async with open_context(settings, ConsoleOptions()):
            pass


def test_the_options_of_the_source_are_those_of_an_equivalent_command(tmp_path: Path) -> None:
    assert (
        describe_source(Settings(exclude=["a*"]), [Path("my examples"), Path("b")])
        == "-f 'my examples' -f b --exclude 'a*'"
    )
    cached = Settings(in_cluster=True, kcp=True, kcp_cache_kubeconfig=Path("c"))
    assert describe_source(cached, []) == "--in-cluster --kcp --kcp-cache-kubeconfig c"
    assert describe_source(Settings(kubeconfig=Path("k"), context="c"), []) == "--kubeconfig k --context c"


def test_the_matrix_has_the_interpreters_of_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fleethook", "console", "-f", str(tmp_path), "--port", "0"]
    command += ["--interpreters", DATABASE]
    with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/") as (_, port):
        status, body = get(port, "/interpreters?layer=python")
    assert status == 200
    assert "1 of" in body
    assert f"--desired-file object.yaml --interpreters {DATABASE} -f {tmp_path}" in body
