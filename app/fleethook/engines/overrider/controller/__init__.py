"""The controller: it compares every workload with its plan, and converges those that drifted."""
