"""Every family of schedules uses this package."""
