"""The alerts of the chart, checked and tested by promtool."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.programs import require_program
from tests.serving import ROOT
from tests.waiting import NET

MONITORING = ROOT / "charts" / "fleethook" / "monitoring"
RULES = MONITORING / "rules.yaml"
TESTS = Path(__file__).with_name("alerts.yaml")
MISSING = "no promtool: install the Debian package prometheus"


@pytest.fixture
def promtool() -> Path:
    return require_program(shutil.which("promtool"), MISSING)


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=NET, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid(promtool: Path) -> None:
    assert "SUCCESS" in run(promtool, "check", "rules", "--lint-fatal", RULES)


def test_alerts_fire_when_they_should(promtool: Path) -> None:
    run(promtool, "test", "rules", TESTS)


def test_every_alert_is_tested_firing_and_silent_and_documented() -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    alerts = [rule["alert"] for rule in group["rules"]]
    tested = [one for case in yaml.safe_load(TESTS.read_text())["tests"] for one in case["alert_rule_test"]]
    assert {one["alertname"] for one in tested if one["exp_alerts"]} == set(alerts)
    silent = yaml.safe_load(TESTS.read_text())["tests"][0]["alert_rule_test"]
    assert [one["alertname"] for one in silent] == alerts
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert re.findall(r"^\| `(Fleethook\w+)` \|", page, re.MULTILINE) == alerts


def test_the_queries_of_the_dashboard_parse(promtool: Path, tmp_path: Path) -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(queries) > 30
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    file = tmp_path / "dashboard.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"SUCCESS: {len(queries)} rules found" in run(promtool, "check", "rules", file)


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23
