from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.settings import Settings


def test_a_server_of_rules_alone_has_no_other_engine_unless_asked() -> None:
    assert Settings(hooks=[Path("rules.py")]).engines == {"hooks"}
    assert Settings(hooks=[Path("rules.py")], engines={"hooks", "crds"}).engines == {"hooks", "crds"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"hooks": ["a.py"], "engines": ["crds"]}, "--hooks needs the engine hooks"),
        ({"hook_registration": True}, "hook_registration needs a cluster"),
        ({"hook_registration": True, "kubeconfig": "k"}, "needs the address of this server"),
    ],
)
def test_settings_that_contradict_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Settings(**given)
