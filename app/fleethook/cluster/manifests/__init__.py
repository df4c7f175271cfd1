"""Objects from files: YAML and JSON as kubectl reads them, and a source that follows a directory."""
