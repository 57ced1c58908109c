"""The machine beneath: threads that end, files written whole, versions."""
