"""Builds this server's ResourceInterpreterWebhookConfiguration, with exactly the kinds and operations that it answers.

Karmada considers every operation that a rule names as enabled, and calls only the first webhook by name
(karmada v1.16 pkg/resourceinterpreter/customized/webhook). If a rule names more than the server answers, Karmada fails
where its own interpreters would have answered. If two configurations name one kind, the second is never called.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.interpret.hooks.hook_configuration import (
    CONFIGURATIONS,
    Hook,
    Target,
    is_own,
    matches,
    parse_hooks,
)
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import (
    API_VERSION,
    CONFIG_MAP,
    CUSTOMIZATION,
    INTERPRETER_CONFIGURATION,
    OWN_CONFIGURATION,
    VERSION,
    Operation,
)

WEBHOOK_NAME: Final = "interpret.fleethook.io"
PLURAL: Final = "resourceinterpreterwebhookconfigurations"
_TIMEOUT_SECONDS: Final = 10
_OPERATIONS: Final = tuple(operation for operation in Operation if operation is not Operation.PRUNE)
"""Karmada's operations, in the order of their names in rules."""

Answers = Iterable[tuple[GroupVersionKind, Operation]]


class LeftOut(NamedTuple):
    """A kind and operation that another webhook has already. Karmada never calls a second webhook."""

    kind: GroupVersionKind
    operation: Operation
    webhook: str
    """``CONFIGURATION/WEBHOOK``."""

    def __str__(self) -> str:
        kind = f"{self.kind.api_version} {self.kind.kind}"
        return f"{self.operation} of {kind} is not registered: webhook {self.webhook} already has it"


class Selection(NamedTuple):
    """The rules of a configuration."""

    rules: list[JSONObject]
    left_out: list[LeftOut]


def select(answers: Answers, others: Sequence[Hook]) -> Selection:
    """Return the rules that name exactly the kinds and operations that this server answers.

    Args:
        answers: The kinds and operations that this server answers.
        others: The webhooks that Karmada knows, with or without those of this server.
    """
    rivals = [hook for hook in others if not hook.proposed and not is_own(hook)]
    wanted: dict[GroupVersionKind, set[Operation]] = {}
    left_out = []
    for kind, operation in sorted(answers):
        if operation not in _OPERATIONS:
            continue
        rival = next((hook for hook in rivals if matches(hook, operation, Target(kind, "", namespaced=True))), None)
        if rival is None:
            wanted.setdefault(kind, set()).add(operation)
        else:
            left_out.append(LeftOut(kind, operation, rival.uid))
    return Selection(_group_rules(wanted), left_out)


