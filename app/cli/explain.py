"""``fleethook explain``: which webhooks a request goes to, and for each other one why not."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from app.cli.exit_codes import CHECK_FAILED, fail
from app.cli.explain_output import Explained, Output, print_all, print_json, print_rows, refusal, row_of
from app.cli.explain_request import NAMESPACE, Asked, Operation, Question, Subject, is_review, question_of
from app.cli.manifests import documents, values
from app.cli.terminal import write_error
from app.dispatch.assembly import INDEXES, offline_dispatcher
from app.dispatch.call import Deadline
from app.dispatch.dispatcher import Dispatcher
from app.dispatch.equivalents import DEFINITION
from app.dispatch.explain import Explanation
from app.dispatch.explain import explain as explain_request
from app.dispatch.failures import StatusError
from app.dispatch.hooks import PHASES
from app.dispatch.paths import resolve_cluster
from app.model.admission import Kind
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import (
    API_BINDING,
    API_EXPORT,
    API_RESOURCE_SCHEMA,
    LOGICAL_CLUSTER,
    cluster_of,
    is_cluster,
)
from app.store import Store, StoreView, key_of
from app.store.yaml_reader import Document

# As long as an apiserver gives a request; nothing here waits for anybody.
_SECONDS: Final = 34.0
# What says how requests are dispatched, rather than being requested.
_CONFIGURATION: Final = {*PHASES.values(), API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, DEFINITION, LOGICAL_CLUSTER}


class PhaseName(StrEnum):
    """One of the two phases."""

    MUTATING = "mutating"
    VALIDATING = "validating"


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
    asked = Asked(operation, subresource, who, None if old is None else _old(old), dry_run)
    dispatcher = offline_dispatcher(store, as_kcp=as_kcp)
    questions = [question_of(store, one, asked) for one in subjects]
    for note in sorted({one.guess for one in questions if one.guess} | set(_unknown(store, questions))):
        write_error(f"note: {note}")
    explained = asyncio.run(_explained(dispatcher, questions, phase))
    if any(_asks_authorizer(one.explanation) for one in explained):
        write_error("note: matchConditions that ask the authorizer have no answer off-line, as in kcp")
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


def _all(stored: Sequence[Document], cluster: str | None) -> Iterator[Subject]:
    for document, source, line, *_ in stored:
        found = key_of(document)
        if found.group_kind not in _CONFIGURATION and cluster in (None, found.cluster):
            yield Subject(document, f"{source}:{line}", found.cluster)


def _read(path: Path, cluster: str | None) -> Iterator[Subject]:
    """Yield the objects and reviews in a file; leaves with a message where there is something else."""
    for value, line, _ in values(path):
        place = f"{'<stdin>' if str(path) == '-' else path}:{line}"
        document = as_object(value)
        items = document.get("items")
        for one in items if isinstance(items, list) else (value,):
            problem = _problem(one)
            if problem:
                fail(f"{place}: {problem}")
            yield Subject(one, place, cluster_of(one) or None if cluster is None else cluster)


def _old(path: Path) -> JSONObject:
    found = list(_read(path, None))
    if len(found) != 1:
        fail(f"{path} holds {len(found)} objects, expected one")
    return found[0].document


def _problem(document: JSON) -> str:
    kind, api_version = as_object(document).get("kind"), as_object(document).get("apiVersion")
    if not (isinstance(kind, str) and kind and isinstance(api_version, str) and api_version):
        return "apiVersion and kind are required"
    if is_review(document):
        return ""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return "metadata is required"
    texts = (metadata.get(member) for member in ("name", "generateName", "namespace"))
    return "" if all(one is None or isinstance(one, str) for one in texts) else "name and namespace must be text"


def _unknown(store: StoreView, questions: Sequence[Question]) -> Iterator[str]:
    for one in questions:
        if not store.knows(one.cluster):
            yield f"the manifests have nothing of {one.cluster or 'a plain cluster'}"


async def _explained(dispatcher: Dispatcher, questions: Sequence[Question], phase: PhaseName | None) -> list[Explained]:
    explained: list[Explained] = []
    for request, cluster, subject, _ in questions:
        deadline = Deadline(time.monotonic() + _SECONDS)
        try:
            found = await explain_request(dispatcher, request, cluster=cluster, deadline=deadline)
        except StatusError as error:
            fail(f"{subject.place}: {error}")
        inside = request.namespace if request.kind != Kind(*NAMESPACE) else ""
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
