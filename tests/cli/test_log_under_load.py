"""One line for each answer, in real server processes that are ended under load."""

import json
import signal
from pathlib import Path

import pytest

from tests.serving import serving
from tests.traffic import busy
from tests.waiting import NET, wait_for


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_under_load_loses_no_line(tmp_path: Path, workers: str) -> None:
    with serving(tmp_path, "--workers", workers) as server:
        wait_for(lambda: server.log.read_text().count("Application startup complete") == int(workers))
        with busy(server.port, server.context, kept=4, new=1) as traffic:
            wait_for(lambda: traffic.answered.total() > 200, what="the clients are answered")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=NET) == 0
        answers = traffic.answered.total()
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
        assert sum(line["msg"] == "review" for line in lines) == answers
