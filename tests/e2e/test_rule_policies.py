"""A rule with an expression decides the same as a webhook of ours and as a policy of a real kube-apiserver."""

import base64
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from fleethook.admission.policy import API_VERSION, compile_policy
from fleethook.admission.rule import Rule
from fleethook.admission.rules_file import load_rules
from tests.e2e.cluster import CRDS, Api, is_established
from tests.serving import Server, serving
from tests.waiting import wait_for

RULES: Final = """
from fleethook.admission import validate

HERE = {"matchLabels": {"rules": "here"}}


@validate("v1", "Pod", namespace_selector=HERE, message="use a fixed tag",
          expression="object.spec.containers.all(c, c.image.contains(':') && !c.image.endsWith(':latest'))")
def no_latest(): ...


@validate("apps/v1", "Deployment", on="UPDATE", namespace_selector=HERE, message="never scale down",
          expression="object.spec.replicas >= oldObject.spec.replicas",
          match_conditions={"no-admin": "request.userInfo.username != 'root' && request.name != 'free'"})
def grows(): ...


@validate("apps/v1", "Deployment", subresource="scale", on="UPDATE", namespace_selector=HERE, message="at most 5",
          expression="object.spec.replicas <= 5 && request.subResource == 'scale' && oldObject.spec.replicas > 0")
def scale(): ...


@validate("v1", "Namespace", on="CREATE", scope="Cluster", message=' not "a" {{team}} ',
          object_selector={"matchExpressions": [{"key": "team", "operator": "Exists"}]},
          expression="object.metadata.labels.team.matches('^[a-z]+$')")
def teams(): ...


@validate("networking.k8s.io/v1", "NetworkPolicy", on=("CREATE", "DELETE"), namespace_selector=HERE, message="selects all",
          expression="(request.operation == 'DELETE' ? oldObject : object).spec.podSelector.?matchLabels.hasValue()")
def policies(): ...


@validate("*/*", "*", on="CREATE", scope="Namespaced", namespace_selector=HERE, message="a bad name",
          expression="!object.metadata.?name.orValue('').startsWith('bad-')")
def names(): ...


@validate("v1", "ConfigMap", on="DELETE", namespace_selector=HERE, message="it is kept",
          object_selector={"matchLabels": {"keep": "yes"}}, expression="object != null || oldObject.data.size() > 5")
def kept(): ...


@validate("v1", "ConfigMap", on="CREATE", namespace_selector=HERE, message="wrong mode",
          object_selector={"matchLabels": {"fails": "closed"}}, expression="object.data.mode == 'good'")
def fails_closed(): ...


@validate("v1", "ConfigMap", on="CREATE", namespace_selector=HERE, message="wrong mode", failure_policy="Ignore",
          object_selector={"matchLabels": {"fails": "open"}}, expression="object.data.mode == 'good'")
def fails_open(): ...


@validate("v1", "ConfigMap", on="CREATE", namespace_selector=HERE, message="too many",
          object_selector={"matchLabels": {"expensive": "yes"}},
          expression="object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != 'x')))")
def expensive(): ...


@validate("v1", "Pod", on="UPDATE", subresource="ephemeralcontainers", namespace_selector=HERE, message="use a tag",
          expression="object.spec.?ephemeralContainers.orValue([]).all(c, c.image.contains(':'))")
def debugs(): ...


@validate("v1", "Pod", on="CONNECT", subresource="exec", namespace_selector=HERE, message="no shells",
          expression="request.name != 'quiet' && object.command[0] != 'sh'")
def runs(): ...


@validate("example.com/v1", "Person", resource="people", namespace_selector=HERE, message="it's no: {a: b} # 100 % ü",
          expression="object.spec.age >= 18")
def adults(): ...


@validate("v1", "ConfigMap", object_selector={"matchLabels": {"condition": "closed"}}, namespace_selector=HERE,
          message="refused", expression="false",
          match_conditions={"known": "request.name != 'skipped'", "fails": "object.data.none == 'x'"})
def condition_fails_closed(): ...


@validate("v1", "ConfigMap", object_selector={"matchLabels": {"condition": "open"}}, namespace_selector=HERE,
          message="refused", expression="false", failure_policy="Ignore",
          match_conditions={"fails": "object.data.none == 'x'"})
def condition_fails_open(): ...
"""
_RESOURCES: Final = {
    "Pod": "/api/v1/{}/pods",
    "ConfigMap": "/api/v1/{}/configmaps",
    "Deployment": "/apis/apps/v1/{}/deployments",
    "Scale": "/apis/apps/v1/{}/deployments",
    "Namespace": "/api/v1/namespaces",
    "Person": "/apis/example.com/v2/{}/people",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/{}/networkpolicies",
}
_COLLECTIONS: Final = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_REGISTRATION: Final = f"/apis/{API_VERSION}"


