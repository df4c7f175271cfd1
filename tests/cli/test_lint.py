import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import entry, image, overrider, yurt_app_set
from tests.cli.commands import invoke
from tests.cli.conftest import WriteYAML
from tests.cli.fake_cluster import Cluster
from tests.engines.dispatch.builders import configuration, definition, webhook
from tests.engines.dispatch.lint.builders import rule
from tests.serving import EXAMPLES

WriteManifests = Callable[..., str]
WIDGET = definition("c", "widgets.example.org", "v1")
UNSERVED = rule(resources=["gadgets"])


def lint(*arguments: str, **environment: str) -> tuple[int, str, str]:
    result = invoke(["lint", *arguments], env=environment)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def write_manifests(tmp_path: Path) -> WriteManifests:
    def write(*documents: dict[str, Any]) -> str:
        (tmp_path / "m.yaml").write_text(yaml.safe_dump_all(documents))
        return str(tmp_path)

    return write


def test_the_shadowed_webhook_of_the_example_is_an_error_with_its_line() -> None:
    code, out, err = lint("-f", str(EXAMPLES / "kcp-widgets"))
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        f"{EXAMPLES / 'kcp-widgets' / 'ws3.yaml'}:21: error [shadowed]",
        (
            "  ValidatingWebhookConfiguration my-own-rules of ws3, mine.widgets.example.org: rules[0]: APIBinding widgets "
            "binds widgets.example.org of ws1, whose webhooks are called instead: register the webhook in ws1"
        ),
        "1 error, 0 warnings",
    ]


def test_without_findings_nothing_is_printed(write_manifests: WriteManifests) -> None:
    directory = write_manifests(WIDGET, configuration("c", "validating", webhook()))
    assert lint("-f", directory) == (0, "", "")
    assert lint("-f", directory, "--output", "json") == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("text", "arguments", "examined"),
    [
        (None, (), "in {}: no file is named *.json, *.yaml or *.yml"),
        ("# Nothing\n", (), "in {}: examined 1 file"),
        ("", ("--exclude", "*"), "in {}: no file is named *.json, *.yaml or *.yml, or all are excluded"),
        (yaml.safe_dump(overrider()), ("-n", "other"), "of namespace other in {}: examined 1 file"),
    ],
)
def test_a_directory_without_objects_is_noted_and_exits_1_only_if_strict(
    tmp_path: Path, text: str | None, arguments: tuple[str, ...], examined: str
) -> None:
    if text is not None:
        (tmp_path / "a.yaml").write_text(text)
    note = f"note: found no Kubernetes objects {examined.format(tmp_path)}"
    for strict in ((), ("--strict",)):
        code, out, err = lint(str(tmp_path), *arguments, *strict)
        assert (code, out, err.splitlines()[-1]) == (len(strict), "", note)


def test_warnings_exit_1_only_if_strict(write_manifests: WriteManifests) -> None:
    directory = write_manifests(WIDGET, configuration("c", "validating", UNSERVED))
    code, out, _ = lint("-f", directory)
    assert (code, out.splitlines()[-1]) == (0, "0 errors, 1 warning")
    assert lint("-f", directory, "--strict") == (1, out, "")


def test_a_member_that_the_api_lacks_is_an_error_with_its_line(write_manifests: WriteManifests) -> None:
    flat = webhook(namespaceSelector={"team": "web"}, failurepolicy="Ignore")
    directory = write_manifests(WIDGET, configuration("c", "validating", flat))
    code, out, _ = lint("-f", directory)
    kind, owner = "ValidatingWebhookConfiguration hooks of c", "ValidatingWebhook"
    assert (code, out.splitlines()) == (
        1,
        [
            f"{directory}/m.yaml:28: error [unknown-field]",
            f"  {kind}: webhooks[0].failurepolicy: is not a field of {owner}; did you mean failurePolicy?",
            f"{directory}/m.yaml:31: error [unknown-field]",
            f"  {kind}: webhooks[0].namespaceSelector.team: is not a field of LabelSelector: put it into matchLabels",
            "2 errors, 0 warnings",
        ],
    )


