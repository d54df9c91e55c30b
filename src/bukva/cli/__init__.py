"""The command `bukva`: each module has the commands of one topic, and each command only reads, calls and prints."""
