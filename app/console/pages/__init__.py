"""The pages: they parse the URL, call the views and fill the templates."""
