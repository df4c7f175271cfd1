"""Output of commands: text, JSON, YAML, SARIF, JUnit, progress and findings."""
