"""The three services. They never import each other."""
