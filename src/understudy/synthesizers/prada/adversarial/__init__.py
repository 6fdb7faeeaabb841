"""`prada-gan`, the paper's own training against a private critic, and `dpgan`, the same without structure."""
