"""Newton's method for the pairwise family: scores come to the driver, rows stay where they are."""
