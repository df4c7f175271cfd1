from typing import Any

from fleethook.cli.doctor.doctor_rights import Right, judge_rights, list_rights
from tests.e2e.fleet import RULES


def allows(rules: list[dict[str, Any]], right: Right) -> bool:
    return any(
        right.group in rule["apiGroups"]
        and right.resource in rule["resources"]
        and right.verb in rule["verbs"]
        and (not rule.get("resourceNames") or right.name in rule["resourceNames"])
        for rule in rules
    )


def test_the_rights_of_a_running_server_suffice() -> None:
    """The end-to-end tests run servers with these rules."""
    rights = list_rights({"overrider", "interpret", "crds"}, "system")
    assert len(rights) > 30
    assert [one for one in rights if not allows(RULES, one)] == []


def test_only_the_rights_of_the_engines_are_listed() -> None:
    assert list_rights({"crds"}, "system") == []
    groups = {one.group for one in list_rights({"interpret"}, "system")}
    assert "config.karmada.io" in groups
    assert "apps.openyurt.io" not in groups


def test_a_review_asks_for_the_subresource_the_name_and_the_namespace() -> None:
    assert Right("patch", "g", "a/status").attributes() == {
        "verb": "patch", "group": "g", "resource": "a", "subresource": "status",
    }  # fmt: skip
    assert Right("get", "", "leases", name="n", namespace="s").attributes() == {
        "verb": "get", "resource": "leases", "name": "n", "namespace": "s",
    }  # fmt: skip


def test_rights_of_the_controller_are_warnings_and_others_errors() -> None:
    missing = [Right("list", "g", "a"), Right("patch", "", "b", leader=True)]
    found = list(judge_rights("s/n", missing, 9))
    assert [(one.level, one.text) for one in found] == [
        ("error", "the service account s/n must not: list a.g"),
        ("warning", "the service account s/n must not: patch b"),
    ]
    assert all("rbac.yaml" in one.remedy for one in found)
    assert [one.text for one in judge_rights("s/n", [], 9)] == [
        "the service account s/n has all 9 rights that were checked"
    ]
