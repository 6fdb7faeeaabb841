"""Files, randomness and validation of settings: nothing here knows of privacy or tables."""
