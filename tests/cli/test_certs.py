from pathlib import Path

import pytest

from tests.cli.commands import invoke


def run(*arguments: str) -> tuple[int, str]:
    result = invoke(["certs", *arguments])
    return result.exit_code, result.output


def test_issue_creates_a_certificate_for_the_names_and_keeps_a_valid_one(tmp_path: Path) -> None:
    arguments = ["issue", "--cert-dir", str(tmp_path), "--name", "fleethook.fleet.svc"]
    code, first = run(*arguments)
    assert code == 0
    serving, authority = first.splitlines()
    assert serving.startswith(f"{tmp_path}/tls.crt: for fleethook.fleet.svc, until 2")
    assert authority.startswith(f"{tmp_path}/ca.crt: ")
    assert run(*arguments) == (0, first)


def test_an_unreadable_certificate_exits_2(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("garbage")
    code, text = run("issue", "--cert-dir", str(tmp_path))
    assert code == 2
    assert "cannot read " in text


def test_issue_replaces_a_certificate_that_lacks_a_name(tmp_path: Path) -> None:
    run("issue", "--cert-dir", str(tmp_path), "--name", "a.example.com")
    code, text = run("issue", "--cert-dir", str(tmp_path), "--name", "b.example.com")
    assert (code, "for b.example.com, until" in text) == (0, True)


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
