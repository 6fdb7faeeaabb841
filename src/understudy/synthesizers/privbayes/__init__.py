"""PrivBayes: a Bayes network whose parents are selected privately, and one noisy table for each column."""
