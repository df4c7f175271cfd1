"""The kubeconfig of a command, as kubectl finds it."""

import json
import os
import re
from pathlib import Path

import pytest

from fleethook.cli.inputs.kubeconfig import find_kubeconfig, list_files
from tests.cli.commands import invoke, run_command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without kubeconfig, and no variable."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def make_file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return path


def test_the_option_precedes_the_variable_and_the_variable_the_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = make_file(home / ".kube" / "config")
    named, given = make_file(home / "named"), make_file(home / "given")
    assert find_kubeconfig(None) == default
    monkeypatch.setenv("KUBECONFIG", str(named))
    assert find_kubeconfig(None) == named
    assert find_kubeconfig(given) == given
    monkeypatch.setenv("KUBECONFIG", "")
    assert find_kubeconfig(None) == default


def test_missing_files_of_the_variable_are_skipped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = os.pathsep.join([str(home / "none"), str(make_file(home / "b")), str(home)])
    monkeypatch.setenv("KUBECONFIG", both)
    assert find_kubeconfig(None) == Path(both)
    assert list_files(Path(both)) == [home / "b"]


@pytest.mark.parametrize(
    ("given", "variable", "message"),
    [
        ("{home}/none", "", "--kubeconfig: there is no file {home}/none"),
        ("{home}", "", "--kubeconfig: there is no file {home}"),
        ("", "", "there is no kubeconfig: $KUBECONFIG is not set, and there is no file {home}/.kube/config"),
        ("", "{home}/a:{home}/b", "there is no kubeconfig: $KUBECONFIG names {home}/a:{home}/b, which does not exist"),
    ],
)
def test_an_error_says_where_it_was_searched(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: str,
    variable: str,
    message: str,
) -> None:
    monkeypatch.setenv("KUBECONFIG", variable.format(home=home))
    with pytest.raises(SystemExit):
        find_kubeconfig(Path(given.format(home=home)) if given else None)
    assert capsys.readouterr().err == f"fleethook: {message.format(home=home)}\n"


CLUSTER_COMMANDS = pytest.mark.parametrize(
    "words",
    [
        "render",
        "lint",
        "doctor",
        "diff -f examples/nodepools.yaml",
        "explain --request -",
        "replay {recording}",
        "console",
        "serve",
        "interpret test {recording}",
        "interpret run --operation InterpretStatus --observed-file {recording}",
        "crds controller",
    ],
)


@CLUSTER_COMMANDS
def test_every_command_prints_one_line_for_a_missing_file(home: Path, words: str) -> None:
    recording = home / "recording.jsonl"
    recording.write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}')
    done = invoke([*words.format(recording=recording).split(), "--kubeconfig", str(home / "none")])
    lines = [line for line in done.stderr.splitlines() if "without --ca-file" not in line]
    assert (done.exit_code, done.stdout, lines) == (
        2,
        "",
        [f"fleethook: --kubeconfig: there is no file {home / 'none'}"],
    )


@CLUSTER_COMMANDS
def test_every_command_takes_one_cluster_only(home: Path, words: str) -> None:
    recording = make_file(home / "recording.jsonl")
    recording.write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}')
    for option in ("--context", "--kubeconfig"):
        done = invoke([*words.format(recording=recording).split(), "--in-cluster", option, "c"])
        (line,) = [line for line in done.stderr.splitlines() if "without --ca-file" not in line]
        assert (done.exit_code, done.stdout) == (2, "")
        assert "only one of" in line or "needs a kubeconfig" in line or "one of --manifests" in line
        assert option in line


@pytest.mark.parametrize("words", ["doctor", "serve --port 0 --cert-dir {home}"])
def test_a_missing_credential_plugin_is_one_line(home: Path, words: str) -> None:
    plugin = {"exec": {"command": "/nowhere/plugin", "apiVersion": "client.authentication.k8s.io/v1"}}
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": plugin}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (home / "k").write_text(json.dumps(config))
    done = run_command(*words.format(home=home).split(), "--kubeconfig", str(home / "k"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert re.search("(/nowhere/plugin|program that it names): no such file or directory$", line)
