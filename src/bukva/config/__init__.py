"""params.yaml: its sections (schema), reading (load), valid names (choices), sentences (messages)."""
