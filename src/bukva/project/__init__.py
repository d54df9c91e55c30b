"""What DVC knows: the table of stages (dvc.yaml), dvc.lock, the fingerprint of a stage."""
