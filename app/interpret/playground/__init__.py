"""The playground: answers a question by a script that a user is writing, in a separate process with limits."""
