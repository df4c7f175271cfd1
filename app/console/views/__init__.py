"""View models of the pages: pure functions from objects and parameters to what templates show."""
