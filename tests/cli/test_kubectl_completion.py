import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from fleethook.cli.kubectl_completion import list_completions
from tests.serving import ROOT
from tests.waiting import NET

RUN = "import sys; sys.argv = {arguments}; from fleethook.cli{module} import main; main()"


def run(module: str, *arguments: str, **environment: str) -> list[str]:
    """Run the main function of a module as its entry point does."""
    script = RUN.format(arguments=list(arguments), module=module)
    command = [sys.executable, "-c", script]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=NET, check=True, cwd=ROOT, env={"PATH": "/usr/bin:/bin", **environment}
    )  # fmt: skip
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], ["render", "replay"]),
        (["lint", "--out"], ["--output"]),
        (["lint", "--output", ""], ["text", "json", "sarif", "github"]),
        (["interpret", "re"], ["register"]),
        (["lint", "-f", ""], []),
        (["lint", "'"], []),
    ],
)
def test_commands_options_and_values_are_completed(words: list[str], expected: list[str]) -> None:
    assert list_completions(words) == expected


def test_kubectl_completes_files_if_there_is_nothing_else() -> None:
    assert run(".kubectl_completion", "kubectl_complete-fleethook", "lint", "--output", "sa") == ["sarif", ":4"]
    assert run(".kubectl_completion", "kubectl_complete-fleethook", "render", "-f", "") == [":0"]


def test_the_plugin_names_itself_as_users_call_it() -> None:
    assert run("", "/usr/bin/kubectl-fleethook", "lint", "--help")[0].split()[1:4] == ["kubectl", "fleethook", "lint"]
    assert run("", "/usr/bin/fleethook", "lint", "--help")[0].split()[1:3] == ["fleethook", "lint"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_the_program(shell: str) -> None:
    script = run("", "fleethook", "--show-completion", shell)
    assert "_FLEETHOOK_COMPLETE" in "\n".join(script)


def test_bash_completes_values_and_files_at_the_tab_key(tmp_path: Path) -> None:
    """The keys go to an interactive bash. After each tab, they put ``echo`` before the line, which prints it."""
    script = tmp_path / "completion"
    script.write_text("\n".join(run("", "fleethook", "--show-completion", "bash")))
    typed = {
        "lint --output sa": "lint --output sarif",
        "lint --output=sa": "lint --output=sarif",
        "lint -o=gi": "lint -o=github",
        "lint --exclude=a=b --output=gi": "lint --exclude=a=b --output=github",
        "lint -f examples/nod": "lint -f examples/nodepools.yaml",
        "lint --filename=examples/nod": "lint --filename=examples/nodepools.yaml",
        "int": "interpret",
    }
    home, prefix, accept = "\x01", "echo ", "\n"
    keys = "".join(f"fleethook {words}\t{home}{prefix}{accept}" for words in typed)
    terminal, keyboard = pty.openpty()
    with os.fdopen(terminal, "wb") as hand, os.fdopen(keyboard, "rb") as seat:
        process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"], stdin=seat, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, cwd=ROOT, env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TERM": "dumb"},
        )  # fmt: skip
        hand.write(f"source {script}\n{keys}exit\n".encode())
        hand.flush()
        shown, _ = process.communicate(timeout=NET)
    assert shown.splitlines() == [f"fleethook {words}" for words in typed.values()]
