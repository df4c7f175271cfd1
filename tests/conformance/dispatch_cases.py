"""The cases of dispatch.yaml, as parameters of tests."""

from pathlib import Path
from typing import Any

import pytest
import yaml

DATA = yaml.safe_load((Path(__file__).parent / "dispatch.yaml").read_text())
SUITES, FIXTURES = DATA["suites"], DATA["fixtures"]
MATCH_ALL = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]


def cases(suite: str) -> Any:
    found = SUITES[suite]
    listed = found["cases"] if isinstance(found, dict) else found
    return pytest.mark.parametrize("case", listed, ids=[case["id"] for case in listed])
