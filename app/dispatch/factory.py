"""The dispatcher, put together from what it needs."""

from functools import partial
from typing import Final, NoReturn

from app.dispatch.call import Deadline, FindCredential, Observe, WebhookCaller
from app.dispatch.configurations import Configurations
from app.dispatch.conversion_rules import ConversionError, convert
from app.dispatch.converter import ObjectConverter
from app.dispatch.dispatcher import Dependencies, Dispatcher, Target
from app.dispatch.equivalent_resources import DEFINITIONS_BY_RESOURCE, find_definition
from app.dispatch.errors import internal
from app.dispatch.limits import RequestLimits
from app.dispatch.live_lookups import LiveSource, Post, authorize, read_namespace
from app.dispatch.own_endpoints import OwnEndpoints
from app.dispatch.schema_owner import BINDINGS_BY_RESOURCE, EXPORTS_BY_RESOURCE, UNBOUND_BINDINGS
from app.model.gvk import GroupVersionKind
from app.model.json import JSON
from app.outbound.client import HookClient
from app.outbound.slots import Quotas, Slots
from app.store import Index, Store, StoreView

INDEXES: Final[tuple[Index, ...]] = (
    BINDINGS_BY_RESOURCE,
    UNBOUND_BINDINGS,
    EXPORTS_BY_RESOURCE,
    DEFINITIONS_BY_RESOURCE,
)
"""What the store has to be indexed by."""
# SubjectAccessReviews under way, for one logical cluster and for all. An apiserver answers one in a millisecond or two.
_ACCESS_QUOTAS: Final = Quotas(connections=8, calls=8, total=64)


def build_dispatcher(  # noqa: PLR0913 - each is a part that somebody else makes
    store: Store,
    client: HookClient,
    *,
    observe: Observe,
    post: Post | None = None,
    live: LiveSource | None = None,
    as_kcp: bool = False,
    share: bool = False,
    limits: RequestLimits | None = None,
    find_credential: FindCredential | None = None,
    own: OwnEndpoints | None = None,
) -> Dispatcher:
    """Return a dispatcher.

    Args:
        store: The objects, indexed by `INDEXES`.
        client: What calls webhooks.
        observe: Told of each call.
        post: Posts to the apiserver, None where there is none: then no condition can ask the authorizer.
        live: Where objects can be read past the store.
        as_kcp: As `Dispatcher` has it.
        share: As `Dispatcher` has it.
        limits: As `Dispatcher` has it.
        find_credential: As `app.dispatch.call.WebhookCaller` has it. Conversion webhooks are called without.
        own: Recognizes this server among the webhooks.
    """
    caller = WebhookCaller(client, observe=observe, find_credential=find_credential)
    access = Slots(_ACCESS_QUOTAS)
    dependencies = Dependencies(
        call_webhook=caller.call,
        convert=ObjectConverter(store, client),
        authorize=partial(authorize, post=post, live=live, slots=access)
        if post is not None and live is not None
        else None,
        read_namespace=partial(read_namespace, live=live) if live is not None else None,
        is_silent=caller.is_silent,
        own=own or OwnEndpoints(),
    )
    limits = limits or RequestLimits()
    return Dispatcher(store, Configurations(store), dependencies, as_kcp=as_kcp, share=share, limits=limits)


def build_offline_dispatcher(store: Store, *, as_kcp: bool = False) -> Dispatcher:
    """Return a dispatcher that reaches nothing but the store: good for explaining, not for dispatching.

    Conditions cannot ask the authorizer, and what takes a conversion webhook is an error.
    """
    dependencies = Dependencies(call_webhook=_refuse_call, convert=partial(_convert_here, store))
    return Dispatcher(store, Configurations(store), dependencies, as_kcp=as_kcp)


async def _refuse_call(*_args: object, **_rest: object) -> NoReturn:
    raise internal("no webhook is asked offline")


async def _convert_here(
    store: StoreView,
    document: JSON,
    kind: GroupVersionKind,
    *,
    target: Target,
    deadline: Deadline,  # noqa: ARG001 - nobody is waited for
) -> JSON:
    if not isinstance(document, dict):
        return document
    group, _, resource = target.attributes.resource
    definition = find_definition(
        store, cluster=target.attributes.cluster, group=group, resource=resource, schema=target.ownership.schema
    )
    try:
        return convert(document, kind, definition=definition)
    except ConversionError as error:
        raise internal(str(error)) from error
