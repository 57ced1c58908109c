"""What is minimised: losses, the top of a list, the objective with its dual, a solution."""
