"""``fleethook explain``: which webhooks a request goes to, and for each other one why not."""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import typer

from app.api.codec import decode_review
from app.cli.explained import Explained, Output, print_all, print_json, print_rows, refusal, row_of
from app.cli.failures import CHECK_FAILED, fail
from app.cli.manifests import documents, values
from app.dispatch.assembly import INDEXES, offline_dispatcher
from app.dispatch.attributes import claimed_cluster
from app.dispatch.call import Deadline
from app.dispatch.dispatcher import Dispatcher
from app.dispatch.equivalents import DEFINITION, equivalents_of, namespaced
from app.dispatch.explain import Explanation
from app.dispatch.explain import explain as explain_request
from app.dispatch.failures import StatusError
from app.dispatch.hooks import PHASES
from app.dispatch.owner import BINDINGS_BY_RESOURCE, find_owner, resolve_cluster
from app.model.admission import API_VERSIONS, KIND, AdmissionRequest, Kind, Resource
from app.model.envelope import BadReviewError
from app.model.gvk import GroupVersionKind, GroupVersionResource, gvk_of
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import (
    API_BINDING,
    API_EXPORT,
    API_RESOURCE_SCHEMA,
    CLUSTER_ANNOTATION,
    LOGICAL_CLUSTER,
    cluster_of,
    is_cluster,
)
from app.store import Store, StoreView, key_of
from app.store.yaml_reader import Document

# As long as an apiserver gives a request; nothing here waits for anybody.
_SECONDS: Final = 34.0
_UID: Final = "00000000-0000-0000-0000-000000000000"
# What says how requests are dispatched, rather than being requested.
_CONFIGURATION: Final = {*PHASES.values(), API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, DEFINITION, LOGICAL_CLUSTER}

_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")


