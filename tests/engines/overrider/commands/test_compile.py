"""``fleethook compile``."""

import json
from pathlib import Path

import pytest
import yaml

from fleethook.cluster.registration.match_conditions import SubjectName
from fleethook.engines.overrider.commands.compile import _print_removal
from fleethook.engines.overrider.policies.policy_client import AppliedObject, Removal
from tests.builders import entry, image, node_pool, overrider, patch, yurt_app_set
from tests.cli.commands import Result, invoke
from tests.cli.conftest import WriteYAML
from tests.serving import EXAMPLES

STORIES = EXAMPLES / "yurtappoverrider"
RULE = entry("*", items=[image("nginx", "nginx:2")])


def compile_files(*arguments: str) -> Result:
    return invoke(["compile", *arguments])


def test_the_stories_of_the_proposal_compile() -> None:
    result = compile_files("-f", str(EXAMPLES / "nodepools.yaml"), "-f", str(STORIES))
    assert result.exit_code == 0, result.stderr
    kinds = [one["kind"] for one in yaml.safe_load_all(result.stdout)]
    assert kinds == ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"] * 6


def test_only_the_overrider_of_one_subject_is_compiled() -> None:
    files = ("-f", str(EXAMPLES / "nodepools.yaml"), "-f", str(STORIES))
    for subject, count in (("YurtAppSet/story-2/yurtappset-demo", 2), ("yurtappsets/yurtappset-demo", 8)):
        result = compile_files(*files, "--subject", subject)
        assert (result.exit_code, len([*yaml.safe_load_all(result.stdout)])) == (0, count)
    missing = compile_files(*files, "--subject", "YurtAppSet/none")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "there is no YurtAppOverrider of YurtAppSet/none" in missing.stderr


def test_json_is_one_list() -> None:
    result = compile_files("-f", str(STORIES / "story-2"), "-o", "json", "--failure-policy", "Fail")
    made = json.loads(result.stdout)
    assert made["kind"] == "List"
    assert made["items"][0]["spec"]["failurePolicy"] == "Fail"


def test_a_refusal_exits_1_with_file_and_line(write_yaml: WriteYAML) -> None:
    pull = patch("add", "/spec/template/spec/containers/0/imagePullPolicy", "Always")
    path = Path(write_yaml("a.yaml", yurt_app_set(), overrider({**RULE, "patches": [pull]})))
    result = compile_files("-f", str(path))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "error: YurtAppOverrider default/demo1: entries[0].patches[0]: /spec/template/spec" in result.stderr
    place = result.stderr.split(": error")[0]
    line = int(place.rpartition(":")[2])
    assert "imagePullPolicy" in "".join(path.read_text().splitlines()[line - 1 : line + 3])


def test_a_missing_subject_exits_1(write_yaml: WriteYAML) -> None:
    result = compile_files("-f", str(write_yaml("a.yaml", overrider(RULE))))
    assert result.exit_code == 1
    assert "its subject is not known" in result.stderr


def test_files_without_an_overrider_exit_2(write_yaml: WriteYAML) -> None:
    result = compile_files("-f", str(write_yaml("a.yaml", node_pool("hangzhou"))))
    assert result.exit_code == 2
    assert "there is no YurtAppOverrider" in result.stderr


BASE = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


def test_exactly_one_cluster_is_needed(tmp_path: Path) -> None:
    result = invoke(["policies", "remove"], env={"KUBECONFIG": str(tmp_path)})
    assert (result.exit_code, "give one of --kubeconfig, --context and --in-cluster" in result.stderr) == (2, True)


def test_a_cluster_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],'
        '"clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],'
        '"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}'
    )
    result = invoke(["policies", "remove", "--kubeconfig", str(config)])
    assert (result.exit_code, "cannot remove the policies: " in result.stderr) == (2, True)


def test_the_output_names_subjects_and_objects(capsys: pytest.CaptureFixture[str]) -> None:
    _print_removal(
        Removal((SubjectName("n", "YurtAppSet", "demo"),), (AppliedObject(f"{BASE}/p", "u-1", "n/rule"),), ())
    )
    assert capsys.readouterr().out.splitlines() == [
        "the webhook renders the workloads of YurtAppSet n/demo",
        "deleted mutatingadmissionpolicies/p of YurtAppOverrider n/rule",
    ]


def test_policies_that_a_leader_applies_again_are_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        _print_removal(Removal((), (), (AppliedObject(f"{BASE}/p", "u-1"),)))
    assert caught.value.code == 1
    assert "controller.overriderMode" in capsys.readouterr().err


RULES = """
from fleethook.admission import validate

@validate("v1", "Pod", expression="object.spec.containers.size() == 1", message="one container")
def single(): ...

@validate("v1", "Pod")
def other(pod): ...
"""


def test_rules_with_an_expression_compile_without_objects(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    file.write_text(RULES)
    done = invoke(["compile", "--hooks", str(file)])
    assert done.exit_code == 0, done.output
    policy, binding = yaml.safe_load_all(done.stdout)
    assert policy["spec"]["validations"][0]["message"] == "one container"
    assert binding["kind"] == "ValidatingAdmissionPolicyBinding"
    assert "rules.py:7: only the webhook decides by the rule other: it is in Python" in done.stderr


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            ('expression="object.spec.containers.size() == 1", message="one container"', ""),
            "nothing to compile: no rule of ",
        ),
        ((" == 1", " =="), "rules.py:4: single: expression: "),
        (("@validate", "@nothing"), "rules.py:4: NameError"),
    ],
)
def test_rules_that_do_not_compile_exit_2(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    file = tmp_path / "rules.py"
    file.write_text(RULES.replace(*change))
    done = invoke(["compile", "--hooks", str(file)])
    assert (done.exit_code, problem in done.stderr) == (2, True), done.stderr
