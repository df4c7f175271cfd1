"""Reading and writing the match condition that names the subjects with an overrider."""

from typing import Final, NamedTuple

from app.kube.connection import APPLY_PATCH, Connection
from app.kube.errors import APIError
from app.model.json import JSONObject
from app.registration.selection import bound_condition_of
from app.registration.webhooks import API_VERSION, CONFIGURATION_NAME, MUTATING, SELECTED, configuration_path

_FIELD_MANAGER: Final = "fleethook-selection"
_PATH: Final = configuration_path(MUTATING)


class Registered(NamedTuple):
    """The webhooks for workloads, as they are registered."""

    resource_version: str
    conditions: dict[str, JSONObject | None]
    """The condition of each webhook, None where there is none."""

    @property
    def expression(self) -> str | None:
        """What the conditions say, None if a webhook has none."""
        expressions = [condition["expression"] if condition else None for condition in self.conditions.values()]
        return expressions[0] if expressions and None not in expressions else None


class ConditionClient:
    """Writes by server-side apply of that one element of ``matchConditions``.

    Its field manager is its own: Helm, GitOps tools and ``serve --register`` keep what they own, and nobody undoes
    another's part. Several replicas write; each write fails if the configuration has changed since it was read.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    async def read(self) -> Registered | None:
        """Return what is registered, None if nothing is; raises APIError, UnreachableError."""
        try:
            present = await self._connection.json("GET", _PATH)
        except APIError as error:
            if error.code == 404:
                return None
            raise
        webhooks = {webhook["name"]: webhook for webhook in present.get("webhooks") or ()}
        conditions = {name: bound_condition_of(webhooks[name]) for name in SELECTED if name in webhooks}
        return Registered(present["metadata"].get("resourceVersion") or "", conditions) if conditions else None

    async def write(self, registered: Registered, condition: JSONObject | None) -> None:
        """Set the condition of all webhooks for workloads, or take it back.

        Args:
            registered: What is registered.
            condition: The new condition. With None, everything that this field manager has applied is removed.

        Raises:
            APIError: The server refuses it; 409 if the configuration has changed.
            UnreachableError: There is no answer.
        """
        names = registered.conditions if condition is not None else ()
        body: JSONObject = {
            "apiVersion": API_VERSION,
            "kind": MUTATING,
            "metadata": {"name": CONFIGURATION_NAME, "resourceVersion": registered.resource_version},
            "webhooks": [{"name": name, "matchConditions": [condition]} for name in names],
        }
        query = {"fieldManager": _FIELD_MANAGER, "force": "true"}
        await self._connection.request("PATCH", _PATH, query=query, body=body, content_type=APPLY_PATCH)
