"""The servers in Python that are measured: ours, the same app answering a constant review, and what people write today."""

PATH = "/mutate-apps-v1-deployment"
EXPLORE = "/explore"
NAMES = ("localhost", "127.0.0.1")
