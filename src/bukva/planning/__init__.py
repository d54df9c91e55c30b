"""From a time budget to training steps for this machine."""
