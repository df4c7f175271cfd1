"""Reading the objects of a cluster with list requests, once for a command. Nothing is written."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fleethook.cli.command_line import fail
from fleethook.cli.output.text_output import show_progress, write_error
from fleethook.cluster.api_errors import FORBIDDEN, APIError, UnreachableError
from fleethook.cluster.kubernetes.list_reading_and_decoding import (
    EVERY_CLUSTER,
    EVERY_SHARD,
    decode_page,
    find_list_path,
    identified,
    is_required,
)
from fleethook.cluster.kubernetes.watched_resources import CACHED, WORKSPACES, WatchedResource
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.model.json import JSONObject, as_object

_MAX_CLUSTERS: Final = 5
# kcp's RBAC has no opinion on requests to all logical clusters, and its front proxy refuses them: kcp,
# pkg/authorization/local_authorizer.go and pkg/proxy.
_KCP_REMEDY: Final = (
    "use the kubeconfig of a shard, not of the front proxy, with the context shard-base that kcp writes or another "
    "user of system:masters; or have kcp's authorization webhook allow"
)


def describe_missing(resources: Sequence[WatchedResource], *, where: Sequence[str]) -> str:
    """Return the rules that allow to list resources, as a sentence with YAML that fits into a role.

    Args:
        resources: Resources that the user may not list.
        where: Paths of the logical clusters of a kcp in which they are listed, such as ``/clusters/*``.
    """
    sentences = []
    # An object of one namespace needs a Role there.
    for namespace in dict.fromkeys(resource.only[0] if resource.only else "" for resource in resources):
        inside = [one for one in dict.fromkeys(resources) if (one.only[0] if one.only else "") == namespace]
        rules = _format_rules([(resource.group, resource.plural, "list") for resource in inside])
        if EVERY_CLUSTER in where:
            return f"{_KCP_REMEDY}, in {EVERY_CLUSTER}: {rules}"
        role = f"a Role in the namespace {namespace}" if namespace else "a ClusterRole"
        clusters = f" in {', '.join(where[:_MAX_CLUSTERS])}" if where else ""
        sentences.append(f"add to {role} that is bound to the user{clusters}: {rules}")
    return "; ".join(sentences)


def describe_rules(rights: Collection[tuple[str, str, str]], *, subject: str = "the user") -> str:
    """Return the rules of a ClusterRole that give rights, each a group, a resource and a verb, as a sentence."""
    return f"add to a ClusterRole that is bound to {subject}: {_format_rules(rights)}"


def _format_rules(rights: Collection[tuple[str, str, str]]) -> str:
    """Return the rules of a role in YAML: the resources of a group that need the same verbs are one rule."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for group, resource, verb in rights:
        verbs.setdefault((group, resource), []).append(verb)
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), given in verbs.items():
        resources.setdefault((group, tuple(sorted(given))), []).append(resource)
    return ", ".join(
        f'{{apiGroups: ["{group}"], resources: [{", ".join(plurals)}], verbs: [{", ".join(given)}]}}'
        for (group, given), plurals in resources.items()
    )


if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection

CLUSTER: Final = "cluster"
"""The source of objects that were not read from a file, for messages."""
_PAGE_SIZE: Final = "500"  # as kubectl
_NOT_SERVED: Final = 404
_EXPIRED: Final = 410

Keep = Callable[[msgspec.Raw], bool]
Show = Callable[[str], None]


class ListRequest(NamedTuple):
    """A list to read.

    Attributes:
        resource: The resource.
        prefix: Prefix of its path: ``/clusters/NAME`` for a logical cluster, ``/clusters/*`` for all of them.
    """

    resource: WatchedResource
    prefix: str = ""


class UnservedError(Exception):
    """The apiserver serves no version of a resource; the text has its last answer."""


def read_cluster(
    resources: Sequence[WatchedResource],
    kubeconfig: Path | None,
    *,
    context: str | None,
    kcp: bool = False,
    cache: Path | None = None,
) -> list[Document]:
    """Return the objects of a cluster, one list after the other. Exits with a message if the cluster cannot be read.

    Args:
        resources: Resources to read. A custom resource that the apiserver does not serve has no objects.
        kubeconfig: File with the credentials, None for the service account of this pod.
        context: Context of the kubeconfig, None for its current context.
        kcp: Whether to read all logical clusters of a kcp.
        cache: Kubeconfig of the cache server of a kcp, which has some resources of all shards; None for one shard.
    """
    prefix = EVERY_CLUSTER if kcp else ""
    cached = [resource for resource in resources if resource in CACHED] if cache is not None else []
    lists = read_lists([ListRequest(one, prefix) for one in resources if one not in cached], kubeconfig, context)
    if cached:
        lists += read_lists([ListRequest(watched_resource, EVERY_SHARD) for watched_resource in cached], cache, None)
    return lists


def read_lists(lists: Sequence[ListRequest], kubeconfig: Path | None, context: str | None) -> list[Document]:
    """Return the objects of several lists; arguments and exits as for `read_cluster`."""

    async def read() -> list[Document]:
        with show_progress() as show:
            return [document async for document in stream_lists(lists, kubeconfig, context=context, show=show)]

    return asyncio.run(read())


async def stream_lists(
    lists: Sequence[ListRequest], kubeconfig: Path | None, *, context: str | None, show: Show
) -> AsyncIterator[Document]:
    """Yield the objects of several lists, with one page in memory. Exits with a message if they cannot be read."""
    from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415 - see fleethook.cluster

    try:
        async with Connection(kubeconfig, context=context) as connection:
            async for document in stream_listed(connection, lists, show=show):
                yield document
    except (APIError, UnreachableError) as error:
        fail(f"cannot read the cluster: {error}")


_ACCESS: Final = "/apis/authorization.k8s.io/v1"
Right = tuple[str, str, str]
"""A group, a resource, which may have a subresource, and a verb."""


async def list_missing(
    connection: "Connection", rights: Sequence[Right], *, prefix: str = "", subject: JSONObject | None = None
) -> list[Right]:
    """Return the rights that a user lacks; raises APIError, UnreachableError.

    Args:
        connection: Connection to the apiserver.
        rights: The rights.
        prefix: Prefix of the paths, such as ``/clusters/root``.
        subject: The members ``user`` and ``groups`` of another user than the one of the connection.
    """
    kind = "SelfSubjectAccessReview" if subject is None else "SubjectAccessReview"

    async def may(right: Right) -> bool:
        group, resource, verb = right
        plural, _, subresource = resource.partition("/")
        attributes: JSONObject = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
        spec: JSONObject = {**(subject or {}), "resourceAttributes": attributes}
        body: JSONObject = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        answer = as_object(await connection.json("POST", f"{prefix}{_ACCESS}/{kind.lower()}s", body=body))
        return as_object(answer.get("status")).get("allowed") is True

    found = await asyncio.gather(*map(may, rights))
    return [right for right, allowed in zip(rights, found, strict=True) if not allowed]


async def stream_listed(
    connection: "Connection", lists: Sequence[ListRequest], *, show: Show
) -> AsyncIterator[Document]:
    """Yield the objects of several lists; raises APIError, UnreachableError. Exits as `read_cluster` does.

    Args:
        connection: Connection to the apiserver.
        lists: The lists.
        show: Shows the progress.
    """
    refused: list[tuple[ListRequest, APIError]] = []
    unserved: list[tuple[ListRequest, UnservedError]] = []
    for number, one in enumerate(lists):
        show(f"{number}/{len(lists)} Reading {one.resource.name}")
        try:
            async for document in stream_resource(connection, one.resource, prefix=one.prefix):
                yield Document(document, CLUSTER, 0)
        except (APIError, UnservedError) as error:
            if isinstance(error, APIError) and error.code != FORBIDDEN:
                raise
            if one.resource == WORKSPACES:
                # They only add paths as names of clusters, so commands work without them.
                write_error(f"note: logical clusters are known by name only: {error}")
            elif isinstance(error, UnservedError):
                unserved.append((one, error))
            else:
                refused.append((one, error))
    show("")
    if refused:
        where = sorted({one.prefix for one, _ in refused if one.prefix})
        fail(
            *(f"cannot read the cluster: {error}" for _, error in refused),
            describe_missing([one.resource for one, _ in refused], where=where),
        )
    if unserved:
        _report_unserved(unserved, connection.host, every=len(unserved) == len(lists))


def _report_unserved(unserved: Sequence[tuple[ListRequest, UnservedError]], host: str, *, every: bool) -> None:
    """Report lists that the apiserver does not serve. Exits if one of them is a list that every apiserver serves."""
    missing = [
        f"{host} does not serve {one.resource.name} at {one.prefix + one.resource.path} ({error}): "
        f"check the URL in the kubeconfig{', the context and --kcp' if one.prefix else ''}"
        for one, error in unserved
        if is_required(one.resource, one.prefix)
    ]
    if missing:
        fail(*missing)
    names = ", ".join(f"{one.prefix}{'/' if one.prefix else ''}{one.resource.name}" for one, _ in unserved)
    hint = ": check the URL in the kubeconfig" if every else ""
    write_error(f"note: {host} does not serve {names}, so there are no such objects{hint}")


async def read_resource(
    connection: "Connection", resource: WatchedResource, *, prefix: str = "", keep: Keep | None = None
) -> list[JSONObject]:
    """Return the objects of a resource; arguments and errors as for `stream_resource`."""
    return [one async for one in stream_resource(connection, resource, prefix=prefix, keep=keep)]


async def stream_resource(
    connection: "Connection", resource: WatchedResource, *, prefix: str = "", keep: Keep | None = None
) -> AsyncIterator[JSONObject]:
    """Yield the objects of a resource in the best version that the apiserver serves.

    Args:
        connection: Connection to the apiserver.
        resource: The resource.
        prefix: Prefix of its path, such as ``/clusters/*``.
        keep: As for `stream_objects`.

    Raises:
        UnservedError: The apiserver serves no version of the resource.
        APIError, UnreachableError: It cannot be read. An older version is no substitute: it may lack fields.
    """
    answer = ""
    for version in resource.in_versions():
        try:
            async for one in stream_objects(connection, version, prefix=prefix, keep=keep):
                yield one
        except APIError as error:
            if error.code != _NOT_SERVED:
                raise
            answer = str(error)
        else:
            return
    raise UnservedError(answer)


async def stream_objects(
    connection: "Connection",
    resource: WatchedResource,
    *,
    namespace: str = "",
    prefix: str = "",
    keep: Keep | None = None,
) -> AsyncIterator[JSONObject]:
    """Yield the objects of a resource in one version, with one page in memory.

    A list that takes longer than etcd keeps its revision goes on with newer objects, as of several revisions.

    Args:
        connection: Connection to the apiserver.
        resource: The resource.
        namespace: The namespace, ``""`` for all.
        prefix: Prefix of its path, such as ``/clusters/*``.
        keep: Returns whether to yield an object, by its JSON. The others are not decoded. None to yield all.

    Raises:
        APIError, UnreachableError: The next page cannot be read.
    """
    path = await find_list_path(connection, resource, prefix)
    if namespace:
        path = prefix + resource.in_namespace(namespace)
    query = {"limit": _PAGE_SIZE, **resource.selectors}
    while True:
        try:
            page = decode_page(await connection.request("GET", path, query=query), f"{connection.host}{path}")
        except APIError as error:
            if error.code != _EXPIRED or not error.continue_token:
                raise
            query["continue"] = error.continue_token
            continue
        # A resource that a user named has no kind, and the items of a list need not name theirs.
        named = resource._replace(kind=resource.kind or page.kind.removesuffix("List"))
        for item in page.items if keep is None else filter(keep, page.items):
            yield identified(resource.decode(item), named)
        if not page.continue_token:
            return
        query["continue"] = page.continue_token
