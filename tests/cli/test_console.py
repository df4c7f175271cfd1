"""Options of the console that exclude each other, and sources that it cannot read; each exits with 2 and a reason."""

from pathlib import Path

import pytest

from tests.cli.commands import invoke, run_command

FILES = ("DIRECTORY",)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give -f FILE, --kubeconfig FILE or --in-cluster"),
        (("-f", "DIRECTORY", "DIRECTORY/none"), "-f: there is no file or directory DIRECTORY/none"),
        ((*FILES, "--metrics-ca-file", "x"), "is for --metrics-url"),
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
    assert f"{missing}: cannot be read: No such file or directory" in done.stderr


def test_a_missing_file_of_rules_is_refused(tmp_path: Path) -> None:
    done = invoke(["console", "-f", str(tmp_path), "--port", "0", "--rules", str(tmp_path / "none.py")])
    assert done.exit_code == 2
    assert f"--rules: there is no file or directory {tmp_path / 'none.py'}" in done.stderr
