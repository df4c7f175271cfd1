import json
from pathlib import Path

import pytest

from tests.cli.commands import invoke

RULES = """
from fleethook.admission import validate

@validate("v1", "ConfigMap", follows=[("v1", "Secret"), ("example.org/v1", "Widget")])
def each(store):
    pass
"""


def test_the_followed_kinds_are_claimed(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    result = invoke(["rules", "export", "guard", "--rules", str(tmp_path / "rules.py"), "-o", "json"])
    claims = json.loads(result.stdout)["items"][0]["spec"]["permissionClaims"]
    assert [one["resource"] for one in claims[2:]] == ["secrets", "widgets"]
    assert "the APIExport that provides widgets.example.org" in result.stderr


@pytest.mark.parametrize(("name", "code"), [("guard", 0), ("Guard", 2), ("a.b", 2)])
def test_the_name_fits_a_workspace_type(name: str, code: int) -> None:
    result = invoke(["rules", "export", name])
    assert (result.exit_code, "kind: WorkspaceType" in result.stdout) == (code, code == 0)
