import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from fleethook.cluster.kubernetes.watched_resources import DEFINITIONS
from fleethook.engines.rules.commands.rules_test_check_export import build_export
from tests.cli.commands import invoke
from tests.cli.fake_cluster import serve_cluster

RULES = """
from fleethook.admission import Denied, validate

@validate("v1", "Pod")
def named(pod):
    if not pod.metadata.name.startswith("web-"):
        raise Denied("names begin with web-", field="metadata.name")
"""
TESTS = """
rules: [rules.py]
objects:
  good: {apiVersion: v1, kind: Pod, metadata: {name: web-1}}
  bad: {from: good, with: {metadata: {name: db}}}
tests:
  - name: other names are refused
    object: bad
    output: {allowed: false, message: "metadata.name: names begin with web-"}
  - name: names of the web are admitted
    object: good
    output: {allowed: true}
"""


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = invoke(["rules", "test", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    (tmp_path / "rules.py").write_text(RULES)
    file = tmp_path / "rules_test.yaml"
    file.write_text(TESTS)
    return file


def test_tests_pass(tests: Path) -> None:
    assert run(tests) == (
        0,
        (
            "ok   CREATE               named    other names are refused\n"
            "ok   CREATE               named    names of the web are admitted\n"
            "2 passed, 0 failed\n"
        ),
        "",
    )
    assert run(tests.parent)[0] == 0


def test_a_changed_rule_fails_with_the_line_of_the_test(tests: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited.txt"
    edited.write_text(RULES.replace("web-", "w"))
    code, out, _ = run(tests, "--rules", edited)
    assert code == 1
    assert f"FAIL CREATE               named    other names are refused\n     {tests}:7\n     message\n" in out
    code, out, _ = run(tests, "--rules", edited, "-o", "json")
    rows = json.loads(out)
    assert [(row["rule"], row["passed"]) for row in rows] == [("named", False), ("named", True)]
    code, out, _ = run(tests, "--rules", edited, "-o", "junit")
    suite = ET.fromstring(out)
    assert (code, suite.get("tests"), suite.get("failures")) == (1, "2", "1")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("rules: [rules.py]", ""), "rules_test.yaml:3: rules is no list of files"),
        (("[rules.py]", "[none.py]"), "none.py: cannot be read: No such file or directory"),
        (("object: good", "object: nobody"), "rules_test.yaml:10: names of the web are admitted: unknown object"),
        (
            ("object: good", "object: good\n    rule: other"),
            "rules_test.yaml:10: names of the web are admitted: there is",
        ),
        (("tests:", "cases:"), "rules_test.yaml"),
    ],
)
def test_invalid_input_exits_2(tests: Path, change: tuple[str, str], problem: str) -> None:
    tests.write_text(TESTS.replace(*change))
    code, _, err = run(tests)
    assert code == 2
    assert problem in err


def test_each_invalid_file_is_an_error_and_the_others_run(tests: Path) -> None:
    tests.with_name("empty.yaml").touch()
    tests.with_name("broken_test.yaml").write_text(TESTS.replace("[rules.py]", "[none.py]"))
    code, out, err = run(tests, tests.with_name("empty.yaml"), tests.with_name("broken_test.yaml"), "-o", "junit")
    assert code == 2
    suite = ET.fromstring(out)
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    assert f"{tests.with_name('empty.yaml')}: is not used: it has no tests: give a document with the list tests" in err
    assert "broken_test.yaml:2: " in err
    assert "none.py: cannot be read" in err


def test_a_test_about_which_no_rule_is_asked_is_a_note(tests: Path) -> None:
    tests.write_text(TESTS.replace("object: good", "object: good\n    operation: DELETE"))
    code, _, err = run(tests)
    assert code == 0
    assert err == (
        f"note: {tests}:10: names of the web are admitted: no rule is asked: the operation is DELETE, not CREATE or "
        "UPDATE: expect `matched: false`, or change the request\n"
    )


