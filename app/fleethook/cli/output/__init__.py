"""Output of commands: text, JSON, YAML, JUnit, progress and findings."""
