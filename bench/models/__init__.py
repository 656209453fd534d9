"""How fast whole networks run in a page, beside their peers, and the networks for it."""