def test_results_are_checked_by_the_definitions_of_the_paths(tests: Path) -> None:
    definition = tests.with_name("crds.yaml")
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    document = yaml.safe_load(WIDGETS)
    document["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    definition.write_text(yaml.safe_dump(document))
    tests.with_name("rules.py").write_text(
        'from fleethook.admission import mutate\n@mutate("apps.example.org/v1", "Widget")\n'
        'def grows(widget): widget.spec = {"size": "large"}\n'
    )
    tests.write_text(
        "rules: [rules.py]\ntests:\n  - name: large\n    output: {allowed: true}\n"
        "    object: {apiVersion: apps.example.org/v1, kind: Widget, metadata: {name: a}}\n"
    )
    assert run(tests)[0] == 0
    code, out, _ = run(tests, definition)
    assert (code, "rules.py:2: its changes are invalid: spec.size: must be an integer" in out) == (1, True)


BROKEN = """
from fleethook.admission import validate

@validate("v1", "Pod", on="CREATE", match_conditions={"never": "1 == 2"})
def silent(pod): pass

@validate("apps.example.org/v1", "Widget")
def widgets(widget): pass
"""
WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.apps.example.org}
spec:
  group: apps.example.org
  names: {plural: widgets, kind: Widget}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true}]
"""


def check(*arguments: str | Path) -> tuple[int, str, str]:
    result = invoke(["rules", "check", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    return file


def test_usable_rules_are_printed_with_their_requests(tests: Path) -> None:
    rules = tests.with_name("rules.py")
    sight = "sees all namespaces except kube-system, kube-node-lease, kube-public, that of the server"
    requests = "validate pods, pods/ephemeralcontainers, pods/resize (v1) on CREATE, UPDATE"
    assert check(rules) == (0, f"{rules}:4: named: {requests}\n  {sight}\n", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('"v1", "Node"', "sees objects without a namespace"),
        (
            '"apps/v1", "Deployment", namespaces="shop"',
            "sees the namespaces shop; not deployments/scale, which changes ",
        ),
        (
            '"v1", "Pod", on="CREATE", namespaces="*"',
            "except that of the server; not pods/ephemeralcontainers, pods/resize",
        ),
        ('"*/*", "*", on="CREATE"', "; not Events, Leases, APIServices, definitions, reviews of access, webhook "),
        (
            '"apps/v1", "*"',
            "; not subresources, such as pods/resize and deployments/scale: declare subresource='scale'",
        ),
        (
            '"v1", "ConfigMap", namespace_selector={"matchLabels": {"a": "b"}}',
            "sees the namespaces of its selector except ",
        ),
    ],
)
def test_a_rule_is_printed_with_the_objects_that_it_sees(tmp_path: Path, arguments: str, expected: str) -> None:
    file = tmp_path / "rules.py"
    file.write_text(f"from fleethook.admission import validate\n@validate({arguments})\ndef a(): pass\n")
    assert expected in check(file)[1]


def test_findings_have_their_lines_in_each_format(broken: Path) -> None:
    code, out, _ = check(broken)
    assert code == 1
    assert out.startswith(f"{broken}:4: silent: validate pods (v1) on CREATE\n  sees all namespaces except ")
    assert f"\n{broken}:7: widgets: " in out
    assert out.index(f"\n{broken}:4: error [never-called]\n") < out.index(
        f"\n{broken}:7: warning [unserved-resource]\n"
    )
    rows = json.loads(check(broken, "-o", "json")[1])
    assert [(row["code"], row["place"]) for row in rows] == [
        ("never-called", f"{broken}:4"),
        ("unserved-resource", f"{broken}:7"),
    ]
    assert f"::error file={broken},line=4,title=never-called::" in check(broken, "-o", "github")[1]


def test_definitions_of_manifests_are_served(broken: Path, tmp_path: Path) -> None:
    (tmp_path / "crds.yaml").write_text(WIDGETS)
    rows = json.loads(check(broken, "-f", tmp_path / "crds.yaml", "-o", "json")[1])
    assert [row["code"] for row in rows] == ["never-called"]
    scaled = WIDGETS.replace("storage: true", "storage: true, subresources: {scale: {}}")
    (tmp_path / "crds.yaml").write_text(scaled)
    assert "; not widgets/scale, which changes the replicas: " in check(broken, "-f", tmp_path / "crds.yaml")[1]


def test_definitions_of_a_cluster_are_served(broken: Path, tmp_path: Path) -> None:
    with serve_cluster(tmp_path) as (held, options):
        rows = json.loads(check(broken, *options, "-o", "json")[1])
        assert [row["code"] for row in rows] == ["never-called", "unserved-resource"]
        held.lists[DEFINITIONS.path] = [yaml.safe_load(WIDGETS)]
        rows = json.loads(check(broken, *options, "-o", "json")[1])
        assert [row["code"] for row in rows] == ["never-called"]


def test_unusable_files_exit_2_and_others_are_checked(tests: Path, broken: Path, tmp_path: Path) -> None:
    unusable = tmp_path / "unusable.py"
    unusable.write_text('from fleethook.admission import validate\n@validate("v1", "Pod", scope="x")\ndef a(): pass\n')
    code, out, err = check(unusable, broken, "-o", "json")
    assert code == 2
    assert f"fleethook: {unusable}:2: a: scope: 'x' is unknown" in err
    assert [row["place"] for row in json.loads(out)] == [f"{unusable}:2", f"{broken}:4", f"{broken}:7"]
    rules = tests.with_name("rules.py")
    (tmp_path / "copy.py").write_text(RULES)
    code, _, err = check(rules, tmp_path / "copy.py")
    assert code == 2
    assert f"copy.py:4: two rules have the name 'named', and the other one is at {rules}:4: rename" in err


def test_strict_makes_warnings_fail(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    file.write_text('from fleethook.admission import validate\n@validate("a.b/v1", "C")\ndef a(): pass\n')
    assert check(file)[0] == 0
    assert check(file, "--strict")[0] == 1


EXPORTED_RULES = """
from fleethook.admission import validate