def test_a_version_that_no_apiserver_serves_is_an_error(write_manifests: WriteManifests) -> None:
    old = configuration("c", "validating", webhook()) | {"apiVersion": "admissionregistration.k8s.io/v1beta1"}
    code, out, _ = lint("-f", write_manifests(WIDGET, old), "--output", "json")
    assert (code, [(one["code"], one["field"]) for one in json.loads(out)]) == (1, [("unknown-kind", "apiVersion")])


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (
            {"failurePolicy": "fail"},
            'webhooks[0].failurePolicy: Unsupported value: "fail": supported values: "Fail", "Ignore"',
        ),
        ({"failurePolicy": "fail", "name": 7}, "must be a string, not the number 7: quote it"),
    ],
)
def test_rules_are_asked_unless_the_type_is_wrong(
    write_manifests: WriteManifests, members: dict[str, Any], text: str
) -> None:
    broken = configuration("c", "validating", webhook(**members))
    code, out, _ = lint("-f", write_manifests(WIDGET, broken), "--output", "json")
    of_enumeration = 'must be one of Fail, Ignore, not the string "fail": did you mean Fail?'
    assert (code, {one["text"] for one in json.loads(out)} - {of_enumeration}) == (1, {text})


def test_json_has_all_fields_of_a_finding(write_manifests: WriteManifests) -> None:
    directory = write_manifests(WIDGET, configuration("c", "validating", UNSERVED))
    code, out, _ = lint("-f", directory, "--output", "json")
    assert code == 0
    assert json.loads(out) == [
        {
            "level": "warning",
            "code": "unserved-resource",
            "cluster": "c",
            "kind": "ValidatingWebhookConfiguration",
            "namespace": "",
            "name": "hooks",
            "webhook": "w.example.org",
            "field": "",
            "text": (
                "rules[0]: no definition, export or built-in type has gadgets of example.org in v1: correct the spelling or "
                "the version, or add its definition"
            ),
            "place": f"{directory}/m.yaml:17",
        }
    ]


def test_unreadable_manifests_exit_2(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("kind: [")
    for directory in (tmp_path, tmp_path / "nowhere"):
        code, out, err = lint("-f", str(directory))
        assert (code, out) == (2, "")
        assert err.startswith("fleethook: ")
        assert str(directory) in err


def test_a_cluster_is_checked(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    alpha = "/apis/apps.openyurt.io/v1alpha1"
    held.lists = {f"{alpha}/yurtappsets": [yurt_app_set()], f"{alpha}/yurtappoverriders": [overrider(entry("nowhere"))]}
    code, out, _ = lint(*options, "--output", "json")
    assert code == 1
    assert {row["place"] for row in json.loads(out)} == {"cluster"}


def test_new_reports_only_findings_that_the_change_causes(write_yaml: WriteYAML) -> None:
    rule = overrider(entry("nowhere", items=[image("nginx", "nginx:2")]))
    files = write_yaml("a.yaml", yurt_app_set(), rule)
    moved = {**rule, "entries": [*rule["entries"], entry("elsewhere", items=[image("nginx", "nginx:3")])]}
    change = write_yaml("b.yaml", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}, moved)
    code, out, _ = lint("-f", files, "--change", change, "--new", "-o", "json")
    assert code == 1
    assert {row["field"].partition(".")[0] for row in json.loads(out)} == {"entries[1]"}
    _, out, _ = lint("-f", files, "--change", change, "-o", "json")
    assert {row["field"].partition(".")[0] for row in json.loads(out)} == {"entries[0]", "entries[1]"}


def test_new_needs_a_change(write_yaml: WriteYAML) -> None:
    code, _, err = lint("-f", write_yaml("a.yaml", yurt_app_set()), "--new")
    assert (code, err) == (2, "fleethook: --new needs --change\n")


def test_rules_in_python_that_never_fire_are_found_with_their_line(tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text("""from fleethook.admission import validate

@validate("v1", "Pod", match_conditions={"never": "false"})
def silent(pod): pass

@validate("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
def exempt(configuration): pass
""")
    result = invoke(["lint", str(rules), "--output", "json"])
    found = {(one["code"], one["place"], one["webhook"]) for one in json.loads(result.stdout)}
    assert result.exit_code == 1
    assert ("never-called", f"{rules}:3", "silent.rules.fleethook.io") in found
    assert ("never-called", f"{rules}:6", "exempt.rules.fleethook.io") in found


def test_a_rule_cannot_block_its_own_server(tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text("""from fleethook.admission import validate

@validate("v1", "Pod", failure_policy="Fail", on="CREATE")
def pods(pod): pass

@validate("apps/v1", "Deployment", failure_policy="Fail", on="CREATE")
def deployments(deployment): return None if deployment else None
""")
    assert invoke(["lint", str(rules), "--output", "json"]).stdout == "[]\n"
