"""Examines whether an apiserver reaches each registered webhook. It creates objects only in dry runs.

A dry run creates, with ``dryRun=All``, an object that fleethook refuses. Only a refusal by the expected webhook proves
that the apiserver called it: an admitted object would look the same without any webhook.

A server of rules refuses an object with `PROBE_ANNOTATION` in a dry run on behalf of the named rule, and asks no rule.
So a refusal proves the call, even of a rule that would admit the object or has failurePolicy Ignore.
"""

import json
import re
from collections.abc import AsyncIterator, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fleethook.admission.rule_scope_and_options import DEFAULT_CONDITIONS
from fleethook.cli.doctor.registered_webhooks import Diagnosis, RegisteredWebhook
from fleethook.cluster.api_errors import FORBIDDEN, NOT_FOUND, APIError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.watched_resources import api_path
from fleethook.cluster.registration.rule_webhooks_and_outage import (
    PROBE_ANNOTATION,
    PROBE_ANSWER,
    SUFFIX,
    describe_outage,
)
from fleethook.engine import Probe, enabled_engines, load_reference
from fleethook.model.formats.client_config_and_addresses import WebhookEndpoint
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL, compile_selector
from fleethook.model.formats.text import shorten
from fleethook.model.json import JSONObject, as_object, list_objects, list_texts
from fleethook.model.rule_matching import EVERY
from fleethook.outbound.call_errors_and_failure_log import CallError
from fleethook.outbound.calls_and_retries import HookClient

CHECK: Final = "reachability"
OUTAGE: Final = "outage"
NAME: Final = "fleethook-doctor"
_DENIED: Final = re.compile(r'admission webhook "([^"]+)" denied the request')
_FAILED: Final = re.compile(r'failed calling webhook "([^"]+)": (.*)', re.DOTALL)
_FAILED_RULE: Final = re.compile(r"the rule \S+ failed, and failurePolicy Fail .*", re.DOTALL)
_OK: Final = 200
_REFUSED: Final = (400, 401, 403, 429)

_TRUST: Final = "the CA in caBundle did not issue the server's certificate: let the server keep caBundle, or set its CA"
_NAMES: Final = "issue a certificate for the address of the webhook: the setting dns_names or service of the server"
_OTHER_SERVER: Final = "another server answers, such as a proxy: correct the address in the webhook's clientConfig"
_NETWORK: Final = "restart a server that hangs, or open its port to kube-apiserver (NetworkPolicy, firewall, proxy)"
# Parts of Go's error texts, in the order of the search.
_REMEDIES: Final = (
    ("unknown authority", _TRUST),
    ("has expired or is not yet valid", "renew the server's certificate, and set the clocks of all machines by NTP"),
    ("certificate is valid for", _NAMES),
    ("not valid for any names", _NAMES),
    ("connection refused", "start the server, and compare its port with that of the webhook and of the Service"),
    ("no endpoints available", "find out why no Pod of the server is ready: `kubectl describe pod`, GET /readyz"),
    ("unable to handle the request", "GET /readyz of the server has the reason; all replicas need the same rules"),
    ("no such rule", "give all replicas the same files of rules"),
    ("failed to call webhook: Not Found", "enable the engine of the webhook in the server, or correct its path"),
    ("not found", "create the Service that the webhook names, or correct the name in the registration"),
    ("no such host", "correct the host of the URL, or the DNS of the control plane"),
    ("deadline exceeded", _NETWORK),
    (" timeout", _NETWORK),
    ("parse error", _OTHER_SERVER),
    ("invalid webhook response", _OTHER_SERVER),
    ("0-length response", _OTHER_SERVER),
    ("redirect", _OTHER_SERVER),
    ("could not find the requested resource", _OTHER_SERVER),
    ("HTTP response to HTTPS client", "correct the address of the webhook: fleethook serves HTTPS only"),
)
_OTHER_REMEDY: Final = "look at the log of the server, and at the address in the webhook's clientConfig"


def list_probes(engines: Collection[str]) -> list[Probe]:
    """Return the dry runs for the webhooks of these engines."""
    return [load_reference(one.probe)(NAME) for one in enabled_engines(engines) if one.probe]