@validate("v1", "ConfigMap", follows=[("v1", "Secret"), ("example.org/v1", "Widget")])
def each(store):
    pass
"""


def test_the_followed_kinds_are_claimed(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(EXPORTED_RULES)
    result = invoke(["rules", "export", "guard", "--rules", str(tmp_path / "rules.py"), "-o", "json"])
    claims = json.loads(result.stdout)["items"][0]["spec"]["permissionClaims"]
    assert [one["resource"] for one in claims[2:]] == ["secrets", "widgets"]
    assert "the APIExport that provides widgets.example.org" in result.stderr


@pytest.mark.parametrize(("name", "code"), [("guard", 0), ("Guard", 2), ("a.b", 2)])
def test_the_name_fits_a_workspace_type(name: str, code: int) -> None:
    result = invoke(["rules", "export", name])
    assert (result.exit_code, "kind: WorkspaceType" in result.stdout) == (code, code == 0)


def test_the_export_claims_configurations_and_the_followed_kinds_to_read() -> None:
    export, type_ = build_export("guard", [("", "configmaps")])
    claims = {one["resource"]: one["verbs"] for one in export["spec"]["permissionClaims"]}
    assert claims == {
        "validatingwebhookconfigurations": ["get", "list", "watch", "create", "update", "delete"],
        "mutatingwebhookconfigurations": ["get", "list", "watch", "create", "update", "delete"],
        "configmaps": ["get", "list", "watch"],
    }
    assert type_["spec"]["defaultAPIBindings"] == [{"export": "guard"}]
    assert type_["spec"]["defaultAPIBindingLifecycle"] == "Maintain", "kcp accepts a further claim"
