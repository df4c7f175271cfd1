"""One log line for each answer, in real server processes that end under load or after a fault."""

import json
import signal
from pathlib import Path
from typing import Any

from fleethook.cluster.registration.paths import INTERPRET
from tests.serving import Server, serving
from tests.traffic import send_traffic
from tests.waiting import NET, wait_for

FAULTY = """
import sys
from fleethook.interpret import interpreter

database = interpreter("db.example.com/v1", "Database")

@database.replicas
def replicas(declared):
    if declared["metadata"]["name"] == "raises":
        raise RuntimeError("a fault")
    if declared["metadata"]["name"] == "exits":
        sys.exit(3)
    return 1
"""


def read_records(server: Server, message: str) -> list[dict[str, Any]]:
    """Return the log records with a message. Fails if a line of the log is incomplete."""
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    return [line for line in lines if line["msg"].strip() == message]


def test_sigterm_under_load_loses_no_line(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        wait_for(lambda: "Application startup complete" in server.log.read_text())
        with send_traffic(server.port, server.context, kept=4, new=1) as traffic:
            wait_for(lambda: traffic.answered.total() > 200, what="the clients are answered")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=NET) == 0
        assert len(read_records(server, "review")) == traffic.answered.total()


def test_a_second_signal_loses_no_line(tmp_path: Path) -> None:
    with serving(tmp_path, "--drain-delay", "3600") as server:
        with send_traffic(server.port, server.context, kept=4, new=1) as traffic:
            wait_for(lambda: traffic.answered.total() > 200, what="the clients are answered")
            server.process.send_signal(signal.SIGINT)
            wait_for(lambda: server.request("GET", "/readyz")[0] == 503, what="the server drains")
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(timeout=NET) == 0
        # The server does not wait for the answers in flight.
        assert len(read_records(server, "review")) >= traffic.answered.total()


def test_a_fault_loses_no_line(tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY)
    names, outcomes = ["fine", "raises", "exits"] * 10, []
    with serving(tmp_path, "--interpreters", str(tmp_path / "faulty.py")) as server:
        for name in names:
            status, answer = server.request("POST", INTERPRET, build_question(name))
            outcomes.append(json.loads(answer)["response"]["successful"] if status == 200 else status)
        # The server may not have written the last lines yet.
        assert server.stop() == 0
        assert outcomes == [True, False, 500] * 10
        assert [line["successful"] for line in read_records(server, "interpret")] == [True, False] * 10
        failures = read_records(server, "Exception in ASGI application")
        assert len(failures) == 10
        assert all("SystemExit: 3" in line["exception"] for line in failures)


def build_question(name: str) -> bytes:
    """Return Karmada's question for the replicas of a Database."""
    database = {"apiVersion": "db.example.com/v1", "kind": "Database", "metadata": {"name": name}, "spec": {}}
    request = {"uid": "u", "operation": "InterpretReplica", "object": database}
    review = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
    return json.dumps(review).encode()
