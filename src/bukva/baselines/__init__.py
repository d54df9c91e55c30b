"""Models that are counted instead of learned."""
