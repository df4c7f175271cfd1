"""Whether an apiserver calls webhooks, asked of one in memory; tests/e2e/test_rules.py asks a real one."""

from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from fleethook.admission import mutate, validate
from fleethook.cli.doctor.registered_webhooks import Diagnosis, find_registered
from fleethook.cli.doctor.webhook_reachability import CallExaminer, judge, list_probes
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.registration.rule_webhooks_and_outage import (
    PROBE_ANNOTATION,
    PROBE_ANSWER,
    build_rule_configurations,
)
from fleethook.cluster.registration.webhook_configurations import (
    Reference,
    ServiceReference,
    URLReference,
    list_webhooks,
)
from fleethook.engine import installed_engines
from tests.e2e.cluster import free_port
from tests.hook_server import run_hook

SERVICE = ServiceReference("fleet", "fleethook")
REFUSED = "dial tcp 127.0.0.1:1: connect: connection refused"


def closed(_: Any) -> None: ...
def opened(_: Any) -> None: ...


CLOSED = validate("apps/v1", "Deployment", namespace_selector={"matchLabels": {"team": "web"}})(closed)
OPENED = mutate("v1", "Pod", object_selector={"matchLabels": {"a": "b"}})(opened)
RESOURCES = {
    "/apis/apps/v1": {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["create"]},
    "/api/v1": {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["create"]},
}


class Apiserver:
    """Answers a dry run as kube-apiserver does with a server of rules: by a refusal, or as ``state`` says.

    ``failure`` is the answer to an object that the rule itself decides about.
    """

    def __init__(self, state: str = "reached", *, failure: str = "", problem: str = "") -> None:
        self.state = state
        self.failure, self.problem = failure, problem
        self.labels = {"default": {}, "web": {"team": "web"}}
        self.created: list[str] = []

    async def json(self, method: str, path: str) -> Any:
        assert method == "GET"
        if path == "/api/v1/namespaces":
            items = [
                {"metadata": {"name": name, "labels": {**labels, "kubernetes.io/metadata.name": name}}}
                for name, labels in self.labels.items()
            ]
            return {"items": items}
        return {"resources": [RESOURCES[path]]}

    async def request(self, method: str, path: str, *, query: dict[str, str], body: Any) -> bytes:
        assert (method, query) == ("POST", {"dryRun": "All"})
        if not (probed := body["metadata"]["annotations"].get(PROBE_ANNOTATION)):
            if self.failure:
                raise APIError(500, "InternalError", self.failure)
            return b"{}"
        self.created.append(path)
        name = f"{probed}.rules.fleethook.io"
        opens = name.startswith("opened")
        assert not opens or body["metadata"]["labels"] == {"a": "b"}
        if self.state == "no rights":
            raise APIError(403, "Forbidden", f'user "ann" cannot create resource "{path}"')
        if self.state == "reached":
            raise APIError(
                403, "Forbidden", f'admission webhook "{name}" denied the request: {PROBE_ANSWER}{self.problem}'
            )
        if self.state == "down" and not opens:
            raise APIError(500, "InternalError", f'Internal error occurred: failed calling webhook "{name}": {REFUSED}')
        return b"{}"


async def examine(
    apiserver: Apiserver,
    reference: Reference = SERVICE,
    *rules: Any,
    ca: str = "",
    services: dict[str, Diagnosis] | None = None,
) -> list[Diagnosis]:
    found = build_rule_configurations(rules or (CLOSED, OPENED), reference, name="n", server="fleet", exempt=["fleet"])
    for webhook in (one for each in found for one in each["webhooks"]):
        webhook["clientConfig"]["caBundle"] = ca
    examiner = CallExaminer(cast("Connection", apiserver), find_registered(found), namespace="default")
    return [one async for one in examiner.examine([], services or {})]


def lines(found: list[Diagnosis]) -> list[str]:
    return [f"{one.level} {one.text}" for one in found]


async def test_each_rule_refuses_an_object_that_it_gets() -> None:
    apiserver = Apiserver()
    (found,) = await examine(apiserver)
    assert (found.level, found.text.endswith("(1 more: the same)")) == ("ok", True)
    assert apiserver.created == [
        "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/web/deployments",
    ]  # fmt: skip


async def test_an_outage_is_named_with_the_writes_that_it_refuses_and_admits() -> None:
    found = await examine(Apiserver("down"))
    failed, further = lines(found)
    refused = "error now refused: CREATE, UPDATE of deployments.apps, in namespaces with team=web, except objects in "
    cause = f", because the apiserver cannot call closed.rules.fleethook.io: {REFUSED}"
    assert (failed.startswith(refused), failed.endswith(cause)) == (True, True), failed
    removal = "`kubectl delete mutatingwebhookconfiguration/n validatingwebhookconfiguration/n`"
    assert found[0].remedy.startswith("start the server")
    assert found[0].remedy.endswith(f"; or remove the webhooks: {removal}")
    assert further.startswith("note now unchecked: CREATE of pods, except")


