"""SubjectAccessReviews and namespaces are read while a request waits."""

import asyncio

from app.dispatch.dispatcher import DispatchResult
from tests.dispatch.access_reviews import Apiserver, authorizer_hook
from tests.dispatch.builders import configuration, review, store_of
from tests.dispatch.conftest import Front
from tests.dispatch.webhook_server import Webhooks, allow
from tests.waiting import until


async def test_access_reviews_of_one_consumer_do_not_block_another_consumer(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    apiserver = Apiserver()
    apiserver.answering.clear()
    store = store_of(
        *(configuration(name, "validating", authorizer_hook(server, 1, 2, "Fail")) for name in ("ws2", "ws3"))
    )
    dispatcher = front.dispatcher(store, post=apiserver.post, live=apiserver)

    async def ask(cluster: str) -> DispatchResult:
        return await front.dispatch_by(dispatcher, review(), cluster=cluster)

    attacking = [asyncio.create_task(ask("ws2")) for _ in range(20)]
    await until(lambda: len(apiserver.asked) == 8)
    victim = asyncio.create_task(ask("ws3"))
    await until(lambda: len(apiserver.asked) == 10)
    assert apiserver.asked[-2:] == ["/clusters/ws3/apis/authorization.k8s.io/v1/subjectaccessreviews"] * 2
    apiserver.answering.set()
    assert (await victim).response.allowed
    assert all(found.response.allowed for found in await asyncio.gather(*attacking))
