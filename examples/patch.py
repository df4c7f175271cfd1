"""Prints the operations of the patch in a review's answer: `curl … | python3 examples/patch.py`."""

import base64
import json
import sys

response = json.load(sys.stdin)["response"]
for operation in json.loads(base64.b64decode(response.get("patch", "W10="))):
    print(json.dumps(operation))