class Operation(StrEnum):
    """What is done to an object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class PhaseName(StrEnum):
    """One of the two phases."""

    MUTATING = "mutating"
    VALIDATING = "validating"


class _Asked(NamedTuple):
    """What the options say of a request, beyond its object."""

    operation: Operation | None
    subresource: str
    user: JSONObject
    old: JSON
    dry_run: bool


class _Subject(NamedTuple):
    """An object or a review, and where it stands."""

    document: JSONObject
    place: str
    cluster: str | None
    """None where neither the options nor the object say it."""


class _Question(NamedTuple):
    """A request to explain."""

    request: AdmissionRequest
    cluster: str
    subject: _Subject
    guess: str = ""
    """What is taken for granted about it, because nothing says it."""


def explain(
    manifests: Annotated[
        Path, typer.Option(help="Directory of manifests: bindings, exports, schemas, webhooks, namespaces.")
    ],
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="Manifest or AdmissionReview, '-' for stdin; may be repeated."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every object of the manifests, each in its cluster.")] = False,
    cluster: Annotated[
        str | None, typer.Option(help="Logical cluster, by name or path, '' for a plain one; else the object's.")
    ] = None,
    operation: Annotated[Operation | None, typer.Option(help="What is done; else the review's, or CREATE.")] = None,
    subresource: Annotated[str, typer.Option(help="Such as status or scale.")] = "",
    old: Annotated[Path | None, typer.Option(help="The object as it is stored, for UPDATE and DELETE.")] = None,
    user: Annotated[str, typer.Option(help="Who asks.")] = "",
    group: Annotated[list[str] | None, typer.Option(help="A group of theirs; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="As a dry run.")] = False,
    phase: Annotated[PhaseName | None, typer.Option(help="Only this phase.")] = None,
    as_kcp: Annotated[bool, typer.Option("--as-kcp", help="Decide as kcp does where no owner is certain.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every answer for every webhook.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.TEXT,
) -> None:
    """Explain which webhooks a request goes to, and for each other one why not.

    Nobody is called: neither webhooks, nor the authorizer, nor conversion webhooks. `--output json` prints one document
    for each object, with `--all` a list. Exits 1 if a request would be refused because the owner is not certain or a
    question has no answer.
    """
    if bool(file) == every:
        fail("give objects with -f, or --all")
    stored = documents([manifests])
    store = Store(INDEXES)
    for document in stored:
        store.put(document.object)
    named = None if cluster is None else _resolved(store, cluster)
    subjects = list(_all(stored, named)) if every else [one for path in file or () for one in _read(path, named)]
    who: JSONObject = {"username": user, "groups": group or []} if user or group else {}
    asked = _Asked(operation, subresource, who, None if old is None else _old(old), dry_run)
    dispatcher = offline_dispatcher(store, as_kcp=as_kcp)
    questions = [_question(store, one, asked) for one in subjects]
    for note in sorted({one.guess for one in questions if one.guess} | set(_unknown(store, questions))):
        sys.stderr.write(f"note: {note}\n")
    explained = asyncio.run(_explained(dispatcher, questions, phase))
    if any(_asks_authorizer(one.explanation) for one in explained):
        sys.stderr.write("note: matchConditions that ask the authorizer have no answer off-line, as in kcp\n")
    if every:
        rows = [row_of(one) for one in explained]
        print_json(rows) if output is Output.JSON else print_rows(rows)
    else:
        phases = tuple(PHASES) if phase is None else (phase.value,)
        print_all(explained, output, phases=phases, verbose=verbose)
    if any(refusal(one.explanation) for one in explained):
        raise typer.Exit(CHECK_FAILED)


def _resolved(store: Store, cluster: str) -> str:
    if cluster and not is_cluster(cluster):
        fail(f"--cluster: {cluster!r} is not the name or the path of a logical cluster")
    return resolve_cluster(store, cluster)


def _all(stored: Sequence[Document], cluster: str | None) -> Iterator[_Subject]:
    for document, source, line in stored:
        found = key_of(document)
        if found.group_kind not in _CONFIGURATION and cluster in (None, found.cluster):
            yield _Subject(document, f"{source}:{line}", found.cluster)


def _read(path: Path, cluster: str | None) -> Iterator[_Subject]:
    """Yield the objects and reviews in a file; leaves with a message where there is something else."""
    for value, line in values(path):
        place = f"{'<stdin>' if str(path) == '-' else path}:{line}"
        document = as_object(value)
        items = document.get("items")
        for one in items if isinstance(items, list) else (value,):
            problem = _problem(one)
            if problem:
                fail(f"{place}: {problem}")
            yield _Subject(one, place, cluster_of(one) or None if cluster is None else cluster)


def _old(path: Path) -> JSONObject:
    found = list(_read(path, None))
    if len(found) != 1:
        fail(f"{path} holds {len(found)} objects, expected one")
    return found[0].document


def _problem(document: JSON) -> str:
    kind, api_version = as_object(document).get("kind"), as_object(document).get("apiVersion")
    if not (isinstance(kind, str) and kind and isinstance(api_version, str) and api_version):
        return "apiVersion and kind are required"
    if _is_review(document):
        return ""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return "metadata is required"
    texts = (metadata.get(member) for member in ("name", "generateName", "namespace"))
    return "" if all(one is None or isinstance(one, str) for one in texts) else "name and namespace must be text"


def _is_review(document: JSONObject) -> bool:
    return document["kind"] == KIND and document["apiVersion"] in API_VERSIONS


def _question(store: Store, subject: _Subject, asked: _Asked) -> _Question:
    """Return the request that is asked about; leaves with a message where that cannot be told."""
    if _is_review(subject.document):
        return _reviewed(subject, asked)
    return _made(store, subject, _cluster_of(subject), asked)


def _cluster_of(subject: _Subject) -> str:
    if subject.cluster is None:
        fail(
            f"{subject.place}: which logical cluster is it in? Give --cluster ('' for a plain cluster), "
            f"or the object the annotation {CLUSTER_ANNOTATION}"
        )
    return subject.cluster


def _reviewed(subject: _Subject, asked: _Asked) -> _Question:
    """Return the request of a review, with what the options say differently."""
    try:
        review = decode_review(msgspec.json.encode(subject.document))
    except BadReviewError as error:
        fail(f"{subject.place}: {error}")
    request = review.request
    if request is None:
        fail(f"{subject.place}: the review cannot be read: {review.problem}")
    changes: dict[str, Any] = {}
    if asked.operation is not None or asked.old is not None:
        operation = asked.operation or Operation(request.operation)
        new, old = _documents(operation, request.object, asked.old or request.old_object)
        changes = {"operation": operation.value, "object_raw": new, "old_object_raw": old}
        changes["options"] = _options(operation)
    if asked.subresource:
        changes["sub_resource"] = asked.subresource
    if asked.user:
        changes["user_info"] = _raw(asked.user)
    if asked.dry_run:
        changes["dry_run"] = True
    claimed = claimed_cluster(request) or None
    cluster = _cluster_of(subject if subject.cluster is not None else subject._replace(cluster=claimed))
    return _Question(msgspec.structs.replace(request, **changes), cluster, subject)


def _raw(value: JSON) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _documents(operation: Operation, document: JSON, old: JSON) -> tuple[msgspec.Raw, msgspec.Raw]:
    """Return object and oldObject as an apiserver fills them in for an operation."""
    new = None if operation is Operation.DELETE else document or old
    before = old or document if operation in (Operation.UPDATE, Operation.DELETE) else None
    return _raw(new), _raw(before)


def _options(operation: Operation) -> msgspec.Raw:
    connects = operation is Operation.CONNECT
    return _raw(None if connects else {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.title()}Options"})


def _made(store: Store, subject: _Subject, cluster: str, asked: _Asked) -> _Question:
    """Return the request that a client would make with a manifest."""
    document, operation = subject.document, asked.operation or Operation.CREATE
    own = gvk_of(document)
    resource, known = resource_of(store, cluster=cluster, kind=own)
    schema = find_owner(store, cluster=cluster, group=own.group, resource=resource.resource).schema
    inside = namespaced(store, cluster=cluster, group=own.group, resource=resource.resource, schema=schema)
    document = _in_namespace(document) if inside else document
    metadata = document["metadata"]
    same = equivalents_of(
        store, cluster=cluster, resource=resource, subresource=asked.subresource, kind=own, schema=schema
    )
    kind = next((one.kind for one in same if one.resource == resource and one.kind), own)
    new, old = _documents(
        operation, document if kind == own else _stand_in(metadata, kind, operation=operation), asked.old
    )
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or ""
    request = AdmissionRequest(
        uid=_UID,
        operation=operation.value,
        kind=Kind(*kind),
        resource=Resource(*resource),
        sub_resource=asked.subresource,
        name=name,
        # A request about a Namespace carries that Namespace's own name.
        namespace=name if own == _NAMESPACE else namespace if inside is not False else "",
        user_info=_raw(asked.user),
        dry_run=asked.dry_run,
        options=_options(operation),
        object_raw=new,
        old_object_raw=old,
    )
    guess = "" if known else f"nothing defines {own.kind}; its resource is taken to be {resource.resource}"
    return _Question(request, cluster, subject, guess)


def _in_namespace(document: JSONObject) -> JSONObject:
    """Return an object in the namespace that a client puts it in if it does not say."""
    metadata = document["metadata"]
    return document if metadata.get("namespace") else {**document, "metadata": {**metadata, "namespace": "default"}}


def _stand_in(metadata: JSONObject, kind: GroupVersionKind, *, operation: Operation) -> JSONObject:
    """Return what is sent to a subresource of an object that has a kind of its own, as far as the object tells it."""
    document: JSONObject = {"apiVersion": kind.api_version, "kind": kind.kind}
    named = {member: metadata[member] for member in ("name", "namespace") if metadata.get(member)}
    # Options of a connection have no metadata.
    return document if operation is Operation.CONNECT else {**document, "metadata": named}


def resource_of(store: StoreView, *, cluster: str, kind: GroupVersionKind) -> tuple[GroupVersionResource, bool]:
    """Return the resource of a kind as a logical cluster sees it, and whether that is known rather than guessed.

    What defines a kind names its plural. Built-in kinds have the plural that is guessed for any other; the guess is
    that of apimachinery's UnsafeGuessKindToResource.
    """
    for spec in _definitions(store, cluster):
        names = as_object(spec.get("names"))
        plural = names.get("plural")
        if spec.get("group") == kind.group and names.get("kind") == kind.kind and isinstance(plural, str) and plural:
            return GroupVersionResource(kind.group, kind.version, plural), True
    guess = _guess(kind.kind.lower())
    known = namespaced(store, cluster=cluster, group=kind.group, resource=guess) is not None
    bound = bool(store.find(BINDINGS_BY_RESOURCE, (cluster, kind.group, guess)))
    return GroupVersionResource(kind.group, kind.version, guess), known or bound


def _definitions(store: StoreView, cluster: str) -> Iterator[Mapping[str, JSON]]:
    """Yield the specs of the schemas that a cluster has bound, and of its own CustomResourceDefinitions."""
    for binding in store.each(cluster, API_BINDING):
        status = as_object(binding.get("status"))
        owner, bound = status.get("apiExportClusterName"), status.get("boundResources")
        for resource in bound if isinstance(bound, list) else ():
            name = as_object(as_object(resource).get("schema")).get("name")
            if isinstance(owner, str) and isinstance(name, str):
                yield as_object(as_object(store.get(owner, API_RESOURCE_SCHEMA, "", name)).get("spec"))
    for definition in store.each(cluster, DEFINITION):
        yield as_object(definition.get("spec"))


def _guess(singular: str) -> str:
    if singular.endswith("endpoints"):
        return singular
    if singular.endswith("s"):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"


def _unknown(store: StoreView, questions: Sequence[_Question]) -> Iterator[str]:
    for one in questions:
        if not store.knows(one.cluster):
            yield f"the manifests have nothing of {one.cluster or 'a plain cluster'}"


async def _explained(
    dispatcher: Dispatcher, questions: Sequence[_Question], phase: PhaseName | None
) -> list[Explained]:
    explained: list[Explained] = []
    for request, cluster, subject, _ in questions:
        deadline = Deadline(time.monotonic() + _SECONDS)
        try:
            found = await explain_request(dispatcher, request, cluster=cluster, deadline=deadline)
        except StatusError as error:
            fail(f"{subject.place}: {error}")
        inside = request.namespace if request.kind != Kind(*_NAMESPACE) else ""
        path = f"{inside}/{request.name}" if inside else request.name
        explained.append(Explained(f"{request.kind.kind} {path}", subject.place, _narrowed(found, phase)))
    return explained


def _asks_authorizer(explanation: Explanation) -> bool:
    hooks = (*explanation.mutating, *explanation.validating)
    return any("no such attribute(s): authorizer" in predicate.reason for one in hooks for predicate in one.predicates)


def _narrowed(explanation: Explanation, phase: PhaseName | None) -> Explanation:
    """Return what an explanation says of one phase; of both, if it is None."""
    if phase is None:
        return explanation
    return msgspec.structs.replace(
        explanation,
        mutating=explanation.mutating if phase is PhaseName.MUTATING else (),
        validating=explanation.validating if phase is PhaseName.VALIDATING else (),
        shadowed=tuple(one for one in explanation.shadowed if one.startswith(f"{phase}:")),
    )
