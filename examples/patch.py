"""Prints the changes of a review's answer, by path: `curl … | python3 examples/patch.py`.

An answer may have equal changes in another order, and `replace` in place of `add`.
"""

import base64
import json
import sys

response = json.load(sys.stdin)["response"]
operations = json.loads(base64.b64decode(response.get("patch", "W10=")))
for operation in sorted(operations, key=lambda one: one["path"]):
    print(f"{operation['path']}: {json.dumps(operation['value']) if 'value' in operation else 'removed'}")
