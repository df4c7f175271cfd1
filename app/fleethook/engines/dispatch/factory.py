"""Builds dispatchers."""

from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.call.call import FindCredential, Observe, WebhookCaller
from fleethook.engines.dispatch.call.live_lookups import LiveSource, authorize, read_namespace
from fleethook.engines.dispatch.converter import ObjectConverter
from fleethook.engines.dispatch.dispatch_errors import internal
from fleethook.engines.dispatch.dispatcher import Dependencies, Dispatcher
from fleethook.engines.dispatch.hooks.hook_index import Configurations
from fleethook.engines.dispatch.hooks.own_endpoints import OwnEndpoints
from fleethook.engines.dispatch.request_quotas import RequestLimits
from fleethook.outbound.call_limits import CallSlots, Quotas
from fleethook.outbound.client import HookClient
from fleethook.server.callers import Post

# Concurrent SubjectAccessReviews, for one logical cluster and for all. An apiserver answers one in 1 to 2 ms.
_ACCESS_QUOTAS: Final = Quotas(connections=8, calls=8, total=64)


def build_dispatcher(  # noqa: PLR0913 - each argument is a part that another module builds
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
    traces: bool = False,
    replace: Callable[[Store, Dependencies], Dependencies] | None = None,
) -> Dispatcher:
    """Build a dispatcher.

    Args:
        store: The objects, indexed by `fleethook.engines.dispatch.schema_owner.INDEXES`.
        client: Calls webhooks.
        observe: Observes each call.
        post: Posts to the apiserver. Without it, conditions cannot ask the authorizer.
        live: Reads objects from the apiserver into the store.
        as_kcp: As for `Dispatcher`.
        share: As for `Dispatcher`.
        limits: As for `Dispatcher`.
        find_credential: As for `fleethook.engines.dispatch.call.call.WebhookCaller`. Conversion webhooks are called
            without credentials.
        own: Recognizes this server among the webhooks.
        traces: As for `Dispatcher`.
        replace: Returns the dependencies to use in place of those that leave the process, for replays.
    """
    caller = WebhookCaller(client, observe=observe, find_credential=find_credential)
    access = CallSlots(_ACCESS_QUOTAS)
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
    if replace is not None:
        dependencies = replace(store, dependencies)
    limits = limits or RequestLimits()
    return Dispatcher(
        store, Configurations(store), dependencies, as_kcp=as_kcp, share=share, limits=limits, traces=traces
    )


def build_offline_dispatcher(store: Store, *, as_kcp: bool = False) -> Dispatcher:
    """Build a dispatcher for `explain` that only reads the store and cannot call webhooks.

    Conditions cannot ask the authorizer, and conversions by webhook are errors.
    """
    dependencies = Dependencies(call_webhook=_refuse_call, convert=ObjectConverter(store))
    return Dispatcher(store, Configurations(store), dependencies, as_kcp=as_kcp)


async def _refuse_call(*_args: object, **_rest: object) -> NoReturn:
    raise internal("webhooks are not called offline")
