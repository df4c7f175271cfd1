import json
from pathlib import Path

import pytest

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


def test_issue_replaces_a_certificate_that_lacks_a_name(tmp_path: Path) -> None:
    run("issue", "--cert-dir", str(tmp_path), "--name", "a.example.com")
    code, text = run("issue", "--cert-dir", str(tmp_path), "--name", "b.example.com")
    assert (code, "names:     b.example.com" in text) == (0, True)


def test_issue_refuses_names_that_it_cannot_add_without_the_key_of_the_ca(tmp_path: Path) -> None:
    run("issue", "--cert-dir", str(tmp_path), "--name", "a.example.com")
    (tmp_path / "ca.key").unlink()
    kept = (tmp_path / "tls.crt").read_bytes()
    code, text = run("issue", "--cert-dir", str(tmp_path), "--name", "b.example.com")
    assert code == 2
    assert (
        f"{tmp_path}/tls.crt: it lacks the names b.example.com. This command cannot replace it without ca.key" in text
    )
    assert (tmp_path / "tls.crt").read_bytes() == kept
    assert run("issue", "--cert-dir", str(tmp_path), "--name", "a.example.com")[0] == 0
    assert run("issue", "--cert-dir", str(tmp_path))[0] == 0


@pytest.mark.parametrize("name", ["", "a b", "ünï.example.com", "a,b", "10.0.0.0/8"])
def test_issue_refuses_a_name_that_no_certificate_can_have(tmp_path: Path, name: str) -> None:
    code, text = run("issue", "--cert-dir", str(tmp_path / "new"), "--name", name)
    assert (code, text) == (2, f"fleethook: {name!r} is neither an IP address nor a DNS name in ASCII\n")
    assert not (tmp_path / "new").exists()


def test_problems_are_printed_and_exit_1(tmp_path: Path) -> None:
    run("issue", "--cert-dir", str(tmp_path), "--name", "a.example.com")
    arguments = ("show", "--cert-dir", str(tmp_path), "--name", "b.example.com")
    code, text = run(*arguments)
    assert (code, "  problem:   it lacks the names b.example.com" in text.splitlines()) == (1, True)
    code, text = run(*arguments, "--output", "json")
    assert (code, [one["problems"] for one in json.loads(text)]) == (1, [["it lacks the names b.example.com"], []])
    assert run(*arguments[:-1], "a.example.com")[0] == 0
