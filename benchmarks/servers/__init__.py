"""The measured Python servers: ours, the same app with constant answers, and an ordinary FastAPI webhook."""

PATH = "/mutate-apps-v1-deployment"
EXPLORE = "/explore"
NAMES = ("localhost", "127.0.0.1")
