"""The playground: answers a question by a Lua script that a user is writing, in the sandbox of all Lua scripts."""
