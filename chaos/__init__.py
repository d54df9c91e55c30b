"""What survives: the pipeline killed and broken in every way we know, in a small project: python -m chaos."""