def judge(probe: Probe, status: int, message: str, *, namespace: str) -> Diagnosis:
    """Return the meaning of the apiserver's answer to a probe."""
    if (failed := _FAILED.search(message)) is not None:
        return Diagnosis("error", CHECK, f"the apiserver cannot call {failed[1]}: {failed[2]}", _find_remedy(failed[2]))
    if (denied := _DENIED.search(message)) is not None:
        return _judge_denial(probe, denied[1], message)
    if status == _CREATED:
        text = (
            f"the apiserver did not send a new object of {probe.plural} in the namespace {namespace} to {probe.webhook}"
        )
        remedy = (
            "if a namespaceSelector exempts the namespace, name a different one with --namespace; else the call failed "
            "with failurePolicy Ignore, or the webhook is not registered"
        )
        return Diagnosis("error", CHECK, text, remedy)
    if status == FORBIDDEN and "cannot create resource" in message:
        rule = f'{{apiGroups: ["{probe.group}"], resources: [{probe.plural}], verbs: [create]}}'
        remedy = f"add to a role of the user, which then may create them: {rule}"
        return unknown(f"{probe.webhook}: {message}", remedy)
    if status == NOT_FOUND:
        remedy = f"create the namespace {namespace}, or install the definition of {probe.plural}.{probe.group}"
        return unknown(f"{probe.webhook}: {message}", remedy)
    return unknown(f"{probe.webhook}: {status}: {message}", "correct the cause, and repeat this")


def unknown(text: str, remedy: str) -> Diagnosis:
    """Return the finding that something could not be examined."""
    return Diagnosis("unknown", CHECK, f"not examined: {text}", remedy)


def judge_call(url: str, status: int, message: str) -> Diagnosis:
    """Return the meaning of an answer of a webhook to this machine, with status 0 for no answer."""
    # A server that wants other credentials refuses a client. The answer to a review has its uid.
    if status in _REFUSED or (status == _OK and NAME in message):
        text = f"{url} answers this machine, and caBundle trusts its certificate; no dry run was possible"
        return Diagnosis("ok", CHECK, text)
    if status == _OK:
        return Diagnosis("error", CHECK, f"{url} answers with no review: {shorten(message, 80)}", _OTHER_SERVER)
    return Diagnosis("error", CHECK, f"{url} cannot be called from this machine: {message}", _find_remedy(message))


def _judge_denial(probe: Probe, webhook: str, message: str) -> Diagnosis:
    if webhook == probe.webhook:
        if problem := message.partition(f"{PROBE_ANSWER}: ")[2]:
            text = f"the newest files of rules do not load: {problem}"
            return Diagnosis("error", "rules", text, "correct the file; a server that starts with it ends at once")
        return Diagnosis("ok", CHECK, f"the apiserver calls {webhook}, which refused the object of a dry run")
    text = f"{probe.webhook}: the webhook {webhook} refused the dry run"
    return unknown(text, "name with --namespace a namespace that this webhook does not restrict")


def _find_remedy(reason: str) -> str:
    return next((remedy for part, remedy in _REMEDIES if part in reason), _OTHER_REMEDY)


_CREATED: Final = 201
_CALL_SECONDS: Final = 5.0
_NO_RIGHTS: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
# Admitted at each level of the Pod Security Standards.
_POD: Final[JSONObject] = {
    "containers": [{"name": "doctor", "image": "doctor:1", "securityContext": _NO_RIGHTS}],
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
}
_LABELS: Final = {"app": NAME}
_TEMPLATE: Final[JSONObject] = {"metadata": {"labels": _LABELS}, "spec": _POD}
_WORKLOAD: Final[JSONObject] = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}
_JOB: Final[JSONObject] = {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}
# Members that a kind needs. kube-apiserver calls validating webhooks only about valid objects.
_MEMBERS: Final[Mapping[str, JSONObject]] = {
    "Pod": {"spec": _POD},
    "ReplicationController": {"spec": {"selector": _LABELS, "template": _TEMPLATE}},
    "Deployment": {"spec": _WORKLOAD},
    "ReplicaSet": {"spec": _WORKLOAD},
    "DaemonSet": {"spec": _WORKLOAD},
    "StatefulSet": {"spec": {**_WORKLOAD, "serviceName": NAME}},
    "Job": {"spec": _JOB},
    "CronJob": {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": _JOB}}},
    "Service": {"spec": {"ports": [{"port": 80}]}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": NAME, "port": {"number": 80}}}}},
    "NetworkPolicy": {"spec": {"podSelector": {}}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    },
    "RoleBinding": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}},
    "ClusterRoleBinding": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}},
}


