"""What operators look at: the health of the server, at the API port."""
