"""A mutating webhook of somebody else, which runs after fleethook's and once more if fleethook is asked again."""

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from app.patch import diff
from tests.e2e.cluster import Api
from tests.e2e.fleet import WEBHOOKS
from tests.hook_server import Hook, hooking

Change = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns a workload as the webhook wants it; must not change its argument."""


def _answering(hook: Hook, change: Change) -> Callable[[web.Request], Any]:
    async def answer(_: web.Request) -> web.StreamResponse:
        request = hook.reviews.pop()["request"]
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if operations := diff(request["object"], change(request["object"])):
            text = base64.b64encode(json.dumps(operations).encode()).decode()
            response |= {"patch": text, "patchType": "JSONPatch"}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    return answer


def _configuration(name: str, namespace: str, hook: Hook) -> dict[str, Any]:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "rival.example.com",
                "clientConfig": {"url": f"https://127.0.0.1:{hook.port}/hook", "caBundle": hook.ca_bundle},
                "rules": [{**rule, "resources": ["deployments", "statefulsets"], "scope": "Namespaced"}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 10,
                "reinvocationPolicy": "IfNeeded", "admissionReviewVersions": ["v1"],
            }
        ],
    }  # fmt: skip


@contextlib.contextmanager
def rival(admin: Api, directory: Path, namespace: str, change: Change) -> Iterator[None]:
    """Have a webhook change the workloads of a namespace; apiservers call webhooks by the names of configurations."""
    name = f"zz-rival-{namespace}"
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="rival", daemon=True)
    thread.start()
    serving = hooking(directory)
    hook = asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(20)
    hook.answer = _answering(hook, change)
    path = f"{WEBHOOKS}/mutatingwebhookconfigurations"
    try:
        admin.create(path, _configuration(name, namespace, hook))
        yield
    finally:
        admin.call("DELETE", f"{path}/{name}")
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
