"""One folder for each family of schedules."""
