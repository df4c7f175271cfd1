from pathlib import Path

import pytest
from pydantic import ValidationError

from fleethook.settings import Settings


def test_a_server_of_rules_alone_has_no_other_engine_unless_asked() -> None:
    assert Settings(hooks=[Path("rules.py")]).engines == {"hooks"}
    assert Settings(hooks=[Path("rules.py")], engines={"hooks", "crds"}).engines == {"hooks", "crds"}


def test_settings_that_contradict_are_refused() -> None:
    with pytest.raises(ValidationError, match="--hooks needs the engine hooks"):
        Settings(hooks=[Path("a.py")], engines={"crds"})
