"""``fleethook serve --kcp-export`` against an apiserver that answers as kcp."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fleethook.console.console_server import ConsoleOptions, create_console, open_context
from fleethook.settings import Settings
from tests.cli.commands import invoke
from tests.console.pages.reading import get
from tests.kcp_export import CONFIG_MAPS, VALIDATING, KcpExport, kcp_export
from tests.serving import Server, serving
from tests.waiting import wait_for

RULES = """
from fleethook.admission import Denied, validate

@validate("v1", "ConfigMap", match_conditions={})
def owned(request):
    if "owner" not in request.labels:
        raise Denied(f"no owner in {request.workspace} {request.cluster}")

@validate("v1", "ConfigMap", follows=("v1", "ConfigMap"))
def counted(store):
    here = len(list(store.each("v1", "ConfigMap")))
    everywhere = len(list(store.each("v1", "ConfigMap", cluster="*")))
    raise Denied(f"{here} of {everywhere}")
"""
MUTATING_ONLY = """
from fleethook.admission import mutate

@mutate("v1", "ConfigMap")
def labelled(configmap):
    configmap.metadata["labels"] = {"a": "b"}
"""
NAME = "fleethook-guard"


@pytest.fixture
def kcp(tmp_path: Path) -> Iterator[tuple[KcpExport, tuple[str, ...]]]:
    (tmp_path / "rules.py").write_text(RULES)
    with kcp_export(tmp_path) as made:
        yield made


@pytest.fixture
def server(kcp: tuple[KcpExport, tuple[str, ...]], tmp_path: Path) -> Iterator[Server]:
    given = ("--rules", str(tmp_path / "rules.py"), *kcp[1], "--register", "--webhook-url", "https://localhost:1")
    with serving(tmp_path, *given, manifests=None) as made:
        yield made


def wait_covered(kcp: KcpExport, cluster: str) -> dict[str, Any]:
    found = wait_for(lambda: kcp.find(cluster), what=f"{cluster} is covered")
    assert found is not None
    return found


def find_path(kcp: KcpExport, cluster: str, rule: str = "owned") -> str:
    """Return the path that kcp calls for a workspace."""
    urls = [one["clientConfig"]["url"] for one in wait_covered(kcp, cluster)["webhooks"]]
    return urlsplit(next(one for one in urls if f"/{rule}/" in one)).path


def ask(server: Server, path: str, **metadata: Any) -> str:
    """Return the message of the answer about a ConfigMap, ``""`` if it is admitted."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", **metadata}}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    request = {"uid": "u", "operation": "CREATE", "kind": kind, "namespace": "n", "object": document}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    status, answer = server.request("POST", path, json.dumps(body).encode())
    if status != 200:
        return f"{status} {json.loads(answer)['message']}"
    response = json.loads(answer)["response"]
    return "" if response["allowed"] else str(response["status"]["message"])


def read_check(server: Server) -> str:
    checks = json.loads(server.request("GET", "/readyz")[1])["checks"]
    return str(next(one["detail"] for one in checks if one["name"] == "workspaces"))


def test_each_workspace_is_covered_by_urls_of_its_own(kcp: tuple[KcpExport, tuple[str, ...]], server: Server) -> None:
    held = kcp[0]
    for one in ("c", "d"):
        held.bind(one)
    assert ask(server, find_path(held, "c")) == "no owner in root:c c"
    # The URL decides, not the annotation of the object.
    assert ask(server, find_path(held, "d"), annotations={"kcp.io/cluster": "c"}) == "no owner in root:d d"
    assert ask(server, find_path(held, "d"), labels={"owner": "me"}) == ""
    stolen = find_path(held, "c").replace("/c/", "/d/")
    for path in (stolen, "/rules/validate/owned"):
        assert ask(server, path).startswith("403 the path of this review has no valid token"), path
    # The server sees its own write a little after kcp has stored it.
    wait_for(lambda: read_check(server) == "", what="the server sees both configurations")
    metrics = server.request("GET", "/metrics")[1].decode()
    assert 'fleethook_rule_workspaces{state="covered"} 2.0' in metrics


