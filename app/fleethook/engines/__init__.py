"""The engines. Each engine is a folder, and its folders are named after the steps of its work."""
