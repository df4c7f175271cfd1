import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from fleethook.cli.output.findings_output import ObjectRow
from fleethook.cli.output.json_output import write_json
from fleethook.model.formats.text import is_inert
from tests.model.formats.test_text import HOSTILE

CAPTURED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@CAPTURED
@given(HOSTILE)
def test_json_keeps_and_escapes_untrusted_values(capsys: Any, text: str) -> None:
    write_json({text: text})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {text: text}
    assert is_inert(printed.replace("\n", ""))


def test_structs_and_unknown_types_are_encoded(capsys: pytest.CaptureFixture[str]) -> None:
    write_json([ObjectRow("error", "c", "", "K", "n", "o"), Path("x")], indent=None)
    row = {"level": "error", "code": "c", "cluster": "", "kind": "K", "namespace": "n", "name": "o"}
    assert json.loads(capsys.readouterr().out) == [row, "x"]