def test_rules_see_the_objects_of_their_workspace_or_fail(
    kcp: tuple[KcpExport, tuple[str, ...]], server: Server
) -> None:
    held = kcp[0]
    for one, states in (("c", {}), ("d", {}), ("e", {"configmaps": "Rejected"})):
        held.bind(one, **states)
        with held.changed:
            held._keep(one, CONFIG_MAPS, {"metadata": {"name": f"of-{one}", "namespace": "n"}})
    wait_for(lambda: ask(server, find_path(held, "c", "counted")) == "1 of 2", what="the ConfigMaps are read")
    failed = ask(server, find_path(held, "e", "counted"))
    assert "the ConfigMaps of workspace e cannot be read: its APIBinding has the permission claim" in failed
    assert "failurePolicy Fail refuses the object" in failed


def test_a_configuration_that_its_workspace_changes_is_restored(
    kcp: tuple[KcpExport, tuple[str, ...]], server: Server
) -> None:
    held = kcp[0]
    held.bind("c")
    first = wait_covered(held, "c")
    held.delete("c", VALIDATING, NAME)
    wait_for(lambda: held.find("c"), what="the configuration is back")
    held.edit("c", VALIDATING, NAME, lambda one: one["webhooks"].pop())
    wait_for(lambda: (held.find("c") or {}).get("webhooks") == first["webhooks"], what="the edit is undone")
    # A copy is the workspace's own.
    copied = {**first, "metadata": {"name": "copy", "annotations": {}}}
    with held.changed:
        held._keep("c", VALIDATING, copied)
    held.bind("d")
    wait_covered(held, "d")
    assert held.find("c", VALIDATING, "copy") is not None
    assert ask(server, find_path(held, "d")) == "no owner in root:d d"


def test_a_workspace_that_refuses_is_named_and_others_are_covered(
    kcp: tuple[KcpExport, tuple[str, ...]], server: Server
) -> None:
    held, given = kcp
    held.bind("c", validatingwebhookconfigurations="Rejected")
    held.bind("d")
    wait_covered(held, "d")
    refusal = "1 of 2 not covered: root:c (c): its APIBinding has the permission claim for "
    wait_for(lambda: read_check(server).startswith(refusal), what="the server sees the configuration")
    assert 'fleethook_rule_workspaces{state="unaccepted"} 1.0' in server.request("GET", "/metrics")[1].decode()
    result = invoke(["doctor", *given])
    assert (result.exit_code, "workspaces: root:c (c) is not covered: its APIBinding" in result.stdout) == (1, True)
    assert "outage: without the server, kcp refuses the writes that rules with Fail see" in result.stdout
    held.bind("c")
    wait_covered(held, "c")
    # A revoked claim leaves the configuration to its workspace.
    held.bind("c", validatingwebhookconfigurations="Rejected")
    wait_for(lambda: read_check(server) != "", what="the revocation is seen")
    assert held.find("c") is not None
    assert ask(server, find_path(held, "d")) == "no owner in root:d d"


def test_a_stopped_server_is_the_first_line_and_uncovered_workspaces_follow(
    kcp: tuple[KcpExport, tuple[str, ...]], server: Server
) -> None:
    held, given = kcp
    for one in ("c", "d"):
        held.bind(one)
        wait_covered(held, one)
    held.bind("e", validatingwebhookconfigurations="Rejected")
    uncovered = "failing Workspace root:e (e) rules do not cover it: its APIBinding has the permission claim for "
    assert asyncio.run(read_attention(given))[0].startswith(uncovered)
    assert server.stop() == 0
    refused = (
        r"error +outage: the server does not answer \(.+\): kcp refuses what the rules with Fail see, in 2 workspaces"
    )
    # A leader that cannot release its Lease in time keeps it until it expires.
    wait_for(lambda: re.match(refused, invoke(["doctor", *given]).stdout), what="doctor sees the outage")
    assert "error    workspaces: root:e (e) " in invoke(["doctor", *given]).stdout
    first, second, *_ = asyncio.run(read_attention(given))
    assert re.match("outage Server in kube-system .+, in all 2 workspaces: refused: CREATE", first)
    assert second.startswith(uncovered)
    held.delete("d", VALIDATING, NAME)
    found = invoke(["doctor", *given]).stdout
    assert re.search(
        r"root:d \(d\) is not covered: it has no webhook configuration: run the server .+\nerror", found
    ), found


