"""The values of expressions: numbers, timestamps, durations, messages; their equality and arithmetic."""
