"""The same webhook as a handler of kopf's admission server: `kopf_server.py --cert-dir DIR [--port N] [--log FILE] [--rules]`.

It uses kopf's own WebhookServer and all of its code between a request and a handler, but not the operator around it,
which needs a cluster to watch. kopf has no metrics. The handler states its changes as kopf requires, by a merge patch
with complete lists. Runs in an environment with the packages of ../requirements.txt.
"""

import argparse
import asyncio
import copy
import functools
import importlib
import logging
from pathlib import Path

import kopf
import uvloop
from kopf._core.engines.admission import serve_admission_request
from kopf._core.engines.indexing import OperatorIndexers
from kopf._core.reactor.inventory import ResourceMemories

from kopf._cogs.structs.references import Insights, Resource  # isort: skip

PATH = "/mutate-apps-v1-deployment"
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
registry = kopf.OperatorRegistry()


@kopf.on.mutate("apps", "v1", "deployments", registry=registry, id=PATH.strip("/"))
async def mutate(spec, patch, **_):
    pod = spec["template"]["spec"]
    containers = copy.deepcopy(pod["containers"])
    for container in containers:
        if container["name"] == "app":
            container["image"] = "registry.hangzhou.example.com/shop/app:1.14.2"
            container["env"] = [*container.get("env", []), {"name": "REGION", "value": "hangzhou"}]
            container["args"][2] = "--log-level=debug"
    volumes = [*pod.get("volumes", []), {"name": "logs", "hostPath": {"path": "/data/logs"}}]
    patch.spec["template"] = {"spec": {"containers": containers, "volumes": volumes}}
    patch.spec["replicas"] = 5


async def serve(port: int, directory: Path, resource: Resource, registry: kopf.OperatorRegistry) -> None:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # its log lines would be written to the cluster as Events
    memories = ResourceMemories()
    insights = Insights()
    insights.webhook_resources.add(resource)
    answer = functools.partial(
        serve_admission_request, settings=settings, memories=memories, memobase=kopf.Memo(), registry=registry,
        insights=insights, indices=OperatorIndexers().indices,
    )  # fmt: skip
    server = kopf.WebhookServer(
        addr="127.0.0.1", port=port or None, certfile=directory / "tls.crt", pkeyfile=directory / "tls.key"
    )
    async for config in server(answer):
        print(f"serving on {str(config['url']).rpartition(':')[2].strip('/')}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cert-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", default="/dev/stderr", help="file for one line per review")
    parser.add_argument("--rules", action="store_true", help="serve the rules of kopf_rules.py")
    parser.add_argument("--procs", type=int, help="ignored; accepted for the command line of the Go servers")
    given = parser.parse_args()
    resource, handlers = DEPLOYMENTS, registry
    if given.rules:
        rules = importlib.import_module("kopf_rules")
        resource, handlers = rules.RESOURCE, rules.registry
    # The set-up of `kopf run --log-format json`, without aiohttp's access log: one line for each review is enough.
    kopf.configure(log_format=kopf.LogFormat.JSON)
    root = logging.getLogger()
    for handler in root.handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(open(given.log, "a", buffering=1))  # noqa: PTH123, SIM115 - open as long as the process is
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("kopf").setLevel(logging.WARNING)  # kopf's messages about itself
    logging.getLogger("kopf.objects").setLevel(logging.INFO)  # kopf's line about each call of a handler
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(given.port, given.cert_dir, resource, handlers))


if __name__ == "__main__":
    main()
