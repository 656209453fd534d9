"""Background work: the Celery application, its tasks, and the browser fleet."""
