"""One pipeline of agents on every runner, and its account against the endpoint's own count."""
