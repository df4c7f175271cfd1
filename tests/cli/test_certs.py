import json
from pathlib import Path

from tests.cli.commands import invoke


def run(*arguments: str) -> tuple[int, str]:
    result = invoke(["certs", *arguments])
    return result.exit_code, result.output


def test_issue_creates_certificates_for_the_names_and_keeps_valid_ones(tmp_path: Path) -> None:
    arguments = ["issue", "--cert-dir", str(tmp_path), "--name", "fleethook.fleet.svc", "--output", "json"]
    code, first = run(*arguments)
    assert code == 0
    serving, authority = json.loads(first)
    assert serving["names"] == ["fleethook.fleet.svc"]
    assert (serving["issuer"], authority["subject"]) == ("CN=fleethook CA", "CN=fleethook CA")
    assert serving["notBefore"] < serving["renewal"] < serving["notAfter"]
    assert run(*arguments) == (0, first)


def test_show_prints_text_and_never_a_key(tmp_path: Path) -> None:
    run("issue", "--cert-dir", str(tmp_path))
    code, text = run("show", "--cert-dir", str(tmp_path))
    assert code == 0
    assert "names:     127.0.0.1, ::1, localhost" in text
    assert "PRIVATE" not in text


def test_a_directory_without_certificates_exits_2(tmp_path: Path) -> None:
    code, text = run("show", "--cert-dir", str(tmp_path))
    assert code == 2
    assert "has neither tls.crt nor ca.crt" in text


def test_an_unreadable_certificate_exits_2(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_text("garbage")
    code, text = run("show", "--cert-dir", str(tmp_path))
    assert code == 2
    assert "cannot read " in text
