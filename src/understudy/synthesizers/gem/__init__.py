"""A generator network that is fitted to the pairs of columns it is found to be most wrong about."""
