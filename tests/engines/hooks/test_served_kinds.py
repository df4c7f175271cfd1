"""The kinds of rules, compared with those of an apiserver in memory; tests/e2e/test_hooks.py has a real one."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.admission import RuleError, mutate, validate
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.resources import NAMESPACES
from fleethook.engine import EngineStartError
from fleethook.engines.hooks.served_kinds import (
    check_followed,
    check_served,
    find_definition_name,
    list_resources,
    read_definition,
)
from fleethook.settings import Settings
from tests.apiserver_rules import unserved


class Discovery:
    """An apiserver that serves three resources of one version; takes the place of a `Connection`."""

    async def json(self, _method: str, path: str) -> Any:
        if path == "/apis/apps":
            return {"kind": "APIGroup", "versions": [{"groupVersion": "apps/v1"}]}
        if path != "/apis/apps/v1":
            raise unserved(path)
        kinds = [("deployments", "Deployment"), ("deployments/scale", "Scale"), ("teeth", "Tooth")]
        return {"kind": "APIResourceList", "resources": [{"name": name, "kind": kind} for name, kind in kinds]}


def server() -> Any:
    return Discovery()


def rule(*kind: str, **options: Any) -> Any:
    def decides() -> None:
        pass

    return validate(*kind, **options)(decides)


@pytest.mark.parametrize(
    "served",
    [
        rule("apps/v1", "Deployment"),
        rule("apps/v1", "deployments"),
        rule("apps/v1", "Deployment", subresource="scale"),
        rule("apps/v1", "Deployment", subresource="*"),
        rule("apps/v1", "Tooth", resource="teeth"),
        rule("apps/v1", "Tooth", resource="teeth", follows=("apps/v1", "Tooth", "teeth")),
        rule("*/*", "*"),
        rule("apps/*", "nothing"),
    ],
)
async def test_served_kinds_are_accepted(served: Any) -> None:
    await check_served([served], server())


@pytest.mark.parametrize(
    ("unserved", "problem"),
    [
        (rule("apps/v1", "Pod"), "the cluster does not serve Pod of apps/v1"),
        (rule("apps/v1", "pods"), "the cluster does not serve pods of apps/v1"),
        (rule("v1", "Pod"), "the cluster does not serve Pod of v1"),
        (rule("apps/v1", "Deploymnet"), r"does not serve Deploymnet of apps/v1; did you mean Deployment\?"),
        (rule("apps/v1", "deployment"), r"does not serve deployment of apps/v1; did you mean Deployment\?"),
        (rule("apps/v1beta1", "Deployment"), "does not serve Deployment of apps/v1beta1; it serves apps/v1"),
        (rule("apps/v1", "Deployment", subresource="exec"), "does not serve deployments/exec of apps/v1"),
        (
            rule("apps/v1", "Tooth"),
            r"the cluster has the plural 'teeth', not 'tooths': give resource='teeth' for Tooth of apps/v1, or .* 'teeth'\)",
        ),
        (rule("apps/v1", "Deployment", follows=("v1", "Pod")), "the cluster does not serve Pod of v1"),
    ],
)
async def test_an_unserved_kind_is_an_error_with_its_line(unserved: Any, problem: str) -> None:
    with pytest.raises(RuleError, match=rf"test_served_kinds\.py:\d+: the rule decides: .*{problem}"):
        await check_served([unserved], server())


def write(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "rules.py"
    file.write_text(f"from fleethook.admission import validate\n{text}")
    return Settings(hooks=[file])


def test_the_followed_kinds_are_resources_to_read(tmp_path: Path) -> None:
    follows = '@validate("v1", "Pod", follows=[("v1", "ConfigMap"), ("apps/v1", "Deployment")])\ndef a(store): pass'
    found = list_resources(write(tmp_path, follows)).needed
    assert [one.path for one in found] == ["/apis/apps/v1/deployments", "/api/v1/configmaps"]
    assert all(one.is_complete for one in found)


def test_a_broken_file_is_an_error_at_start(tmp_path: Path) -> None:
    with pytest.raises(EngineStartError, match=r"rules\.py:2: SyntaxError"):
        list_resources(write(tmp_path, "broken("))


def test_a_rule_cannot_follow_a_kind_that_the_server_does_not_read_completely() -> None:
    reads = rule("v1", "Pod", follows=("v1", "Namespace"))
    with pytest.raises(RuleError, match="follows Namespace, and no rule did so when the server started: restart"):
        check_followed([reads], {})
    with pytest.raises(RuleError, match="follows Namespace, of which other engines of this server read only a part"):
        check_followed([reads], {NAMESPACES.group_kind: NAMESPACES})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("example.com/v1", "Shirt"), "shirts.example.com"),
        (("v1", "Pod"), None),
        (("apps/v1", "Deployment"), None),
        (("example.com/v1", "*"), None),
        (("*/*", "*"), None),
    ],
)
def test_a_rule_that_changes_custom_resources_has_a_definition(arguments: Any, expected: str | None) -> None:
    changing: Any = mutate(*arguments)(changes_nothing)
    assert find_definition_name(changing.declaration) == expected
    assert find_definition_name(rule(*arguments).declaration) is None


def changes_nothing() -> None:
    pass


@pytest.mark.parametrize("code", [403, 404])
async def test_a_definition_that_cannot_be_read_has_no_schemas(code: int) -> None:
    class Refusing:
        async def json(self, _method: str, _path: str) -> Any:
            raise APIError(code, "no", "no")

    refusing: Any = Refusing()
    assert await read_definition(refusing, "shirts.example.com") == ()
