"""Large configurations get the same answers as small ones, without blocking other requests."""

from functools import partial
from typing import Any

import pytest

from fleethook.cel import compile_condition
from fleethook.engines.dispatch.match.condition_compiler import Compiler
from fleethook.engines.dispatch.validation.validator import ConfigurationValidator, validate_configuration
from fleethook.work.fair_turns import Turns
from fleethook.work.worker import Worker
from tests.engines.dispatch.builders import configuration, request_of, review, webhook

LONG = " || ".join(f"object.name == 'x{number}'" for number in range(100))


def build_request(*hooks: dict[str, Any], old: Any = None) -> Any:
    document = configuration("ws2", "validating", *hooks)
    kind = {"group": "admissionregistration.k8s.io", "version": "v1", "kind": document["kind"]}
    return request_of(review(document, old=old, operation="UPDATE" if old else "CREATE", kind=kind))


def condition(expression: Any) -> dict[str, Any]:
    return {"matchConditions": [{"name": "c", "expression": expression}]}


MANY = [webhook(f"w{number}.example.org", **condition(f"object.x{number}")) for number in range(100)]
BROKEN = webhook("b.example.org", **condition(f"({LONG}"))


@pytest.mark.parametrize(
    "request_",
    [
        build_request(webhook(**condition("object.a == 1"))),
        build_request(webhook(**condition(" object.a == "))),
        build_request(webhook(**condition(7)), webhook(matchConditions="none"), webhook(**condition(LONG))),
        build_request(BROKEN),
        build_request(BROKEN, old=configuration("ws2", "validating", BROKEN)),
        build_request(*MANY, BROKEN),
        build_request(),
    ],
    ids=["right", "wrong", "no text", "long", "stored", "many", "none"],
)
async def test_the_response_equals_that_of_validate_configuration(request_: Any) -> None:
    worker = Worker()
    reviews = ConfigurationValidator(Compiler(worker), worker=worker, turns=Turns())
    at_once = partial(validate_configuration, compile_expression=compile_condition)
    assert await reviews.review(request_) == at_once(request_)
