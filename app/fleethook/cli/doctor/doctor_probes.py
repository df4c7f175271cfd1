"""Server-side dry runs that show whether the apiserver reaches fleethook, and the meaning of its answers. No I/O.

Each probe creates, with ``dryRun=All``, an object that fleethook refuses. Only a refusal by the expected webhook proves
that the apiserver called it: an admitted object would look the same without any webhook.
"""

import re
from typing import Final, NamedTuple

from fleethook.cli.doctor.doctor_findings import Diagnosis
from fleethook.model import karmada, openyurt, operator
from fleethook.model.json import JSONObject

_CHECK: Final = "reachability"
NAME: Final = "fleethook-doctor"
_DENIED: Final = re.compile(r'admission webhook "([^"]+)" denied the request')
_FAILED: Final = re.compile(r'failed calling webhook "([^"]+)": (.*)', re.DOTALL)
_CREATED: Final = 201
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404

_TRUST: Final = "the CA in caBundle did not issue the server's certificate: let the server keep caBundle, or set its CA"
_NAMES: Final = (
    "issue a certificate for the address of the webhook: `fleethook certs issue --name NAME`, or the setting service"
)
_NETWORK: Final = "allow connections from the control plane to the server's port: NetworkPolicy, firewall, konnectivity"
# Parts of Go's error texts, in the order in which they are looked for.
_REMEDIES: Final = (
    ("unknown authority", _TRUST),
    ("has expired or is not yet valid", "renew the server's certificate, and set the clocks of all machines by NTP"),
    ("certificate is valid for", _NAMES),
    ("not valid for any names", _NAMES),
    ("connection refused", "start the server, and compare its port with that of the webhook and of the Service"),
    ("no endpoints available", "look why no Pod of the server is ready: `kubectl describe pod`, GET /readyz"),
    ("failed to call webhook: Not Found", "enable the engine of this webhook in the server (setting engines)"),
    ("not found", "create the Service that the webhook names, or correct the name in the registration"),
    ("no such host", "correct the host of the URL, or the DNS of the control plane"),
    ("deadline exceeded", _NETWORK),
    ("imeout", _NETWORK),
    ("HTTP response to HTTPS client", "correct the address of the webhook: fleethook serves HTTPS only"),
)
_OTHER_REMEDY: Final = "look at the log of the server, and at the address in the webhook's clientConfig"


class Probe(NamedTuple):
    """A dry run.

    Attributes:
        engine: The engine that refuses the object.
        webhook: Name of the webhook that refuses it.
        group: API group of the object.
        version: API version of the object.
        plural: Resource of the object.
        namespaced: Whether the object has a namespace.
        body: The object, without namespace.
    """

    engine: str
    webhook: str
    group: str
    version: str
    plural: str
    namespaced: bool
    body: JSONObject

    def build_path(self, namespace: str) -> str:
        """Return the path of the request that creates the object."""
        scope = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"/apis/{self.group}/{self.version}{scope}/{self.plural}"


def _identify(group: str, version: str, kind: str) -> JSONObject:
    return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": NAME}}


PROBES: Final = (
    Probe(
        "overrider", "rules.yurtappoverrider.fleethook.io", openyurt.GROUP, openyurt.VERSION, "yurtappoverriders", True,
        {
            **_identify(openyurt.GROUP, openyurt.VERSION, "YurtAppOverrider"),
            "subject": {"apiVersion": f"{openyurt.GROUP}/{openyurt.VERSION}", "kind": "YurtAppSet", "name": NAME},
            # Valid for every definition of the kind, and no image name: those are lower case.
            "entries": [{"pools": ["*"], "items": [{"image": {"containerName": "a", "imageClaim": "Doctor:1"}}]}],
        },
    ),
    Probe(
        "interpret", "rules.customizations.interpret.fleethook.io", karmada.GROUP, karmada.VERSION,
        "resourceinterpretercustomizations", False,
        {
            **_identify(karmada.GROUP, karmada.VERSION, "ResourceInterpreterCustomization"),
            "spec": {
                "target": {"apiVersion": "fleethook.io/v1", "kind": "Doctor"},
                "customizations": {"healthInterpretation": {"luaScript": "function"}},
            },
        },
    ),
    Probe(
        "crds", "rules.karmada.crds.fleethook.io", operator.GROUP, operator.VERSION, "karmadas", True,
        {
            **_identify(operator.GROUP, operator.VERSION, "Karmada"),
            "spec": {"crdTarball": {"httpSource": {"url": "ftp://doctor.fleethook.io/crds.tar.gz"}}},
        },
    ),
)  # fmt: skip


def judge(probe: Probe, status: int, message: str, *, namespace: str) -> Diagnosis:
    """Return the meaning of the apiserver's answer to a probe."""
    if (failed := _FAILED.search(message)) is not None:
        return Diagnosis(
            "error", _CHECK, f"the apiserver cannot call {failed[1]}: {failed[2]}", _find_remedy(failed[2])
        )
    if (denied := _DENIED.search(message)) is not None:
        return _judge_denial(probe, denied[1])
    if status == _CREATED:
        text = (
            f"the apiserver did not send a new object of {probe.plural} in the namespace {namespace} to {probe.webhook}"
        )
        remedy = (
            "if the namespace is exempt (namespaceSelector), name another one with --namespace; else the call failed "
            "with failurePolicy Ignore, or the webhook is not registered"
        )
        return Diagnosis("error", _CHECK, text, remedy)
    if status == _FORBIDDEN:
        rule = f'{{apiGroups: ["{probe.group}"], resources: [{probe.plural}], verbs: [create]}}'
        remedy = f"add to a role of the user, for dry runs only: {rule}"
        return Diagnosis("note", _CHECK, f"not checked for {probe.engine}: {message}", remedy)
    if status == _NOT_FOUND:
        remedy = f"create the namespace {namespace}, or install the definition of {probe.plural}.{probe.group}"
        return Diagnosis("note", _CHECK, f"not checked for {probe.engine}: {message}", remedy)
    return Diagnosis(
        "warning", _CHECK, f"not checked for {probe.engine}: {status}: {message}", "correct the cause, and ask again"
    )


def _judge_denial(probe: Probe, webhook: str) -> Diagnosis:
    if webhook == probe.webhook:
        return Diagnosis("ok", _CHECK, f"the apiserver calls {webhook}, which refused an invalid object in a dry run")
    text = f"not checked for {probe.engine}: the webhook {webhook} refused the dry run"
    return Diagnosis("note", _CHECK, text, "name a namespace that this webhook does not restrict with --namespace")


def _find_remedy(reason: str) -> str:
    return next((remedy for part, remedy in _REMEDIES if part in reason), _OTHER_REMEDY)
