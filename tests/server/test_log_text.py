"""Log lines as text, for people at a terminal."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fleethook.server.log_format import encode_line
from fleethook.server.log_text import format_line
from tests.serving import EXAMPLES, ROOT
from tests.waiting import NET

REVIEW = {
    "msg": "review", "route": "/mutate-apps-v1-deployment", "requestId": "r", "uid": "u", "allowed": True, "patchOps": 4, "ms": 0.533,
    "cluster": "", "gvk": "apps/v1/Deployment", "namespace": "shop", "name": "web", "operation": "CREATE",
}  # fmt: skip
ANSWER = {
    "msg": "interpret", "route": "/explore", "uid": "u", "successful": True, "gvk": "example.com/v1/Game", "operation": "Retain",
    "layer": "lua", "namespace": "games", "name": "arena", "requestId": "r", "ms": 12.3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"level": "warning", "logger": "fleethook.x", "msg": "a.yaml:3: no such pool", "file": "a.yaml", "line": 3, "code": "unknown"},
            "warning a.yaml:3: no such pool code=unknown",
        ),
        (REVIEW, "info    CREATE Deployment shop/web: allowed, 4 changes (/mutate-apps-v1-deployment, 0.5 ms)"),
        (
            {**REVIEW, "allowed": False, "patchOps": 0, "cluster": "ws1", "message": "label owner is missing", "owner": "ws2"},
            "info    CREATE Deployment shop/web in ws1: refused, label owner is missing (/mutate-apps-v1-deployment, 0.5 ms) owner=ws2",
        ),
        (ANSWER, "info    Retain Game games/arena: answered by lua (/explore, 12.3 ms)"),
        ({"msg": "forged\n17:05:02 info \x1b[2J"}, "info    forged\\n17:05:02 info \\x1b[2J"),
        ({"level": "error", "msg": "failed", "exception": "Traceback:\nValueError: \x1b"}, "error   failed\n  Traceback:\n  ValueError: \\x1b"),
    ],
)  # fmt: skip
def test_a_line_tells_a_person_what_happened(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], text: str
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    line = encode_line({"ts": "2026-11-28T16:05:02.250+00:00", "level": "info", **fields})
    assert format_line(line).decode() == f"17:05:02 {text}\n"
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("chosen", "redirects", "first"),
    [
        ("auto", False, r"\d\d:\d\d:\d\d info    Started server process"),
        ("auto", True, r'\{"ts":'),
        ("json", False, r'\{"ts":'),
    ],
)
def test_the_log_is_text_on_a_terminal(tmp_path: Path, chosen: str, redirects: bool, first: str) -> None:
    master, slave = os.openpty()
    command = [sys.executable, "-m", "fleethook", "serve", "--manifests", str(EXAMPLES / "retention")]
    command += ["--cert-dir", str(tmp_path), "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL if redirects else slave,
        stderr=slave,
        cwd=ROOT,
        env={**os.environ, "FLEETHOOK_LOG_FORMAT": chosen},
    ) as process:
        found = b""
        while b"process [" not in found:
            found += os.read(master, 4096)
        process.terminate()
        process.wait(NET)
    os.close(master)
    os.close(slave)
    assert re.search(rf"^{first}", found.decode(), re.MULTILINE), found