DENIED = 'admission webhook "closed.rules.fleethook.io" denied the request: '
RAISED = "the rule closed failed, and failurePolicy Fail refuses the object: rules.py:7: KeyError: 'a'"
HANGS = 'failed calling webhook "closed.rules.fleethook.io": context deadline exceeded'


@pytest.mark.parametrize(
    ("failure", "cause"),
    [(DENIED + RAISED, RAISED), (f"Internal error occurred: {HANGS}", HANGS)],
    ids=["raises", "hangs"],
)
async def test_a_rule_that_fails_about_the_object_is_an_outage(failure: str, cause: str) -> None:
    (found,) = await examine(Apiserver(failure=failure), SERVICE, CLOSED)
    assert (found.level, found.check) == ("error", "outage")
    sees = "closed.rules.fleethook.io sees, such as a new Deployment"
    assert found.text == f"now refused: objects that {sees}: {cause}"
    assert "rules test" in found.remedy


async def test_files_of_rules_that_do_not_load_are_an_error() -> None:
    (found,) = await examine(Apiserver(problem=": rules.py:1: SyntaxError; the former rules stay"), SERVICE, CLOSED)
    assert (found.level, found.check) == ("error", "rules")
    assert found.text.endswith("do not load: rules.py:1: SyntaxError; the former rules stay")


async def test_a_service_without_endpoints_is_an_outage_also_for_a_user_who_may_not_create() -> None:
    broken = Diagnosis("error", "service", "the Service has no ready endpoint", "start a Pod")
    first, *_ = lines(await examine(Apiserver("no rights"), SERVICE, CLOSED, services={"fleet/fleethook:443": broken}))
    assert first.startswith("error now refused: CREATE, UPDATE of deployments.apps, ")
    assert first.endswith(", because the Service has no ready endpoint")


async def test_failure_policy_ignore_does_not_hide_an_outage() -> None:
    url = URLReference(f"https://127.0.0.1:{free_port()}")
    for reference, cause in (
        (SERVICE, "did not call opened.rules.fleethook.io about a new Pod in default"),
        (url, "cannot be called from this machine"),
    ):
        (silent,) = lines(await examine(Apiserver("down"), reference, OPENED))
        assert silent.startswith("error now unchecked: CREATE of pods, ")
        assert cause in silent


@pytest.mark.parametrize(
    "rule",
    [
        validate("apps/v1", "Deployment", match_conditions={"mine": "false"})(closed),
        validate("apps/v1", "Deployment", on="UPDATE")(closed),
        validate("apps/v1", "StatefulSet")(closed),
    ],
    ids=["a condition that the object may not fulfil", "no creation", "a kind that is not served"],
)
async def test_a_rule_without_a_dry_run_is_not_examined(rule: Any) -> None:
    texts = lines(await examine(Apiserver("admitted"), SERVICE, rule))
    assert [one.partition(": ")[0] for one in texts] == ["unknown not examined"] * 2
    assert "whether the apiserver can call the Service fleet/fleethook:443" in texts[0]
    assert "closed.rules.fleethook.io" in texts[1]


async def test_a_rule_without_a_namespace_gets_nothing() -> None:
    apiserver = Apiserver()
    del apiserver.labels["web"]
    found = await examine(apiserver)
    assert [one.level for one in found] == ["ok", "warning"]
    assert "selects no namespace" in found[1].text


async def test_without_rights_the_url_is_called_instead(tmp_path: Path) -> None:
    assert [one.level for one in await examine(Apiserver("no rights"))] == ["unknown", "unknown", "unknown"]
    async with run_hook(tmp_path) as hook:
        reference = URLReference(f"https://127.0.0.1:{hook.port}/hook?")
        found = await examine(Apiserver("no rights"), reference, CLOSED, ca=hook.ca_bundle)
    assert [one.level for one in found] == ["ok", "note"], found
    assert [one["request"]["dryRun"] for one in hook.reviews] == [True]


