"""The local stack: what runs (a plan, a pure value) and what runs it (the supervisor)."""
