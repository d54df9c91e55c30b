"""params.yaml: its sections (schema), reading (load), sentences (messages)."""
