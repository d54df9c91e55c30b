"""The window rule: the nats of every character."""
