"""The command line of bukva, and what the stage scripts share: startup, error messages and training progress."""
