"""Marginals, junction trees, inference, and Bayes networks of tables."""
