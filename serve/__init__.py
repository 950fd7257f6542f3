"""Ray Serve deployments over the query path."""