class Case(NamedTuple):
    """A request, and whether the rules admit it."""

    name: str
    operation: str
    document: dict[str, Any]
    allowed: bool
    subresource: str = ""


class Verdict(NamedTuple):
    """The answer of kube-apiserver: the message has neither the webhook nor the policy, and is ``""`` for a failure."""

    allowed: bool
    code: int
    message: str


def make_pod(image: str, name: str = "web") -> dict[str, Any]:
    spec = {"containers": [{"name": "web", "image": image}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def make_deployment(name: str, replicas: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def make_map(name: str, labels: dict[str, str], **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}


def make_scale(name: str, replicas: int) -> dict[str, Any]:
    spec = {"replicas": replicas}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": spec}


def make_namespace(team: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rules-e2e", "labels": {"team": team}}}


def make_debugged(image: str) -> dict[str, Any]:
    pod = make_pod("web:1", "noisy")
    pod["spec"]["ephemeralContainers"] = [{"name": "debug", "image": image}]
    return pod


def make_person(age: int) -> dict[str, Any]:
    return {"apiVersion": "example.com/v2", "kind": "Person", "metadata": {"name": "ann"}, "spec": {"age": age}}


def make_policy(name: str, **labels: str) -> dict[str, Any]:
    spec = {"podSelector": {"matchLabels": labels}}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}


MANY: Final = {f"key-{number:03}": "x" for number in range(130)}
STORED: Final = (
    make_deployment("shop", 3), make_deployment("free", 3), make_map("kept", {"keep": "yes"}, a="1"),
    make_map("large", {"keep": "yes"}, **dict(itertools.islice(MANY.items(), 6))), make_map("other", {}),
    make_policy("some", a="b"), make_policy("all"), make_pod("web:1", "noisy"),
)  # fmt: skip
CASES: Final = (
    Case("a tag", "CREATE", make_pod("web:1"), True),
    Case("the tag latest", "CREATE", make_pod("web:latest"), False),
    Case("no tag", "CREATE", make_pod("web"), False),
    Case("more replicas", "UPDATE", make_deployment("shop", 4), True),
    Case("fewer replicas", "UPDATE", make_deployment("shop", 2), False),
    Case("fewer replicas where a condition is false", "UPDATE", make_deployment("free", 2), True),
    Case("few by scale", "UPDATE", make_scale("shop", 5), True, "scale"),
    Case("many by scale", "UPDATE", make_scale("shop", 6), False, "scale"),
    Case("a team", "CREATE", make_namespace("web"), True),
    Case("a team in upper case", "CREATE", make_namespace("Web"), False),
    Case("a policy", "CREATE", make_policy("new", a="b"), True),
    Case("a policy that selects all", "CREATE", make_policy("new"), False),
    Case("the deletion of a policy", "DELETE", make_policy("some"), True),
    Case("the deletion of a policy that selects all", "DELETE", make_policy("all"), False),
    Case("a bad name", "CREATE", make_policy("bad-name", a="b"), False),
    Case("a command", "CONNECT", make_pod("web:1", "noisy"), False, "exec"),
    Case("a debugger", "UPDATE", make_debugged("web:1"), True, "ephemeralcontainers"),
    Case("a debugger without a tag", "UPDATE", make_debugged("web"), False, "ephemeralcontainers"),
    Case("an adult by another version", "CREATE", make_person(18), True),
    Case("a child by another version", "CREATE", make_person(17), False),
    Case("a condition without a result under Fail", "CREATE", make_map("m", {"condition": "closed"}), False),
    Case("a false condition beside it", "CREATE", make_map("skipped", {"condition": "closed"}), True),
    Case("a condition without a result under Ignore", "CREATE", make_map("m", {"condition": "open"}), True),
    Case("a deletion", "DELETE", STORED[2], False),
    Case("a deletion that the expression admits", "DELETE", STORED[3], True),
    Case("a deletion that the selector leaves out", "DELETE", STORED[4], True),
    Case("the right mode", "CREATE", make_map("m", {"fails": "closed"}, mode="good"), True),
    Case("a wrong mode", "CREATE", make_map("m", {"fails": "closed"}, mode="bad"), False),
    Case("an error under Fail", "CREATE", make_map("m", {"fails": "closed"}, other="x"), False),
    Case("an error under Ignore", "CREATE", make_map("m", {"fails": "open"}, other="x"), True),
    Case("a wrong mode under Ignore", "CREATE", make_map("m", {"fails": "open"}, mode="bad"), False),
    Case("few keys", "CREATE", make_map("m", {"expensive": "yes"}, a="1", b="2"), True),
    Case("more than the limit of the cost", "CREATE", make_map("m", {"expensive": "yes"}, **MANY), False),
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("rules")
    (found / "rules.py").write_text(RULES)
    return found


@pytest.fixture(scope="module")
def rules(directory: Path) -> tuple[Rule, ...]:
    return load_rules([directory / "rules.py"])


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[Server]:
    with serving(directory, "--hooks", str(directory / "rules.py"), manifests=None) as running:
        yield running


def send(api: Api, namespace: str, case: Case) -> Verdict:
    """Send a request as a dry run."""
    document = case.document
    path = _RESOURCES[document["kind"]].format(f"namespaces/{namespace}")
    named = f"{path}/{document['metadata']['name']}{case.subresource and '/'}{case.subresource}"
    method, path = {
        "CREATE": ("POST", path), "UPDATE": ("PUT", named), "DELETE": ("DELETE", named), "CONNECT": ("POST", named),
    }[case.operation]  # fmt: skip
    query = {"command": "sh"} if case.operation == "CONNECT" else {"dryRun": "All"}
    status, body, _ = api.call(method, path, None if case.operation == "DELETE" else document, **query)
    if status < 300:
        return Verdict(True, 0, "")
    text = body["message"]
    # Only the message of a failure quotes the expression or the rule.
    if "resulted in error" in text or "failurePolicy" in text:
        return Verdict(False, 0, "")
    _, denied, message = text.replace("denied the request: ", "denied request: ").partition("denied request: ")
    assert denied, body
    return Verdict(False, body["code"], message)


def decide_all(api: Api, namespace: str, registered: list[dict[str, Any]]) -> dict[str, Verdict]:
    """Return the verdict of each case while the objects exist that decide."""
    paths = [f"{_REGISTRATION}/{_COLLECTIONS[one['kind']]}" for one in registered]
    created = []
    try:
        for path, one in zip(paths, registered, strict=True):
            api.create(path, one)
            created.append(f"{path}/{one['metadata']['name']}")
        for case in CASES:
            # kube-apiserver learns of its configuration with a delay; admissions before that prove nothing.
            if not case.allowed:
                wait_for(lambda case=case: not send(api, namespace, case).allowed, what=f"{case.name} is refused")
        return {case.name: send(api, namespace, case) for case in CASES}
    finally:
        for one in created:
            api.delete(one)
        for case in CASES:
            # No kubelet answers an admitted CONNECT.
            if case.operation != "CONNECT":
                wait_for(lambda case=case: send(api, namespace, case).allowed, what=f"{case.name} is admitted again")


@pytest.fixture
def people(admin: Api) -> Iterator[None]:
    """A custom resource with an irregular plural and two versions."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": one, "served": True, "storage": one == "v1", "schema": schema} for one in ("v1", "v2")]
    names = {"plural": "people", "singular": "person", "kind": "Person"}
    spec = {"group": "example.com", "scope": "Namespaced", "versions": versions, "names": names}
    name, kind = "people.example.com", "CustomResourceDefinition"
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    admin.create(CRDS, definition)
    wait_for(lambda: is_established(admin, name), what="the custom resource is served")
    yield
    admin.delete(f"{CRDS}/{name}")


def build_webhooks(rules: tuple[Rule, ...], server: Server) -> dict[str, Any]:
    """Return the registration of the rules, from the constraints of their policies."""
    webhooks = []
    for rule in rules:
        spec = compile_policy(rule)[0]["spec"]
        constraints = spec["matchConstraints"]
        webhooks.append(
            {
                "name": f"{rule.name}.hooks.fleethook.io",
                "rules": constraints["resourceRules"],
                "namespaceSelector": constraints.get("namespaceSelector", {}),
                "objectSelector": constraints.get("objectSelector", {}),
                "matchConditions": spec.get("matchConditions", []),
                "failurePolicy": spec["failurePolicy"],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": f"https://localhost:{server.port}/hooks/validate/{rule.name}",
                    "caBundle": base64.b64encode(server.authority.read_bytes()).decode(),
                },
            }
        )
    kind = "ValidatingWebhookConfiguration"
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "rules-e2e"}, "webhooks": webhooks}


@pytest.mark.usefixtures("people")
def test_policies_and_webhooks_give_the_same_verdicts_and_messages(
    admin: Api, namespace: str, rules: tuple[Rule, ...], server: Server
) -> None:
    admin.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"rules": "here"}}})
    for document in STORED:
        admin.create(_RESOURCES[document["kind"]].format(f"namespaces/{namespace}"), document)
    by_policy = decide_all(admin, namespace, [one for rule in rules for one in compile_policy(rule)])
    by_webhook = decide_all(admin, namespace, [build_webhooks(rules, server)])
    assert by_policy == by_webhook
    assert {name: one.allowed for name, one in by_policy.items()} == {case.name: case.allowed for case in CASES}
    assert by_webhook["a team in upper case"].message == 'not "a" {{team}}'
    assert by_webhook["the tag latest"] == Verdict(False, 403, "use a fixed tag")
