"""The generated pages are complete; tests/schemas checks that they are current."""

import re

from docsite.reference import render_reference
from docsite.reference.settings import render_settings
from docsite.reference.tables import render_table
from fleethook.app import create_app
from fleethook.engines.dispatch.lint.configuration_validation import CODES
from fleethook.engines.interpret.commands.interpreter_lint import MEANINGS
from fleethook.engines.overrider.rules.finding import MEANINGS as OF_OVERRIDERS
from fleethook.engines.rules.commands.rule_lint import CODES as OF_RULES
from fleethook.settings import Settings
from tests.serving import EXAMPLES, ROOT


def read_rows(name: str) -> dict[str, list[str]]:
    """Return the cells of the tables of a page, by the first one."""
    text = (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")
    rows = [re.split(r" *(?<!\\)\| *", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells for cells in rows}


def test_the_pages_of_the_repository_are_current() -> None:
    for path, text in render_reference().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, path


def test_each_setting_has_its_flag_and_default() -> None:
    rows = read_rows("settings")
    assert rows.keys() == Settings.model_fields.keys()
    assert rows["port"][1:3] == ["`--port`", "`9443`"]
    assert rows["record_max"][2] == "`1Gi`"
    assert rows["controller"][1:3] == ["", ""]
    assert "FLEETHOOK_" in render_settings()


def test_each_lint_code_is_listed() -> None:
    assert read_rows("lint-codes").keys() == {*CODES, *MEANINGS, *OF_OVERRIDERS, *OF_RULES}


def test_each_route_is_listed() -> None:
    paths = create_app(Settings(manifests=EXAMPLES), log=None).openapi()["paths"]
    listed = {route.partition(" ")[2] for route in read_rows("routes")}
    assert listed == paths.keys()


def test_metrics_have_their_labels() -> None:
    rows = read_rows("metrics")
    assert rows["fleethook_reviews_total"][1:3] == ["counter", "`route`, `operation`, `outcome`"]
    assert rows["fleethook_record_dropped_reviews_total"][2] == "`reason`"
    assert {"fleethook_connections", "fleethook_crds_cache_bytes"} <= rows.keys()


def test_each_command_is_listed_with_its_effect() -> None:
    rows = read_rows("commands")
    assert {"fleethook render", "fleethook serve", "fleethook crds fetch"} <= rows.keys()
    assert [name for name, cells in rows.items() if not cells[1]] == []


def test_a_cell_is_one_line_without_separators() -> None:
    assert render_table(["a", "b"], [("x\ny", "p|q")]) == "| a | b |\n| --- | --- |\n| x y | p\\|q |"
