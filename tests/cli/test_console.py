"""Options of the console that exclude each other, and sources that it cannot read; each exits with 2 and a reason."""

from pathlib import Path

import pytest

from tests.cli.commands import invoke, run_command

FILES = ("DIRECTORY",)
CLUSTER = ("--in-cluster",)
REMOTE = ("--host", "0.0.0.0")
CERTIFICATES = ("--cert-dir", "DIRECTORY/certs")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give -f FILE, --kubeconfig FILE or --in-cluster"),
        (("-f", "DIRECTORY", "DIRECTORY/none"), "-f: there is no file or directory DIRECTORY/none"),
        *(((*FILES, "--host", host, *CERTIFICATES), "is no loopback address") for host in ("0.0.0.0", "::", "192.0.2.1")),
        ((*FILES, *REMOTE, *CERTIFICATES), "only a cluster can authorize users"),
        ((*CLUSTER, *REMOTE, "--no-token", *CERTIFICATES), "--no-token is for loopback"),
        ((*CLUSTER, *REMOTE), "needs HTTPS; give --cert-dir DIR"),
        ((*CLUSTER, "--kcp", *REMOTE, *CERTIFICATES), "cannot be authorized with --kcp"),
        *(((*FILES, option, "x"), "are for other addresses than 127.0.0.1") for option in ("--cert-dir", "--client-ca-file", "--allowed-host")),
        *(((*FILES, option, "x"), "are for --metrics-url") for option in ("--metrics-ca-file", "--metrics-token-file")),
        (("--kubeconfig", "DIRECTORY/none", "--port", "0"), "none"),
        ((*FILES, "--metrics-url", "https://user:secret@h/metrics"), "--metrics-url: it must have no credentials"),
    ],
)  # fmt: skip
def test_invalid_options_exit_2_with_a_reason(
    tmp_path_factory: pytest.TempPathFactory, arguments: tuple[str, ...], reason: str
) -> None:
    directory = str(tmp_path_factory.mktemp("manifests"))
    done = invoke(["console", *(one.replace("DIRECTORY", directory) for one in arguments)])
    assert done.exit_code == 2
    assert reason.replace("DIRECTORY", directory) in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.output


def test_the_console_needs_loadable_interpreters(tmp_path: Path) -> None:
    missing = tmp_path / "none.py"
    done = run_command("console", "-f", str(tmp_path), "--port", "0", "--interpreters", str(missing))
    assert done.returncode == 2
    assert f"{missing} is not a file" in done.stderr


def test_a_lasting_token_that_others_could_guess_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_CONSOLE_TOKEN", "too-short")
    done = invoke(["console", "-f", str(tmp_path), "--port", "0"])
    assert done.exit_code == 2
    assert "FLEETHOOK_CONSOLE_TOKEN: the token has fewer than 16 characters" in done.stderr
    assert "too-short" not in done.output


def test_a_missing_file_of_rules_is_refused(tmp_path: Path) -> None:
    done = invoke(["console", "-f", str(tmp_path), "--port", "0", "--hooks", str(tmp_path / "none.py")])
    assert done.exit_code == 2
    assert f"--hooks: there is no file or directory {tmp_path / 'none.py'}" in done.stderr
