"""The service under load: manifests, page loads, reports, a cold start, a small machine."""
