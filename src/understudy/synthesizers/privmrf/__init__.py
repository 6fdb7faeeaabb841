"""PrivMRF: a Markov random field of marginals selected inside the cliques of a triangulated graph."""
