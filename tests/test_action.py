"""action.yml and .pre-commit-hooks.yaml: the steps of the action and the hooks run as GitHub and pre-commit run them."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.serving import EXAMPLES, ROOT
from tests.waiting import NET

ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS: Any = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
STEPS: dict[str, Any] = {step["name"]: step for step in ACTION["runs"]["steps"]}
PROGRAM = Path(sys.executable).with_name("fleethook")
_INPUT = re.compile(r"\$\{\{ inputs\.(\w+) \}\}")


def run_step(name: str, directory: Path, **inputs: str) -> tuple[int, str]:
    """Run a step with bash's options of GitHub; return its exit code and standard output."""
    step = STEPS[name]
    program = directory / "fleethook" / "bin" / "fleethook"
    program.parent.mkdir(parents=True, exist_ok=True)
    if not program.exists():
        program.symlink_to(PROGRAM)
    values = {key: inputs.get(key, one["default"]) for key, one in ACTION["inputs"].items()}
    environment = {key: _INPUT.sub(lambda found: values[found[1]], text) for key, text in step["env"].items()}
    runner = {"RUNNER_TEMP": str(directory), "GITHUB_STEP_SUMMARY": str(directory / "summary"), "PATH": "/usr/bin:/bin"}
    result = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=ROOT, env={**runner, **environment}, capture_output=True, text=True, timeout=NET, check=False,
    )  # fmt: skip
    return result.returncode, result.stdout


def test_no_step_has_an_input_in_its_script() -> None:
    """An expression in a script would let the author of a pull request run commands."""
    assert [name for name, step in STEPS.items() if "${{" in step["run"]] == []


def test_each_input_is_used() -> None:
    used = set(_INPUT.findall(str([step.get("env") for step in STEPS.values()])))
    assert used == set(ACTION["inputs"])


def test_lint_annotates(tmp_path: Path) -> None:
    paths = f"{EXAMPLES / 'kcp-widgets'}\n{EXAMPLES / 'nodepools.yaml'}\n"
    code, out = run_step("Lint", tmp_path, manifests=paths)
    assert (code, out.count("\n")) == (1, 1)
    assert out.startswith(f"::error file={EXAMPLES}/kcp-widgets/ws3.yaml,line=21,title=shadowed::")
    assert run_step("Lint", tmp_path, manifests=str(EXAMPLES / "nodepools.yaml")) == (0, "")


def test_rules_are_asked_about_the_manifests(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: x}]}}")
    rules = f"{EXAMPLES / 'policies' / 'rules.py'}\n{EXAMPLES / 'admission' / 'rules.py'}\n"
    code, out = run_step("Ask admission rules about the manifests", tmp_path, manifests=f"{file}\n", rules=rules)
    assert (code, f"::error file={file},line=1,title=refused::Pod default/a, no-latest" in out) == (1, True)


def test_a_directory_may_contain_files_of_other_tools(tmp_path: Path) -> None:
    deploy = tmp_path / "deploy"
    shutil.copytree(EXAMPLES / "interpreter", deploy / "interpreter")
    shutil.copy(EXAMPLES / "nodepools.yaml", deploy)
    (deploy / "kustomization.yaml").write_text("resources: [nodepools.yaml]\n")
    (deploy / "chart").mkdir()
    (deploy / "chart" / "values.yaml").write_text("replicaCount: 1\n")
    (deploy / "chart" / "template.yaml").write_text("name: {{ .Values.name }}\n")
    code, out = run_step("Lint", tmp_path, manifests=str(deploy))
    assert (code, out.count("\n")) == (2, 1)
    assert out.startswith(f"::error file={deploy}/chart/template.yaml,line=1,title=unreadable-input::")
    assert run_step("Lint", tmp_path, manifests=str(deploy), exclude="template.yaml") == (0, "")
    assert run_step("Lint", tmp_path, manifests=str(deploy), exclude="template.yaml", strict="true")[0] == 2
    left_out = "chart/*\nkustomization.yaml\n*-test.yaml\n"
    assert run_step("Lint", tmp_path, manifests=str(deploy), exclude=left_out, strict="true") == (0, "")
    code, out = run_step("Test interpreters", tmp_path, fixtures=str(deploy), exclude="chart")
    assert (code, "passed, 0 failed" in out) == (0, True)
    for hook, arguments in (
        ("fleethook-lint", ["-f"]),
        ("fleethook-interpret-test", []),
    ):
        assert run_hook(hook, [*arguments, str(deploy), "--exclude", "template.yaml"]) == 0