class _Asked(NamedTuple):
    """The result of a dry run.

    Attributes:
        diagnosis: Its meaning.
        failed: The name of the webhook that the apiserver could not call, ``""`` for none.
        is_silent: Whether a webhook that gets the object was not called, and failurePolicy hides the reason.
    """

    diagnosis: Diagnosis
    failed: str = ""
    is_silent: bool = False


class _Address(NamedTuple):
    """The server that webhooks call: its URL without the path, or its Service, and the CA."""

    name: str
    ca_bundle: str


def find_address(webhook: RegisteredWebhook) -> _Address:
    """Return the address that a webhook calls."""
    service, url = webhook.service, urlsplit(str(webhook.client_config.get("url") or ""))
    named = f"{service.get('namespace')}/{service.get('name')}:{service.get('port')}" if service else url.netloc
    return _Address(named, str(webhook.client_config.get("caBundle") or ""))


def make_rule_probe(webhook: RegisteredWebhook, api_version: str, resource: JSONObject) -> Probe:
    """Return the dry run that a rule's webhook refuses, of a resource as discovery has it."""
    selector = as_object(webhook.stored.get("objectSelector"))
    labels = {**as_object(selector.get("matchLabels"))}
    for each in list_objects(selector.get("matchExpressions")):
        if each.get("operator") in ("In", "Exists"):
            labels[str(each.get("key"))] = next(iter(list_texts(each.get("values"))), "")
    metadata = {
        "name": NAME,
        "labels": labels,
        "annotations": {PROBE_ANNOTATION: webhook.own.name.removesuffix(SUFFIX)},
    }
    kind = str(resource.get("kind"))
    body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **_MEMBERS.get(kind, {})}
    return Probe(webhook.own.name, str(resource["name"]), namespaced=resource.get("namespaced") is True, body=body)


