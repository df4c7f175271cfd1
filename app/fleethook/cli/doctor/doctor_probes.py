"""The questions of ``fleethook doctor`` to an apiserver, dry runs and rights, and the meaning of the answers. No I/O.

A dry run creates, with ``dryRun=All``, an object that fleethook refuses. Only a refusal by the expected webhook proves
that the apiserver called it: an admitted object would look the same without any webhook.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

from fleethook.cli.doctor.doctor_checks import Diagnosis
from fleethook.cli.inputs.cluster_reader import Right, describe_rules
from fleethook.engine import Probe, enabled_engines, load_reference
from fleethook.settings import Settings


def list_rights(engines: Collection[str]) -> list[Right]:
    """Return the rights to follow the kinds on which the answers of these engines depend."""
    settings = Settings.model_construct()
    followed = [load_reference(one.resources)(settings) for one in enabled_engines(engines) if one.resources]
    kinds = dict.fromkeys((one.group, one.plural) for each in followed for one in each.needed if one.only is None)
    return [(group, plural, verb) for group, plural in kinds for verb in ("list", "watch")]


def judge_rights(account: str, missing: Sequence[Right], checked: int) -> Diagnosis:
    """Return the finding about the rights of a service account, ``NAMESPACE/NAME``."""
    if missing:
        text = f"the service account {account} lacks {len(missing)} of the {checked} rights that the server needs"
        return Diagnosis("error", "rights", text, describe_rules(missing, subject="the service account"))
    return Diagnosis("ok", "rights", f"the service account {account} has all {checked} rights that were checked")


CHECK: Final = "reachability"
NAME: Final = "fleethook-doctor"
_DENIED: Final = re.compile(r'admission webhook "([^"]+)" denied the request')
_FAILED: Final = re.compile(r'failed calling webhook "([^"]+)": (.*)', re.DOTALL)
_CREATED: Final = 201
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_SERVER_ERROR: Final = 500

_TRUST: Final = "the CA in caBundle did not issue the server's certificate: let the server keep caBundle, or set its CA"
_NAMES: Final = "issue a certificate for the address of the webhook: the setting dns_names or service of the server"
_NETWORK: Final = "allow connections from the control plane to the server's port: NetworkPolicy, firewall, konnectivity"
# Parts of Go's error texts, in the order of the search.
_REMEDIES: Final = (
    ("unknown authority", _TRUST),
    ("has expired or is not yet valid", "renew the server's certificate, and set the clocks of all machines by NTP"),
    ("certificate is valid for", _NAMES),
    ("not valid for any names", _NAMES),
    ("connection refused", "start the server, and compare its port with that of the webhook and of the Service"),
    ("no endpoints available", "find out why no Pod of the server is ready: `kubectl describe pod`, GET /readyz"),
    ("unable to handle the request", "GET /readyz of the server has the reason; all replicas need the same rules"),
    ("failed to call webhook: Not Found", "enable the engine of this webhook in the server (setting engines)"),
    ("not found", "create the Service that the webhook names, or correct the name in the registration"),
    ("no such host", "correct the host of the URL, or the DNS of the control plane"),
    ("deadline exceeded", _NETWORK),
    ("imeout", _NETWORK),
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
        return _judge_denial(probe, denied[1])
    if status == _CREATED:
        text = (
            f"the apiserver did not send a new object of {probe.plural} in the namespace {namespace} to {probe.webhook}"
        )
        remedy = (
            "if a namespaceSelector exempts the namespace, name a different one with --namespace; else the call failed "
            "with failurePolicy Ignore, or the webhook is not registered"
        )
        return Diagnosis("error", CHECK, text, remedy)
    if status == _FORBIDDEN and "cannot create resource" in message:
        rule = f'{{apiGroups: ["{probe.group}"], resources: [{probe.plural}], verbs: [create]}}'
        remedy = f"add to a role of the user, for dry runs only: {rule}"
        return unknown(f"{probe.webhook}: {message}", remedy)
    if status == _NOT_FOUND:
        remedy = f"create the namespace {namespace}, or install the definition of {probe.plural}.{probe.group}"
        return unknown(f"{probe.webhook}: {message}", remedy)
    return unknown(f"{probe.webhook}: {status}: {message}", "correct the cause, and repeat this")


def unknown(text: str, remedy: str) -> Diagnosis:
    """Return the finding that something could not be examined."""
    return Diagnosis("unknown", CHECK, f"not examined: {text}", remedy)


def find_failed(message: str) -> str:
    """Return the webhook that an apiserver could not call, ``""`` if its answer has another reason."""
    failed = _FAILED.search(message)
    return failed[1] if failed else ""


def judge_call(url: str, status: int, message: str) -> Diagnosis:
    """Return the meaning of an answer of a webhook to this machine, with status 0 for no answer."""
    if status != _NOT_FOUND and 0 < status < _SERVER_ERROR:
        text = f"{url} answers this machine, and caBundle trusts its certificate; no dry run has shown more"
        return Diagnosis("ok", CHECK, text)
    return Diagnosis("error", CHECK, f"{url} cannot be called from this machine: {message}", _find_remedy(message))


def _judge_denial(probe: Probe, webhook: str) -> Diagnosis:
    if webhook == probe.webhook:
        return Diagnosis("ok", CHECK, f"the apiserver calls {webhook}, which refused the object of a dry run")
    text = f"{probe.webhook}: the webhook {webhook} refused the dry run"
    return unknown(text, "name with --namespace a namespace that this webhook does not restrict")


def _find_remedy(reason: str) -> str:
    return next((remedy for part, remedy in _REMEDIES if part in reason), _OTHER_REMEDY)
