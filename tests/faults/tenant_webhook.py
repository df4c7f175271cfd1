"""The provider's webhook, in its own process: ``python -m tests.faults.tenant_webhook DIR`` (TLS files go to DIR).

The answer depends only on the object: ``spec.seconds`` delays it, ``spec.broken`` makes it fail with 500,
``spec.forbidden`` makes it deny. ``/hang/...`` never answers. ``/insert/N`` answers with a patch of N insertions at the
front of ``/spec/list``, ``/rotate`` with one that puts the first element of it at the end.
"""

import asyncio
import base64
import functools
import json
import sys
from pathlib import Path

from aiohttp import web

from tests.hook_server import tls


async def answer(request: web.Request) -> web.StreamResponse:
    review = await request.json()
    if request.path.startswith("/hang/"):
        await asyncio.Event().wait()
    spec = review["request"]["object"]["spec"]
    await asyncio.sleep(spec.get("seconds", 0))
    if spec.get("broken"):
        return web.Response(status=500, text="the object broke it")
    response = {"uid": review["request"]["uid"], "allowed": not spec.get("forbidden"), **patch(request.path)}
    return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


@functools.cache
def patch(path: str) -> dict[str, str]:
    _, _, count = path.rpartition("/insert/")
    if path == "/rotate":
        operations = [{"op": "move", "from": "/spec/list/0", "path": "/spec/list/-"}]
    elif path.startswith("/insert/"):
        operations = [{"op": "add", "path": "/spec/list/0", "value": 1}] * int(count)
    else:
        return {}
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


async def serve(directory: Path) -> None:
    context, ca_bundle = tls(directory)
    (directory / "ca-bundle").write_text(ca_bundle)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context, backlog=4096).start()
    sys.stdout.write(f"the webhook listens on {runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
