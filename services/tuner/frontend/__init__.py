"""Where tensor programs are stated and scheduled."""
