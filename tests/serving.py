"""A real server process on loopback, and raw connections to it."""

import contextlib
import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fleethook.patch import apply
from tests.other_constants import VARIABLE
from tests.waiting import NET

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
REVIEW = EXAMPLES / "testdata" / "review-story-2.json"
MUTATE = "/mutate-apps-v1-deployment"


class Server(NamedTuple):
    """A running `fleethook serve`."""

    process: "subprocess.Popen[str]"
    port: int
    authority: Path
    log: Path

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("localhost", self.port, context=self.context(), timeout=NET)

    def raw(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=NET)
        return self.context().wrap_socket(plain, server_hostname="localhost")

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        with contextlib.closing(self.connect()) as connection:
            given = {
                "Content-Type": "application/json",
                **{name.replace("_", "-"): text for name, text in headers.items()},
            }
            connection.request(method, path, body=body, headers=given)
            response = connection.getresponse()
            return response.status, response.read()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=NET)


@contextlib.contextmanager
def serving(
    directory: Path, *arguments: str, manifests: Path | None = EXAMPLES, **environment: str
) -> Iterator[Server]:
    """Start the server on a free port, wait until it prints that it serves, and end it by its pid afterwards."""
    log = directory / "server.log"
    command = [
        sys.executable,
        "-m",
        "tests.other_constants" if VARIABLE in environment else "fleethook",
        "serve",
        *([] if manifests is None else ["--manifests", str(manifests)]),
    ]
    command += ["--cert-dir", str(directory / "certs"), "--port", "0", *arguments]
    with started(command, log, r"serves on https://.*:(\d+)", **environment) as (process, port):
        yield Server(process, port, directory / "certs" / "ca.crt", log)


@contextlib.contextmanager
def started(
    command: list[str], log: Path, says: str, **environment: str
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Start a process, wait until it prints its port, and end it by its pid afterwards.

    Args:
        command: The command, run in the root of the repository.
        log: File to which its standard error is appended.
        says: Regular expression of the line on its standard output, with the port as a group.
        environment: Additional environment variables.
    """
    with log.open("a") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env={**os.environ, **environment}
        )
    try:
        yield process, _port(process, log, says)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout:
            process.stdout.close()


def _port(process: "subprocess.Popen[str]", log: Path, says: str) -> int:
    assert process.stdout
    watchdog = threading.Timer(NET, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            if match := re.search(says, line):
                return int(match[1])
    finally:
        watchdog.cancel()
    raise AssertionError(f"the process did not start: {log.read_text()}")


def patched(document: Any, response: Any) -> Any:
    """Return the document after the patch of a response."""
    import base64  # noqa: PLC0415 - only this function needs it
    import json  # noqa: PLC0415 - as above

    return apply(document, json.loads(base64.b64decode(response["patch"])))
