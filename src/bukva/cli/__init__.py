"""The command line of bukva, and code that all stage scripts share: startup, error messages and training progress."""
