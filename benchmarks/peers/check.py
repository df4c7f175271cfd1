"""Check that every peer changes a review as our server does: `python -m benchmarks.peers.check --bin DIR [--kopf PYTHON]`.

The command starts each server, sends both reviews and some of the thousand that the benchmarks send, and applies its patch to the
object with python-json-patch. Our server also gets some edited reviews, and must restore the images of their template; no peer knows
a template, so the benchmarks send edited reviews to our server alone. The comparison ignores our two annotations for an undo. It also ignores empty members (`{}`, null) that
a peer adds because a typed object writes them (controller-runtime's `status`, `resources`). A peer must also write one log line for
each review.
"""

import argparse
import base64
import copy
import json
import os
import ssl
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import jsonpatch

from benchmarks.harness.processes import serving
from benchmarks.reviews import POOL, review
from benchmarks.varied import reviews, subjects

HERE = Path(__file__).resolve().parent
OURS = ("fleethook.io/rendered", "fleethook.io/undo")
OPERATIONS = ("UPDATE", "CREATE")
DIFFERENT = 10
"""Of the different reviews of each operation."""
REVIEWS = {
    title: body
    for operation in OPERATIONS
    for number, body in enumerate((review(operation), *reviews(operation, DIFFERENT)))
    for title in (f"{operation} {number}" if number else operation,)
}
NAME = f"-{POOL}-"
OVERRIDDEN = f"registry.{POOL}.example.com/shop/app:1.14.2"


def commands(binaries, kopf):
    """Return the command line of each server, and whether it accepts --log."""
    python = [sys.executable, "-m", "benchmarks.servers"]
    found = {
        "fleethook": ([*python, "fleethook"], False),
        "FastAPI + pydantic": ([*python, "ordinary"], False),
        "controller-runtime": ([str(binaries / "controller-runtime")], True),
        "lean": ([str(binaries / "lean")], True),
    }
    if (binaries / "lean-jsonv2").exists():
        found["lean, jsonv2"] = ([str(binaries / "lean-jsonv2")], True)
    if kopf:
        found["kopf"] = ([kopf, str(HERE / "kopf_server.py")], True)
    return found


def send_review(port, body, directory):
    """Send a review; return the object after the server's patch, and the number of operations."""
    request = urllib.request.Request(
        f"https://localhost:{port}/mutate-apps-v1-deployment?timeout=10s", body, {"Content-Type": "application/json"}
    )
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    with urllib.request.urlopen(request, context=context) as answer:
        response = json.load(answer)["response"]
    given = json.loads(body)["request"]
    assert response["uid"] == given["uid"]
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    patch = base64.b64decode(response["patch"])
    return jsonpatch.apply_patch(given["object"], json.loads(patch)), len(json.loads(patch))


def differences(ours, theirs, path=""):
    """Yield the paths that differ, and whether the difference is only an additional empty member."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted({*ours, *theirs}):
            here = f"{path}/{name}"
            if name not in ours:
                yield here, theirs[name] in ({}, None)
            elif name not in theirs:
                yield here, False
            else:
                yield from differences(ours[name], theirs[name], here)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(*pair, f"{path}/{number}")
    elif type(ours) is not type(theirs) or ours != theirs:
        yield path, False


def find_wrong_images(port, directory):
    """Yield the edited reviews in which our server does not restore the template's images."""
    for operation in OPERATIONS:
        edited = reviews(operation, DIFFERENT, edited=True)
        for subject, body in zip(subjects(), edited, strict=False):
            wanted = (OVERRIDDEN, subject.proxy, subject.app)
            assert images(json.loads(body)["request"]["object"])[1:] != wanted[1:]
            if (made := images(send_review(port, body, directory)[0])) != wanted:
                yield f"edited {operation} of {subject.name}: {made} instead of {wanted}"


def images(document):
    pod = document["spec"]["template"]["spec"]
    return tuple(container["image"] for container in (*pod["containers"], *pod["initContainers"]))


def count_log_lines(log):
    """Return the number of log lines about the object; waits for them, because a server logs after its answer."""
    until = time.monotonic() + 5
    while (count := sum(NAME in line for line in log.read_text().splitlines())) < len(REVIEWS):
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--bin", type=Path, required=True, help="directory of the programs, built by `go build -o DIR ./cmd/...`"
    )
    parser.add_argument("--kopf", help="interpreter with the packages of benchmarks/requirements.txt")
    given = parser.parse_args()
    expected, wrong = {}, 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for title, (command, logs) in commands(given.bin, given.kopf).items():
            log = directory / "log"
            log.write_text("")
            more = ["--log", str(log)] if logs else []
            with serving([*command, "--cert-dir", str(directory), *more], cores=os.sched_getaffinity(0)) as server:
                for which, body in REVIEWS.items():
                    made, count = send_review(server.port, body, directory)
                    if title == "fleethook":
                        expected[which] = copy.deepcopy(made)
                        for annotation in OURS:
                            del expected[which]["metadata"]["annotations"][annotation]
                        assert expected[which] != json.loads(body)["request"]["object"]
                        continue
                    found = list(differences(expected[which], made))
                    empty = [path for path, is_empty in found if is_empty]
                    other = [path for path, is_empty in found if not is_empty]
                    wrong += len(other)
                    print(f"{title}, {which}: {count} operations, {'DIFFERS in ' + str(other) if other else 'the same'}{'; empty: ' + ', '.join(empty) if empty else ''}")  # fmt: skip
                if title == "fleethook":
                    faults = list(find_wrong_images(server.port, directory))
                    wrong += len(faults)
                    print(f"{title}, edited: {'; '.join(faults) or 'the images of the template'}")
                if logs and (written := count_log_lines(log)) != len(REVIEWS):
                    wrong += 1
                    print(f"{title}: {written} lines for {len(REVIEWS)} reviews")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
