"""Commands with a kubeconfig whose server is no apiserver, or refuses each request: exit code 2, and one message."""

from pathlib import Path

import pytest

from tests.cli.commands import invoke
from tests.cluster.test_apiserver_connection import write_kubeconfig
from tests.http_server import HTTPAnswer, serve_http

RULE = (
    "from fleethook.admission import validate\n@validate('*', '*', failure_policy='Ignore')\ndef every(request): ...\n"
)
NO_SERVER = "this is no URL of an apiserver: correct it in the kubeconfig"
ANSWERS = {
    "expired": (HTTPAnswer(401), "401 Unauthorized: the API server rejected the credentials of "),
    "refused": (HTTPAnswer(403, "no"), "403: no"),
    "failed": (HTTPAnswer(500, "no"), "500: no"),
    "page": (HTTPAnswer(200, b"<html>"), NO_SERVER),
    "login": (HTTPAnswer(302, headers={"Location": "/login"}), NO_SERVER),
}


@pytest.mark.parametrize("words", ["doctor", "uninstall", "uninstall --kcp-export guard", "lint"])
def test_a_server_without_any_api_is_no_empty_cluster(tmp_path: Path, words: str) -> None:
    with serve_http(lambda _: HTTPAnswer(404, "no")) as port:
        kubeconfig = write_kubeconfig(tmp_path, server=f"http://127.0.0.1:{port}")
        result = invoke([*words.split(), "--kubeconfig", str(kubeconfig)])
    assert (result.exit_code, result.stdout, "404: no" in result.stderr) == (2, "", True), result.stderr


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize(
    "words",
    ["doctor", "doctor --kcp-export guard", "rules apply rule.py", "rules apply rule.py --kcp-export guard"],
)
def test_a_wrong_server_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, answer: str
) -> None:
    (tmp_path / "rule.py").write_text(RULE)
    monkeypatch.chdir(tmp_path)
    given, text = ANSWERS[answer]
    with serve_http(lambda _: given) as port:
        kubeconfig = write_kubeconfig(tmp_path, server=f"http://127.0.0.1:{port}")
        result = invoke([*words.split(), "--kubeconfig", str(kubeconfig)])
    assert (result.exit_code, result.stdout, text in result.stderr) == (2, "", True), result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert ("the least right" in result.stderr) == ((words, answer) == ("doctor", "refused"))
