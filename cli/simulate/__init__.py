"""`kernelzoo simulate`: invented devices and attackers against the real services."""