class CallExaminer:
    """Examines whether an apiserver calls webhooks."""

    def __init__(self, connection: Connection, registered: Sequence[RegisteredWebhook], *, namespace: str) -> None:
        """Store the arguments; ``namespace`` is the preferred one for the dry runs."""
        self._connection: Final = connection
        self._registered: Final = registered
        self._namespace: Final = namespace
        self._namespaces: dict[str, Mapping[str, str]] | None = None

    async def examine(self, probes: Iterable[Probe], services: Mapping[str, Diagnosis]) -> AsyncIterator[Diagnosis]:
        """Yield the findings. If webhooks cannot be called, the first error begins with the writes that this refuses.

        Args:
            probes: The dry runs of engines. Those of rules are made here.
            services: The findings about Services, by the names of `find_address`.
        """
        asked = {probe.webhook: await self._ask(probe, self._namespace) for probe in probes}
        for one in self._registered:
            if one.own.name.endswith(SUFFIX):
                asked[one.own.name] = await self._ask_rule(one)
        # The other findings about rules prove a call, too.
        ok = {name for name, each in asked.items() if each.diagnosis.level == "ok" or each.diagnosis.check != CHECK}
        silent = {name for name, each in asked.items() if each.is_silent}
        down = {name for name, result in services.items() if result.level == "error"}
        stopped = {one.own.name for one in self._registered if find_address(one).name in down}
        broken = self._find_addresses(stopped | {each.failed for each in asked.values()})
        called = await self._call_others(broken | self._find_addresses(ok), self._find_addresses(silent))
        broken |= {address for address, result in called.items() if result.level == "error"}
        # The Service, or the failed call of the same address, has the reason.
        hidden = stopped | ({one.own.name for one in self._registered if find_address(one) in broken} & silent)
        broken |= self._find_addresses(silent)
        results = sorted(asked.items(), key=lambda each: not each[1].failed)
        judged = [(one.failed or name, one.diagnosis) for name, one in results if name not in hidden]
        findings = [
            *((result, {address for address in broken if address.name == name}) for name, result in services.items()),
            *((result, {address}) for address, result in called.items()),
            *_sum_up((self._find_addresses({name}), one) for name, one in judged),
        ]
        for found, addresses in findings:
            explained = addresses & broken if found.level == "error" else set()
            broken -= explained
            affected = [one for one in self._registered if find_address(one) in explained]
            if lines := describe_outage(one.stored for one in affected):
                stored = {one.configuration.lower().replace(" ", "/") for one in affected}
                remedy = f"{found.remedy}; or remove the webhooks: `kubectl delete {' '.join(sorted(stored))}`"
                # The apiserver may reach an address that this machine cannot reach.
                when = "probably" if found in called.values() and not silent else "now"
                yield Diagnosis("error", OUTAGE, f"{when} {lines[0]}, because {found.text}", remedy)
                while lines := lines[1:]:
                    yield Diagnosis("note", OUTAGE, f"{when} {lines[0]}")
                continue
            # Another dry run, or a call from this machine, has examined the address.
            is_known = found.level == "unknown" and not any(one.level == "unknown" for one in called.values())
            yield found._replace(level="note") if is_known else found

    def _find_addresses(self, names: Container[str]) -> set[_Address]:
        return {find_address(one) for one in self._registered if one.own.name in names}

    async def _call_others(self, known: Container[_Address], silent: Container[_Address]) -> dict[_Address, Diagnosis]:
        """Call the addresses about which no dry run has told anything, from this machine."""
        called: dict[_Address, Diagnosis] = {}
        for one in self._registered:
            address = find_address(one)
            if address in known or address in called or (one.service and address in silent):
                continue
            if one.service:
                text = f"whether the apiserver can call the Service {address.name}, and trusts its certificate"
                called[address] = unknown(text, "run this command as a user who may create the objects of the webhooks")
            else:
                called[address] = await self._call(one)
        return called

    async def _call(self, one: RegisteredWebhook) -> Diagnosis:
        """Send a review to the URL of a webhook."""
        url = str(one.client_config.get("url"))
        metadata = {"name": NAME, "annotations": {PROBE_ANNOTATION: one.own.name.removesuffix(SUFFIX)}}
        named = {"group": one.own.group, "version": one.own.version}
        request = {
            "uid": NAME, "operation": "CREATE", "dryRun": True, "object": {"metadata": metadata},
            "kind": {**named, "kind": ""}, "resource": {**named, "resource": next(iter(one.own.resources), "")},
        }  # fmt: skip
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        endpoint = WebhookEndpoint(url, ca_bundle=find_address(one).ca_bundle)
        try:
            async with HookClient(allow_private=True) as client:
                answer = await client.post(endpoint, json.dumps(body).encode(), seconds=_CALL_SECONDS)
        except CallError as error:
            return judge_call(url, error.code, error.reason)
        return judge_call(url, _OK, answer.decode(errors="replace"))

    async def _ask(self, probe: Probe, namespace: str) -> _Asked:
        """Return the result of a dry run."""
        path = probe.build_path(namespace)
        try:
            await self._connection.request("POST", path, query={"dryRun": "All"}, body=probe.body)
        except APIError as error:
            found, failed = judge(probe, error.code, error.message, namespace=namespace), _FAILED.search(error.message)
            if found.level == "ok" and probe.webhook.endswith(SUFFIX):
                found = await self._ask_itself(probe, path) or found
            return _Asked(found, failed[1] if failed else "")
        return _Asked(judge(probe, _CREATED, "", namespace=namespace))

    async def _ask_rule(self, one: RegisteredWebhook) -> _Asked:
        """Return the result of the dry run for a rule."""
        name = one.own.name
        try:
            probe = await self._find_probe(one)
        except APIError as error:
            return _Asked(unknown(f"{name}: {error.message}", "give the user the right to read the resources"))
        if probe is None:
            return _Asked(unknown(f"{name}: it gets no request to create an object of a kind that is served", ""))
        namespace = await self._find_namespace(one) if probe.namespaced else self._namespace
        if not namespace:
            text = f"{name}: its namespaceSelector selects no namespace, so it gets no request now"
            return _Asked(Diagnosis("warning", CHECK, text, "compare the selector with the labels of the namespaces"))
        found = await self._ask(probe, namespace)
        if found.diagnosis.level != "error" or found.failed or found.diagnosis.check != CHECK:
            return found
        if {str(each.get("name")) for each in list_objects(one.stored.get("matchConditions"))} - DEFAULT_CONDITIONS:
            text = f"{name}: the apiserver did not send the object of the dry run, perhaps because of matchConditions"
            return _Asked(unknown(text, ""))
        text = f"the apiserver did not call {name} about a new {probe.body['kind']} in {namespace}, and admitted it"
        remedy = "failurePolicy Ignore hides the reason: compare address and caBundle, or read kube-apiserver's log"
        if one.stored.get("failurePolicy") != "Ignore":
            remedy = _OTHER_SERVER
        return _Asked(Diagnosis("error", CHECK, text, remedy), is_silent=True)

    async def _ask_itself(self, probe: Probe, path: str) -> Diagnosis | None:
        """Return the finding that a rule fails about the object of its dry run, None if it decides."""
        body = {**probe.body, "metadata": {**probe.body["metadata"], "annotations": {}}}
        try:
            await self._connection.request("POST", path, query={"dryRun": "All"}, body=body)
        except APIError as error:
            failed = _FAILED_RULE.search(error.message) or _FAILED.search(error.message)
            if failed and SUFFIX in error.message:
                text = f"now refused: objects that {probe.webhook} sees, such as a new {body['kind']}: {failed[0]}"
                remedy = "correct the rule, and test it by `fleethook rules test`, or look at the log of the server"
                return Diagnosis("error", OUTAGE, text, remedy)
        return None

    async def _find_probe(self, one: RegisteredWebhook) -> Probe | None:
        """Return the dry run of a resource whose creation a webhook gets; raises APIError."""
        for rule in list_objects(one.stored.get("rules")):
            named = [each for each in list_texts(rule.get("resources")) if "/" not in each]
            if not named or not {"CREATE", EVERY} & {*list_texts(rule.get("operations"))}:
                continue
            group, version = (next(iter(list_texts(rule.get(each))), "") for each in ("apiGroups", "apiVersions"))
            plural = named[0]
            if group == EVERY:
                group = ""
            if plural == EVERY and not group:
                plural = "configmaps"
            if (probe := await self._find_served(one, group, version, plural)) is not None:
                return probe
        return None

    async def _find_served(self, one: RegisteredWebhook, group: str, version: str, plural: str) -> Probe | None:
        """Return the dry run of a resource in discovery, None if it is not served; raises APIError."""
        try:
            if version == EVERY:
                served = await self._connection.json("GET", f"/apis/{group}") if group else {}
                version = str(as_object(as_object(served).get("preferredVersion")).get("version") or "v1")
            listed = as_object(await self._connection.json("GET", api_path(group, version)))
        except APIError as error:
            if error.code == FORBIDDEN:
                raise
            return None
        for resource in list_objects(listed.get("resources")):
            name = str(resource.get("name"))
            if plural in (name, EVERY) and "/" not in name and "create" in list_texts(resource.get("verbs")):
                return make_rule_probe(one, f"{group}/{version}" if group else version, resource)
        return None

    async def _find_namespace(self, one: RegisteredWebhook) -> str:
        """Return a namespace that a webhook selects, the preferred one if possible; ``""`` without any."""
        if self._namespaces is None:
            try:
                items = list_objects(as_object(await self._connection.json("GET", "/api/v1/namespaces")).get("items"))
            except APIError:
                items = [{"metadata": {"name": self._namespace, "labels": {NAMESPACE_LABEL: self._namespace}}}]
            named = [as_object(each.get("metadata")) for each in items]
            self._namespaces = {str(each.get("name")): as_object(each.get("labels")) for each in named}
        selects = compile_selector(one.stored.get("namespaceSelector") or {})
        found = sorted(name for name, labels in self._namespaces.items() if selects(labels))
        return self._namespace if self._namespace in found else next(iter(found), "")


def _sum_up(found: Iterable[tuple[set[_Address], Diagnosis]]) -> Iterator[tuple[Diagnosis, set[_Address]]]:
    """Yield findings with their addresses, those with the same remedy about several rules of a server as one."""
    groups: dict[tuple[frozenset[_Address], Diagnosis], list[str]] = {}
    for addresses, one in found:
        groups.setdefault((frozenset(addresses), one._replace(text="")), []).append(one.text)
    for (shared, one), texts in groups.items():
        different = list(dict.fromkeys(texts))
        if len(different) > 1 and all(SUFFIX in text for text in different):
            different = [f"{different[0]} ({len(different) - 1} more: the same)"]
        yield from ((one._replace(text=text), set(shared)) for text in different)
