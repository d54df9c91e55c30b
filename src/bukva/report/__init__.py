"""Describe results in charts, tables and sentences, for the terminal, HTML pages and JSON."""
