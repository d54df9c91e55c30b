"""`bukva plan`: converts a time budget into training steps for this machine; stages know steps only."""
