"""examples/patch.py: one line for each answer without a patch, and never a traceback."""

import base64
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.serving import ROOT


def run(answer: str) -> tuple[int, str, str]:
    command = [sys.executable, "examples/patch.py"]
    result = subprocess.run(command, input=answer, capture_output=True, text=True, cwd=ROOT, check=False)
    return result.returncode, result.stdout, result.stderr


def respond(**response: Any) -> str:
    return json.dumps({"response": {"uid": "u", **response}})


def encode(patch: Any) -> str:
    return base64.b64encode(json.dumps(patch).encode()).decode()


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("", "the answer is empty: does the server run?"),
        ("<html>\n502 Bad Gateway</html>", "the answer is no JSON: <html> 502 Bad Gateway</html>"),
        ('{"kind": "Status", "message": "bad review"}', "the answer is no AdmissionReview: bad review"),
        ("[]", "the answer is no AdmissionReview: []"),
        (respond(allowed=False, status={"message": "no"}), "the request is denied: no"),
        (respond(allowed=False), "the request is denied: the answer has no reason"),
        (respond(allowed=True, patch="e"), "the patch is no JSON Patch in base64: e"),
        (respond(allowed=True, patch=encode([1])), "the patch is no JSON Patch in base64: "),
    ],
)
def test_an_answer_without_a_patch_is_one_line(answer: str, line: str) -> None:
    code, out, err = run(answer)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"patch.py: {line}")


def test_changes_are_printed_by_path_and_no_changes_are_named() -> None:
    patch = [{"op": "remove", "path": "/b"}, {"op": "add", "path": "/a", "value": [1]}]
    for verdict in ("allowed", "successful"):
        assert run(respond(**{verdict: True}, patch=encode(patch))) == (0, "/a: [1]\n/b: removed\n", "")
    assert run(respond(allowed=True)) == (0, "no changes: the request is allowed, and the answer has no patch\n", "")
