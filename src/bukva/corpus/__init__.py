"""From a corpus, wherever it is, to a collection of cleaned works and its splits; without torch."""
