"""What comes of calling a webhook, or of not reaching it."""

from collections.abc import Iterator, Mapping
from typing import Final

from app.dispatch.dispatcher import NAMESPACE
from app.dispatch.hooks import EVERY, Hook, Rule
from app.dispatch.lint.codes import Issue
from app.dispatch.lint.served_resources import read_text
from app.dispatch.match import read_labels
from app.model.json import JSON, as_object
from app.store import StoreView

# What an apiserver waits if nothing is said. Who asks for more has thought of answers and not of silence (k8s #128162).
_USUAL_SECONDS: Final = 10.0
# What has to be written for a webhook to come up again: its pods, what makes them, and how they are found.
_OWN_RESOURCES: Final = (("", "pods"), ("apps", "deployments"), ("", "services"))
_WRITES: Final = frozenset({"CREATE", "UPDATE", EVERY})
# A label that an apiserver gives every namespace.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def call_findings(hook: Hook, webhook: Mapping[str, JSON], store: StoreView) -> Iterator[Issue]:
    """Yield what goes wrong when a webhook is called, or does not answer."""
    service = as_object(webhook.get("clientConfig")).get("service")
    if hook.endpoint is None and isinstance(service, dict):
        yield Issue("service-in-logical-cluster", hook.problem)
    if hook.fails_open and hook.seconds > _USUAL_SECONDS:
        text = (
            f"a request waits {hook.seconds:g} s for it when it is down, and goes on without it: "
            f"lower timeoutSeconds to {_USUAL_SECONDS:g} or less"
        )
        yield Issue("slow-ignored", text)
    if hook.fails_open and hook.side_effects not in (None, "None"):
        text = (
            f"sideEffects is {hook.side_effects} and failurePolicy Ignore: what it has done stays done when its "
            "answer is late and the request goes on without it: set failurePolicy to Fail"
        )
        yield Issue("ignored-side-effects", text)
    namespace = read_text(as_object(service).get("namespace"))
    if hook.endpoint is not None and hook.endpoint.service and _locks_out(hook, namespace, store):
        text = (
            f"it has to agree to its own pods in {namespace}, which it cannot while it is down (failurePolicy Fail): "
            f"exclude the namespace with a namespaceSelector on {_NAME_LABEL}"
        )
        yield Issue("self-lockout", text)


def _locks_out(hook: Hook, namespace: str, store: StoreView) -> bool:
    """Return whether a webhook that is down is asked about what it needs to come up.

    What an objectSelector or a condition leaves out cannot be told without the objects, so those count as leaving out.
    """
    if hook.fails_open or hook.conditions or not hook.object_selector.everything:
        return False
    found = store.get(hook.cluster, NAMESPACE, "", namespace)
    labels = {**read_labels(found), _NAME_LABEL: namespace}
    return hook.namespace_selector.selects(labels) and any(map(_is_about_own, hook.rules))


def _is_about_own(rule: Rule) -> bool:
    if rule.scope == "Cluster" or not rule.operations & _WRITES:
        return False
    whole = {resource for resource, subresource in rule.resources if subresource in ("", EVERY)}
    return any(rule.groups & {group, EVERY} and whole & {resource, EVERY} for group, resource in _OWN_RESOURCES)
