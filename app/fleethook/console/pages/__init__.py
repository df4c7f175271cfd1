"""The pages: each one parses the URL, calls its views and renders a template."""