async def read_attention(given: tuple[str, ...]) -> list[str]:
    """Return the lines of "Needs attention"."""
    options = dict(zip(given[::2], given[1::2], strict=True))
    settings = Settings(kubeconfig=Path(options["--kubeconfig"]), kcp_export=options["--kcp-export"])
    async with open_context(settings, ConsoleOptions()) as context:
        assert context.cluster is not None
        await context.cluster.source.wait_synced()
        text = (await get(create_console(context), "/attention")).text
    return re.findall(r"((?:outage|failing) (?:Server|Workspace) .*?) first seen", text)


def test_a_renamed_binding_keeps_its_configuration_and_a_deleted_one_loses_it(
    kcp: tuple[KcpExport, tuple[str, ...]], server: Server
) -> None:
    del server
    held = kcp[0]
    held.bind("c")
    wait_covered(held, "c")
    held.bind("c", name="renamed")

    def owners() -> list[str]:
        return [one["name"] for one in (held.find("c") or {"metadata": {}})["metadata"].get("ownerReferences", [])]

    wait_for(lambda: owners() == ["guard-3lhv4", "renamed"], what="both bindings own the configuration")
    held.unbind("c")
    wait_for(lambda: owners() == ["renamed"], what="the new binding owns the configuration")
    held.unbind("c", "renamed")
    assert held.find("c") is None


def test_rules_that_are_gone_lose_their_configurations(
    kcp: tuple[KcpExport, tuple[str, ...]], server: Server, tmp_path: Path
) -> None:
    held, given = kcp
    held.bind("c")
    wait_covered(held, "c")
    (tmp_path / "rules.py").write_text(MUTATING_ONLY)
    wait_for(lambda: held.find("c") is None, what="the configuration without webhooks is gone")
    assert server.stop() == 0
    result = invoke(["uninstall", *given])
    assert (result.exit_code, not [one for one in held.objects if one[2] == NAME]) == (0, True), result.output


def test_rules_are_applied_to_all_workspaces_that_can_be_read(
    kcp: tuple[KcpExport, tuple[str, ...]], tmp_path: Path
) -> None:
    held, given = kcp
    for one, states in (("c", {}), ("d", {}), ("e", {"configmaps": "Rejected"})):
        held.bind(one, **states)
        with held.changed:
            held._keep(one, CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "n"}})
    result = invoke(["rules", "apply", str(tmp_path / "rules.py"), *given])
    assert (result.exit_code, result.stdout.count("ConfigMap n/a in c, "), "a in e" in result.stdout) == (1, 2, False)
    assert "1 of 2" in result.stdout
    assert "no owner in root:c c" in result.stdout, "a rule sees the path as on the server"
    unread = "root:e (e): its configmaps cannot be read: its APIBinding has the permission claim"
    assert result.stderr.count(unread) == 1, "said once, although the rule follows the kind that it reviews"
    selecting = RULES.replace("match_conditions={}", "namespace_selector={'matchLabels': {'a': 'b'}}")
    (tmp_path / "rules.py").write_text(selecting)
    result = invoke(["rules", "apply", str(tmp_path / "rules.py"), *given])
    assert (result.exit_code, "rules that select namespaces by labels" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("rules apply rules.py", "APIExport gard has no virtual workspace in "),
        ("uninstall", "not finished, correct this and repeat the command: 404"),
        ("doctor", "has no APIExport gard"),
    ],
)
def test_a_wrong_name_of_the_export_is_an_error(
    kcp: tuple[KcpExport, tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, text: str
) -> None:
    held, given = kcp
    held.bind("c")
    monkeypatch.chdir(tmp_path)
    result = invoke([*words.split(), *given[:-1], "gard"])
    assert (result.exit_code in (1, 2), text in result.output) == (True, True), result.output
    assert not [one for one in held.asked if one[0] == "DELETE"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "needs the workspace of the APIExport"),
        (("--kubeconfig", "k", "--register", "--service", "a/b"), "a kcp has no Services"),
        (("--kubeconfig", "k", "--kcp"), "and not --kcp"),
    ],
)
def test_the_export_needs_a_kubeconfig_and_a_url(options: tuple[str, ...], text: str, tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    result = invoke(["serve", "--rules", str(tmp_path / "rules.py"), "--kcp-export", "guard", *options])
    assert (result.exit_code, text in result.stderr) == (2, True), result.output
