"""A real server with `--record` records its reviews and answers."""

import gzip
import json
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import run_command
from tests.recordings.builders import read_lines, read_prefix
from tests.serving import EXAMPLES, MUTATE, REVIEW, Server, serving
from tests.waiting import wait_for

SECRET = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u-secret",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Secret"},
        "resource": {"group": "", "version": "v1", "resource": "secrets"},
        "object": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s"},
            "stringData": {"p": "correct horse"},
        },
    },
}


def read_metric(server: Server, name: str) -> float:
    text = server.request("GET", "/metrics")[1].decode()
    found = re.search(rf"^fleethook_{name} (\S+)$", text, re.MULTILINE)
    assert found
    return float(found[1])


def records(directory: Path) -> list[Any]:
    return [line for path in sorted(directory.iterdir()) for line in read_lines(path)[1:]]


def test_a_server_records_its_reviews_and_ends_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "records"
    with serving(tmp_path, "--record", str(directory)) as server:
        answers = [server.request("POST", f"{MUTATE}?timeout=10s", REVIEW.read_bytes())[1] for _ in range(3)]
        server.request("POST", MUTATE, json.dumps(SECRET).encode())
        server.request("POST", MUTATE, b"{")
        assert server.stop() == 0
    found = records(directory)
    assert [line.get("status", 200) for line in found] == [200, 200, 200, 400]
    assert [line["path"] for line in found] == [*[f"{MUTATE}?timeout=10s"] * 3, MUTATE]
    for line, answer in zip(found, answers, strict=False):
        assert (line["review"], line["answer"]) == (json.loads(REVIEW.read_text()), json.loads(answer))
    assert "correct horse" not in json.dumps(found)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_killed_server_leaves_readable_files(tmp_path: Path) -> None:
    directory = tmp_path / "records"
    with serving(tmp_path, "--record", str(directory)) as server:
        server.request("POST", MUTATE, REVIEW.read_bytes())
        wait_for(lambda: read_metric(server, "recorded_reviews_total") == 1)
        server.process.kill()
        server.process.wait()
    (path,) = directory.iterdir()
    assert len(read_prefix(path)) == 2
    with pytest.raises(EOFError):
        gzip.decompress(path.read_bytes())


def test_a_directory_that_cannot_be_written_to_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    result = run_command("serve", "--manifests", str(EXAMPLES), "--cert-dir", str(tmp_path), "--record", str(file))
    assert result.returncode == 2
    assert "file: file exists; give another --record" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "text"),
    [
        ([], {"FLEETHOOK_RECORD_REDACT": '["/*"]'}, "record_redact: '/*' names no field"),
        (["--record-sample", "0"], {}, "--record-sample: "),
        (["--record-max", "1Ki"], {}, "--record-max: "),
    ],
)
def test_a_wrong_setting_ends_the_start(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], text: str
) -> None:
    command = [sys.executable, "-m", "fleethook", "serve", "--manifests", str(EXAMPLES), "--port", "0"]
    command += ["--cert-dir", str(tmp_path / "certs"), "--record", str(tmp_path / "records"), *arguments]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", **environment}
    )
    assert (ended.returncode, text in ended.stderr) == (2, True), ended.stderr
