"""params.yaml: its sections (schema), reading it (load), the valid names (choices), the sentences (messages)."""
