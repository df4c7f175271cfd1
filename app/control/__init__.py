"""What controllers share: a work queue, a pace, conditions, events."""
