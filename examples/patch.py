"""Prints the changes of a review's answer, by path: `curl … | python3 examples/patch.py`.

An answer may have equal changes in another order, and `replace` in place of `add`. Exits with 1 and one line if the
answer is a denial or no review.
"""

import base64
import json
import sys


def read_operations(text):
    """Return the operations of an answer; exits with a line that says why there are none."""
    if not text.strip():
        sys.exit("patch.py: the answer is empty: does the server run? `curl --show-error` prints the reason")
    try:
        answer = json.loads(text)
    except ValueError:
        sys.exit(f"patch.py: the answer is no JSON: {' '.join(text.split())[:120]}")
    if not isinstance(answer, dict) or not isinstance(answer.get("response"), dict):
        message = answer.get("message") if isinstance(answer, dict) else None
        sys.exit(f"patch.py: the answer is no AdmissionReview: {message or json.dumps(answer)[:120]}")
    response = answer["response"]
    if not (response.get("allowed") or response.get("successful")):  # the latter in the answer of an interpreter
        status = response.get("status")
        message = status.get("message") if isinstance(status, dict) else None
        sys.exit(f"patch.py: the request is denied: {message or 'the answer has no reason'}")
    if not response.get("patch"):
        print("no changes: the request is allowed, and the answer has no patch")
        sys.exit()
    try:
        return [(one["path"], one) for one in json.loads(base64.b64decode(response["patch"]))]
    except (ValueError, TypeError, KeyError):
        sys.exit(f"patch.py: the patch is no JSON Patch in base64: {str(response['patch'])[:120]}")


operations = read_operations(sys.stdin.buffer.read().decode(errors="replace"))
for path, operation in sorted(operations, key=lambda one: one[0]):
    print(f"{path}: {json.dumps(operation['value']) if 'value' in operation else 'removed'}")
