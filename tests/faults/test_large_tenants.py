"""One workspace uses large patches, 1,000 configurations or long conditions while another one sends ordinary reviews.

The server, the webhooks and both tenants are separate processes. The tests count verdicts. They print latencies
(``pytest -s``) and do not judge them, because they depend on the machine.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.engines.dispatch.builders import WIDGETS, configuration, webhook
from tests.faults.tenants import ATTACKER, TenantReport, TenantServer, check_victim, request, run_tenant_server

_GADGETS: Final = {**WIDGETS, "resources": ["gadgets"]}
_CONFIGURATIONS: Final = 1_000
_EVERYTHING: Final = {**WIDGETS, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


def patch_gadgets(path: str) -> Any:
    """The attacker has a mutating webhook for its Gadgets, at a path of its server."""

    def objects(config: dict[str, str]) -> Iterable[dict[str, Any]]:
        config = {**config, "url": f"{config['url']}{path}"}
        yield configuration(ATTACKER, "mutating", webhook("p.example.org", rules=[_GADGETS], clientConfig=config))

    return objects


def configurations(text: str) -> list[dict[str, Any]]:
    """1,000 configurations, each with a condition of its own; ``text`` is in all of them."""
    return [
        configuration(
            ATTACKER, "validating", broad(number, f"object.metadata.name == '{text}{number}'"), name=f"c{number}"
        )
        for number in range(_CONFIGURATIONS)
    ]


def broad(number: int, *expressions: str) -> dict[str, Any]:
    """A webhook for everything, with conditions."""
    conditions = [{"name": f"c{place}", "expression": expression} for place, expression in enumerate(expressions)]
    name = f"w{number}.example.org"
    return webhook(name, rules=[_EVERYTHING], namespaceSelector={}, objectSelector={}, matchConditions=conditions)


def is_asked(stage: TenantServer, number: int, name: str) -> bool:
    """Return whether the attacker's own webhook of a number is called for a Gadget of a name: its call fails."""
    review = request(kind="Gadget")["review"]
    review["request"]["object"]["metadata"]["name"] = name
    path = f"/clusters/{ATTACKER}/validate?timeout=30s"
    answer = json.loads(stage.server.request("POST", path, json.dumps(review).encode())[1])
    return f"w{number}.example.org" in str(answer["response"].get("status"))


def only(met: list[TenantReport]) -> TenantReport:
    (one,) = met
    return one


def test_a_patch_of_120000_operations_is_refused_and_costs_the_other_consumer_nothing(tmp_path: Path) -> None:
    gadget = request("denied", kind="Gadget", list=[])
    with run_tenant_server(tmp_path, attackers_objects=patch_gadgets("/insert/120000")) as stage:
        check_victim(stage, stage.victim(), "before")
        before = stage.memory()
        with stage.attack(gadget, parallel=4, ended=8, route="mutate") as met:
            check_victim(stage, stage.victim(), "patches of 120,000 operations")
        # Each answer has 6 MB. Only the answers to the four requests in progress may be in memory, which takes 64 MiB.
        assert stage.memory() <= before + 128
    assert not only(met).wrong


@pytest.mark.parametrize(
    ("path", "size", "expected"), [("/insert/10000", 20_000, "denied"), ("/rotate", 250_000, "allowed")]
)
def test_a_patch_that_moves_many_elements_costs_the_other_consumer_nothing(
    tmp_path: Path, path: str, size: int, expected: str
) -> None:
    gadget = request(expected, kind="Gadget", list=list(range(size)))
    with run_tenant_server(tmp_path, attackers_objects=patch_gadgets(path)) as stage:
        check_victim(stage, stage.victim(), "before")
        with stage.attack(gadget, parallel=2, ended=1, route="mutate") as met:
            check_victim(stage, stage.victim(), f"{path} in a list of {size}")
    assert not only(met).wrong


@pytest.mark.parametrize(("route", "parallel"), [("validate", 4), ("explain", 1)])
def test_1000_configurations_cost_the_other_consumer_nothing(tmp_path: Path, route: str, parallel: int) -> None:
    with run_tenant_server(tmp_path, attackers_objects=lambda _: configurations("x")) as stage:
        check_victim(stage, stage.victim(), "before")
        with stage.attack(request(kind="Gadget"), parallel=parallel, ended=1, route=route):
            check_victim(stage, stage.victim(), f"{route} with 1,000 configurations")
        assert is_asked(stage, 7, "x7"), "the attacker's requests are matched against its configurations"
        metrics = stage.server.request("GET", "/metrics")[1].decode().splitlines()
    assert len([line for line in metrics if not line.startswith("#")]) < 500


def test_writing_1000_configurations_costs_the_other_consumer_nothing(tmp_path: Path) -> None:
    with (
        run_tenant_server(tmp_path, attackers_objects=lambda _: configurations("x")) as stage,
        stage.attack(request(kind="Gadget"), parallel=1, ended=1),
    ):
        for text in ("y", "z"):
            stage.write(*configurations(text))
            # Until the server uses the attacker's last configurations.
            while True:
                check_victim(stage, stage.victim(), "while 1,000 configurations are written")
                if is_asked(stage, 7, f"{text}7"):
                    break


def test_long_conditions_cost_the_other_consumer_nothing(tmp_path: Path) -> None:
    def long(number: int) -> str:
        return " || ".join(f"object.metadata.name == 'x{number}-{part}'" for part in range(1_000))

    def objects(_: dict[str, str]) -> Iterable[dict[str, Any]]:
        yield configuration(ATTACKER, "validating", broad(0, *map(long, range(20))))

    with run_tenant_server(tmp_path, attackers_objects=objects) as stage:
        check_victim(stage, stage.victim(), "before")
        with stage.attack(request(kind="Gadget"), parallel=4, ended=1):
            check_victim(stage, stage.victim(count=1_000), "long conditions")
