"""Read and validate params.yaml."""
