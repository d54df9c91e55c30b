"""Reading and validation of params.yaml."""
