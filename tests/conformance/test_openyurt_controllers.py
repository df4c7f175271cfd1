"""Each fact about OpenYurt's controllers names a test that exists."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
FACTS = yaml.safe_load((ROOT / "tests/conformance/openyurt/controllers.yaml").read_text())


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["id"])
def test_a_fact_names_the_test_that_rests_on_it(fact: dict[str, Any]) -> None:
    file, _, name = fact["test"].partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()
