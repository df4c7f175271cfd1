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


def test_other_addresses_than_loopback_need_a_cluster(tmp_path: Path) -> None:
    for host in ["0.0.0.0", "::", "192.0.2.1"]:
        done = run_command(
            "console", "--manifests", str(tmp_path), "--host", host, "--cert-dir", str(tmp_path / "certs")
        )
        assert done.returncode == 2
        assert "is no loopback address" in done.stderr
        assert "only a cluster can authorize users" in done.stderr


def test_other_addresses_than_loopback_need_https() -> None:
    done = run_command("console", "--kubeconfig", "k", "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "needs HTTPS; give --cert-dir DIR" in done.stderr


def test_users_of_logical_clusters_are_not_authorized() -> None:
    done = run_command("console", "--kubeconfig", "k", "--kcp", "--host", "0.0.0.0", "--cert-dir", "c")
    assert done.returncode == 2
    assert "cannot be authorized with --kcp" in done.stderr


def test_options_of_remote_access_are_refused_on_loopback(tmp_path: Path) -> None:
    for option in ["--cert-dir", "--client-ca-file", "--allowed-host"]:
        done = run_command("console", "--manifests", str(tmp_path), option, "x")
        assert done.returncode == 2
        assert "are for other addresses than 127.0.0.1" in done.stderr


def test_a_kubeconfig_that_cannot_be_read_is_a_message(tmp_path: Path) -> None:
    done = run_command("console", "--kubeconfig", str(tmp_path / "none"), "--port", "0")
    assert done.returncode == 2
    assert "none" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_url_of_metrics_with_a_password_is_refused_without_being_printed(tmp_path: Path) -> None:
    done = run_command("console", "--manifests", str(tmp_path), "--metrics-url", "https://user:secret@h/metrics")
    assert done.returncode == 2
    assert "--metrics-url: it must have no credentials" in done.stderr
    assert "secret" not in done.stdout + done.stderr


def test_options_of_metrics_need_their_url(tmp_path: Path) -> None:
    for option in ("--metrics-ca-file", "--metrics-token-file"):
        done = run_command("console", "--manifests", str(tmp_path), option, "x")
        assert done.returncode == 2
        assert "are for --metrics-url" in done.stderr


def test_the_console_needs_loadable_interpreters(tmp_path: Path) -> None:
    missing = tmp_path / "none.py"
    done = run_command("console", "--manifests", str(tmp_path), "--port", "0", "--interpreters", str(missing))
    assert done.returncode == 2
    assert f"{missing} is not a file" in done.stderr
