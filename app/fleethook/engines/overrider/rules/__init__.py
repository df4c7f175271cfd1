"""Rules for overriders and their subjects, with the findings about them."""
