"""Metrics, learners and `evaluate`: real and synthetic tables side by side."""
