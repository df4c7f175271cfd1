"""Checks that servers of the five rules give equal verdicts and patches with an equal effect."""

import base64
import json
import ssl
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jsonpatch

from benchmarks.engines.rule_pods import EDITS, RULES, pods, reviews
from benchmarks.peers.check import differences

CHECKED: Final = 10 * len(EDITS)
"""Pods, so that each edit is among them."""

Verdict = tuple[bool, int, str, Any]
"""Whether the Pod is admitted, code and message of the refusal, and the Pod with the patch."""


def check_verdicts(ports: Mapping[str, int], authority: Path) -> list[str]:
    """Ask each server for each rule and Pod; return a line for each server.

    Raises:
        ValueError: A server differs from the first one. A typed server may add empty members.
    """
    context = ssl.create_default_context(cafile=str(authority))
    documents = pods(CHECKED)
    questions = [(path, body) for path in RULES.values() for body in reviews(documents)]
    (first, port), *others = ports.items()
    expected = [_ask(port, path, body, context) for path, body in questions]
    refused = sum(not one[0] for one in expected)
    changed = sum(
        made[3] != json.loads(body)["request"]["object"] for (_, body), made in zip(questions, expected, strict=True)
    )
    for name, other in others:
        for (path, body), wanted in zip(questions, expected, strict=True):
            if problem := _compare(wanted, _ask(other, path, body, context)):
                raise ValueError(f"{name} differs from {first} at {path}: {problem}")
    return [f"{name}: {refused} refusals and {changed} patches of {len(questions)} reviews" for name in ports]


def _ask(port: int, path: str, body: bytes, context: ssl.SSLContext) -> Verdict:
    request = urllib.request.Request(
        f"https://localhost:{port}{path}?timeout=10s", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, context=context) as answer:
        response = json.load(answer)["response"]
    given = json.loads(body)["request"]
    if response["uid"] != given["uid"]:
        raise ValueError(f"{path}: the answer has another uid")
    made = given["object"]
    if patch := response.get("patch"):
        made = jsonpatch.apply_patch(made, json.loads(base64.b64decode(patch)))
    status = {} if response["allowed"] else response["status"]
    return response["allowed"], status.get("code", 0), status.get("message", ""), made


def _compare(wanted: Verdict, found: Verdict) -> str:
    """Return the difference between two verdicts, ``""`` if they are equal."""
    if wanted[:3] != found[:3]:
        return f"{found[:3]} instead of {wanted[:3]}"
    return ", ".join(path for path, is_empty in differences(wanted[3], found[3]) if not is_empty)
