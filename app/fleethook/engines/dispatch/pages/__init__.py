"""The pages of the console about webhooks."""
