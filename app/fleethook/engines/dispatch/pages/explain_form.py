"""Explains the request of a form: the webhooks that get it, and the reason for skipping each other one."""

import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from fleethook.cluster.partial_and_stale_objects import PARTIAL_KINDS
from fleethook.cluster.store import ObjectKey, Store, StoreView
from fleethook.console.context import ConsoleContext
from fleethook.console.forms_and_guard import FormFieldError, read_document
from fleethook.console.page_frame import dump_yaml
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.errors_and_deadline import StatusError
from fleethook.engines.dispatch.explanation import Explanation, explain_input
from fleethook.engines.dispatch.request_from_manifest import (
    InputDocument,
    InputRequest,
    InputRequestError,
    RequestOperation,
    RequestOptions,
    find_problem,
    make_input_request,
)
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import resolve_cluster
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.kcp import cluster_of, is_cluster

MAX_TEXT: Final = 1 << 20
"""Characters of a pasted object. An apiserver accepts requests of 3 MiB; few are that large."""
MAX_CHOICES: Final = 200

_SECRET: Final = GroupKind("", "Secret")
_PLACE: Final = "the object"


@dataclass(frozen=True)
class RequestForm:
    """The fields of the form, as the user typed them.

    Attributes:
        document: The object or AdmissionReview, as YAML or JSON.
        cluster: The logical cluster by name or path; ``""`` for that of the object, or a plain cluster.
        operation: CREATE, UPDATE, DELETE or CONNECT.
        old: The stored object for UPDATE and DELETE, ``""`` for the same object.
        user: The name of the user.
        groups: The groups of the user, separated by commas.
        resource: The resource that the object is sent to, as for ``fleethook explain --resource``.
        dry_run: Whether the request is a dry run.
    """

    document: str = ""
    cluster: str = ""
    operation: str = RequestOperation.CREATE.value
    old: str = ""
    user: str = ""
    groups: str = ""
    resource: str = ""
    dry_run: bool = False


@dataclass(frozen=True)
class VerdictTree:
    """The explanation of a request."""

    subject: str
    explanation: Explanation
    notes: tuple[str, ...]


async def explain_form(store: Store, dispatcher: Dispatcher, form: RequestForm) -> VerdictTree:
    """Explain the request of a form as ``fleethook explain`` does.

    Args:
        store: Indexed by `fleethook.engines.dispatch.schema_owner_and_cluster_paths.INDEXES`.
        dispatcher: That of `build_offline_dispatcher` of the store; it keeps compiled webhooks.
        form: The fields.

    Raises:
        FormFieldError: A field cannot be used.
    """
    planned = plan_form(store, form)
    try:
        explanation = await explain_input(dispatcher, store, planned)
    except (StatusError, msgspec.DecodeError) as error:
        raise FormFieldError("document", str(error)) from None
    return VerdictTree(
        subject=planned.subject, explanation=explanation, notes=tuple(_list_notes(store, planned, explanation))
    )


def plan_form(store: Store, form: RequestForm) -> InputRequest:
    """Return the request of a form; raises FormFieldError."""
    document = _read_object("document", form.document)
    if document is None:
        raise FormFieldError("document", "paste an object or an AdmissionReview, or choose an object")
    if form.operation not in list(RequestOperation):
        known = ", ".join(RequestOperation)
        raise FormFieldError("operation", f"{form.operation!r} is unknown: use one of {known}")
    groups = [one.strip() for one in form.groups.split(",") if one.strip()]
    user: JSONObject = {"username": form.user, "groups": groups} if form.user or groups else {}
    options = RequestOptions(
        RequestOperation(form.operation),
        user,
        _read_object("old", form.old),
        form.dry_run,
        default_cluster="",
        resource=form.resource,
    )
    source = InputDocument(document, _PLACE, _read_cluster(store, form.cluster) or cluster_of(document) or None)
    try:
        return make_input_request(store, source, options)
    except InputRequestError as error:
        raise FormFieldError("document", str(error).removeprefix(f"{_PLACE}: ")) from None


def _read_cluster(store: StoreView, text: str) -> str:
    text = text.strip()
    if text and not is_cluster(text):
        raise FormFieldError("cluster", f"{text!r} is not the name or the path of a logical cluster")
    return resolve_cluster(store, text)


def _read_object(field: str, text: str) -> JSONObject | None:
    """Return the only object in a text, None if it is empty; raises FormFieldError."""
    if not text.strip():
        return None
    found = read_document(field, text, most=MAX_TEXT)
    if found is None:
        raise FormFieldError(field, "the text has no document")
    problem = find_problem(found.value)
    if problem:
        raise FormFieldError(field, problem, found.line)
    document: JSONObject = found.value
    return document


def _list_notes(store: StoreView, planned: InputRequest, found: Explanation) -> Iterator[str]:
    yield from planned.notes
    if not store.knows(planned.cluster):
        yield f"there are no objects of {planned.cluster or 'a plain cluster'}"
    yield from found.notes


@dataclass(frozen=True)
class Choice:
    """An object that the form offers."""

    value: str
    """Its key as a parameter of the URL (`read_choice`)."""
    title: str


def list_choices(store: Store, kinds: Collection[GroupKind], *, text: str = "") -> list[Choice]:
    """Return at most `MAX_CHOICES` objects of some kinds whose title has a text.

    It leaves out Secrets, which the console never shows, and kinds of which the store keeps only parts.
    """
    wanted, found = text.casefold(), list[Choice]()
    for group_kind in sorted(kinds):
        if group_kind == _SECRET or group_kind in PARTIAL_KINDS:
            continue
        for key in store.keys(group_kind):
            title = _make_title(key)
            if wanted in title.casefold():
                found.append(Choice(write_choice(key), title))
                if len(found) == MAX_CHOICES:
                    return found
    return found


def _make_title(key: ObjectKey) -> str:
    kind = f"{key.group_kind.kind}.{key.group_kind.group}" if key.group_kind.group else key.group_kind.kind
    return f"{kind} {key.path}" + (f" in {key.cluster}" if key.cluster else "")


def write_choice(key: ObjectKey) -> str:
    """Return a key as text. No part has a slash (apimachinery pkg/api/validation/path)."""
    return "/".join((key.cluster, *key.group_kind, key.namespace, key.name))


def read_choice(text: str) -> ObjectKey | None:
    """Return the key of a text, None if it is no key or one of a Secret."""
    parts = text.split("/")
    if len(parts) != 5:
        return None
    cluster, group, kind, namespace, name = parts
    key = ObjectKey(cluster, GroupKind(group, kind), namespace, name)
    return None if key.group_kind == _SECRET else key


def format_object(document: JSONObject) -> str:
    """Return an object as YAML for the form, without the fields that only servers write."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return dump_yaml({**document, "metadata": metadata})


def make_command(context: ConsoleContext, form: RequestForm) -> str:
    """Return the command that does the same as the form."""
    options = ["--cluster", form.cluster, "--operation", form.operation]
    for name, value in (("--user", form.user), ("--resource", form.resource)):
        options += [name, value] if value else []
    for group in filter(None, map(str.strip, form.groups.split(","))):
        options += ["--group", group]
    options += ["--old", "old.yaml"] if form.old.strip() else []
    options += ["--dry-run"] if form.dry_run else []
    return f"fleethook explain --request object.yaml {shlex.join(options)} {context.command_source}".strip()
