"""Fault injection: kill and break the pipeline of a small project on purpose (`python -m chaos`)."""
