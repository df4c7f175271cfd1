"""Keeps this server's ResourceInterpreterWebhookConfiguration up to date; only the leader runs it."""

import asyncio
import base64
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.interpret.hooks.interpreter_registration import (
    PLURAL,
    Answers,
    LeftOut,
    Selection,
    build_configuration,
    list_hooks,
    select,
)
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import API_VERSION, CONFIG_MAP, CUSTOMIZATION, INTERPRETER_CONFIGURATION, OWN_CONFIGURATION

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
        from fleethook.cluster.connection import APPLY_PATCH  # noqa: PLC0415 - see app.kube

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
