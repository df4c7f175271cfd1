"""The provider's webhook in ws1: it labels Widgets with their workspace, and refuses large ones.

    python examples/kcp-widgets/webhook.py certs/tls.crt certs/tls.key

It uses only the standard library, to be short, and answers one review at a time.
"""

import base64
import contextlib
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGEST = 10


def validate(widget, cluster):
    size = widget["spec"]["size"]
    if size <= LARGEST:
        return {"allowed": True}
    message = f"a Widget in workspace {cluster} may have size {LARGEST} at most, not {size}"
    return {"allowed": False, "status": {"code": 403, "message": message}}


def mutate(widget, cluster):
    labels = {**widget["metadata"].get("labels", {}), "example.org/workspace": cluster}
    patch = json.dumps([{"op": "add", "path": "/metadata/labels", "value": labels}])
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch.encode()).decode()}


ANSWERS = {"/mutate": mutate, "/validate": validate}


class Webhook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        widget = request["object"]
        # An AdmissionReview has no field for the logical cluster, so kcp's annotation is the only source.
        cluster = widget["metadata"]["annotations"]["kcp.io/cluster"]
        path = self.path.partition("?")[0]
        answer = ANSWERS[path](widget, cluster)
        print(f"{path}: {request['operation']} {request['name']}, kcp.io/cluster: {cluster}", flush=True)
        review["response"] = {"uid": request["uid"], **answer}
        del review["request"]
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


def main():
    certificate, key, port = sys.argv[1], sys.argv[2], int((sys.argv[3:] or ["9445"])[0])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", port), Webhook)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(f"the webhook of ws1 listens on https://localhost:{server.server_port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
