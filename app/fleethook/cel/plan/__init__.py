"""From a checked expression to functions, with their costs."""