async def test_another_server_at_the_url_is_an_outage(tmp_path: Path) -> None:
    async def ask_to_sign_in(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>Sign in</html>", content_type="text/html")

    async with run_hook(tmp_path) as hook:
        hook.answer = ask_to_sign_in
        reference = URLReference(f"https://127.0.0.1:{hook.port}/hook?")
        (first, _) = lines(await examine(Apiserver("no rights"), reference, CLOSED, ca=hook.ca_bundle))
    assert first.startswith("error probably refused: CREATE, UPDATE of deployments.apps, ")
    assert first.endswith("answers with no review: <html>Sign in</html>")


async def test_each_outage_has_the_writes_of_its_own_server() -> None:
    registered = [
        one
        for name, rule in (("a", CLOSED), ("b", OPENED))
        for one in find_registered(
            build_rule_configurations(
                [rule], ServiceReference("fleet", name), name=name, server="fleet", exempt=["fleet"]
            )
        )
    ]
    services = {f"fleet/{one}:443": Diagnosis("error", "service", f"{one} has no endpoint", "") for one in ("a", "b")}
    examiner = CallExaminer(cast("Connection", Apiserver("down")), registered, namespace="default")
    found = lines([one async for one in examiner.examine((), services)])
    assert [(one.partition(" of ")[0], one.rpartition("because ")[2]) for one in found] == [
        ("error now refused: CREATE, UPDATE", "a has no endpoint"), ("error now unchecked: CREATE", "b has no endpoint"),
    ]  # fmt: skip


POST = 'failed calling webhook "w": failed to call webhook: Post "https://a/b?timeout=3s"'
PROBES = list_probes(installed_engines())
PROBE = PROBES[0]


def test_each_probe_asks_a_validating_webhook_of_its_engine() -> None:
    webhooks = {one.name: one for one in list_webhooks()}
    assert [webhooks[probe.webhook].engine for probe in PROBES] == ["overrider", "interpret", "crds"]
    for probe in PROBES:
        wanted = webhooks[probe.webhook]
        assert probe.body["apiVersion"] == f"{wanted.group}/{wanted.version}"
        assert probe.plural in wanted.resources
        assert probe.namespaced is (wanted.scope == "Namespaced")
        assert wanted.side_effects in ("None", "NoneOnDryRun")


def test_the_path_has_the_namespace_of_namespaced_objects() -> None:
    assert PROBE.build_path("a") == "/apis/apps.openyurt.io/v1alpha1/namespaces/a/yurtappoverriders"
    assert PROBES[1].build_path("a") == "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations"


@pytest.mark.parametrize(
    ("status", "message", "level", "part"),
    [
        (400, f'admission webhook "{PROBE.webhook}" denied the request: entries', "ok", ""),
        (400, 'admission webhook "policy.example.org" denied the request: no', "unknown", "--namespace"),
        (201, "", "error", "--namespace"),
        (403, 'cannot create resource "yurtappoverriders"', "unknown", "verbs: [create]"),
        (404, "404 page not found", "unknown", "definition of yurtappoverriders.apps.openyurt.io"),
        (422, "YurtAppOverrider is invalid", "unknown", "correct"),
        (403, 'pods "a" is forbidden: exceeded quota: q', "unknown", "correct"),
        (500, 'failed calling webhook "w": the server is currently unable to handle the request', "error", "readyz"),
        (500, 'failed calling webhook "w": x509: certificate signed by unknown authority', "error", "caBundle"),
        (500, 'failed calling webhook "w": x509: certificate has expired or is not yet valid', "error", "NTP"),
        (500, 'failed calling webhook "w": x509: certificate is valid for a, not b', "error", "dns_names"),
        (500, 'failed calling webhook "w": dial tcp: connect: connection refused', "error", "start the server"),
        (500, 'failed calling webhook "w": no endpoints available for service "w"', "error", "no Pod"),
        (500, 'failed calling webhook "w": service "w" not found', "error", "create the Service"),
        (500, 'failed calling webhook "w": failed to call webhook: Not Found', "error", "enable the engine"),
        (500, 'failed calling webhook "w": context deadline exceeded', "error", "NetworkPolicy"),
        (500, 'failed calling webhook "w": net/http: TLS handshake timeout', "error", "NetworkPolicy"),
        (500, 'failed calling webhook "w": no such host', "error", "DNS"),
        (500, f"{POST}: http: server gave HTTP response to HTTPS client", "error", "HTTPS only"),
        (500, f"{POST}: EOF", "error", "log of the server"),
        (500, f"{POST}: couldn't get version/kind; json parse error: invalid character", "error", "another server"),
        (500, f"{POST}: the server could not find the requested resource", "error", "another server"),
        (500, 'failed calling webhook "w": something else', "error", "log of the server"),
    ],
)
def test_each_answer_has_a_meaning_and_a_remedy(status: int, message: str, level: str, part: str) -> None:
    found = judge(PROBE, status, message, namespace="a")
    assert (found.level, part in found.remedy) == (level, True)
    assert bool(found.remedy) is (level != "ok")
