"""The report page: one self-contained file that shows what an experiment is worth."""
