"""The kinds of rules in a cluster: those that it serves, and those that rules follow."""

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fleethook.admission.declaration import Declaration, RuleError
from fleethook.admission.rule import Hook
from fleethook.admission.rules_file import load_rules
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.followed_cluster import Followed
from fleethook.engine import EngineStartError
from fleethook.engines.hooks.hooks_settings import HooksSettings
from fleethook.engines.hooks.result_check import Schema, read_schemas
from fleethook.model.formats.text import suggestion
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSONObject, as_object
from fleethook.settings import Settings

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection
    from fleethook.cluster.kubernetes.resources import WatchedResource

_log: Final = logging.getLogger("fleethook.hooks")

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def list_resources(settings: Settings) -> Followed:
    """Return the resources that rules follow; raises EngineStartError."""
    from fleethook.cluster.kubernetes.resources import (  # noqa: PLC0415 - see fleethook.cluster
        WatchedResource,
        decode_object,
    )

    try:
        rules = load_rules(settings.section(HooksSettings).hooks)
    except RuleError as error:
        raise EngineStartError(str(error)) from error
    found = {}
    for api_version, kind, plural in sorted({one for rule in rules for one in rule.declaration.follows}):
        group, version = parse_api_version(api_version)
        found[group, kind] = WatchedResource(group, version, plural, kind, decode_object)
    return Followed(list(found.values()))


def check_followed(rules: Iterable[Hook], followed: "Mapping[GroupKind, WatchedResource]") -> None:
    """Raise RuleError for a rule that follows a kind which the server does not follow completely."""
    for rule in rules:
        for api_version, kind, _ in rule.declaration.follows:
            present = followed.get(GroupKind(parse_api_version(api_version)[0], kind))
            if present is None:
                raise RuleError(
                    f"{rule.place}: the rule {rule.name} follows {kind}, and no rule did so when the server started: "
                    "restart the server"
                )
            if not present.is_complete:
                raise RuleError(
                    f"{rule.place}: the rule {rule.name} follows {kind}, of which other engines of this server read "
                    "only a part: serve the rules by a server of their own"
                )


async def check_served(rules: Iterable[Hook], connection: "Connection") -> None:
    """Raise RuleError for a rule with a kind that an apiserver does not serve; other errors as for `list_unserved`."""
    async for rule, problem in list_unserved(rules, connection):
        raise RuleError(f"{rule.place}: the rule {rule.name}: {problem}")


async def list_unserved(rules: Iterable[Hook], connection: "Connection") -> AsyncIterator[tuple[Hook, str]]:
    """Yield the rules with a kind that an apiserver does not serve, or serves by another plural, and the problem.

    Raises:
        APIError: The apiserver refuses the request.
        UnreachableError: The apiserver does not answer.
    """
    versions: dict[tuple[str, str], Collection[JSONObject]] = {}
    for rule in rules:
        one = rule.declaration
        for group, version, kind, resource in _list_kinds(one):
            if (group, version) not in versions:
                versions[group, version] = await _discover(connection, group, version)
            api_version = f"{group}/{version}" if group else version
            problem = _find_problem(versions[group, version], api_version, kind, resource)
            if problem:
                hint = "" if versions[group, version] else await _list_versions(connection, group)
                yield rule, f"the cluster {problem}{hint}"


def check_defined(rules: Iterable[Hook], definitions: Collection[JSONObject]) -> None:
    """Raise RuleError for a custom resource that the CustomResourceDefinitions of its group do not define.

    Manifests may lack the definitions of a group, so nothing is known about its kinds then.
    """
    for rule in rules:
        for group, version, kind, resource in _list_kinds(rule.declaration):
            of_group = [spec for one in definitions if (spec := as_object(one.get("spec"))).get("group") == group]
            served = [found for spec in of_group for found in _list_served(spec, version)]
            if of_group and (problem := _find_problem(served, f"{group}/{version}", kind, resource)):
                raise RuleError(f"{rule.place}: the rule {rule.name}: a cluster with these manifests {problem}")


def _list_served(spec: Mapping[str, Any], version: str) -> Iterator[JSONObject]:
    """Yield the resources of a CustomResourceDefinition in a version, as discovery does."""
    names = as_object(spec.get("names"))
    versions: Any = spec.get("versions") or ()
    for one in map(as_object, versions):
        if one.get("name") == version and one.get("served"):
            plural = str(names.get("plural"))
            yield {"name": plural, "kind": names.get("kind")}
            for sub in as_object(one.get("subresources")):
                yield {"name": f"{plural}/{sub}", "kind": "Scale" if sub == "scale" else names.get("kind")}


def _list_kinds(one: Declaration) -> Iterable[tuple[str, str, str, str]]:
    """Yield group, version, kind and resource of each kind that a rule names."""
    if "*" not in (one.group, one.version, one.resource):
        path = f"{one.resource}/{one.subresource}" if one.subresource not in ("", "*") else one.resource
        # A subresource has a kind of its own, such as Scale.
        yield one.group, one.version, "" if one.subresource else one.kind, path
    for api_version, kind, plural in one.follows:
        yield *parse_api_version(api_version), kind, plural


def find_definition_name(one: Declaration) -> str | None:
    """Return the name of the CustomResourceDefinition whose objects a rule changes; None for built-in kinds."""
    is_custom = one.mutates and "." in one.group and "*" not in (one.version, one.resource)
    return f"{one.resource}.{one.group}" if is_custom and not one.subresource else None


async def read_definition(connection: "Connection", name: str) -> tuple[Schema, ...]:
    """Return the schemas of a CustomResourceDefinition, none if it does not exist or cannot be read.

    Raises:
        UnreachableError: The apiserver does not answer.
    """
    from fleethook.cluster.registration.server_side_apply import get_object  # noqa: PLC0415 - see fleethook.cluster

    try:
        found = await get_object(connection, f"{_DEFINITIONS}/{name}")
    except APIError as error:
        _log.info("the results of rules are not checked with the schema of %s: %s", name, error)
        return ()
    return tuple(read_schemas(found or {}))


async def _discover(connection: "Connection", group: str, version: str) -> Collection[JSONObject]:
    from fleethook.cluster.kubernetes.resources import api_path  # noqa: PLC0415 - see fleethook.cluster
    from fleethook.cluster.registration.server_side_apply import get_object  # noqa: PLC0415 - as above

    found = await get_object(connection, api_path(group, version))
    return [dict(as_object(one)) for one in (found or {}).get("resources") or ()]


async def _list_versions(connection: "Connection", group: str) -> str:
    """Return the end of a message with the versions of a group that a cluster serves, ``""`` for none."""
    from fleethook.cluster.registration.server_side_apply import get_object  # noqa: PLC0415 - as above

    found = await get_object(connection, f"/apis/{group}") if group else None
    versions = [str(as_object(one).get("groupVersion")) for one in (found or {}).get("versions") or ()]
    return f"; it serves {', '.join(versions)}" if versions else ""


def _find_problem(resources: Collection[JSONObject], api_version: str, kind: str, resource: str) -> str:
    names = {str(one.get("name")): str(one.get("kind")) for one in resources}
    if resource in names and kind in ("", names[resource]):
        return ""
    plural = next((name for name, one in names.items() if kind and one == kind and "/" not in name), "")
    if plural:
        remedy = (
            f"give resource={plural!r} for {kind} of {api_version}, or follows=({api_version!r}, {kind!r}, {plural!r})"
        )
        return f"has the plural {plural!r}, not {resource!r}: {remedy}"
    return (
        f"does not serve {kind or resource} of {api_version}{suggestion(kind or resource, [*names, *names.values()])}"
    )
