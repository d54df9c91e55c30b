"""Build the HTML pages of reports: a page about each result, and a page about all experiments."""
