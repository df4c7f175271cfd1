"""Slow match conditions of one tenant do not delay another tenant.

Server, attacker and victim are separate processes. The tests print latencies, and judge only verdicts.
"""

import json
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from tests.serving import ROOT, Server, serving
from tests.waiting import NET

_WEBHOOKS: Final = 40
_CONDITIONS: Final = 64
_REQUESTS: Final = 200
# Each condition iterates over all pairs of numbers, which exceeds the cost limit of one condition.
_EXPENSIVE: Final = "object.numbers.all(x, object.numbers.all(y, x + y >= 0 || x == {number}))"
# The victim's process sends requests one after the other and prints the latency of each.
_VICTIM: Final = """
import http.client, json, ssl, sys, time
port, authority, path, body, count = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
connection = http.client.HTTPSConnection("localhost", int(port), context=context)
for _ in range(int(count)):
    started = time.perf_counter()
    connection.request("POST", path, body=body, headers={"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    print(json.dumps([time.perf_counter() - started, answer["response"]["allowed"]]), flush=True)
"""


def _webhook(number: int, conditions: list[str], *, policy: str = "Fail") -> dict[str, Any]:
    return {
        "name": f"w{number}.example.org",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
        "matchConditions": [{"name": f"c{place}", "expression": one} for place, one in enumerate(conditions)],
        "failurePolicy": policy,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {},
        "objectSelector": {},
    }


def _configuration(cluster: str, *webhooks: dict[str, Any], name: str = "hooks") -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name, "annotations": {"kcp.io/cluster": cluster}},
        "webhooks": list(webhooks),
    }


def _review(object_: dict[str, Any]) -> str:
    kind = {"group": "example.org", "version": "v1", "kind": "Widget"}
    resource = {"group": "example.org", "version": "v1", "resource": "widgets"}
    request = {
        "uid": "1", "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource,
        "name": "a", "operation": "CREATE", "userInfo": {"username": "jane"}, "dryRun": False, "options": None,
        "object": {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}, **object_},
        "oldObject": None,
    }  # fmt: skip
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def _attack(server: Server, stop: threading.Event, answers: list[dict[str, Any]], body: str) -> None:
    while not stop.is_set():
        _, raw = server.request("POST", "/clusters/ws2/validate?timeout=30s", body.encode())
        answers.append(json.loads(raw)["response"])


def _victim(server: Server, count: int) -> tuple[list[float], list[bool]]:
    body = _review({"spec": {"replicas": 1}})
    command = [sys.executable, "-c", _VICTIM, str(server.port), str(server.authority), "/clusters/ws3/validate"]
    ran = subprocess.run(
        [*command, body, str(count)], cwd=ROOT, capture_output=True, text=True, timeout=NET, check=True
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return [line[0] for line in lines], [line[1] for line in lines]


def _memory(server: Server) -> int:
    """Return the resident memory of the server in MiB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) // 1024


def _print_latencies(name: str, latencies: list[float], memory: int) -> None:
    p50, p99 = (statistics.quantiles(latencies, n=100)[place] * 1e3 for place in (49, 98))
    print(f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, maximum {max(latencies) * 1e3:.1f} ms, memory {memory} MiB")  # noqa: T201


def _expensive() -> tuple[list[dict[str, Any]], str]:
    conditions = [
        [_EXPENSIVE.format(number=number * _CONDITIONS + place) for place in range(_CONDITIONS)]
        for number in range(_WEBHOOKS)
    ]
    webhooks = [_webhook(number, expressions) for number, expressions in enumerate(conditions)]
    return [_configuration("ws2", *webhooks)], _review({"numbers": list(range(9_000))})


def _many() -> tuple[list[dict[str, Any]], str]:
    configurations = [
        _configuration("ws2", _webhook(number, [f"object.metadata.name == 'x{number}'"]), name=f"c{number}")
        for number in range(10_000)
    ]
    return configurations, _review({"spec": {}})


@pytest.mark.parametrize("attack", [_expensive, _many], ids=["expensive conditions", "10,000 configurations"])
def test_conditions_of_one_tenant_do_not_change_the_answers_of_another(attack: Any, tmp_path: Path) -> None:
    configurations, body = attack()
    victim = _configuration("ws3", _webhook(0, ["object.spec.replicas > 3"]))
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "all.yaml").write_text("\n---\n".join(map(json.dumps, [victim, *configurations])))
    with serving(tmp_path, manifests=manifests, FLEETHOOK_ENGINES='["dispatch"]') as server:
        calm, allowed = _victim(server, _REQUESTS)
        _print_latencies("before the attack", calm, before := _memory(server))
        stop, answers = threading.Event(), list[dict[str, Any]]()
        attacker = threading.Thread(target=_attack, args=(server, stop, answers, body))
        attacker.start()
        try:
            suffered: list[float] = []
            while not answers or len(suffered) < _REQUESTS:
                latencies, more = _victim(server, _REQUESTS)
                suffered += latencies
                allowed += more
        finally:
            stop.set()
            attacker.join()
        _print_latencies("during the attack", suffered, _memory(server))
        print(f"{len(answers)} requests of the attacker, {_memory(server) - before} MiB more")  # noqa: T201
    assert all(allowed), f"{allowed.count(False)} requests of the victim were denied"
    text = "cost" if attack is _expensive else "too many validating webhooks: there are 10000"
    assert all(text in answer["status"]["message"] for answer in answers)
