"""A review whose plan takes long to compile has it compiled in a thread, and is answered from the objects of one moment."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.overrider.admission.workload_admission import mutate_workload
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.openyurt import YURT_APP_OVERRIDER, YURT_APP_SET
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.builders import (
    container,
    decide,
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pod_template,
    request,
    store_of,
    workload,
    yurt_app_set,
)

RULE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))
BROKEN = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/nowhere")]))
POOLS = ("hangzhou", "beijing")


def delete_rule(store: Store) -> None:
    store.remove(ObjectKey("", YURT_APP_OVERRIDER, "default", "demo1"))


def delete_subject(store: Store) -> None:
    store.remove(ObjectKey("", YURT_APP_SET, "default", "demo"))


def put(document: dict[str, Any]) -> Callable[[Store], None]:
    return lambda store: store.put(document)


CHANGES: dict[str, Callable[[Store], None]] = {
    "the overrider has another image": put(overrider(entry("*", items=[image("nginx", "nginx:3.0")]))),
    "the overrider names the pool": put(
        overrider(entry("*", patches=[patch("add", "/spec/template/metadata/labels/{{nodepool}}", "yes")]))
    ),
    "the overrider does not fit": put(BROKEN),
    "the overrider selects no pool": put(overrider(entry("-hangzhou", items=[{"replicas": 5}]))),
    "the overrider is deleted": delete_rule,
    "the subject is deleted": delete_subject,
    "the subject lists no pool": put(yurt_app_set(pools=[])),
    "the subject has another template": put(yurt_app_set(replicas=7)),
    "nothing that a plan depends on": put(node_pool("elsewhere")),
}


ENVIRONMENT = [{"name": f"V{number}", "value": "x"} for number in range(2_000)]
LARGE = yurt_app_set(template=pod_template(containers=[container(env=ENVIRONMENT)]))


def make_review(operation: str = "CREATE", pool: str = "hangzhou") -> AdmissionRequest:
    document = workload(pool=pool)
    return request(document, operation, old=document if operation == "UPDATE" else None)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rule", [RULE, BROKEN], ids=["fits", "broken"])
def test_a_change_during_the_compilation_is_in_the_answer_as_a_whole(
    change: str, operation: str, rule: dict[str, Any]
) -> None:
    store = store_of(LARGE, rule)
    plans = PlanCache()
    compilation = mutate_workload(make_review(operation), store=store, plans=plans)
    assert not isinstance(compilation, Response)
    CHANGES[change](store)
    assert compilation() is None
    found, expected = (
        decide(lambda plans=plans: mutate_workload(make_review(operation), store=store, plans=plans))
        for plans in (plans, PlanCache())
    )
    assert found == expected


def test_a_small_plan_is_compiled_at_once() -> None:
    decided = mutate_workload(make_review(), store=store_of(yurt_app_set(), RULE), plans=PlanCache())
    assert isinstance(decided, Response)


def body(pool: str) -> bytes:
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    asked = {"uid": "u", "operation": "CREATE", "kind": kind, "namespace": "default", "object": workload(pool=pool)}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


def served() -> Fleethook:
    app = create_app(Settings(), log=None)
    for document in (LARGE, RULE):
        app.store.put(document)
    return app


async def test_concurrent_reviews_of_a_subject_compile_its_plan_once_and_let_others_in() -> None:
    app, alone = served(), served()
    iterations, done = 0, False

    async def others() -> None:
        nonlocal iterations
        while not done:
            iterations += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    reviews = [body(pool) for pool in POOLS * 10]
    answers = await asyncio.gather(*(call(app, "/mutate-apps-v1-deployment", one) for one in reviews))
    done = True
    await other
    plans = app.engines["overrider"].plans
    assert plans.of_subject(YURT_APP_SET, LARGE, RULE, cluster="").compiled == 1
    assert iterations >= 8
    for one, answer in zip(reviews, answers, strict=True):
        assert answer.body == (await call(alone, "/mutate-apps-v1-deployment", one)).body
