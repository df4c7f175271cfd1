"""Interpreter reviews: their two shapes, and the validation of answers."""
