"""Outages of all replicas, with owners as in the versions of OpenYurt: only the workloads of overriders are refused."""

import itertools
from pathlib import Path

import pytest

from fleethook.cluster.registration.webhook_configurations import URLReference, webhook_configurations
from tests.builders import entry, image, overrider
from tests.e2e.fleet import WEBHOOKS, unregister
from tests.e2e.installation import Installation, checks, without_leader, without_right
from tests.e2e.openyurt_planes import VERSIONS, Version
from tests.e2e.scenario import BEIJING, HANGZHOU, JSONObject, Scenario, scenario, with_image
from tests.waiting import wait_for

TO_2 = entry(BEIJING, items=[image("nginx", "nginx:2.0")])
PLAIN = "plain"
"""A subject without an overrider."""


@pytest.fixture(params=["openyurt-1.4", "openyurt-1.7"])
def version(request: pytest.FixtureRequest) -> Version:
    return VERSIONS[request.param]


def set_template(demo: Scenario, *containers: JSONObject, name: str = "demo") -> None:
    change = {"deploymentTemplate": {"spec": {"template": {"spec": {"containers": list(containers)}}}}}
    demo.api.merge(demo.subject_path(name), demo.form.edit(change))


def container(claim: str, **fields: object) -> JSONObject:
    return {"name": "nginx", "image": claim, **fields}


def images_of(demo: Scenario, name: str) -> set[str]:
    found = demo.workloads(name).values()
    return {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in found}


def refusals(demo: Scenario, name: str) -> list[str]:
    """Return the refused writes of a subject's controller.

    Conflicts are none of them, and no second deletion by a controller whose watch has not delivered the first.
    """
    writes = [one for one in demo.controller.writes if one.subject == name and one.code >= 400]
    return [
        f"{one.verb} {one.pool}: {one.code} {one.message}"
        for one in writes
        if one.code != 409 and (one.verb, one.code) != ("delete", 404)
    ]


def settle_owner(demo: Scenario, name: str) -> None:
    wait_for(lambda: demo.controller.has_settled(name), what=f"all pools have their workloads: {refusals(demo, name)}")


def test_at_no_moment_is_a_workload_without_an_overrider_refused(
    version: Version, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    plane = version.start_plane(request)
    admin, installation, numbers = plane.api(), Installation(plane, tmp_path), itertools.count(1)
    with scenario(admin, release=version.release, form=version.form) as demo:
        demo.create(BEIJING, HANGZHOU, name=PLAIN)

        def edit_plain(moment: str) -> None:
            claim = f"nginx:1.{next(numbers)}"
            set_template(demo, container(claim), name=PLAIN)
            # The controller of 1.7 is never idle while it repeats the refused writes of the other subject.
            wait_for(lambda: images_of(demo, PLAIN) == {claim}, what=f"{moment}: {refusals(demo, PLAIN)}")
            assert refusals(demo, PLAIN) == [], moment

        for configuration in webhook_configurations(URLReference("https://127.0.0.1:9")):
            kind = configuration["kind"].lower()
            admin.apply(f"{WEBHOOKS}/{kind}s/fleethook", configuration, manager="installer")
        wait_for(lambda: refuses_overriders(demo), what="the apiserver uses the configuration")
        edit_plain("the replicas of an installation never become ready")
        with installation.up():
            demo.override(TO_2)
            demo.create(BEIJING, HANGZHOU)
            settle_owner(demo, "demo")
            assert refusals(demo, "demo") == []
        set_template(demo, container("nginx:1.1"))
        wait_for(lambda: refusals(demo, "demo"), what="a workload of an overrider is refused")
        edit_plain("all replicas are gone")
        with without_right(admin, "yurtappsets"), installation.started() as server:
            wait_for(lambda: "forbidden" in str(checks(server)[1]), what="a kind cannot be read")
            edit_plain("a kind cannot be read")
        with without_leader(admin), installation.started() as server:
            wait_for(lambda: checks(server)[0] == 200, what="the server is ready")
            edit_plain("no replica leads")
        with installation.started():
            edit_plain("a replica starts")
            demo.wait_for_specs(
                {BEIJING: demo.expected(BEIJING, with_image("nginx:2.0")), HANGZHOU: demo.expected(HANGZHOU)}
            )
    unregister(admin)


def refuses_overriders(demo: Scenario) -> bool:
    rule = overrider(TO_2, name="early", subject={"apiVersion": demo.form.version, "kind": "YurtAppSet", "name": PLAIN})
    rule["metadata"]["namespace"] = demo.namespace
    return demo.api.call("POST", demo.overrider_path("").rstrip("/"), rule, dryRun="All")[0] == 500
