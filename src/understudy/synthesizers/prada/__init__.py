"""A sequential generator against a critic that learns the rows privately, and the parents it finds on the way."""
