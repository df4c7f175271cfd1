"""uvicorn's HTTP protocol with limits: connections, times, headers, bodies and memory."""
