"""Where works come from: folders, archives, addresses and datasets, each verified, and the types of files."""
