"""params.yaml: its sections (schema, data, section), reading (load), valid names (choices), sentences (messages)."""
