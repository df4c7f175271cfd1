"""The pages about the project: supported versions are backed by tests, and stable names exist."""

import re
import tomllib
from pathlib import Path

import yaml

from tests.serving import ROOT

LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
NAME = re.compile(r"^fleethook\.io/[a-z-]+$")
PROJECT = ROOT / "docs" / "project"


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_each_supported_version_names_its_tests() -> None:
    rows = [row for row in read("docs/project/support.md").splitlines() if row.startswith("| ")][2:]
    assert len(rows) > 8
    for row in rows:
        paths = LINK.findall(row.rpartition("|")[0].rpartition("|")[2])
        assert paths, row
        assert [path for path in paths if not (PROJECT / path).exists()] == []


def test_the_kubernetes_version_is_the_one_of_the_tests() -> None:
    built = re.search(r"^\tk8s\.io/kubernetes v(\S+)", read("tests/e2e/controlplane/go.mod"), re.MULTILINE)
    assert built is not None
    assert f"| Kubernetes | {built[1]} |" in read("docs/project/support.md")


def test_the_oldest_kubernetes_is_the_one_of_the_chart() -> None:
    chart = yaml.safe_load(read("charts/fleethook/Chart.yaml"))
    oldest = re.search(r">=(\d+\.\d+)", chart["kubeVersion"])
    assert oldest is not None
    assert f"| Kubernetes | {oldest[1]}." in read("docs/project/support.md")
    assert f"k8s.io/kubernetes v{oldest[1]}." in read("tests/e2e/controlplane/oldest/go.mod")


def string_constants(path: Path) -> set[str]:
    return set(re.findall(r'"(fleethook\.io/[^"]*)"', path.read_text(encoding="utf-8")))


def test_the_policy_lists_each_name_of_fleethook() -> None:
    constants = {one for path in (ROOT / "app").rglob("*.py") for one in string_constants(path)}
    names = {one for one in constants if NAME.match(one)} - {"fleethook.io/records"}  # the format of a file
    listed = set(re.findall(r"^\| `(fleethook\.io/\S+)`", read("docs/project/versioning.md"), re.MULTILINE))
    assert listed == names
    assert len(names) > 5


def test_all_versions_are_equal() -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    chart = yaml.safe_load(read("charts/fleethook/Chart.yaml"))
    assert {
        version,
        chart["version"],
        chart["appVersion"],
        *re.findall(r'__version__ = "(.*)"', read("app/fleethook/__init__.py")),
    } == {version}
    assert re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", read("CHANGELOG.md"), re.MULTILINE)


def test_the_changelog_has_known_sections() -> None:
    known = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    sections = read("CHANGELOG.md").split("\n## ")[1:]
    assert sections[0].startswith("Unreleased\n")
    for section in sections:
        kinds = re.findall(r"^### (.*)$", section, re.MULTILINE)
        assert len(kinds) == len(set(kinds))
        assert set(kinds) <= known


def test_each_dependency_has_a_reason() -> None:
    project = tomllib.loads(read("pyproject.toml"))
    page = read("docs/project/dependencies.md")
    stated = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    stated += [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
    names = [re.split(r"[<>=;\[ ]", one)[0] for one in stated]
    assert [name for name in names if not re.search(rf"\b{re.escape(name)}\b", page)] == []


def test_each_issue_form_is_complete() -> None:
    forms = [
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yaml")
    ]
    assert len(forms) == 2
    for form in forms:
        assert {"name", "description", "body"} <= form.keys()
        assert len({field["id"] for field in form["body"] if "id" in field}) > 2


def test_the_links_of_the_pages_outside_of_the_site_lead_to_files() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "charts/fleethook/README.md"):
        page = ROOT / name
        paths = LINK.findall(page.read_text(encoding="utf-8"))
        assert [path for path in paths if not (page.parent / path).exists()] == [], name
