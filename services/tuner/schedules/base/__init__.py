"""What every family of schedules uses."""
