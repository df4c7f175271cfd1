"""The edge of every review: method, client, body, decoding, the answer and its record."""
