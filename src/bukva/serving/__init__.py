"""Use trained models from Python, from a browser (the playground), and from MLflow's model server."""