def test_unreadable_manifests_fail_the_step(tmp_path: Path) -> None:
    assert run_step("Lint", tmp_path, manifests="no/such/path")[0] == 2


def test_a_path_with_a_command_is_only_a_path(tmp_path: Path) -> None:
    run_step("Lint", tmp_path, manifests=f"$(touch {tmp_path}/forged)\n; touch {tmp_path}/forged")
    assert not (tmp_path / "forged").exists()


def test_strict_turns_warnings_into_errors(tmp_path: Path) -> None:
    hook = {
        "name": "w.example.org", "failurePolicy": "Fail", "timeoutSeconds": 5, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://hook.example.org"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]}],
    }  # fmt: skip
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hooks"}, "webhooks": [hook],
    }  # fmt: skip
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(configuration))
    code, out = run_step("Lint", tmp_path, manifests=str(tmp_path / "a.yaml"))
    assert (code, out.partition(" ")[0]) == (0, "::warning")
    assert run_step("Lint", tmp_path, manifests=str(tmp_path / "a.yaml"), strict="true") == (1, out)


def test_fixtures_of_interpreters_run(tmp_path: Path) -> None:
    code, out = run_step("Test interpreters", tmp_path, fixtures=f"{EXAMPLES / 'retention'}\n")
    assert (code, out.splitlines()[-1]) == (0, "3 passed, 0 failed")


def test_replay_fails_on_changes(tmp_path: Path) -> None:
    recording, changed = record(tmp_path)
    code, out = run_step("Replay recorded reviews", tmp_path, manifests=str(EXAMPLES), recordings=recording)
    assert (code, "1 with the same outcome" in out) == (0, True)
    assert run_step("Replay recorded reviews", tmp_path, manifests=changed, recordings=recording)[0] == 1


def record(directory: Path) -> tuple[str, str]:
    """Return a recording of the README's review, and manifests by which it is decided differently."""
    from tests.serving import MUTATE, REVIEW, serving  # noqa: PLC0415 - only this test needs a server

    with serving(directory, "--record", str(directory / "records")) as server:
        assert server.request("POST", MUTATE, REVIEW.read_bytes())[0] == 200
        server.stop()
    changed = directory / "changed"
    changed.mkdir()
    for file in sorted((EXAMPLES / "yurtappoverrider" / "story-2").glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        (changed / file.name).write_text(text.replace("nginx:1.14.2", "nginx:9").replace("1.14.2", "9"))
    (changed / "nodepools.yaml").write_text((EXAMPLES / "nodepools.yaml").read_text())
    (recording,) = (directory / "records").glob("*.gz")
    return str(recording), str(changed)


@pytest.mark.parametrize(
    ("hook", "arguments", "expected"),
    [
        ("fleethook-lint", ["-f", "examples/kcp-widgets"], 1),
        ("fleethook-lint", ["-f", "examples/nodepools.yaml"], 0),
        ("fleethook-lint", [], 2),
        ("fleethook-lint", ["-f", "examples/retention"], 0),
        ("fleethook-interpret-test", ["examples/retention"], 0),
    ],
)
def test_hooks_run_their_command(hook: str, arguments: list[str], expected: int) -> None:
    assert run_hook(hook, arguments) == expected


def run_hook(hook: str, arguments: list[str]) -> int:
    (found,) = (one for one in HOOKS if one["id"] == hook)
    assert (found["language"], found["pass_filenames"]) == ("python", False)
    command = [str(PROGRAM), *shlex.split(found["entry"])[1:], *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=NET, check=False).returncode
