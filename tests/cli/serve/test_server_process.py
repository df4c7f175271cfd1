"""One process of `serve`: its certificate, its summary, and the tasks that end with it."""

import asyncio
import re
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from fleethook.cli.serve import server_process
from fleethook.cli.serve.server_process import run_server
from fleethook.server.logs.log_lines import LogLines
from fleethook.settings import Settings
from fleethook.tracing.setup import TracingError
from tests.serving import EXAMPLES
from tests.waiting import until


def settings(directory: Path, **given: Any) -> Settings:
    known: dict[str, Any] = {
        "manifests": EXAMPLES,
        "cert_dir": directory / "certs",
        "port": 0,
        "registration": "off",
        "controller": False,
    }
    return Settings(**{**known, **given})


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The servers that have begun to serve. Each ends at once."""
    seen: list[Any] = []

    class Ending(server_process.GracefulServer):
        async def main_loop(self) -> None:
            seen.append(self)

    monkeypatch.setattr(server_process, "GracefulServer", Ending)
    return seen


async def test_it_makes_a_certificate_and_prints_its_address(
    tmp_path: Path, stopped: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run_server(settings(tmp_path, dns_names=["localhost", "hook.example.org"]), LogLines())
    shown = capsys.readouterr().out
    assert re.search(r"fleethook serves on https://\S+:[1-9]\d+\n", shown)
    assert re.search(rf"objects: +\d+ from {re.escape(str(EXAMPLES))}, followed while it changes", shown)
    assert "(just created)" in shown
    certificate = x509.load_pem_x509_certificate((tmp_path / "certs" / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "hook.example.org"} <= set(names.get_values_for_type(x509.DNSName))
    assert len(stopped) == 1


async def test_a_second_start_keeps_the_certificate(
    tmp_path: Path, stopped: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert await run_server(settings(tmp_path), LogLines())
    assert capsys.readouterr().out.count("(just created)") == 1
    assert len(stopped) == 2


async def test_the_certificate_has_the_names_by_which_it_is_called(tmp_path: Path, stopped: list[Any]) -> None:
    await run_server(settings(tmp_path, webhook_url="https://hooks.example.org:8443"), LogLines())
    certificate = x509.load_pem_x509_certificate((tmp_path / "certs" / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "hooks.example.org" in names.get_values_for_type(x509.DNSName)
    assert stopped


async def test_a_recording_starts_and_ends_with_the_server(tmp_path: Path, stopped: list[Any]) -> None:
    await run_server(settings(tmp_path, record=tmp_path / "records"), LogLines())
    assert (tmp_path / "records").is_dir()
    assert "recorder" not in {thread.name for thread in threading.enumerate()}
    assert stopped


async def test_traces_without_their_library_end_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleethook.tracing.setup._is_installed", lambda _: False)
    with pytest.raises(TracingError, match=r"fleethook\[otel\]"):
        await run_server(settings(tmp_path, otlp_endpoint="http://localhost:4318"), LogLines())


async def test_no_task_outlives_the_server(tmp_path: Path, stopped: list[Any]) -> None:
    before = asyncio.all_tasks()
    await run_server(settings(tmp_path), LogLines())
    await until(lambda: asyncio.all_tasks() <= before)
    assert stopped
    assert ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.crt"))