def _group_rules(wanted: dict[GroupVersionKind, set[Operation]]) -> list[JSONObject]:
    """Return one rule for all kinds of a version with the same operations, because rules match every combination."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for kind, found in sorted(wanted.items()):
        operations = tuple(operation.value for operation in _OPERATIONS if operation in found)
        alike.setdefault((kind.group, kind.version, operations), []).append(kind.kind)
    return [
        {"apiGroups": [group], "apiVersions": [version], "kinds": list(kinds), "operations": list(operations)}
        for (group, version, operations), kinds in alike.items()
    ]


def build_configuration(rules: Sequence[JSONObject], client_config: JSONObject) -> JSONObject:
    """Return the configuration.

    Args:
        rules: As `select` returns them. Without any there is no webhook: Karmada refuses one that has no rules.
        client_config: Where Karmada finds this server, ``caBundle`` included.
    """
    webhook: JSONObject = {
        "name": WEBHOOK_NAME,
        "clientConfig": client_config,
        "rules": list(rules),
        "interpreterContextVersions": [VERSION],
        "timeoutSeconds": _TIMEOUT_SECONDS,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": INTERPRETER_CONFIGURATION.kind,
        "metadata": {"name": OWN_CONFIGURATION, "labels": {"app.kubernetes.io/name": "fleethook"}},
        "webhooks": [webhook] if rules else [],
    }


def list_hooks(configurations: Iterable[tuple[GroupKind, JSONObject]]) -> list[Hook]:
    """Return the webhooks of configurations, in the order in which Karmada matches them."""
    found = [hook for kind, one in configurations if kind in CONFIGURATIONS for hook in parse_hooks(kind, one)]
    return sorted(found, key=lambda hook: hook.uid)


if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection

_log: Final = logging.getLogger(__name__)

PATH: Final = f"/apis/{API_VERSION}/{PLURAL}/{OWN_CONFIGURATION}"
_MANAGER: Final = "fleethook"
_CHECK_SECONDS: Final = 10.0
_NOT_FOUND: Final = 404
_INPUTS: Final = frozenset({CUSTOMIZATION, CONFIG_MAP, INTERPRETER_CONFIGURATION})


def select_from_store(store: Store, answers: Answers) -> Selection:
    """Return the rules for the kinds and operations that no other configuration in the store names."""
    kind = INTERPRETER_CONFIGURATION
    return select(answers, list_hooks((kind, one) for one in store.each("", kind)))


class InterpreterRegistrar:
    """Applies the configuration again whenever customizations, other configurations or the CA bundle change.

    Attributes:
        problem: The error of the last attempt, ``""`` if it succeeded.
        absent: Whether the API server does not serve such configurations.
    """

    def __init__(
        self,
        connection: "Connection",
        store: Store,
        *,
        answers: Callable[[], Answers],
        client_config: Callable[[], JSONObject],
        check_seconds: float = _CHECK_SECONDS,
    ) -> None:
        """Prepare.

        Args:
            connection: To Karmada's apiserver.
            store: Customizations and configurations.
            answers: Returns the kinds and operations that this server answers now.
            client_config: Returns the webhook's ``clientConfig``, including ``caBundle``.
            check_seconds: Seconds between two comparisons.
        """
        self._connection: Final = connection
        self._store: Final = store
        self._answers: Final = answers
        self._client_config: Final = client_config
        self._check_seconds: Final = check_seconds
        self._changed: Final = asyncio.Event()
        self._left_out: list[LeftOut] = []
        self.absent = False
        self.problem = ""

    async def run(self) -> None:
        """Compare after each change and every few seconds, and apply differences, until cancelled."""
        end = self._store.subscribe(self._mark_changed)
        try:
            while True:
                self._changed.clear()
                try:
                    await self.write()
                    self.problem = ""
                except (APIError, UnreachableError) as error:
                    if self.problem != str(error):
                        _log.error("cannot apply the ResourceInterpreterWebhookConfiguration, trying again: %s", error)
                    self.problem = str(error)
                try:
                    async with asyncio.timeout(self._check_seconds):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            end()

    def _mark_changed(self, key: ObjectKey, _before: Stored | None, _after: JSONObject | None) -> None:
        if key.group_kind in _INPUTS:
            self._changed.set()

    async def write(self) -> bool:
        """Apply the configuration if it differs; return whether it differed. Raises APIError, UnreachableError."""
        from fleethook.cluster.connection import APPLY_PATCH  # noqa: PLC0415 - see fleethook.cluster

        found = select_from_store(self._store, self._answers())
        if found.left_out != self._left_out:
            self._left_out = found.left_out
            for one in found.left_out:
                _log.warning("%s", one)
        wanted = build_configuration(found.rules, self._client_config())
        try:
            present = await self._connection.json("GET", PATH)
        except APIError as error:
            if error.code != _NOT_FOUND:
                raise
            present = None
        if present is not None and _has_webhooks(present, wanted):
            return False
        query = {"fieldManager": _MANAGER, "force": "true"}
        try:
            await self._connection.request("PATCH", PATH, query=query, body=wanted, content_type=APPLY_PATCH)
        except APIError as error:
            if error.code != _NOT_FOUND:
                raise
            # The API server is not Karmada's (for example OpenYurt without Karmada), or its CRDs are not installed yet.
            if not self.absent:
                _log.info("the API server does not serve %s: nothing to register", PLURAL)
            self.absent = True
            return False
        self.absent = False
        kinds = sum(len(_read_kinds(rule)) for rule in found.rules)
        _log.info(
            "applied the ResourceInterpreterWebhookConfiguration",
            extra={"fields": {"rules": len(found.rules), "kinds": kinds}},
        )
        return True


def encode_ca_bundle(bundle: bytes) -> str:
    """Return CA certificates (PEM) as the value of ``caBundle``."""
    return base64.b64encode(bundle).decode()


def _read_kinds(rule: JSONObject) -> list[JSON]:
    kinds = rule["kinds"]
    assert isinstance(kinds, list)
    return kinds


def _has_webhooks(present: JSONObject, wanted: JSONObject) -> bool:
    """Return whether the stored configuration has the desired webhooks and no others; API servers add defaults."""
    there, asked = present.get("webhooks") or [], wanted["webhooks"]
    assert isinstance(asked, list)
    if not isinstance(there, list) or len(there) != len(asked):
        return False
    pairs = zip(map(as_object, there), map(as_object, asked), strict=True)
    return all(before.get(name) == value for before, after in pairs for name, value in after.items())
