"""The HTTP service: profiles, leases, results, zoo, artifacts, pages."""
