"""View models: pure functions from the store and parameters to frozen values that templates show."""
