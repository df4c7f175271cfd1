"""OpenYurt's own controllers: waiting for them, nudging them, and conflicts with them."""
