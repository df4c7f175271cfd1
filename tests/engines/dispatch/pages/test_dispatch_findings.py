import json

import pytest

from fleethook.cluster.manifests.manifest_reader import read_documents
from fleethook.cluster.store import Store
from fleethook.engines.dispatch.owner.schema_owner import INDEXES
from fleethook.engines.dispatch.pages.dispatch_findings import (
    LINTED,
    PAGE_ROWS,
    FindingFilter,
    FindingList,
    find_all,
    list_findings,
)
from tests.cli.commands import invoke
from tests.engines.dispatch.builders import binding, configuration, namespace, store_of, webhook, widget
from tests.serving import EXAMPLES

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
FLEET = (
    configuration("p", "mutating", webhook(rules=[]), name="empty"),
    binding("a b&c", "p", "widgets.example.org"),
)


def listed(**wanted: object) -> FindingList:
    return list_findings(find_all(store_of(*FLEET)), FindingFilter(**wanted))  # type: ignore[arg-type]


def test_findings_are_those_of_the_command() -> None:
    store = Store(INDEXES)
    for path in sorted((EXAMPLES / "kcp-widgets").glob("*.yaml")):
        for document in read_documents(path.read_text(), source=str(path)):
            store.put(document.object)
    # The page lints a copy in a thread.
    store = store.copy(LINTED)
    found = [(one.level, one.code, one.configuration, one.webhook, one.text) for one in find_all(store)]
    result = invoke(["lint", "-f", str(EXAMPLES / "kcp-widgets"), "--output", "json"])
    expected = [
        (one["level"], one["code"], one["name"], one["webhook"], one["text"]) for one in json.loads(result.stdout)
    ]
    assert found == expected
    assert found


def test_errors_come_first_with_their_meaning() -> None:
    found = listed()
    levels = [one.finding.level for one in found.rows]
    assert levels == sorted(levels)
    assert {"error", "warning"} == set(levels)
    assert all(one.meaning for one in found.rows)
    assert sum(found.by_level.values()) == sum(found.by_code.values()) == len(found.rows) == found.found


def test_a_finding_links_to_its_cluster_on_the_map() -> None:
    found = listed(cluster="a b&c")
    assert found.found > 0
    assert {one.map_query for one in found.rows} == {"focus=a+b%26c"}


@pytest.mark.parametrize("level", ["error", "warning"])
def test_filters_select_findings_and_keep_the_numbers_of_all(level: str) -> None:
    found = listed(level=level)
    assert {one.finding.level for one in found.rows} == {level}
    assert found.by_level == listed().by_level
    code = found.rows[0].finding.code
    assert {one.finding.code for one in listed(code=code).rows} == {code}
    assert listed(code="<script>").rows == ()


def test_long_lists_have_pages() -> None:
    documents = [
        configuration("p", "mutating", webhook(rules=[]), name=f"n{number}") for number in range(PAGE_ROWS + 1)
    ]
    findings = find_all(store_of(*documents))
    last = list_findings(findings, FindingFilter(page=99, code="no-rules"))
    assert (last.found, last.page, last.pages, len(last.rows)) == (PAGE_ROWS + 1, 2, 2, 1)
    assert json.dumps(last.by_code)


def test_a_copy_of_the_linted_kinds_has_the_findings_of_the_store() -> None:
    """A cluster with other objects only is known, and the labels of Namespaces count."""
    hook = webhook(clientConfig={"service": {"namespace": "hooks", "name": "h"}})
    documents = (
        *FLEET,
        configuration("", "validating", {**hook, "rules": [{**RULE, "resources": ["pods"]}]}),
        namespace("", "hooks"),
        {**widget(), "metadata": {"name": "w", "annotations": {"kcp.io/cluster": "p2"}}},
        binding("d", "p2", "widgets.example.org"),
    )
    store = store_of(*documents)
    found = find_all(store)
    assert find_all(store.copy(LINTED)) == found
    assert "self-lockout" in {one.code for one in found}
    assert "binding-unknown" not in {one.code for one in found if one.cluster == "d"}
