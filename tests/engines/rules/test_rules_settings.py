from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.settings import Settings


def test_a_server_of_rules_alone_has_no_other_engine_unless_asked() -> None:
    assert Settings(rules=[Path("rules.py")]).engines == {"rules"}
    assert Settings(rules=[Path("rules.py")], engines={"rules", "crds"}).engines == {"rules", "crds"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"rules": ["a.py"], "engines": ["crds"]}, "--rules needs the engine rules"),
        ({"rule_registration": True}, "rule_registration needs a cluster"),
        ({"rule_registration": True, "kubeconfig": "k"}, "needs the address of this server"),
    ],
)
def test_settings_that_contradict_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Settings(**given)
