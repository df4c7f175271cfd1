from pathlib import Path

from tests.cli.commands import run_command


def test_the_console_needs_a_source() -> None:
    done = run_command("console")
    assert done.returncode == 2
    assert "give --manifests DIR, --kubeconfig FILE or --in-cluster" in done.stderr


def test_the_console_needs_a_directory(tmp_path: Path) -> None:
    done = run_command("console", "--manifests", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "is not a directory" in done.stderr


def test_other_addresses_than_loopback_are_refused(tmp_path: Path) -> None:
    for host in ["0.0.0.0", "::", "192.0.2.1"]:
        done = run_command("console", "--manifests", str(tmp_path), "--host", host)
        assert done.returncode == 2
        assert "is no loopback address" in done.stderr


def test_a_kubeconfig_that_cannot_be_read_is_a_message(tmp_path: Path) -> None:
    done = run_command("console", "--kubeconfig", str(tmp_path / "none"), "--port", "0")
    assert done.returncode == 2
    assert "none" in done.stderr
    assert "Traceback" not in done.stderr
