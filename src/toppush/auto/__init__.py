"""One ranker that chooses among many and combines them."""
