from pathlib import Path
from typing import Any

import pytest

from fleethook.admission import RuleError, validate
from fleethook.cluster.kubernetes.resources import NAMESPACES
from fleethook.engine import EngineStartError
from fleethook.engines.hooks.followed_kinds import check_followed, list_resources
from fleethook.settings import Settings


def rule(*kind: str, **options: Any) -> Any:
    def decides() -> None:
        pass

    return validate(*kind, **options)(decides)


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
